package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestAwaitInput: a pipe that nobody closes and nobody writes to is an error after a while, not a command that hangs.
func TestAwaitInput(t *testing.T) {
	for name, c := range map[string]struct {
		before func(w *os.File)
		want   string
	}{
		"nothing comes": {func(*os.File) {}, "nothing came within"},
		"a byte":        {func(w *os.File) { _, _ = w.WriteString("x") }, ""},
		"the end":       {func(w *os.File) { _ = w.Close() }, ""},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		c.before(w)
		err = awaitInput(r, 5*time.Millisecond)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
		_, _ = r.Close(), w.Close()
	}
}
