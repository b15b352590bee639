package regular_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"agentkernel/internal/regular"
)

// A pipe that nobody writes to would hang whoever opens it, a device would fill the memory.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	put := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put(os.WriteFile(filepath.Join(dir, "file"), []byte("12345"), 0o600))
	put(syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	put(os.Symlink("file", filepath.Join(dir, "link")))
	put(os.Symlink("pipe", filepath.Join(dir, "topipe")))
	put(os.Symlink("/dev/zero", filepath.Join(dir, "zero")))
	root, err := os.OpenRoot(dir)
	put(err)
	defer root.Close()
	for _, test := range []struct {
		name  string
		limit int64
		want  error
	}{
		{"file", 5, nil}, {"link", 5, nil}, {"file", 4, regular.ErrTooLarge}, {"pipe", 5, regular.ErrNotRegular},
		{"topipe", 5, regular.ErrNotRegular}, {"zero", 5, regular.ErrNotRegular}, {".", 5, regular.ErrNotRegular}, {"none", 5, fs.ErrNotExist},
	} {
		b, err := regular.Read(filepath.Join(dir, test.name), test.limit)
		if !errors.Is(err, test.want) || err == nil && string(b) != "12345" {
			t.Errorf("%s, at most %d: %q, %v; want %v", test.name, test.limit, b, err, test.want)
		}
		in, err := regular.ReadIn(root, test.name, test.limit)
		if test.name == "zero" {
			if err == nil || errors.Is(err, regular.ErrNotRegular) {
				t.Errorf("the link out of the folder was followed: %v", err)
			}
			continue
		}
		if !errors.Is(err, test.want) || err == nil && string(in) != "12345" {
			t.Errorf("%s in the folder, at most %d: %q, %v; want %v", test.name, test.limit, in, err, test.want)
		}
	}
}
