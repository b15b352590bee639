package mcpserver

import (
	"context"
	"testing"
	"time"

	"agentkernel"
)

func TestCodeBetweenFences(t *testing.T) {
	for code, want := range map[string]string{
		"print(1)\n":                            "print(1)\n",
		"```python\nprint(1)\nprint(2)\n```":    "print(1)\nprint(2)\n",
		"\n ```py\nprint(1)\n```\nThat's it.\n": "print(1)\n",
		"s = '''\n```\nx\n```\n'''\n":           "s = '''\n```\nx\n```\n'''\n",
		"```":                                   "```",
	} {
		if got := unwrapped(code); got != want {
			t.Errorf("%q: %q, want %q", code, got, want)
		}
	}
}

// What a client is told of a task, and nothing else.
func TestStatusOfATask(t *testing.T) {
	killed := agentkernel.Errorf(agentkernel.CodeKilled, "kill", "x")
	limit := agentkernel.Errorf(agentkernel.CodeLimit, "limit", "x")
	for _, c := range []struct {
		p    agentkernel.Process
		want string
	}{
		{agentkernel.Process{State: agentkernel.StateReady}, "running"},
		{agentkernel.Process{State: agentkernel.StateRunning}, "running"},
		{agentkernel.Process{State: agentkernel.StateWaiting}, "running"},
		{agentkernel.Process{State: agentkernel.StateWaiting, Paused: true}, "paused"},
		{agentkernel.Process{State: agentkernel.StateUnfinished}, "unfinished"},
		{agentkernel.Process{State: agentkernel.StateExited}, "completed"},
		{agentkernel.Process{State: agentkernel.StateExited, ExitCode: 3}, "failed"},
		{agentkernel.Process{State: agentkernel.StateFailed, ExitCode: 1}, "failed"},
		{agentkernel.Process{State: agentkernel.StateKilled, Error: limit}, "failed"},
		{agentkernel.Process{State: agentkernel.StateKilled, Error: killed}, "cancelled"},
	} {
		h := &server{cfg: Config{Now: time.Now}}
		if got := (&call{h: h}).state(c.p).Status; got != c.want {
			t.Errorf("%s, paused %t, exit code %d: %s, not %s", c.p.State, c.p.Paused, c.p.ExitCode, got, c.want)
		}
	}
}

// dying is a kernel whose process dies with it so often; the next one continues it.
type dying struct {
	agentkernel.Kernel
	deaths, waits, recovers int
	gone                    bool
	ends                    bool
}

func (k *dying) Process(context.Context, agentkernel.PID) (agentkernel.Process, error) {
	p := agentkernel.Process{PID: 3, State: agentkernel.StateRunning}
	switch {
	case k.gone:
		p.State = agentkernel.StateUnfinished
	case k.ends:
		p.State = agentkernel.StateExited
	}
	return p, nil
}

func (k *dying) Recover(context.Context, agentkernel.PID) ([]agentkernel.Process, error) {
	k.recovers++
	k.gone = false
	return nil, nil
}

func (k *dying) Wait(ctx context.Context, _ agentkernel.PID) (agentkernel.Process, error) {
	if k.waits++; k.waits <= k.deaths {
		k.gone = true
		if k.waits%2 == 1 { // as the next kernel answers
			return agentkernel.Process{}, agentkernel.Errorf(agentkernel.CodeConflict, "wait", "process 3 is unfinished: no kernel runs it")
		}
		return agentkernel.Process{}, agentkernel.Errorf(agentkernel.CodeUnavailable, agentkernel.OpKernel, "the kernel went away before it answered")
	}
	if k.deaths < 0 {
		<-ctx.Done()
		return agentkernel.Process{}, context.Cause(ctx)
	}
	k.ends = true
	return agentkernel.Process{}, nil
}

// A task goes on with the next kernel if its own dies while somebody waits, and nobody is kept longer than they wanted.
func TestAwaitATask(t *testing.T) {
	running := agentkernel.Process{PID: 3, State: agentkernel.StateRunning}
	for _, c := range []struct {
		deaths   int
		timeout  time.Duration
		want     agentkernel.State
		recovers int
	}{
		{0, time.Minute, agentkernel.StateExited, 0},
		{1, time.Minute, agentkernel.StateExited, 1},
		{2, time.Minute, agentkernel.StateExited, 2},
		{-1, 0, agentkernel.StateRunning, 0},
		{-1, time.Millisecond, agentkernel.StateRunning, 0},
	} {
		k := &dying{deaths: c.deaths}
		call := &call{h: &server{cfg: Config{Now: time.Now, Kernel: k}}, client: &client{}}
		p, err := call.awaitTask(t.Context(), running, c.timeout)
		if err != nil || p.State != c.want || k.recovers != c.recovers {
			t.Errorf("%d deaths, %s: %s, %v, %d recoveries", c.deaths, c.timeout, p.State, err, k.recovers)
		}
	}
	k := &dying{deaths: 1000}
	call := &call{h: &server{cfg: Config{Now: time.Now, Kernel: k}}, client: &client{}}
	if _, err := call.awaitTask(t.Context(), running, time.Minute); agentkernel.CodeOf(err) != agentkernel.CodeConflict || k.waits != maxKernels {
		t.Errorf("a kernel that always dies: %v after %d", err, k.waits)
	}
}
