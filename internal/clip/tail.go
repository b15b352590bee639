package clip

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// Kept is how many bytes a Tail keeps.
const Kept = 4 << 10

// Tail keeps the last bytes that were written to it: what a program said on its standard error before it failed. The zero value is
// ready, and any number of goroutines may use it.
type Tail struct {
	mu  sync.Mutex
	buf []byte
	cut bool // there was more before it
}

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - Kept; over > 0 {
		t.buf, t.cut = append(t.buf[:0], t.buf[over:]...), true
	}
	return len(p), nil
}

// String is what was kept, from the first whole word on if something was lost, since half of a secret would not be found, without control characters other than ends of lines and tabs, and
// without space around it.
func (t *Tail) String() string {
	t.mu.Lock()
	text := string(t.buf)
	if t.cut {
		at := strings.IndexAny(text, " \t\n")
		if text = text[at+1:]; at < 0 || strings.TrimSpace(text) == "" {
			text = "..." // one long line
		}
	}
	t.mu.Unlock()
	for i := 0; i < utf8.UTFMax && len(text) > 0 && !utf8.RuneStart(text[0]); i++ {
		text = text[1:]
	}
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return -1
		}
		return c
	}, strings.ToValidUTF8(text, "\ufffd")))
}
