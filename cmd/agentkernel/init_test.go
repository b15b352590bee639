package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A link that takes the place of a .gitignore after it was looked at is not followed: what is opened is what is looked at.
func TestGitignoreIsOpenedWithoutLinks(t *testing.T) {
	dir := t.TempDir()
	outside, link := filepath.Join(dir, "outside"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(outside, []byte("mine\n"), 0o600), os.Symlink(outside, link)); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []int{os.O_RDONLY, os.O_WRONLY | os.O_APPEND} {
		if f, _, err := openIgnore(link, flag); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("opened %v: %v", f, err)
		}
	}
	if f, info, err := openIgnore(dir, os.O_RDONLY); f != nil || err != nil {
		t.Errorf("a folder was opened as %v: %v", info, err)
	}
}
