package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"agentkernel"
)

// open opens a file and gives the name that the system has for the descriptor.
func openDescriptor(t *testing.T, path string, flag int) (*os.File, string) {
	t.Helper()
	f, err := os.OpenFile(path, flag, 0o600)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd())
}

// TestStdinOfTheDataDirectory: whatever name a file of the data directory is given, no program reads it. The one
// exception is what a command has gathered from a pipe.
func TestStdinOfTheDataDirectory(t *testing.T) {
	dir := publicDir(t)
	data := filepath.Join(dir, "data")
	must(t, os.MkdirAll(filepath.Join(data, "blobs"), 0o700))
	must(t, os.Symlink("data", filepath.Join(dir, "alias")))
	for _, name := range []string{"data/kernel.db", "data/key", "data/blobs/b", "data/plain", "harmless"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	must(t, os.Symlink("data/key", filepath.Join(dir, "link")))
	must(t, os.Link(filepath.Join(data, "key"), filepath.Join(dir, "second")))
	s := New(Config{Dir: filepath.Join(data, "workspaces"), Apart: filepath.Join(dir, "alias")})
	create := func(pid agentkernel.PID, stdin string) error { return s.Create(pid, &agentkernel.Spec{Stdin: stdin}) }
	must(t, create(1, filepath.Join(dir, "harmless")))

	_, database := openDescriptor(t, filepath.Join(data, "kernel.db"), os.O_RDWR)
	unlinked, plain := openDescriptor(t, filepath.Join(data, "plain"), os.O_RDONLY)
	must(t, os.Remove(unlinked.Name()))
	named, spoolWithName := openDescriptor(t, filepath.Join(data, Spool+"1"), os.O_RDWR|os.O_CREATE)
	_, err := named.WriteString("gathered")
	must(t, err)
	for name, path := range map[string]string{
		"by its path": filepath.Join(data, "kernel.db"), "below": filepath.Join(data, "blobs/b"), "by another path": filepath.Join(dir, "alias/key"),
		"by dots": filepath.Join(dir, "harmless/../data/key"), "by a link": filepath.Join(dir, "link"), "by a hard link": filepath.Join(dir, "second"),
		"by a descriptor": database, "unlinked": plain, "the input of another": s.path(1) + "/" + stdinFile,
		"a spool that has a name": filepath.Join(data, Spool+"1"), "its descriptor": spoolWithName,
	} {
		if name == "by dots" {
			path = filepath.Join(dir, "data/blobs") + "/../key"
		}
		err := create(2, path)
		if agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(s.path(2)); !os.IsNotExist(err) {
			t.Errorf("%s: something is left: %v", name, err)
		}
	}
	must(t, os.Remove(named.Name()))
	must(t, create(2, spoolWithName))
	kept, err := s.Stdin(2)
	must(t, err)
	if text, err := os.ReadFile(kept); err != nil || string(text) != "gathered" {
		t.Errorf("kept %q %v", text, err)
	}
}

// TestTamperedStdin: nobody is handed an input that is not what the process began with.
func TestTamperedStdin(t *testing.T) {
	dir := publicDir(t)
	in := filepath.Join(dir, "in")
	must(t, os.WriteFile(in, []byte("12345"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
	s := New(Config{Dir: filepath.Join(dir, "data/workspaces"), Apart: filepath.Join(dir, "data")})
	for name, tamper := range map[string]func(path string) error{
		"other bytes": func(path string) error {
			was, err := os.Stat(path)
			must(t, err)
			must(t, os.Chmod(path, 0o600))
			must(t, os.WriteFile(path, []byte("54321"), 0o600))
			must(t, os.Chtimes(path, was.ModTime(), was.ModTime()))
			return os.Chmod(path, 0o400)
		},
		"more bytes": func(path string) error { must(t, os.Chmod(path, 0o600)); return os.Truncate(path, 100) },
		"another file": func(path string) error {
			must(t, os.Remove(path))
			return os.WriteFile(path, []byte("12345"), 0o400)
		},
	} {
		must(t, s.Create(1, &agentkernel.Spec{Stdin: in}))
		path, err := s.Stdin(1)
		must(t, err)
		must(t, tamper(path))
		_, err = s.Stdin(1)
		wantCode(t, err, agentkernel.CodeConflict, "was changed since the process was created")
		err = s.Create(2, &agentkernel.Spec{Stdin: in, Past: &agentkernel.Past{PID: 1}})
		if agentkernel.CodeOf(err) != agentkernel.CodeConflict {
			t.Errorf("%s: a rerun: %v", name, err)
		}
	}
	// What the file that was named becomes afterwards is of no account.
	must(t, s.Create(1, &agentkernel.Spec{Stdin: in}))
	must(t, os.Remove(in))
	must(t, s.Create(2, &agentkernel.Spec{Stdin: in, Past: &agentkernel.Past{PID: 1}}))
	path, err := s.Stdin(2)
	must(t, err)
	if text, err := os.ReadFile(path); err != nil || string(text) != "12345" {
		t.Errorf("the rerun has %q %v", text, err)
	}
}
