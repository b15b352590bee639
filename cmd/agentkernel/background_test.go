package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

func TestAwaitBirth(t *testing.T) {
	cases := []struct {
		name, says string
		hangs      bool
		code       agentkernel.Code
		want       string
	}{
		{name: "ready", says: `{"ready":true}` + "\n"},
		{name: "its own error", says: `{"error":{"code":"corrupt","message":"the database is damaged","hint":"restore it"}}` + "\n", code: agentkernel.CodeCorrupt, want: "damaged"},
		{name: "dies without a word", code: agentkernel.CodeUnavailable, want: "ended at once"},
		{name: "dies in mid-word", says: `{"rea`, code: agentkernel.CodeUnavailable, want: "ended at once"},
		{name: "hangs", hangs: true, code: agentkernel.CodeUnavailable, want: "does not come up"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if tc.hangs {
				cancel()
			} else {
				if _, err := w.WriteString(tc.says); err != nil {
					t.Fatal(err)
				}
				w.Close()
			}
			err = awaitBirth(ctx, r, func() string { return "panic: oh" })
			if got := agentkernel.CodeOf(err); got != tc.code {
				t.Fatalf("code %q (%v), want %q", got, err, tc.code)
			}
			if err == nil {
				return
			}
			contains(t, "the error", err.Error(), tc.want)
			if tc.code == agentkernel.CodeUnavailable {
				contains(t, "the hint", asError(err).Hint, "its log ends with:\npanic: oh")
			}
		})
	}
}

func TestLogTailIsWhatWasWrittenSince(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kernel.log")
	old := strings.Repeat("old\n", 5)
	if err := os.WriteFile(path, []byte(old+strings.Repeat("new\n", 12)+"last\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := logTail(path, int64(len(old))), strings.Repeat("new\n", 9)+"last"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := logTail(filepath.Join(t.TempDir(), "none"), 0); got != "" {
		t.Errorf("no log: %q", got)
	}
}
