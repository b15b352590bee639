package tool

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Arguments are checked before they are sent so that the program is told what is wrong in its own words. The
// check is a courtesy: the server judges in the end. So it is left out where it could cost more than a
// moment, which a schema decides that a hostile server may have written.
const (
	maxCheckSize  = 2000     // schemas that one value is compared with at most, references written out
	maxCheckBytes = 1 << 20  // arguments larger than this, or of more parts than the next, go unchecked
	maxCheckParts = 20_000   // commas and brackets
	noCheck       = int(1e9) // the size of a schema that leads to itself
)

// compile prepares a schema for checking; nil: the server checks. Regular expressions are left to the server,
// too: they are ECMAScript's, not Go's, and ten bytes of them can become megabytes.
func compile(raw json.RawMessage) *jsonschema.Resolved {
	if emptySchema(raw) || !readable(raw) {
		return nil
	}
	var doc any
	if json.Unmarshal(raw, &doc) != nil {
		return nil
	}
	m := measure{root: doc, sizes: map[uintptr]int{}}
	if m.size(doc) > maxCheckSize {
		return nil
	}
	simplify(doc)
	plain, err := json.Marshal(doc)
	if err != nil {
		return nil
	}
	s := new(jsonschema.Schema)
	if json.Unmarshal(plain, s) != nil {
		return nil
	}
	r, err := s.Resolve(nil)
	if err != nil || !usable(r) {
		return nil
	}
	return r
}

// usable says that the validator knows the schema's dialect.
func usable(r *jsonschema.Resolved) bool {
	switch r.Schema().Schema {
	case "", "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft-07/schema#",
		"https://json-schema.org/draft/2020-12/schema":
		return true
	}
	return false
}

// affordable says whether arguments are small enough to be checked.
func affordable(plain json.RawMessage) bool {
	if len(plain) > maxCheckBytes {
		return false
	}
	parts := 0
	for _, c := range plain {
		if c == ',' || c == '[' || c == '{' {
			parts++
		}
	}
	return parts <= maxCheckParts
}

// holds says what stands under a keyword: 1 a schema, 2 a list of schemas or one, 3 schemas by name.
func holds(keyword string) int {
	switch keyword {
	case "not", "if", "then", "else", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties",
		"contains", "propertyNames", "contentSchema":
		return 1
	case "allOf", "anyOf", "oneOf", "prefixItems", "items":
		return 2
	case "properties", "patternProperties", "dependentSchemas", "dependencies":
		return 3
	}
	return 0
}

// below calls f with every schema directly inside another.
func below(schema map[string]any, f func(any)) {
	for k, v := range schema {
		kind := holds(k)
		list, isList := v.([]any)
		named, isMap := v.(map[string]any)
		switch {
		case kind == 2 && isList:
			for _, s := range list {
				f(s)
			}
		case kind == 3 && isMap:
			for _, s := range named {
				f(s)
			}
		case kind == 1 || kind == 2:
			f(v)
		}
	}
}

// measure finds how large a schema is with its references written out.
type measure struct {
	root  any
	sizes map[uintptr]int // of objects, by identity; noCheck while one is being measured
}

func (m *measure) size(v any) int {
	schema, ok := v.(map[string]any)
	if !ok {
		return 1 // true, false, or nothing that counts
	}
	id := reflect.ValueOf(schema).Pointer()
	if n, known := m.sizes[id]; known {
		return n
	}
	m.sizes[id] = noCheck // met again from inside: it leads to itself
	n := 1
	below(schema, func(s any) { n = min(n+m.size(s), noCheck) })
	for _, k := range []string{"$dynamicRef", "$recursiveRef", "$id", "$anchor", "$dynamicAnchor"} {
		if _, there := schema[k]; there && (k != "$id" || id != reflect.ValueOf(m.root).Pointer()) {
			n = noCheck // references that are not followed here
		}
	}
	if ref, ok := schema["$ref"].(string); ok {
		n = min(n+m.size(m.target(ref)), noCheck)
	}
	m.sizes[id] = n
	return n
}

// target follows "#/a/b/0". What it does not find is too large.
func (m *measure) target(ref string) any {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok || pointer != "" && pointer[0] != '/' || strings.Contains(pointer, "%") {
		return m.root // measured at this moment: noCheck
	}
	at := m.root
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch v := at.(type) {
		case map[string]any:
			at = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return m.root
			}
			at = v[i]
		default:
			return m.root
		}
	}
	return at
}

// simplify takes regular expressions out of a schema, and what says something of the names that they do not
// match.
func simplify(v any) {
	schema, ok := v.(map[string]any)
	if !ok {
		return
	}
	delete(schema, "pattern")
	if _, there := schema["patternProperties"]; there {
		delete(schema, "patternProperties")
		delete(schema, "additionalProperties")
		delete(schema, "unevaluatedProperties")
	}
	if s, ok := schema["$schema"].(string); ok && !strings.Contains(s, "draft-07") && !strings.Contains(s, "2020-12") {
		delete(schema, "$schema") // an unknown dialect is read as the newest
	}
	for _, defs := range []string{"$defs", "definitions"} {
		if named, ok := schema[defs].(map[string]any); ok {
			for _, s := range named {
				simplify(s)
			}
		}
	}
	below(schema, simplify)
}
