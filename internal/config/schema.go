package config

import (
	"encoding/json"
	"math"
	"strings"
)

// Patterns that durations and sizes follow, for editors; the reader of the files is exact.
const (
	durationPattern = `^(([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+|[0-9]+[dw])$`
	sizePattern     = `^[0-9]+(\.[0-9]+)? *([kKmMgGtT]([iI]?[bB])?|[bB])?$`
)

// Schema is a JSON Schema of agentkernel.toml and config.toml, made from the table of keys: editors complete
// and check with it. A project file may set less than a user file, which the descriptions say.
func Schema(comment string) ([]byte, error) {
	root := object("Settings of AgentKernel: the user file config.toml and the project file agentkernel.toml.")
	for _, k := range Keys() {
		at, name := root, k.Name
		for {
			table, rest, nested := strings.Cut(name, ".")
			if !nested {
				break
			}
			at, name = at.table(table), rest
		}
		at.Properties[name] = keySchema(k)
	}
	root.Schema, root.Comment, root.Title = "https://json-schema.org/draft/2020-12/schema", comment, "AgentKernel settings"
	out, err := json.MarshalIndent(root, "", "  ")
	return append(out, '\n'), err
}

// schema is the part of JSON Schema that is needed here.
type schema struct {
	Schema      string             `json:"$schema,omitempty"`
	Comment     string             `json:"$comment,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        string             `json:"type,omitempty"`
	Enum        []string           `json:"enum,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	MinLength   int                `json:"minLength,omitempty"`
	Minimum     *int64             `json:"minimum,omitempty"`
	Maximum     *int64             `json:"maximum,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	OneOf       []*schema          `json:"oneOf,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Additional  *bool              `json:"additionalProperties,omitempty"`
}

func object(doc string) *schema {
	closed := false
	return &schema{Type: "object", Description: doc, Properties: map[string]*schema{}, Additional: &closed}
}

// table is the object for a dotted name's first part.
func (s *schema) table(name string) *schema {
	if s.Properties[name] == nil {
		s.Properties[name] = object("")
	}
	return s.Properties[name]
}

func keySchema(k Key) *schema {
	doc := strings.ToUpper(k.Doc[:1]) + k.Doc[1:] + ". Variable: " + k.Variable + "."
	switch k.Project {
	case Never:
		doc += " Not in a project file."
	case Lower:
		doc += " A project file may only lower it."
	}
	s := k.Form.schema()
	if k.List {
		s = &schema{Type: "array", Items: s}
	}
	s.Description = doc
	return s
}

func (f Form) schema() *schema {
	switch f.Kind {
	case KindChoice:
		return &schema{Type: "string", Enum: f.Choices}
	case KindInteger:
		s := &schema{Type: "integer", Minimum: &f.Min}
		if f.Max != math.MaxInt64 {
			s.Maximum = &f.Max
		}
		if f.None {
			return &schema{OneOf: []*schema{s, {Type: "string", Enum: []string{none}}}}
		}
		return s
	case KindNumber:
		return &schema{Type: "number", Minimum: &f.Min, Maximum: &f.Max}
	case KindDuration:
		return &schema{Type: "string", Pattern: durationPattern}
	case KindSize:
		one := int64(1)
		return &schema{OneOf: []*schema{{Type: "string", Pattern: sizePattern}, {Type: "integer", Minimum: &one}}}
	}
	return &schema{Type: "string", MinLength: 1}
}
