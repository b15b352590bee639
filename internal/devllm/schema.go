package devllm

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// maxSchemaDepth ends a schema that contains itself.
const maxSchemaDepth = 24

// example is a value that fits a JSON Schema, always the same one. What it does not know (pattern, not, dependencies) it
// leaves out of account.
func example(schema json.RawMessage) any {
	var root map[string]any
	if json.Unmarshal(schema, &root) != nil {
		return map[string]any{}
	}
	return schemaReader{root}.value(root, 0)
}

type schemaReader struct{ root map[string]any }

func (s schemaReader) value(schema map[string]any, depth int) any {
	if depth > maxSchemaDepth {
		return nil
	}
	if ref, ok := schema["$ref"].(string); ok {
		return s.value(s.resolve(ref), depth+1)
	}
	if v, ok := schema["const"]; ok {
		return v
	}
	for _, name := range []string{"enum", "examples"} {
		if list, ok := schema[name].([]any); ok && len(list) > 0 {
			return list[0]
		}
	}
	for _, name := range []string{"anyOf", "oneOf", "allOf"} {
		if list, ok := schema[name].([]any); ok && len(list) > 0 {
			return s.value(s.pick(list), depth+1)
		}
	}
	switch kind(schema) {
	case "object":
		return s.object(schema, depth)
	case "array":
		return s.array(schema, depth)
	case "string":
		return text(schema)
	case "integer", "number":
		return number(schema)
	case "boolean":
		return true
	}
	return nil
}

// pick takes the first alternative that does not refer to the schema again, so that a tree ends.
func (s schemaReader) pick(list []any) map[string]any {
	for _, v := range list {
		m, _ := v.(map[string]any)
		if _, refers := m["$ref"]; m != nil && !refers {
			return m
		}
	}
	m, _ := list[0].(map[string]any)
	return m
}

func kind(schema map[string]any) string {
	switch t := schema["type"].(type) {
	case string:
		return t
	case []any:
		for _, v := range t {
			if name, ok := v.(string); ok && name != "null" {
				return name
			}
		}
	}
	switch {
	case schema["properties"] != nil:
		return "object"
	case schema["items"] != nil:
		return "array"
	}
	return "null"
}

func (s schemaReader) resolve(ref string) map[string]any {
	at := s.root
	for part := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(ref, "#"), "/"), "/") {
		if part == "" {
			continue
		}
		at, _ = at[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)].(map[string]any)
	}
	return at
}

func (s schemaReader) object(schema map[string]any, depth int) any {
	out := map[string]any{}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for name, v := range properties {
		sub, _ := v.(map[string]any)
		if sub != nil && (slices.Contains(required, any(name)) || depth < 3) {
			out[name] = s.value(sub, depth+1)
		}
	}
	return out
}

func (s schemaReader) array(schema map[string]any, depth int) any {
	items, _ := schema["items"].(map[string]any)
	n := 1
	if least, ok := schema["minItems"].(float64); ok {
		n = min(int(least), 1000)
	} else if depth > 6 {
		n = 0
	}
	if most, ok := schema["maxItems"].(float64); ok {
		n = min(n, int(most))
	}
	out := make([]any, 0, n)
	for range n {
		out = append(out, s.value(items, depth+1))
	}
	return out
}

func text(schema map[string]any) string {
	format, _ := schema["format"].(string)
	out := map[string]string{"date-time": "2026-01-02T03:04:05Z", "date": "2026-01-02", "time": "03:04:05Z", "email": "dev@example.com",
		"uri": "https://example.com/", "uuid": "00000000-0000-4000-8000-000000000001", "hostname": "example.com", "ipv4": "192.0.2.1", "duration": "PT1S"}[format]
	if out == "" {
		out = "text"
	}
	if least, ok := schema["minLength"].(float64); ok {
		for len(out) < int(least) && len(out) < 10_000 {
			out += "text"
		}
	}
	if most, ok := schema["maxLength"].(float64); ok && len(out) > int(most) {
		out = out[:int(most)]
	}
	return out
}

func number(schema map[string]any) float64 {
	n := 1.0
	if least, ok := schema["minimum"].(float64); ok {
		n = max(n, least)
	}
	if least, ok := schema["exclusiveMinimum"].(float64); ok {
		n = max(n, least+1)
	}
	if most, ok := schema["maximum"].(float64); ok {
		n = min(n, most)
	}
	if most, ok := schema["exclusiveMaximum"].(float64); ok && n >= most {
		n = most - 1
	}
	if step, ok := schema["multipleOf"].(float64); ok && step > 0 {
		n = step * float64(int64(n/step+0.999999))
	}
	return n
}

// strictProblem is what OpenAI refuses of a strict schema: objects that are open, or whose properties are not all required.
func strictProblem(schema map[string]any, at string) string {
	if schema == nil {
		return ""
	}
	if properties, ok := schema["properties"].(map[string]any); ok || kind(schema) == "object" {
		if schema["additionalProperties"] != false {
			return "In context=" + at + ", 'additionalProperties' is required to be supplied and to be false."
		}
		required, _ := schema["required"].([]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if !slices.Contains(required, any(name)) {
				return "In context=" + at + ", 'required' is required to be supplied and to be an array including every key in properties. Missing '" + name + "'."
			}
		}
	}
	for _, under := range []string{"properties", "$defs", "definitions"} {
		properties, _ := schema[under].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			sub, _ := properties[name].(map[string]any)
			if p := strictProblem(sub, at+"."+under+"."+name); p != "" {
				return p
			}
		}
	}
	items, _ := schema["items"].(map[string]any)
	return strictProblem(items, at+".items")
}
