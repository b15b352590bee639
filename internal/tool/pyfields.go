package tool

import (
	"fmt"
	"slices"
	"strings"

	"agentkernel/internal/clip"
)

// field is a member of an object, gathered from all schemas that describe it.
type field struct {
	name     string
	schemas  []*schema
	required bool
}

// fieldsOf are the members of an object: its own, those of all parts of an allOf, and those of its alternatives. One
// that several schemas have is there once, and is required if it is so in every alternative.
func (d *schemaDoc) fieldsOf(s *schema, depth int) []field {
	s = d.resolve(s)
	if s == nil || depth > maxTypeDepth {
		return nil
	}
	var out []field
	for _, p := range s.Properties {
		if p.schema != nil {
			out = mergeField(out, field{p.name, []*schema{p.schema}, slices.Contains(s.Required, p.name)})
		}
	}
	for _, part := range s.AllOf {
		for _, f := range d.fieldsOf(part, depth+1) {
			out = d.bothFields(out, f)
		}
	}
	var either []field
	alternatives := slices.Concat(s.AnyOf, s.OneOf)
	in := map[string]int{} // how many alternatives require it
	for _, alt := range alternatives {
		for _, f := range d.fieldsOf(alt, depth+1) {
			if f.required {
				in[f.name]++
			}
			either = mergeField(either, f)
		}
	}
	for _, f := range either {
		f.required = in[f.name] == len(alternatives)
		out = d.bothFields(out, f)
	}
	return out[:min(len(out), maxParams)]
}

// bothFields adds a member; of one that is there already both schemas hold.
func (d *schemaDoc) bothFields(list []field, f field) []field {
	at := slices.IndexFunc(list, func(other field) bool { return other.name == f.name })
	if at < 0 {
		return append(list, f)
	}
	both := &schema{AllOf: []*schema{list[at].one(), f.one()}}
	for _, part := range both.AllOf {
		if body := d.resolve(part); body != nil && both.Description == "" {
			both.Description = body.Description
		}
	}
	list[at] = field{f.name, []*schema{both}, list[at].required || f.required}
	return list
}

// one is a schema for all that the schemas of a member allow.
func (f *field) one() *schema {
	if len(f.schemas) == 1 {
		return f.schemas[0]
	}
	return &schema{AnyOf: f.schemas}
}

// mergeField adds a member, or a further schema that one which is there may have instead.
func mergeField(list []field, f field) []field {
	at := slices.IndexFunc(list, func(other field) bool { return other.name == f.name })
	if at < 0 {
		return append(list, f)
	}
	list[at].required = list[at].required || f.required
	for _, s := range f.schemas {
		if len(list[at].schemas) < maxAlternatives && !slices.Contains(list[at].schemas, s) {
			list[at].schemas = append(list[at].schemas, s)
		}
	}
	return list
}

// nested writes the members of an object, or of the objects in a list, indented. An object within itself is written
// once.
func (d *schemaDoc) nested(b *strings.Builder, s *schema, indent string, depth int) {
	s = d.resolve(s)
	if s == nil || depth >= maxTypeDepth || b.Len() > maxDoc || slices.Contains(d.open, s.original()) {
		return
	}
	d.open = append(d.open, s.original())
	defer func() { d.open = d.open[:len(d.open)-1] }()
	fields := d.fieldsOf(s, 0)
	for _, f := range fields {
		if b.Len() > maxDoc {
			return
		}
		d.writeField(b, f, indent, depth)
	}
	for _, inner := range slices.Concat([]*schema{s.Items}, s.Prefix) {
		d.nested(b, inner, indent, depth+1)
	}
	if s.Additional != nil && !s.Additional.never && len(fields) == 0 {
		d.nested(b, s.Additional, indent, depth+1)
	}
	if len(fields) == 0 { // alternatives that are lists, or mappings
		for _, alt := range slices.Concat(s.AnyOf, s.OneOf, s.AllOf) {
			d.nested(b, alt, indent, depth+1)
		}
	}
}

func (d *schemaDoc) writeField(b *strings.Builder, f field, indent string, depth int) {
	var types []string
	doc := ""
	for _, s := range f.schemas {
		types = append(types, d.pythonType(s))
		if doc == "" {
			doc = d.paramDoc(orAny(d.resolve(s)))
		}
	}
	mark := ""
	if !f.required {
		mark = " (optional)"
	}
	fmt.Fprintf(b, "\n%s%s: %s%s", indent, pythonString(clip.At(f.name, maxName)), union(types), mark)
	if doc != "" {
		b.WriteString(" - " + doc)
	}
	d.nested(b, f.one(), indent+"    ", depth+1)
}
