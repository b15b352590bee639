package monty

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"agentkernel/internal/reaper"
)

// With the launcher of a real kernel: workers are recorded while they live and forgotten when they have gone.
func TestWithReaper(t *testing.T) {
	dir := t.TempDir()
	owner := rand.Text() // as the marks of another run of this test must not be ours
	r, err := reaper.New(dir, owner)
	if err != nil {
		t.Fatal(err)
	}
	records := func() int {
		entries, err := os.ReadDir(filepath.Join(dir, owner))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := records() // the kernel's own
	b := newBackend(t, func(c *Config) { c.Launcher = r })
	for range 3 {
		if got := mustExit(t, b, "print(1)"); got != "1\n" {
			t.Fatal(got)
		}
	}
	if records() <= before {
		t.Error("no worker is recorded")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if left := records(); left > before {
		t.Errorf("%d records are left, %d were there before", left, before)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}
