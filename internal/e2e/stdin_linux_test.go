package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentkernel"
)

// tamperer does to the file that it was given as its standard input whatever a program can do.
const tamperer = `
import os, sys
def attempt(f):
    try:
        f()
        return "done"
    except OSError as e:
        return type(e).__name__
did = [attempt(lambda: os.fchmod(0, 0o600)), attempt(lambda: os.write(0, b"XXXXX")), attempt(lambda: os.ftruncate(0, 1)),
       attempt(lambda: open("/proc/self/fd/0", "r+b").write(b"XXXXX")), attempt(lambda: os.utime(0, (1, 1)))]
print(sys.stdin.read())
`

// TestProgramThatTampersWithItsInput: a rerun reads what the first run read, or is refused.
func TestProgramThatTampersWithItsInput(t *testing.T) {
	asBoth(t, func(t *testing.T) {
		k := openEmbedded(t, home(t), withSandboxes(t))
		in := filepath.Join(folder(t, map[string]string{"in": "12345"}), "in")
		s := program(tamperer)
		s.Stdin = in
		p := run(t, k, s)
		if p.State != agentkernel.StateExited || p.stdout != "12345\n" {
			t.Fatalf("%+v %q %q", p.Process, p.stdout, p.stderr)
		}
		s.Past = &agentkernel.Past{PID: p.PID}
		switch q, err := tryRun(t.Context(), k, s); {
		case err == nil && q.stdout != "12345\n":
			t.Errorf("the rerun read %q", q.stdout)
		case err != nil && agentkernel.CodeOf(err) != agentkernel.CodeConflict:
			t.Error(err)
		}
		if text, err := os.ReadFile(in); err != nil || string(text) != "12345" {
			t.Errorf("the file itself is %q %v", text, err)
		}
	})
}

const readsAll = `
import hashlib, sys
h, n = hashlib.sha256(), 0
while b := sys.stdin.buffer.read(1 << 20):
    h.update(b)
    n += len(b)
print(n, h.hexdigest()[:8])
`

// TestAGigabyteOfInput passes through the kernel's copy into the program, and the kernel's memory does not notice.
func TestAGigabyteOfInput(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a gigabyte")
	}
	const size = 1 << 30
	path := filepath.Join(folder(t, nil), "big.in")
	big, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = big.WriteAt([]byte("somewhere"), size/2)
	if err := errors.Join(err, big.Truncate(size), big.Close()); err != nil {
		t.Fatal(err)
	}
	k := openClient(t, home(t), withSandboxes(t))
	s := program(readsAll)
	s.Stdin, s.Limits.Time, s.Limits.Memory = path, agentkernel.Duration(10*time.Minute), 128<<20
	peak := watchHeap(t)
	p := run(t, k, s)
	if want := fmt.Sprintf("%d ", size); p.State != agentkernel.StateExited || len(p.stdout) < len(want) || p.stdout[:len(want)] != want {
		t.Fatalf("%+v %q %q", p.Process, p.stdout, p.stderr)
	}
	if grown := peak(); grown > 64<<20 {
		t.Errorf("the kernel's heap grew by %d MiB", grown>>20)
	}
	s.Limits.Disk = size - 1
	if _, err := k.Spawn(t.Context(), s); agentkernel.CodeOf(err) != agentkernel.CodeLimit {
		t.Errorf("a byte more than the limit: %v", err)
	}
}
