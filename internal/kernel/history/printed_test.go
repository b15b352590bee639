package history

import (
	"encoding/json"
	"strings"
	"testing"

	"agentkernel"
)

// TestPrintedSize: how much was printed is counted without reading it, and comes to the same.
func TestPrintedSize(t *testing.T) {
	for _, text := range []string{"", "x", "42\n", `a "quoted" \ text`, "\t\\n\"", "é😀", "\x01\u2028", strings.Repeat("\\\n", 100)} {
		data, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := printedSize(data); got != int64(len(text)) {
			t.Errorf("%s: %d bytes, not %d", data, got, len(text))
		}
	}
	for _, data := range []string{"", `"`, `"\ud83d\ude00\u0041"`, "7", `null`, `not a text`} { // a recording may have anything there
		if got, want := printedSize(json.RawMessage(data)), int64(len(Text(&agentkernel.Entry{Data: json.RawMessage(data)}))); got != want {
			t.Errorf("%s: %d bytes, not %d", data, got, want)
		}
	}
}
