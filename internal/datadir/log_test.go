package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentkernel"
)

// logLines reads a log with its older files, oldest line first.
func logLines(t *testing.T, path string, keep int) []string {
	t.Helper()
	var all []byte
	for n := keep; n >= 0; n-- {
		b, err := os.ReadFile(numbered(path, n))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return strings.Split(strings.TrimSuffix(string(all), "\n"), "\n")
}

func line(n int) []byte { return fmt.Appendf(nil, "line %04d\n", n) } // 10 bytes

func TestALogMakesRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kernel.log")
	l := NewLog(LogConfig{Path: path, Size: 100, Keep: 2})
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("a log without lines is a file")
	}
	for n := range 35 {
		if _, err := l.Write(line(n)); err != nil {
			t.Fatal(err)
		}
	}
	got := logLines(t, path, 9)
	if len(got) != 25 || got[0] != "line 0010" || got[24] != "line 0034" {
		t.Errorf("%d lines from %s to %s", len(got), got[0], got[len(got)-1])
	}
	names, err := filepath.Glob(path + "*")
	if err != nil || len(names) != 3 {
		t.Errorf("files: %q, %v", names, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	long := append(bytes.Repeat([]byte("x"), 500), '\n')
	if _, err := l.Write(long); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, long) {
		t.Errorf("a line that is longer than a file may be: %d bytes, %v", len(b), err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Write(line(1)); err != nil {
		t.Errorf("after Close: %v", err)
	}
	_ = l.Close() // the file is not read any more
}

func TestALogThatSomebodyRemoves(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kernel.log")
	l := NewLog(LogConfig{Path: path})
	for _, take := range []func() error{func() error { return os.Remove(path) }, func() error { return os.Rename(path, path+".old") }} {
		if _, err := l.Write(line(1)); err != nil {
			t.Fatal(err)
		}
		if err := take(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Write(line(2)); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != string(line(2)) {
			t.Errorf("%q, %v", b, err)
		}
	}
	_ = l.Close() // the file is not read any more
}

// TestManyWritersOfOneLog: no line is lost, none is cut, whoever rotates.
func TestManyWritersOfOneLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kernel.log")
	const writers, lines = 8, 200
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			l := NewLog(LogConfig{Path: path, Size: 1000, Keep: 400}) // as another process has it
			defer func() { _ = l.Close() }()
			for n := range lines {
				if _, err := l.Write(line(w*lines + n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	got := logLines(t, path, 400)
	slices.Sort(got)
	for n := range writers * lines {
		if n >= len(got) || got[n]+"\n" != string(line(n)) {
			t.Fatalf("%d lines; where line %d should be is %q", len(got), n, got[min(n, len(got)-1)])
		}
	}
	if len(got) != writers*lines {
		t.Errorf("%d lines, %d were written", len(got), writers*lines)
	}
}

// TestRotationBrokenOff: wherever a rename was the last thing that a killed process did, nothing is lost.
func TestRotationBrokenOff(t *testing.T) {
	for stop := range 4 {
		path := filepath.Join(t.TempDir(), "kernel.log")
		l := NewLog(LogConfig{Path: path, Size: 50, Keep: 9})
		for n := range 20 {
			if _, err := l.Write(line(n)); err != nil {
				t.Fatal(err)
			}
		}
		for n := 3; n > 3-stop; n-- { // as rotate begins
			if err := os.Rename(numbered(path, n), numbered(path, n+1)); err != nil {
				t.Fatal(err)
			}
		}
		next := NewLog(LogConfig{Path: path, Size: 50, Keep: 9})
		for n := 20; n < 40; n++ {
			if _, err := next.Write(line(n)); err != nil {
				t.Fatal(err)
			}
		}
		got := logLines(t, path, 12)
		if len(got) != 40 || !slices.IsSorted(got) {
			t.Errorf("after %d renames: %d lines, in order: %v", stop, len(got), slices.IsSorted(got))
		}
		_, _ = l.Close(), next.Close() // nothing is read from them any more
	}
}

// TestStandardStreamsFollowTheLog runs a process whose standard error is the log, as a background kernel's is.
func TestStandardStreamsFollowTheLog(t *testing.T) {
	if path := os.Getenv("LOG_OF_THIS_TEST"); path != "" {
		l := NewLog(LogConfig{Path: path, Size: 100, Keep: 2, Standard: true})
		for n := range 12 {
			if _, err := l.Write(line(n)); err != nil {
				panic(err)
			}
		}
		panic("the last words of a kernel")
	}
	path := filepath.Join(t.TempDir(), "kernel.log")
	cmd := exec.Command(os.Args[0], "-test.run=^TestStandardStreamsFollowTheLog$")
	cmd.Env = append(os.Environ(), "LOG_OF_THIS_TEST="+path)
	if err := cmd.Run(); err == nil {
		t.Fatal("the process did not die")
	}
	newest, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(newest), "line 0010\nline 0011\n") || !strings.Contains(string(newest), "the last words of a kernel") {
		t.Errorf("%v: %s", err, newest)
	}
}

func TestALogThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	_, err := NewLog(LogConfig{Path: filepath.Join(dir, "none", "kernel.log")}).Write(line(1))
	if e := agentkernel.AsError(err, "", ""); e == nil || e.Code != agentkernel.CodeStorage || !strings.Contains(e.Hint, "log.path") {
		t.Errorf("a directory that is not there: %#v", e)
	}
	if err := (LogConfig{Path: dir}).Check(); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
		t.Errorf("a directory: %v", err)
	}
}
