package tool

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"agentkernel"
)

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestListsOfNothing: a server may send lists of numbers, or of a great many objects, where pieces of content or messages belong. Read as
// such, they would take up to fifty times their length.
func TestListsOfNothing(t *testing.T) {
	const n = 2_000_000
	for name, list := range map[string]string{"numbers": "[1" + strings.Repeat(",1", n) + "]", "objects": "[{}" + strings.Repeat(",{}", n) + "]"} {
		b := &boundTool{}
		used := allocated(func() {
			if _, err := b.result(json.RawMessage(`{"content":`+list+`}`), &redactor{}); agentkernel.CodeOf(err) != agentkernel.CodeAnswerLost {
				t.Errorf("%s: %v", name, err)
			}
		})
		c := &lineConn{}
		used = max(used, allocated(func() { _ = c.decode([]byte(`{"jsonrpc":"2.0","id":` + list + `,"result":{}}`)) }))
		used = max(used, allocated(func() { _ = c.decode([]byte(list)) }))
		if len(c.queue) > 0 || used > 12*uint64(len(list)) {
			t.Errorf("%s: %d messages, and %d bytes for %d", name, len(c.queue), used, len(list))
		}
	}
}

// TestExcerptsWithoutSecrets: what is shown of a line is cut after secrets were taken out of it.
func TestExcerptsWithoutSecrets(t *testing.T) {
	const secret = "Tr0ub4dor-horse-staple-0123456789-ABCD"
	for before := range 130 {
		c := &lineConn{clean: func(s string) string { return strings.ReplaceAll(s, secret, "[API_TOKEN]") }}
		if got := c.excerpt([]byte(strings.Repeat("-", before) + secret + " and more, which is long enough for a cut, however much of it stands before the secret")); strings.Contains(got, "Tr0") {
			t.Errorf("%d: %s", before, got)
		}
	}
}
