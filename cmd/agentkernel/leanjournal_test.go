package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestLean: what is shortened is JSON still, with the same shape, and short; what is not large stays.
func TestLean(t *testing.T) {
	for name, unit := range map[string]string{"letters": "x", "runes": "ü", "escapes": `\n`, "quotes": `\"`, "backslashes": `\\`, "unicode": `\u00fc`, "pairs": `\ud83d\ude00`, "mixed": `a\"ü\u0001\\`} {
		for shift := range 8 {
			long := `"` + strings.Repeat("a", shift) + strings.Repeat(unit, large/len(unit)+1) + `"`
			raw := json.RawMessage(`{"message":` + long + `,"n":[1,` + long + `,"short \" one"],"level":null}`)
			got := lean(raw)
			var v struct {
				Message string
				N       []any
			}
			if err := json.Unmarshal(got, &v); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(got) > 3*leanText || len(v.N) != 3 || v.N[2] != `short " one` || !strings.HasSuffix(v.Message, "…") {
				t.Errorf("%s: %d bytes: %.80s", name, len(got), got)
			}
		}
	}
	small := json.RawMessage(`{"a":"` + strings.Repeat("x", large/2) + `"}`)
	if got := lean(small); string(got) != string(small) {
		t.Error("what is not large was shortened")
	}
}
