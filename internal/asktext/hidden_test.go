package asktext

import (
	"strings"
	"testing"
)

// TestWhatLeavesNoTrace: characters that count as printed, and that nobody sees, are escaped in values and in names.
func TestWhatLeavesNoTrace(t *testing.T) {
	for _, c := range []rune{0xE0100 + 'r', 0xFE0F, 0x034F, 0x115F, 0x17B4, 0x3164, 0xFFA0, 0x2800, 0x180B, 0x200B, 0x202E, 0xAD} {
		got := Arguments([]byte(`{"x`+string(c)+`":"ls`+string(c)+`"}`), 200)
		if strings.ContainsRune(got, c) || strings.Count(got, `\`) != 2 {
			t.Errorf("%U: %q", c, got)
		}
	}
	if got := Arguments([]byte(`{"x":"naïve 日本 🙂 é"}`), 200); got != `x="naïve 日本 🙂 é"` {
		t.Errorf("%q", got)
	}
}
