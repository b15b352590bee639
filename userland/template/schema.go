package template

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"agentkernel"
)

// schema is what this package looks at in the JSON Schema of an argument.
type schema struct {
	Type   types    `json:"type"`
	Enum   []any    `json:"enum"`
	Format string   `json:"format"`
	Items  *schema  `json:"items"`
	AnyOf  []schema `json:"anyOf"`
	OneOf  []schema `json:"oneOf"`
	Ref    string   `json:"$ref"`
}

// types is the member "type": one name or a list of names.
type types []string

func (t *types) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = types{one}
		return nil
	}
	var many []string
	if err := json.Unmarshal(b, &many); err != nil {
		return err
	}
	*t = many
	return nil
}

// kind is the one type that an argument has for this package: the first that is not null; "any" if none is given.
func (s *schema) kind() string {
	for _, t := range s.Type {
		if t != "null" {
			return t
		}
	}
	for _, part := range slices.Concat(s.AnyOf, s.OneOf) {
		if k := part.kind(); k != "any" {
			return k
		}
	}
	switch {
	case len(s.Enum) > 0:
		return "string"
	case s.Ref != "":
		return "object"
	}
	return "any"
}

// choices are the texts of an enumeration.
func (s *schema) choices() []string {
	var out []string
	for _, v := range s.Enum {
		if text, ok := v.(string); ok {
			out = append(out, text)
		}
	}
	for _, part := range slices.Concat(s.AnyOf, s.OneOf) {
		out = append(out, part.choices()...)
	}
	return out
}

// argumentSchemas reads the schemas of a tool's arguments by name. A schema that cannot be read gives none, and
// every argument of it counts as "any".
func argumentSchemas(t agentkernel.Tool) map[string]schema {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(t.InputSchema, &s) != nil {
		return nil
	}
	out := map[string]schema{}
	for name, raw := range s.Properties {
		var p schema
		if json.Unmarshal(raw, &p) == nil {
			out[name] = p
		}
	}
	return out
}

// jsonPrefix is the JSON object or array that a text begins with, "" if it begins with none.
func jsonPrefix(s string) string {
	if s[0] != '{' && s[0] != '[' {
		return ""
	}
	var raw json.RawMessage
	if json.NewDecoder(strings.NewReader(s)).Decode(&raw) != nil {
		return ""
	}
	return string(raw)
}

// maxDepth bounds the nesting of JSON in a task.
const maxDepth = 50

// decodeJSON reads JSON into the values that literal writes, keeping numbers and the order of members as they are.
func decodeJSON(s string) (any, bool) {
	dec := json.NewDecoder(bytes.NewReader([]byte(s)))
	dec.UseNumber()
	v, err := decodeNext(dec, 0)
	return v, err == nil
}

func decodeNext(dec *json.Decoder, depth int) (any, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return tok, nil
	}
	if depth > maxDepth {
		return nil, refuse("its JSON is nested too deeply")
	}
	items, members := []any{}, object{}
	for dec.More() {
		name := ""
		if delim == '{' {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			name, _ = key.(string)
		}
		v, err := decodeNext(dec, depth+1)
		if err != nil {
			return nil, err
		}
		items, members = append(items, v), append(members, member{name, v})
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if delim == '{' {
		return members, nil
	}
	return items, nil
}
