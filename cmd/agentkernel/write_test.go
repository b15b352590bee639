package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"agentkernel"
)

// TestWriteCode tells a disk that is to blame from a name that is.
func TestWriteCode(t *testing.T) {
	for err, want := range map[error]agentkernel.Code{
		syscall.ENOSPC: agentkernel.CodeStorage, syscall.EROFS: agentkernel.CodeStorage,
		syscall.ENOENT: agentkernel.CodeInvalid, syscall.EACCES: agentkernel.CodeInvalid,
	} {
		if got := writeCode(&fs.PathError{Op: "write", Path: "x", Err: err}); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

// TestCreate makes a file that is not there whole or not at all, and leaves what is beside it.
func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agentkernel.toml")
	if err := os.WriteFile(path+".new", []byte("of the user"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		if made, err := create(path, []byte("half a file")); made != want || err != nil {
			t.Errorf("call %d: %v %v", i, made, err)
		}
	}
	if b, err := os.ReadFile(path); string(b) != "half a file" {
		t.Errorf("%q %v", b, err)
	}
	if list, err := os.ReadDir(filepath.Dir(path)); len(list) != 2 || err != nil {
		t.Errorf("left: %v %v", list, err)
	}
}
