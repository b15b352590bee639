package datadir

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSizes(t *testing.T) {
	home := filepath.Join(t.TempDir(), "a [strange] *name?")
	for path, size := range map[string]int{"skills/default/x/v1.py": 10, "states/a/b/c": 5, "kernel.log": 7, "kernel.log.1": 8, "tools/x.json": 100,
		"engines/monty/monty": 1000, "kernel.db": 5000, "replaced-1/kernel.db": 30, "mine.txt": 9} {
		full := filepath.Join(home, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/", filepath.Join(home, "tools", "everything")); err != nil {
		t.Fatal(err)
	}
	shut := filepath.Join(home, "workspaces", "shut")
	if err := os.MkdirAll(shut, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shut, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(shut, 0o700) })
	got, err := At(home).Sizes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Part{{"skills and states", 15}, {"workspaces", 0}, {"tools", 100}, {"engines", 1000}, {"kernel logs", 15}, {"replaced by restores", 30}}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got[i], want[i])
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := At(home).Sizes(ended); err == nil {
		t.Error("it goes on when nobody waits")
	}
}

// What running programs have there is no stranger, and goes into no backup: it holds how they are called.
func TestFunctionsOfProgramsAreNotBackedUp(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	mkdir(t, filepath.Join(d.Path(), "host"), 0o700)
	write(t, filepath.Join(d.Path(), "host", "tools.json"), "{}")
	write(t, filepath.Join(d.Path(), "other"), "x")
	files, strangers, err := d.Documents()
	if err != nil || len(files) != 0 || !slices.Equal(strangers, []string{"other"}) {
		t.Errorf("files %q, strangers %q, %v", files, strangers, err)
	}
}
