package tool

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/clip"
)

// shape is what an object schema says of its members, gathered from $ref, allOf, anyOf and oneOf.
type shape struct {
	props    properties
	required []string
	open     bool // members that are not listed may be given
	merged   bool // gathered from several schemas: what is missing is not certain
}

func (d *schemaDoc) shape() shape {
	var s shape
	d.gather(d.root, true, 0, &s)
	return s
}

func (d *schemaDoc) gather(s *schema, certain bool, depth int, into *shape) {
	s = d.resolve(s)
	if s == nil || depth > maxTypeDepth {
		into.open = true
		return
	}
	for _, p := range s.Properties {
		if len(into.props) >= maxParams || len(p.name) > maxName {
			into.open = true // the others may be given, too
			continue
		}
		if p.schema != nil && into.props.find(p.name) == nil {
			into.props = append(into.props, p)
		}
	}
	for _, r := range s.Required {
		if certain && len(into.required) < maxParams && len(r) <= maxName && !slices.Contains(into.required, r) {
			into.required = append(into.required, r)
		}
	}
	if s.Additional != nil && !s.Additional.never || s.Pattern != nil {
		into.open = true
	}
	if s.If != nil || len(s.AllOf)+len(s.AnyOf)+len(s.OneOf) > 0 {
		into.merged = true
	}
	for _, part := range s.AllOf {
		d.gather(part, certain, depth+1, into)
	}
	for _, part := range slices.Concat(s.AnyOf, s.OneOf) {
		d.gather(part, false, depth+1, into)
	}
}

// params are the parameters of a tool's function: the required ones, then the optional ones, each group
// in the order of the schema.
func (d *schemaDoc) params(s shape) []agentkernel.ToolParam {
	for _, r := range s.required {
		if s.props.find(r) == nil {
			s.props = append(s.props, property{r, new(schema)})
		}
	}
	names := make([]string, len(s.props))
	for i, p := range s.props {
		names[i] = p.name
	}
	python := PythonNames(names)
	var required, optional []agentkernel.ToolParam
	for _, p := range s.props {
		body := orAny(d.resolve(p.schema))
		tp := agentkernel.ToolParam{Name: p.name, Python: python[p.name], Type: d.pythonType(p.schema), Doc: d.paramDoc(body)}
		if slices.Contains(s.required, p.name) {
			tp.Required = true
			required = append(required, tp)
			continue
		}
		tp.Default = "None"
		if body.Default != nil {
			tp.Default = pythonLiteral(body.Default)
			if len(tp.Default) > maxDefault {
				tp.Default = "..."
			}
		}
		if tp.Default == "None" && tp.Type != "Any" && !slices.Contains(splitUnion(tp.Type), "None") {
			tp.Type += " | None"
		}
		optional = append(optional, tp)
	}
	return append(required, optional...)
}

// paramDoc is the description of one argument, with the choices that its type does not show.
func (d *schemaDoc) paramDoc(s *schema) string {
	doc := clip.At(oneLine(s.Description), maxParamDoc)
	if doc == "" {
		doc = clip.At(oneLine(s.Title), maxParamDoc)
	}
	var extra []string
	if tuple := d.tupleDoc(s); tuple != "" {
		extra = append(extra, clip.At(tuple, maxParamDoc))
	}
	if s.Format != "" {
		extra = append(extra, clip.At(oneLine(s.Format), maxLiteralText))
	}
	if n := len(s.Enum); n > 0 && !strings.HasPrefix(union(enumTypes(s.Enum)), "Literal") {
		var values []string
		for _, v := range s.Enum[:min(n, 100)] {
			values = append(values, clip.At(pythonLiteral(v), maxLiteralText))
		}
		extra = append(extra, clip.At("one of "+strings.Join(values, ", "), maxParamDoc))
	}
	if len(extra) > 0 {
		doc = strings.TrimSpace(doc + " (" + strings.Join(extra, "; ") + ")")
	}
	return doc
}

// signature is "name(a: int, b: str | None = None) -> str".
func signature(name string, params []agentkernel.ToolParam, result string) string {
	parts := make([]string, len(params))
	for i, p := range params {
		parts[i] = p.Python + ": " + p.Type
		if !p.Required {
			parts[i] += " = " + p.Default
		}
	}
	s := name + "(" + strings.Join(parts, ", ") + ") -> " + result
	if len(s) > maxSignature {
		return name + "(...) -> " + clip.At(result, maxLiteralText)
	}
	return s
}

// docstring is the text of help(f): what the tool does, then of its arguments and its result what the signature does
// not say.
func docstring(description string, in, out *schemaDoc, params []agentkernel.ToolParam, inner *schema) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(clip.At(description, maxText)))
	shape := in.shape()
	title := "\n\nArgs:"
	for _, p := range params {
		var fields strings.Builder
		if b.Len() <= maxDoc {
			in.nested(&fields, shape.props.find(p.Name), "        ", 0)
		}
		if p.Doc == "" && p.Python == p.Name && fields.Len() == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s\n    %s: %s", title, p.Python, orText(p.Doc, p.Type))
		if p.Python != p.Name {
			fmt.Fprintf(&b, " [sent as %q]", p.Name)
		}
		b.WriteString(fields.String())
		title = ""
	}
	if inner != nil {
		var fields strings.Builder
		if b.Len() <= maxDoc {
			out.nested(&fields, inner, "        ", 0)
		}
		doc := oneLine(inner.Description)
		if doc != "" || fields.Len() > 0 {
			fmt.Fprintf(&b, "\n\nReturns:\n    %s", out.pythonType(inner))
			if doc != "" {
				b.WriteString(": " + doc)
			}
			b.WriteString(fields.String())
		}
	}
	return clip.At(strings.TrimSpace(b.String()), maxDoc)
}

// Texts of a tool go to people, to models and into programs: they are as long as somebody reads.
const (
	maxName      = 256      // bytes of the name of a tool or argument
	maxText      = 16 << 10 // of a description
	maxParamDoc  = 1 << 10
	maxDefault   = 256
	maxSignature = 8 << 10
	maxDoc       = 64 << 10
)

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func orText(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// unwrapped looks for the wrapper that servers put around a result that is no object: an output schema
// with exactly one member, "result" of any type, or "content" that is a text. The function then returns the
// member. It gives the member's name ("" if there is no wrapper) and the schema of what is returned.
func (d *schemaDoc) unwrapped() (string, *schema) {
	root := d.resolve(d.root)
	if len(d.raw) == 0 || root == nil {
		return "", nil
	}
	if len(root.Properties) == 1 && len(root.AllOf)+len(root.AnyOf)+len(root.OneOf) == 0 &&
		(root.Additional == nil || root.Additional.never) {
		p := root.Properties[0]
		member := d.resolve(p.schema)
		switch {
		case p.name == "result":
			return p.name, orAny(member)
		case p.name == "content" && member != nil && len(member.Type) == 1 && member.Type[0] == "string":
			return p.name, member
		}
	}
	return "", root
}

// emptySchema says that a schema is absent or JSON null.
func emptySchema(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
