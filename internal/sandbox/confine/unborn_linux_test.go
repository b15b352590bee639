package confine

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// TestAKilledChildIsNotAForbiddingMachine: a child that was killed before it is let go is told from a machine that
// allows no namespaces, at each step that needs it.
func TestAKilledChildIsNotAForbiddingMachine(t *testing.T) {
	child := exec.Command("true")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	_ = r.Close() // nobody waits for the word to begin
	group := t.TempDir()
	if err := os.Mkdir(group+"/cgroup.procs", 0o755); err != nil {
		t.Fatal(err)
	}
	maps := &Maps{UID: []IDMap{{0, 0, 1}}, GID: []IDMap{{0, 0, 1}}}
	for name, c := range map[string]struct {
		plan   Plan
		unborn bool
	}{
		"its maps":               {Plan{Maps: maps}, true},
		"its start":              {Plan{}, true},
		"a cgroup that has gone": {Plan{Cgroups: []string{group + "/none"}}, false},
		"a cgroup that forbids":  {Plan{Cgroups: []string{group}}, false},
	} {
		err := release(&c.plan, child.Process.Pid, int(w.Fd()))
		if err == nil || errors.Is(err, errUnborn) != c.unborn {
			t.Errorf("%s: %v, unborn %v", name, err, c.unborn)
		}
	}
}

// TestAKilledChildIsMadeAgain: what was killed before it began is asked for again, also a whole program, but not for ever.
func TestAKilledChildIsMadeAgain(t *testing.T) {
	for times, want := range map[int]agentkernel.Code{1: agentkernel.CodeInternal, askTries - 1: agentkernel.CodeInternal, askTries: agentkernel.CodeUnavailable} {
		for _, again := range []bool{false, true} {
			s := newSpawner(t)
			asked := fakeSpawner(t, s, times)
			// The fake ends each start that it accepts with another error: that one is not tried again.
			_, err := s.ask(t.Context(), request{Plan: &Plan{}}, nil, again)
			if agentkernel.CodeOf(err) != want || *asked != min(times+1, askTries) {
				t.Errorf("%d children killed, again %v: asked %d times, %v, want %q", times, again, *asked, err, want)
			}
		}
	}
}

// fakeSpawner puts a spawner in place whose first children are killed before they are let go. What comes after them
// fails for a reason of its own. The number is how often it was asked; it may be read after the last answer.
func fakeSpawner(t *testing.T, s *Spawner, killed int) *int {
	t.Helper()
	ours, theirs, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		t.Fatal(err)
	}
	end := func(fd int) *wire {
		f := os.NewFile(uintptr(fd), "wire") //nolint:gosec // a descriptor
		w, err := newWire(f)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		return w
	}
	cmd := exec.Command("sleep", "1000") // what is killed and waited for at the end
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &helper{cmd: cmd, launch: plain{}, wire: end(ours), gone: make(chan struct{}), waiting: map[uint64]chan reply{}}
	far, asked := end(theirs), 0
	go h.listen()
	go func() {
		defer func() { _ = far.conn.Close() }()
		for {
			var r request
			if _, err := far.receive(&r); err != nil {
				return
			}
			asked++
			a := answer{ID: r.ID, Unborn: asked <= killed, Error: agentkernel.Errorf(agentkernel.CodeInternal, op, "of the fake")}
			if far.send(a, nil) != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = far.conn.Close(); <-h.gone })
	s.helper = h
	return &asked
}

// TestAShortageCrossesTheWire: what was short in the spawner is known in the kernel.
func TestAShortageCrossesTheWire(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		passing bool
	}{
		"descriptors": {agentkernel.Errorf(agentkernel.CodeUnavailable, op, "pipe2: %w", unix.EMFILE), true},
		"killed":      {errUnborn, true},
		"forbidden":   {forbidden(unix.EPERM), false},
	} {
		b, err := refusal(1, c.err).encode()
		if err != nil {
			t.Fatal(err)
		}
		var a answer
		if err := a.decode(b); err != nil {
			t.Fatal(err)
		}
		if got := a.err(); Passing(got) != c.passing || got.Error() != agentkernel.AsError(c.err, "", op).Error() {
			t.Errorf("%s: %v, passing %v", name, got, Passing(got))
		}
	}
	e := WithShortage(agentkernel.AsError(answer{Error: agentkernel.Errorf("", "", "x"), Short: unix.EMFILE}.err(), "", ""))
	if !strings.Contains(e.Hint, "ulimit -n") {
		t.Error(e.Hint)
	}
}
