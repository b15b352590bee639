package workspace

import (
	"os"
	"path/filepath"
	"testing"

	"agentkernel"
)

// TestStrays: what an earlier kernel was making is removed where no process has it, and nothing else.
func TestStrays(t *testing.T) {
	dir := publicDir(t)
	must(t, os.MkdirAll(filepath.Join(dir, "data"), 0o700))
	kernel := func(origin string) *Store {
		return New(Config{Dir: filepath.Join(dir, "data", "workspaces"), Apart: filepath.Join(dir, "data"), Origin: origin})
	}
	at := func(name string) string { return filepath.Join(dir, "data", "workspaces", name) }
	for _, half := range []string{"1", "2"} { // killed while its standard input was copied
		must(t, os.MkdirAll(at(half), 0o700))
		must(t, os.WriteFile(filepath.Join(at(half), stdinFile), []byte("half"), 0o600))
	}
	must(t, os.MkdirAll(at(removing+"9.ab"), 0o700)) // killed while it was removed
	earlier, other := kernel("this"), kernel("other")
	must(t, earlier.Import(3, nil))
	must(t, other.Import(4, nil))
	s := kernel("this")
	must(t, s.Import(2, nil)) // the PID is given out again
	must(t, s.Import(5, nil))
	for pid := range agentkernel.PID(7) {
		must(t, s.RemoveStray(pid))
	}
	must(t, s.SweepRemoved())
	for name, want := range map[string]bool{"1": false, "2": true, "3": false, "4": true, "5": true, removing + "9.ab": false} {
		if _, err := os.Lstat(at(name)); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", name, err, want)
		}
	}
}
