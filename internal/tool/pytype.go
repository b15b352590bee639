package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Longest enumeration that is written out in a signature; a longer one stands in the docstring.
const (
	maxLiterals    = 12
	maxLiteralText = 160
	maxTypeDepth   = 5
	// maxAlternatives is how many members of a union are looked at; a longer one is Any.
	maxAlternatives = 64
)

// pythonType is the annotation for values of a schema, as Python source.
func (d *schemaDoc) pythonType(s *schema) string { return d.typeAt(s, 0) }

func (d *schemaDoc) typeAt(s *schema, depth int) string {
	s = d.resolve(s)
	if s == nil || depth > maxTypeDepth || slices.Contains(d.inside, s.original()) {
		return "Any" // a schema that contains itself has no end
	}
	d.inside = append(d.inside, s.original())
	defer func() { d.inside = d.inside[:len(d.inside)-1] }()
	return union(d.alternatives(s, depth))
}

// alternatives are the members of the union that a schema stands for.
func (d *schemaDoc) alternatives(s *schema, depth int) []string {
	var out []string
	switch {
	case s.Const != nil:
		out = enumTypes([]json.RawMessage{s.Const})
	case len(s.Enum) > 0:
		out = enumTypes(s.Enum)
	case len(s.AnyOf) > 0 || len(s.OneOf) > 0:
		for _, alt := range slices.Concat(s.AnyOf, s.OneOf) {
			if alt = d.resolve(alt); alt == nil {
				out = append(out, "Any")
				continue
			}
			// {"type": "object", "anyOf": [{"required": [..]}]}: the alternatives say nothing of the type.
			if !alt.saysType() && (len(s.Type) > 0 || len(s.Properties) > 0 || s.Items != nil) {
				continue
			}
			if out = append(out, d.typeAt(alt, depth+1)); len(out) > maxAlternatives {
				return []string{"Any"}
			}
		}
		if len(out) == 0 {
			out = d.byType(s, depth)
		}
	case len(s.AllOf) > 0 && len(s.Type) == 0:
		out = d.narrowest(s.AllOf, depth)
	default:
		out = d.byType(s, depth)
	}
	if s.Nullable {
		out = append(out, "None")
	}
	return out
}

// narrowest is the type of the part of an allOf that says most: all parts hold, so one that names the values is
// better than one that names their type. The parts agree, or nothing fits.
func (d *schemaDoc) narrowest(parts []*schema, depth int) []string {
	var out []string
	for _, part := range parts {
		t := d.typeAt(part, depth+1)
		if t != "Any" && (len(out) == 0 || strings.HasPrefix(t, "Literal[") && !strings.HasPrefix(out[0], "Literal[")) {
			out = []string{t}
		}
	}
	return out
}

func (s *schema) saysType() bool {
	return len(s.Type) > 0 || s.Const != nil || len(s.Enum) > 0 || s.Ref != "" || len(s.AnyOf) > 0 || len(s.OneOf) > 0 ||
		len(s.AllOf) > 0 || len(s.Properties) > 0 || s.Items != nil || len(s.Prefix) > 0
}

func (d *schemaDoc) byType(s *schema, depth int) []string {
	types := s.Type
	if len(types) == 0 {
		switch {
		case len(s.Properties) > 0 || s.Additional != nil && !s.Additional.never:
			types = typeNames{"object"}
		case s.Items != nil || len(s.Prefix) > 0:
			types = typeNames{"array"}
		}
	}
	var out []string
	for _, t := range types {
		switch t {
		case "string":
			out = append(out, "str")
		case "integer":
			out = append(out, "int")
		case "number":
			out = append(out, "float")
		case "boolean":
			out = append(out, "bool")
		case "null":
			out = append(out, "None")
		case "array":
			out = append(out, "list["+d.itemType(s, depth)+"]")
		case "object":
			out = append(out, d.dictType(s, depth))
		default:
			out = append(out, "Any")
		}
	}
	return out
}

// itemType is the type of the items of a list. Those of a tuple have types of their own; JSON has only lists.
func (d *schemaDoc) itemType(s *schema, depth int) string {
	if len(s.Prefix) == 0 {
		return d.typeAt(orAny(s.Items), depth+1)
	}
	var types []string
	for _, item := range s.Prefix[:min(len(s.Prefix), maxAlternatives)] {
		types = append(types, d.typeAt(item, depth+1))
	}
	if s.Items != nil && !s.Items.never {
		types = append(types, d.typeAt(s.Items, depth+1))
	}
	return union(types)
}

// tupleDoc says in which order the items of a tuple come; "" for any other list.
func (d *schemaDoc) tupleDoc(s *schema) string {
	if len(s.Prefix) == 0 {
		return ""
	}
	var types []string
	for _, item := range s.Prefix[:min(len(s.Prefix), maxLiterals)] {
		types = append(types, d.pythonType(item))
	}
	if len(types) < len(s.Prefix) || s.Items != nil && !s.Items.never {
		types = append(types, "...")
	}
	return "[" + strings.Join(types, ", ") + "]"
}

func orAny(s *schema) *schema {
	if s == nil {
		return new(schema)
	}
	return s
}

func (d *schemaDoc) dictType(s *schema, depth int) string {
	if len(s.Properties) == 0 && s.Additional != nil && !s.Additional.never {
		return "dict[str, " + d.typeAt(s.Additional, depth+1) + "]"
	}
	return "dict[str, Any]"
}

