package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/lazy"
	"agentkernel/internal/nearest"
)

// arguments turns the arguments of a call (a JSON object as docs/values.md writes values) into what is sent:
// plain JSON, checked against the tool's schema. Errors: CodeInvalid naming the argument.
func (b *boundTool) arguments(raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	plain, err := journal.PlainExact(raw)
	switch {
	case errors.Is(err, journal.ErrSameKey):
		return nil, b.wrong("%v, and one of them would not reach the tool; make all keys texts", err)
	case errors.Is(err, journal.ErrNotFinite):
		return nil, b.wrong("%v, and would reach the tool as null; leave the argument out, or send None or a text", err)
	case err != nil:
		return nil, b.wrong("the arguments are no JSON: %v", err)
	}
	var args map[string]json.RawMessage
	if err := json.Unmarshal(plain, &args); err != nil || args == nil {
		return nil, b.wrong("the arguments must be an object of names and values")
	}
	changed, err := b.settle(args)
	if err != nil {
		return nil, err
	}
	if changed {
		if plain, err = json.Marshal(args); err != nil {
			return nil, b.wrong("the arguments are no JSON: %v", err)
		}
	}
	return plain, b.check(plain)
}

// settle gives arguments the names of the schema, drops a None that only means "not given", and says what
// is missing or unknown.
func (b *boundTool) settle(args map[string]json.RawMessage) (changed bool, err error) {
	for name, v := range args {
		p := b.params[name]
		if p == nil {
			real, ok := b.byPy[name]
			if _, both := args[real]; ok && !both {
				args[real] = v
				delete(args, name)
				changed = true
				p = b.params[real]
				name = real
			}
		}
		switch {
		case p == nil && !b.shape.open && !b.shape.merged && len(b.params) > 0:
			return false, b.wrong("there is no argument %q%s", name, b.suggest(name))
		case p == nil:
		case string(v) == "null" && !p.Required && !b.takesNull(name):
			delete(args, name)
			changed = true
		}
	}
	for _, name := range b.shape.required {
		if _, ok := args[name]; !ok {
			return false, b.wrong("argument %q is missing", b.pythonParam(name))
		}
	}
	return changed, nil
}

func (b *boundTool) suggest(name string) string {
	var names []string
	for _, p := range b.Params {
		names = append(names, p.Python)
	}
	if q := nearest.Question(name, names); q != "" {
		return "; " + q
	}
	return ""
}

// takesNull says that the schema of an optional argument has null among its types.
func (b *boundTool) takesNull(name string) bool { return b.nullable[name] }

func (b *boundTool) pythonParam(name string) string {
	if p := b.params[name]; p != nil {
		return p.Python
	}
	return name
}

// check runs the validator over the arguments.
func (b *boundTool) check(plain json.RawMessage) error {
	if b.checker == nil || !affordable(plain) {
		return nil
	}
	var v any // floats are good enough to check with: what is sent are the bytes themselves
	if err := json.Unmarshal(plain, &v); err != nil {
		if tooLarge, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && strings.HasPrefix(tooLarge.Value, "number ") {
			return b.wrong("a number of %d digits is larger than tools can read; send it as a text", len(tooLarge.Value)-len("number "))
		}
		return b.wrong("the arguments are no JSON: %v", err)
	}
	err := b.checker.Validate(v)
	if err == nil {
		return nil
	}
	return b.mismatch(strings.ReplaceAll(err.Error(), "<invalid reflect.Value>", "None")) // as the validator writes null
}

var (
	validating   = lazy.Regexp(`validating (\S+): `)
	atProperty   = lazy.Regexp(`/properties/([^/:]+)`)
	typeMismatch = lazy.Regexp(`^type: (?s:.*) has type "(\w+)", want`)
)

// mismatch puts the validator's words ("validating root: validating /properties/a: type: x has type
// "string", want "integer"") into the user's.
func (b *boundTool) mismatch(text string) error {
	name, inside := "", false
	for {
		m := validating().FindStringSubmatchIndex(text)
		if m == nil || m[0] != 0 {
			break
		}
		where := text[m[2]:m[3]]
		text = text[m[1]:]
		if p := atProperty().FindStringSubmatch(where); p != nil && name == "" {
			name = strings.NewReplacer("~1", "/", "~0", "~").Replace(p[1])
		} else if name != "" {
			inside = true
		}
	}
	p := b.params[name]
	if m := typeMismatch().FindStringSubmatch(text); m != nil && p != nil && !inside {
		return b.wrong("argument %q must be %s, not %s", p.Python, p.Type, jsonTypeInPython(m[1]))
	}
	if len(text) > 300 {
		text = text[:150] + " ... " + text[len(text)-100:]
	}
	text = strings.ToValidUTF8(text, "?")
	if name != "" {
		return b.wrong("argument %q does not fit: %s", b.pythonParam(name), text)
	}
	return b.wrong("the arguments do not fit: %s", text)
}

func jsonTypeInPython(t string) string {
	switch t {
	case "string":
		return "str"
	case "integer":
		return "int"
	case "number":
		return "float"
	case "boolean":
		return "bool"
	case "null":
		return "None"
	case "array":
		return "list"
	}
	return "dict"
}

// wrong is CodeInvalid with the signature as the hint.
func (b *boundTool) wrong(format string, args ...any) *agentkernel.Error {
	args = append([]any{b.PythonName}, args...)
	return agentkernel.Errorf(agentkernel.CodeInvalid, opCall, "%s: "+format, args...).WithHint("expected %s", b.Signature)
}

// nullables finds the optional arguments for which null is a value.
func nullables(in *schemaDoc, s shape) map[string]bool {
	out := map[string]bool{}
	for _, p := range s.props {
		t := in.pythonType(p.schema)
		if t == "Any" || slices.Contains(splitUnion(t), "None") {
			out[p.name] = true
		}
	}
	return out
}
