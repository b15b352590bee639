package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"agentkernel"
)

// TestRecoveredText: what was paused before its kernel died stays so, and must not be said to go on.
func TestRecoveredText(t *testing.T) {
	running, paused := agentkernel.Process{PID: 1}, agentkernel.Process{PID: 2, Paused: true}
	gone := agentkernel.Process{PID: 3, Paused: true, PauseNote: `the tools of server "host" ` + agentkernel.OfProgram}
	for _, c := range []struct {
		list []agentkernel.Process
		want string
	}{
		{nil, "nothing is left to recover"},
		{[]agentkernel.Process{running}, "1 process goes on"},
		{[]agentkernel.Process{running, running}, "2 processes go on"},
		{[]agentkernel.Process{paused}, "1 stays paused: agentkernel resume 2"},
		{[]agentkernel.Process{gone, running}, "1 process goes on, 1 paused, whose tools are functions of a program that has ended: agentkernel kill 3 ends them, resume lets them go on without"},
		{[]agentkernel.Process{paused, running, paused}, "1 process goes on, 2 stay paused: agentkernel resume 2 2"},
		{[]agentkernel.Process{running, {PID: 4, Halted: "the kernel"}}, "1 process goes on, 1 stands still, since the kernel is halted: agentkernel ps says how it goes on"},
		{[]agentkernel.Process{{PID: 4, Halted: "the kernel"}, {PID: 5, Halted: "the namespace a"}},
			"2 stand still, since the kernel, and the namespace a is halted: agentkernel ps says how it goes on"},
	} {
		if got := recoveredText(c.list); got != c.want {
			t.Errorf("recoveredText(%d) = %q; want %q", len(c.list), got, c.want)
		}
	}
	well := agentkernel.Process{PID: 6, State: agentkernel.StateExited}
	if got := endedText(&well); got != "process 6 has ended" {
		t.Errorf("of one that ended well: %q", got)
	}
}

// Of many processes the first are named, and how many there are.
func TestRecoveredTextIsBounded(t *testing.T) {
	var list []agentkernel.Process
	for pid := range agentkernel.PID(1000) {
		list = append(list, agentkernel.Process{PID: pid + 1, Paused: true})
	}
	if got := recoveredText(list); len(got) > 500 || !strings.HasPrefix(got, "1000 stay paused: agentkernel resume 1 2 ") || !strings.HasSuffix(got, " 50 (and 950 more: agentkernel ps)") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// leftKernel recovers what it is told, and waits for nothing.
type leftKernel struct {
	*fakeKernel
	list []agentkernel.Process
}

func (k *leftKernel) Recover(context.Context, agentkernel.PID) ([]agentkernel.Process, error) {
	return k.list, nil
}

func (k *leftKernel) Wait(_ context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	i := slices.IndexFunc(k.list, func(p agentkernel.Process) bool { return p.PID == pid })
	return k.list[i], nil
}

// TestRecoverNamesWhatEnded: a process that fails while it is taken up is told of, and decides the exit code.
func TestRecoverNamesWhatEnded(t *testing.T) {
	failed := agentkernel.Process{PID: 7, State: agentkernel.StateFailed, ExitCode: 69,
		Error: agentkernel.Errorf(agentkernel.CodeUnavailable, "recover", "backend x is not there any more")}
	for _, args := range [][]string{{"recover"}, {"recover", "7"}, {"recover", "7", "--wait"}, {"recover", "7", "--wait", "--json"}} {
		r := newRig(t)
		r.any = &leftKernel{r.kernel, []agentkernel.Process{failed}}
		code := r.run(args...)
		if text := r.err.String() + r.out.String(); code != 69 || strings.Contains(text, "nothing is left") || strings.Contains(text, "goes on") ||
			!strings.Contains(text, "backend x is not there any more") {
			t.Errorf("%v: exit code %d: %s", args, code, text)
		}
	}
}

// TestRecoverNamesWhatIsLeft: a process that could not be taken up is named, and the exit code says so, whatever else goes on.
func TestRecoverNamesWhatIsLeft(t *testing.T) {
	left := agentkernel.Process{PID: 7, State: agentkernel.StateUnfinished, Paused: true, PauseNote: "a blob is missing",
		Error: agentkernel.Errorf(agentkernel.CodeCorrupt, "blob", "a blob is missing")}
	for said, list := range map[string][]agentkernel.Process{"": {left}, "1 process goes on": {left, {PID: 8, State: agentkernel.StateReady}}} {
		r := newRig(t)
		r.any = &leftKernel{r.kernel, list}
		code := r.run("recover")
		if text := r.err.String(); code != 74 || strings.Contains(text, "nothing is left") || !strings.Contains(text, said) {
			t.Errorf("exit code %d: %s", code, text)
		}
		contains(t, "recover", r.err.String(), "process 7 cannot be taken up: a blob is missing")
	}
}

// sessionKernel recovers a session, whose end nobody should wait for.
type sessionKernel struct {
	leftKernel
	t *testing.T
}

func (k *sessionKernel) Spec(_ context.Context, pid agentkernel.PID) (agentkernel.Spec, error) {
	return agentkernel.Spec{Program: agentkernel.Program{Session: pid == 7}}, nil
}

func (k *sessionKernel) Wait(ctx context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	if pid == 7 {
		k.t.Error("the session was waited for")
	}
	return k.leftKernel.Wait(ctx, pid)
}

// TestRecoverWaitsForNoSession: one goes on as long as a client may come back, for hours.
func TestRecoverWaitsForNoSession(t *testing.T) {
	r := newRig(t)
	list := []agentkernel.Process{{PID: 7, State: agentkernel.StateWaiting}, {PID: 8, State: agentkernel.StateExited}}
	r.any = &sessionKernel{leftKernel{r.kernel, list}, t}
	if code := r.run("recover", "--wait"); code != 0 {
		t.Errorf("exit code %d: %s", code, r.err.String())
	}
	contains(t, "recover", r.err.String(), "process 7 is a session", "agentkernel kill 7 ends it")
}
