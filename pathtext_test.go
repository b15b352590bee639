package agentkernel_test

import (
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"agentkernel"
)

func TestPathTextIsReadBack(t *testing.T) {
	for raw, want := range map[string]string{
		"out/ü b": "out/ü b", `C:\x`: `C:\x`, `a\x41`: `a\x41`, `a\xFF`: `a\xFF`, "�": "�",
		"a\xff": `a\xff`, `a\xff`: `a\x5cxff`, `a\x5c`: `a\x5cx5c`, "\\\xff": `\\xff`, "\xed\xa0\x80": `\xed\xa0\x80`,
	} {
		if got := agentkernel.PathText(raw); got != want {
			t.Errorf("%q is written %q, not %q", raw, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{`\`, "x", "5", "c", "f", "F", "8", "\xff", "\x80", "\xc3", "\xa9", "ü", "�", "/", `\xff`, `\x5c`})
		raw := ""
		for _, p := range rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces") {
			raw += p
		}
		text := agentkernel.PathText(raw)
		if !utf8.ValidString(text) || agentkernel.RawPath(text) != raw {
			t.Errorf("%q is written %q, which is read as %q", raw, text, agentkernel.RawPath(text))
		}
		if left, right := agentkernel.PathText(raw+"/"+raw), text+"/"+text; left != right { // a prefix of directories stays one
			t.Errorf("%q is written %q", raw+"/"+raw, left)
		}
	})
}
