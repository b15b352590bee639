package mcpserver_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/mcpserver"
)

// TestNoArgumentNamesTheHost: what a model says becomes a program, never a folder that it is shown, a tools file, or a
// permission. Those are the user's, by flags of the server.
func TestNoArgumentNamesTheHost(t *testing.T) {
	ofASpec := map[string]bool{}
	var gather func(reflect.Type)
	gather = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return
		}
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			ofASpec[name] = true
			gather(t.Field(i).Type)
		}
	}
	gather(reflect.TypeFor[agentkernel.Spec]())
	for _, harmless := range []string{
		"language", "session", "backend", // a backend below the floor of the server's Spec is refused
		"name", // of a state or a skill
		"from", // a position in what a task has printed
		"path", // an artifact's, below a process's own folder
	} {
		delete(ofASpec, harmless)
	}
	for _, tool := range mcpserver.Surface() {
		var schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if err := json.Unmarshal(tool.Input, &schema); err != nil {
			t.Fatal(err)
		}
		for name := range schema.Properties {
			if ofASpec[name] {
				t.Errorf("%s has an argument %q, which is a field of a Spec: may a model set it?", tool.Name, name)
			}
		}
	}
	if !ofASpec["host"] || !ofASpec["workspace"] || len(mcpserver.Surface()) == 0 {
		t.Error("there is nothing to compare")
	}
}
