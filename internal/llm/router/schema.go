package router

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"agentkernel"
)

// A program writes the schema, and may well have the model say what it likes. So neither may cost the kernel more than a moment: the
// checker follows a reference that leads to itself for ever, and some nested choices for as good as ever.
const (
	maxSchema   = 128 << 10 // bytes; providers take no larger one
	maxPatterns = 2_000     // bytes of all regular expressions: one byte can become 40 kB
	maxChecks   = 500_000   // how often a value is compared with a schema
)

func badSchema(format string, args ...any) error {
	return agentkernel.Errorf(agentkernel.CodeInvalid, "llm", "the schema "+format, args...)
}

// schema is one that answers are checked against.
type schema struct {
	doc   any // of it
	check *jsonschema.Resolved
}

// compile prepares a schema for checking answers.
func compile(raw json.RawMessage) (*schema, error) {
	if len(raw) > maxSchema {
		return nil, badSchema("is %d bytes long; the limit is %d", len(raw), maxSchema)
	}
	var doc any
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, badSchema("is no JSON Schema: %w", err)
	}
	if n := patterns(doc); n > maxPatterns {
		return nil, badSchema("has regular expressions of %d bytes; the limit is %d", n, maxPatterns)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, badSchema("is no JSON Schema: %w", err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, badSchema("is no JSON Schema: %w", err)
	}
	if !affordable(doc, nil) {
		return nil, badSchema("cannot be checked: it leads to itself, refers to more than #/..., or has too many choices")
	}
	return &schema{doc, resolved}, nil
}

// patterns is how long the regular expressions of a schema are, with whatever else is called so.
func patterns(v any) (n int) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			n += patterns(x)
		}
	case map[string]any:
		if p, ok := v["pattern"].(string); ok {
			n += len(p)
		}
		named, _ := v["patternProperties"].(map[string]any)
		for p := range named {
			n += len(p)
		}
		for _, x := range v {
			n += patterns(x)
		}
	}
	return n
}

// affordable says whether a value can be checked in no more than maxChecks steps.
func affordable(schema, value any) bool {
	c := checks{root: schema, left: maxChecks, known: map[pair]int{}}
	return c.cost(schema, value) <= maxChecks && c.left > 0
}

// checks counts the steps of a check without making them: what is compared twice is counted twice, but looked at once.
type checks struct {
	root  any
	left  int // looks that may be taken yet
	known map[pair]int
}

// pair is a schema and a value, by their places.
type pair struct {
	schema, value uintptr
	size          int
}

// tooMany is more steps than any check may have.
const tooMany = maxChecks + 1

func (c *checks) cost(v, value any) int {
	schema, ok := v.(map[string]any)
	if !ok {
		return 1 // true, or false
	}
	p := pair{schema: reflect.ValueOf(schema).Pointer()}
	n := 1
	switch x := value.(type) {
	case map[string]any:
		p.value, p.size = reflect.ValueOf(x).Pointer(), -1
	case []any:
		p.value, p.size = reflect.ValueOf(x).Pointer(), len(x)
	case string:
		if p.size = len(x); schema["pattern"] != nil {
			n += len(x) / 16
		}
	}
	if known, ok := c.known[p]; ok {
		return known
	}
	if c.left--; c.left <= 0 {
		return tooMany
	}
	c.known[p] = tooMany // met again from inside: it leads to itself
	n = c.add(n, schema, value)
	c.known[p] = n
	return n
}

// add adds what the keywords of a schema cost.
func (c *checks) add(n int, schema map[string]any, value any) int {
	more := func(of int) { n = min(n+of, tooMany) }
	for word, v := range schema {
		list, _ := v.([]any)
		named, _ := v.(map[string]any)
		switch word {
		case "$ref":
			target, found := c.target(v)
			if !found {
				return tooMany
			}
			more(c.cost(target, value))
		case "$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor":
			return tooMany // references that are not followed here
		case "$id":
			if reflect.ValueOf(schema).Pointer() != reflect.ValueOf(c.root).Pointer() {
				return tooMany
			}
		case "enum", "required":
			more(len(list))
		case "allOf", "anyOf", "oneOf":
			for _, s := range list {
				more(c.cost(s, value))
			}
		case "not", "if", "then", "else":
			more(c.cost(v, value))
		case "dependentSchemas", "dependencies", "dependentRequired":
			for _, s := range named {
				if names, isList := s.([]any); isList {
					more(len(names))
				} else {
					more(c.cost(s, value))
				}
			}
		default:
			more(c.below(word, v, value))
		}
	}
	return n
}

// below is what a keyword costs that is about what is in a value.
func (c *checks) below(word string, v, value any) (n int) {
	more := func(of int) { n = min(n+of, tooMany) }
	items, _ := value.([]any)
	members, _ := value.(map[string]any)
	list, isList := v.([]any)
	named, _ := v.(map[string]any)
	switch word {
	case "items", "prefixItems", "additionalItems", "contains", "unevaluatedItems":
		for i, x := range items {
			if !isList {
				more(c.cost(v, x))
			} else if i < len(list) {
				more(c.cost(list[i], x))
			}
		}
	case "properties":
		more(len(named))
		for name, x := range members {
			if s, ok := named[name]; ok {
				more(c.cost(s, x))
			}
		}
	case "patternProperties":
		for name, x := range members {
			for _, s := range named {
				more(1 + len(name)/16 + c.cost(s, x))
			}
		}
	case "additionalProperties", "unevaluatedProperties":
		for _, x := range members {
			more(c.cost(v, x))
		}
	case "propertyNames":
		for name := range members {
			more(c.cost(v, name))
		}
	}
	return n
}

// target follows "#/a/b/0".
func (c *checks) target(ref any) (at any, found bool) {
	text, _ := ref.(string)
	pointer, ok := strings.CutPrefix(text, "#")
	if !ok || pointer != "" && pointer[0] != '/' || strings.Contains(pointer, "%") {
		return nil, false
	}
	if at = c.root; pointer == "" {
		return at, true
	}
	for part := range strings.SplitSeq(pointer[1:], "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch v := at.(type) {
		case map[string]any:
			at = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			at = v[i]
		default:
			return nil, false
		}
	}
	return at, true
}
