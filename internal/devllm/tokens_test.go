package devllm

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTokens(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"Hello, world!":            "Hello|,| world|!",
		"unbelievable":             "unbeli|evable",
		"12345 a":                  "123|45| a",
		"a  b\n\n c":               "a| | b|\n\n| c",
		"日本語":                      "日|本|語",
		"{\"a\": 1}":               "{|\"|a|\"|:| 1|}",
		"\xff\xfe":                 "\xff|\xfe",
		strings.Repeat(" ", 20):    strings.Repeat(" ", 16) + "|" + strings.Repeat(" ", 4),
		"Straße und Übermäßigkeit": "Straße| und| Übermä|ßigkei|t",
	} {
		got := strings.Join(slices.Collect(tokenizer{6}.split(text)), "|")
		if got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}

func TestTokensAreTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		tok := tokenizer{rapid.IntRange(1, 8).Draw(t, "piece")}
		if got := strings.Join(slices.Collect(tok.split(text)), ""); got != text {
			t.Fatalf("%q became %q", text, got)
		}
		n := rapid.Int64Range(0, 20).Draw(t, "n")
		head, short := tok.cut(text, n)
		if got := tok.count(text); short != (got > n) || !short && head != text || short && int64(len(slices.Collect(tok.split(text)))) <= n {
			t.Fatalf("%d tokens cut to %d: %q, %t", got, n, head, short)
		}
	})
}

// No client that divides bytes by four has it right.
func TestTokensAreNoFourthOfTheBytes(t *testing.T) {
	text := "The quick brown fox jumps over the lazy dog, and 1,234 others; they don't mind."
	got := tokenizer{6}.count(text)
	if fourth := int64(len(text) / 4); got == fourth || got == fourth+1 {
		t.Errorf("%d tokens of %d bytes", got, len(text))
	}
	if claude := (tokenizer{4}).count(text); claude <= got {
		t.Errorf("%d tokens where pieces are shorter, and %d where they are longer", claude, got)
	}
}
