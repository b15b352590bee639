package clip_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"agentkernel/internal/clip"
)

func TestShort(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "two words": "two words", strings.Repeat("x", 100): strings.Repeat("x", 100), strings.Repeat("x", 101): strings.Repeat("x", 100) + "...",
		strings.Repeat("word ", 30):             strings.TrimSpace(strings.Repeat("word ", 20)) + "...",
		"a " + strings.Repeat("x", 200):         "a " + strings.Repeat("x", 98) + "...", // one word: it is cut
		strings.Repeat("x", 99) + "é and more":  strings.Repeat("x", 99) + "...",
		strings.Repeat("x", 90) + "\xff" + "yy": strings.Repeat("x", 90) + "\xff" + "yy",
	} {
		if got := clip.Short(in); got != want {
			t.Errorf("Short(%q) = %q, want %q", in, got, want)
		}
	}
	if got := clip.Short(strings.Repeat("\xff", 200)); !utf8.ValidString(got) {
		t.Errorf("%q is not UTF-8", got)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var r clip.Tail
	for range 1000 {
		_, _ = r.Write([]byte("0123456789é\n"))
	}
	_, _ = r.Write([]byte("\x1b[31mthe end\xff\n"))
	s := r.String()
	if len(s) > clip.Kept || !strings.HasSuffix(s, "0123456789é\n[31mthe end\ufffd") || strings.ContainsRune(s, 0x1b) {
		t.Errorf("%q", s[max(0, len(s)-60):])
	}
}

// TestTailBeginsWithAWord: what is taken out of what was kept is looked for as a whole.
func TestTailBeginsWithAWord(t *testing.T) {
	const secret = "TOKEN-0123456789"
	for n := range len(secret) {
		var r clip.Tail
		_, _ = r.Write([]byte(strings.Repeat("-", 10) + " " + secret + " " + strings.Repeat("y", clip.Kept-1-n)))
		if s := r.String(); s != strings.Repeat("y", clip.Kept-1-n) {
			t.Fatalf("%d: %q", n, s[:40])
		}
	}
	for _, end := range []string{"", "\n"} { // half a secret may be at its begin, and it has no word
		var line clip.Tail
		_, _ = line.Write([]byte(strings.Repeat("x", clip.Kept+1) + end))
		if s := line.String(); s != "..." {
			t.Errorf("one long line: %q", s)
		}
	}
	var r clip.Tail
	_, _ = r.Write([]byte("all of it"))
	if s := r.String(); s != "all of it" {
		t.Errorf("%q", s)
	}
}

func TestAt(t *testing.T) {
	for in, want := range map[string]string{"": "", "12345": "12345", "123456": "12345... (6 bytes)", "1234é": "1234... (6 bytes)"} {
		if got := clip.At(in, 5); got != want {
			t.Errorf("At(%q) = %q, want %q", in, got, want)
		}
	}
}
