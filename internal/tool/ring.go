package tool

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// stderrKept is how much of a server's stderr is kept for error messages.
const stderrKept = 4 << 10

// ring keeps the last bytes that were written to it.
type ring struct {
	mu  sync.Mutex
	buf []byte
}

// Write never fails.
func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf = append(r.buf, p...)
	if over := len(r.buf) - stderrKept; over > 0 {
		r.buf = append(r.buf[:0], r.buf[over:]...)
	}
	return len(p), nil
}

// String is what was kept, from the first whole character on, without control characters.
func (r *ring) String() string {
	r.mu.Lock()
	text := string(r.buf)
	r.mu.Unlock()
	for i := 0; i < utf8.UTFMax && len(text) > 0 && !utf8.RuneStart(text[0]); i++ {
		text = text[1:]
	}
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return -1
		}
		return c
	}, strings.ToValidUTF8(text, "?")))
}
