package setup

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What an interrupted setup has left goes with the next one; what another works in, or has just made, stays.
func TestSweepRemovesWhatIsLeft(t *testing.T) {
	in := &installer{engines: t.TempDir()}
	make := func(name string, age time.Duration) string {
		dir := filepath.Join(in.engines, name)
		if err := os.MkdirAll(filepath.Join(dir, "node_modules"), 0o700); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		if err := os.Chtimes(dir, then, then); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	left, young, engine, held := make(".setup-1", time.Hour), make(".setup-2", 0), make("0.0.23", time.Hour), make(".setup-3", time.Hour)
	if err := lock(held); err != nil {
		t.Fatal(err)
	}
	in.sweep()
	for dir, stays := range map[string]bool{left: false, young: true, engine: true, held: true} {
		if _, err := os.Stat(dir); (err == nil) != stays {
			t.Errorf("%s: %v", filepath.Base(dir), err)
		}
	}
}
