package agent

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A schema that the task would refuse is refused before there is a process, for the same reason.
func TestCheckSchema(t *testing.T) {
	for schema, says := range map[string]string{
		`{"type": "number"}`: "", `true`: "", `{"type": ["string", "null"], "anyOf": [{"const": 1}], "items": false, "properties": {"a": {"enum": [1]}}}`: "",
		`{`: "no JSON", `7`: "the schema is neither an object nor true or false", `{"type": "float"}`: `the schema has the type "float", which there is not`, `{"type": ["null", 3]}`: "the type 3",
		`{"type": "object", "properties": {"a": {"pattern": "x"}}}`: `the schema.properties.a has "pattern", which is not checked here`,
		`{"items": {"anyOf": [1]}}`:                                 "the schema.items.anyOf is neither", `{"additionalProperties": {"x": 1}}`: `the schema.additionalProperties has "x"`,
		`{"properties": []}`: "the schema.properties is no object", `{"allOf": {}}`: "the schema.allOf is no array",
	} {
		err := CheckSchema(json.RawMessage(schema))
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v", schema, err)
		}
	}
	words := func(name string) (list []string) {
		_, rest, _ := strings.Cut(text("schema.py"), name+" = [")
		rest, _, _ = strings.Cut(rest, "]")
		for _, m := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(rest, -1) {
			list = append(list, m[1])
		}
		return list
	}
	var types []string
	for _, k := range schemaTypes {
		types = append(types, k.(string))
	}
	if !slices.Equal(words("KNOWN"), schemaKnown) || !slices.Equal(words("TYPES"), types) {
		t.Errorf("schema.py knows %q and %q", words("KNOWN"), words("TYPES"))
	}
}