// union joins types, each once, None last; Any swallows the others but None.
func union(types []string) string {
	var flat []string
	for _, t := range types {
		for _, one := range splitUnion(t) {
			if !slices.Contains(flat, one) {
				flat = append(flat, one)
			}
		}
	}
	none := slices.Contains(flat, "None")
	flat = slices.DeleteFunc(flat, func(t string) bool { return t == "None" })
	if slices.Contains(flat, "Any") || len(flat) == 0 && !none {
		return "Any" // Any includes None
	}
	if slices.Contains(flat, "float") { // a Python float parameter takes an int
		flat = slices.DeleteFunc(flat, func(t string) bool { return t == "int" })
	}
	flat = mergeLiterals(flat)
	if none {
		flat = append(flat, "None")
	}
	return strings.Join(flat, " | ")
}

// splitUnion splits "a | b" at the outermost level only.
func splitUnion(t string) []string { return splitTop(t, '|') }

// splitTop splits Python source where a separator stands outside of brackets and texts.
func splitTop(t string, separator byte) []string {
	var out []string
	depth, start := 0, 0
	var quote byte
	for i := 0; i < len(t); i++ {
		switch c := t[i]; {
		case quote != 0:
			if c == '\\' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == separator && depth == 0:
			out = append(out, strings.TrimSpace(t[start:i]))
			start = i + 1
		}
	}
	return append(out, strings.TrimSpace(t[start:]))
}

// mergeLiterals turns Literal['a', 'b'] | Literal['b', 'c'] into Literal['a', 'b', 'c']. A value whose whole type is
// among the others needs no literal.
func mergeLiterals(types []string) []string {
	var out, values []string
	at := -1
	for _, t := range types {
		inner, ok := strings.CutPrefix(t, "Literal[")
		if !ok {
			out = append(out, t)
			continue
		}
		if at < 0 {
			at = len(out)
			out = append(out, "")
		}
		for _, v := range splitTop(strings.TrimSuffix(inner, "]"), ',') {
			if !slices.Contains(values, v) && !slices.Contains(types, literalType(v)) {
				values = append(values, v)
			}
		}
	}
	switch {
	case at >= 0 && len(values) > 0:
		out[at] = "Literal[" + strings.Join(values, ", ") + "]"
	case at >= 0:
		out = slices.Delete(out, at, at+1)
	}
	return out
}

// literalType is the type of a value as it is written in Python.
func literalType(v string) string {
	switch {
	case v == "True" || v == "False":
		return "bool"
	case v != "" && (v[0] == '\'' || v[0] == '"'):
		return "str"
	}
	return "int"
}

// enumTypes is Literal[...] for a short list of scalars, else the types of the values.
func enumTypes(values []json.RawMessage) []string {
	if len(values) <= maxLiterals {
		if lit := literals(values); lit != "" && len(lit) <= maxLiteralText {
			return []string{lit}
		}
	}
	var out []string
	for _, v := range values {
		if t := typeOfJSON(v); !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// literals is Literal[...] of scalar values, "" if one of them cannot stand in a Literal. None stays outside.
func literals(values []json.RawMessage) string {
	var parts []string
	none := false
	for _, v := range values {
		switch t := typeOfJSON(v); t {
		case "str", "int", "bool":
			if one := pythonLiteral(v); !slices.Contains(parts, one) {
				parts = append(parts, one)
			}
		case "None":
			none = true
		default:
			return ""
		}
	}
	switch {
	case len(parts) == 0:
		return "None"
	case none:
		return "Literal[" + strings.Join(parts, ", ") + "] | None"
	}
	return "Literal[" + strings.Join(parts, ", ") + "]"
}

func typeOfJSON(v json.RawMessage) string {
	v = bytes.TrimSpace(v)
	if len(v) == 0 {
		return "Any"
	}
	switch v[0] {
	case '"':
		return "str"
	case 't', 'f':
		return "bool"
	case 'n':
		return "None"
	case '[':
		return "list[Any]"
	case '{':
		return "dict[str, Any]"
	}
	if bytes.ContainsAny(v, ".eE") {
		return "float"
	}
	return "int"
}

// pythonLiteral writes a JSON value as Python source.
func pythonLiteral(raw json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var b strings.Builder
	if err := writeLiteral(dec, &b); err != nil {
		return "None"
	}
	return b.String()
}

func writeLiteral(dec *json.Decoder, b *strings.Builder) error {
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	switch v := tok.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case json.Number:
		b.WriteString(v.String())
	case string:
		b.WriteString(pythonString(v))
	case json.Delim:
		return writeContainer(dec, b, v)
	}
	return nil
}

func writeContainer(dec *json.Decoder, b *strings.Builder, open json.Delim) error {
	b.WriteRune(rune(open))
	for i := 0; dec.More(); i++ {
		if i > 0 {
			b.WriteString(", ")
		}
		if open == '{' {
			key, err := dec.Token()
			if err != nil {
				return err
			}
			b.WriteString(pythonString(key.(string)) + ": ")
		}
		if err := writeLiteral(dec, b); err != nil {
			return err
		}
	}
	end, err := dec.Token()
	if err != nil {
		return err
	}
	b.WriteRune(rune(end.(json.Delim)))
	return nil
}

// pythonString is a Python string literal on one line, in single quotes as repr writes it.
func pythonString(s string) string {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	var b strings.Builder
	b.WriteByte(quote)
	for _, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r > 0xffff && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte(quote)
	return b.String()
}
