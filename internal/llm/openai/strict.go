package openai

import (
	"encoding/json"
	"slices"
)

// strict says whether a schema is one that a server can hold a model to: OpenAI does so only with objects that name all
// their fields, require each, and allow no other. With any other schema the server would refuse the request.
func strict(schema json.RawMessage) bool {
	var root map[string]any
	return json.Unmarshal(schema, &root) == nil && root["type"] == "object" && strictNode(root)
}

// strictNode says whether a schema below is one.
func strictNode(v any) bool {
	node, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for _, word := range []string{"allOf", "oneOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else", "patternProperties", "default"} {
		if node[word] != nil {
			return false
		}
	}
	properties, _ := node["properties"].(map[string]any)
	if properties != nil || node["type"] == "object" {
		required, _ := node["required"].([]any)
		if node["additionalProperties"] != false || len(required) != len(properties) {
			return false
		}
		for name, property := range properties {
			if !slices.Contains(required, any(name)) || !strictNode(property) {
				return false
			}
		}
	}
	for _, word := range []string{"$defs", "definitions"} {
		defs, _ := node[word].(map[string]any)
		for _, def := range defs {
			if !strictNode(def) {
				return false
			}
		}
	}
	if any, _ := node["anyOf"].([]any); slices.ContainsFunc(any, func(v interface{}) bool { return !strictNode(v) }) {
		return false
	}
	items := node["items"]
	return items == nil || strictNode(items)
}
