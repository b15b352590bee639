package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// TestWriteCode tells a disk that is to blame from a name that is, and from permission that is missing.
func TestWriteCode(t *testing.T) {
	for err, want := range map[error]agentkernel.Code{
		syscall.ENOSPC: agentkernel.CodeStorage, syscall.EROFS: agentkernel.CodeStorage,
		syscall.ENOENT: agentkernel.CodeInvalid, syscall.EACCES: agentkernel.CodeDenied, syscall.EPERM: agentkernel.CodeDenied,
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

// TestBackupIsOursAlone refuses what somebody else has put where a backup is written before it is complete: it would stay his.
func TestBackupIsOursAlone(t *testing.T) {
	const nobody = 65534
	for name, plant := range map[string]func(path string) error{
		"another user's": func(path string) error {
			if os.Geteuid() != 0 {
				t.Skip("only root can give a file away")
			}
			return errors.Join(os.WriteFile(path, []byte("theirs"), 0o666), os.Chown(path, nobody, nobody))
		},
		"another name": func(path string) error {
			return errors.Join(os.WriteFile(path+".2", []byte("theirs"), 0o600), os.Link(path+".2", path))
		},
		"a link": func(path string) error {
			return errors.Join(os.WriteFile(path+".2", []byte("theirs"), 0o600), os.Symlink(path+".2", path))
		},
		"a pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "nightly.akb.partial")
			if err := plant(path); err != nil {
				t.Fatal(err)
			}
			if f, err := openPartial(path); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
				t.Errorf("%v %v", f, err)
			}
			if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
				if text, err := os.ReadFile(path); string(text) != "theirs" {
					t.Errorf("it holds %q (%v)", text, err)
				}
			}
		})
	}
}

// Where the directory is not there, the error names it, and not a file that the user has not named.
func TestBackupIntoNoDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nodir", "nightly.akb")
	_, err := openPartial(path + ".partial")
	want := path + " cannot be written: there is no directory " + filepath.Dir(path)
	if agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want %q", err, want)
	}
}

// Some networks give every file to nobody. A file that the backup has made is ours there, too; one that was there is not.
func TestPartialOnAForeignDisk(t *testing.T) {
	was := foreign
	foreign = func(*unix.Stat_t) bool { return true }
	t.Cleanup(func() { foreign = was })
	path := filepath.Join(t.TempDir(), "nightly.akb.partial")
	f, err := openPartial(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := openPartial(path); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
		t.Errorf("one that was there: %v", err)
	}
}

// A file that has become a backup between the moments in which it was opened and locked is not written into.
func TestPartialThatWasRenamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nightly.akb.partial")
	f, err := openPartial(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if !leadsTo(path, f) {
		t.Error("it is not its own")
	}
	if err := errors.Join(os.Rename(path, path+".2"), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if leadsTo(path, f) {
		t.Error("another one is taken for it")
	}
}
