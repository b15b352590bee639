package confine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// TestBareRootHoldsTheRuntimeAlone runs a program of the system with nothing but its libraries; what a program can do
// from there is tried by the Monty backend's TestHostileEngine.
func TestBareRootHoldsTheRuntimeAlone(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		s := newSpawner(t)
		mounts, err := RuntimeOf("/bin/cat")
		if err != nil {
			t.Fatal(err)
		}
		if len(mounts) < 2 || len(mounts) > 10 {
			t.Errorf("%+v", mounts)
		}
		mounts[0].Target = "/cat"
		r := launchWhole(t, s, Config{Kind: Bare, Runtime: mounts, Limits: Limits{Memory: 64 << 20},
			Program: Program{Path: "/cat", Args: []string{"cat", "/etc/passwd", "/proc/self/status", "/dev/null", "/tmp", "/bin/cat", "/cat"}, Env: []string{}}})
		if pid := r.ProgramPID(); pid == r.PID() {
			t.Errorf("the program is its own init: %d", pid)
		}
		e := r.finish(t)
		if !strings.HasPrefix(r.out.String(), "\x7fELF") || strings.Count(r.err.String(), "No such file") != 5 || e.String() != "exit 1" {
			t.Errorf("%s: %d bytes; %s", e, len(r.out.String()), r.err)
		}
		for _, w := range r.Walls() {
			if !w.On && w.Name != wallLandlock {
				t.Errorf("%+v", w)
			}
		}
	})
}

func TestBareFilterAllowsWhatItLists(t *testing.T) {
	filter := filterFor(Bare, ProfileGeneric, true)
	allowed := slices.Concat(bareCalls, bareLegacy, bareChecked)
	for nr := range uint32(newestCall + 200) {
		want := refuse(unix.EPERM)
		switch {
		case slices.Contains(allowed, nr):
			want = allow
		case impossible[nr] != 0:
			want = impossible[nr]
		case nr > newestCall:
			want = refuse(unix.ENOSYS)
		}
		if got := judge(t, filter, auditArch, nr); got != want {
			t.Errorf("call %d: %#x, want %#x", nr, got, want)
		}
	}
	for _, nr := range []uint32{unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_CLONE, unix.SYS_KILL, unix.SYS_GETDENTS64, unix.SYS_SENDMSG,
		unix.SYS_MEMFD_CREATE, unix.SYS_PTRACE, unix.SYS_PRCTL, unix.SYS_IOCTL} {
		if slices.Contains(allowed, nr) {
			t.Errorf("call %d has no place here", nr)
		}
	}
}

func TestRuntimeOf(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := RuntimeOf(text); agentkernel.CodeOf(err) != agentkernel.CodeUnsupported {
		t.Errorf("a script: %v", err)
	}
	if _, err := RuntimeOf(filepath.Join(dir, "nothing")); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("nothing: %v", err)
	}
	tiny := tinyProgram(t, dir)
	if mounts, err := RuntimeOf(tiny); err != nil || len(mounts) != 1 {
		t.Errorf("a static program: %+v %v", mounts, err)
	}
	cfg := Config{Kind: Bare, Workspace: &Workspace{Source: dir}, Program: Program{Path: "/tiny", Args: []string{"tiny"}}}
	if err := cfg.Validate(); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
		t.Errorf("a bare sandbox with a workspace: %v", err)
	}
}
