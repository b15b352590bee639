package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"agentkernel"
)

// What schema.py knows, in its order.
var (
	schemaKnown = []string{"$schema", "$id", "$comment", "title", "description", "default", "examples", "type", "enum", "const", "properties", "required",
		"additionalProperties", "minProperties", "maxProperties", "items", "minItems", "maxItems", "uniqueItems", "minLength", "maxLength",
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "anyOf", "allOf"}
	schemaTypes = []any{"null", "boolean", "integer", "number", "string", "array", "object"}
)

// CheckSchema says what of a schema a task does not check results with, as the task itself would when it begins: CodeInvalid.
func CheckSchema(raw json.RawMessage) error {
	var schema any
	if err := json.Unmarshal(raw, &schema); err != nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "do", "the schema is no JSON")
	}
	if said := unknownIn(schema, "the schema"); said != "" {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "do", "%s", said)
	}
	return nil
}

// unknownIn is that of schema.py, which has the same words.
func unknownIn(schema any, at string) string {
	if _, ok := schema.(bool); ok {
		return ""
	}
	s, ok := schema.(map[string]any)
	if !ok {
		return at + " is neither an object nor true or false"
	}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if !slices.Contains(schemaKnown, key) {
			return fmt.Sprintf("%s has %q, which is not checked here", at, key)
		}
	}
	kinds, list := s["type"].([]any)
	if t, there := s["type"]; there && !list {
		kinds = []any{t}
	}
	for _, kind := range kinds {
		if text, ok := kind.(string); !ok || !slices.Contains(schemaTypes, any(text)) {
			return fmt.Sprintf("%s has the type %v, which there is not", at, quotedJSON(kind))
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if below, there := s[key]; there {
			if said := unknownIn(below, at+"."+key); said != "" {
				return said
			}
		}
	}
	if said := unknownInProperties(s["properties"], at); said != "" {
		return said
	}
	for _, key := range []string{"anyOf", "allOf"} {
		list, ok := s[key].([]any)
		if _, there := s[key]; there && !ok {
			return at + "." + key + " is no array"
		}
		for _, below := range list {
			if said := unknownIn(below, at+"."+key); said != "" {
				return said
			}
		}
	}
	return ""
}

func unknownInProperties(properties any, at string) string {
	members, ok := properties.(map[string]any)
	if properties != nil && !ok {
		return at + ".properties is no object"
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if said := unknownIn(members[name], at+".properties."+name); said != "" {
			return said
		}
	}
	return ""
}

func quotedJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
