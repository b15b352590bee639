package recording

import (
	"strings"
	"testing"

	"agentkernel"
)

// What is checked by one reader must be what is taken by another.
func TestFieldsAreStrict(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind":"output","Kind":"result"}`:      `no field "Kind"`,
		`{"kind":"output","kind":"result"}`:      "is there twice",
		`{"kind":"result","data":{"a":1,"a":2}}`: "", // a tool said so
	} {
		var e agentkernel.Entry
		err := decodeJSON("x", []byte(text), &e)
		if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
