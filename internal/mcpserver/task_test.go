package mcpserver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

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
	away                    int // questions that nobody answers after a death
	silent                  int // of them, those that are left
	gone                    bool
	ends                    bool
}

var errNoKernel = agentkernel.Errorf(agentkernel.CodeUnavailable, "attach", "the kernel is ending")

func (k *dying) Process(context.Context, agentkernel.PID) (agentkernel.Process, error) {
	if k.silent > 0 {
		k.silent--
		return agentkernel.Process{}, errNoKernel
	}
	p := agentkernel.Process{PID: 3, Name: "<task>", State: agentkernel.StateRunning, Recoveries: k.recovers}
	switch {
	case k.gone:
		p.State = agentkernel.StateUnfinished
	case k.ends:
		p.State = agentkernel.StateExited
	}
	return p, nil
}

func (k *dying) Events(context.Context, agentkernel.PID, int64, bool, func(agentkernel.Event) error) error {
	return nil
}

func (k *dying) Recover(context.Context, agentkernel.PID) ([]agentkernel.Process, error) {
	k.recovers++
	k.gone = false
	return nil, nil
}

func (k *dying) Wait(ctx context.Context, _ agentkernel.PID) (agentkernel.Process, error) {
	if k.waits++; k.waits <= k.deaths {
		k.gone, k.silent = true, k.away
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

// A task goes on with the next kernel if its own dies while somebody waits, however long that one takes to come, and nobody is
// kept longer than they wanted. What no kernel runs is unfinished, and no error.
func TestAwaitATask(t *testing.T) {
	for _, c := range []struct {
		deaths, away int
		timeout      float64
		want         string
		recovers     int
	}{
		{0, 0, 60, "completed", 0},
		{1, 0, 60, "completed", 1},
		{2, 0, 60, "completed", 2},
		{1, 20, 60, "completed", 1},
		{2, 20, 60, "completed", 2},
		{1, 8, 2, "unfinished", 0}, // the next kernel comes later than that
		{-1, 0, 0, "running", 0},
		{-1, 0, 0.001, "running", 0},
		{1000, 0, 60, "unfinished", maxKernels},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := &dying{deaths: c.deaths, away: c.away}
			h := &server{cfg: Config{Now: time.Now, Kernel: k}}
			call := &call{h: h, req: &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{}}, client: &client{}}
			s, err := waitForTask(t.Context(), call, waitInput{TaskID: "3", Timeout: &c.timeout})
			if err != nil || s.Status != c.want || k.recovers != c.recovers {
				t.Errorf("%+v: %+v, %v, %d recoveries", c, s, err, k.recovers)
			}
		})
	}
}

// What a task is can be known again as soon as there is a kernel.
func TestStatusWhileKernelsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &dying{silent: 5, gone: true}
		call := &call{h: &server{cfg: Config{Now: time.Now, Kernel: k}}, client: &client{}}
		if s, err := taskStatus(t.Context(), call, taskID{TaskID: "3"}); err != nil || s.Status != "unfinished" {
			t.Errorf("%+v %v", s, err)
		}
		k.silent = 1000
		if _, err := taskStatus(t.Context(), call, taskID{TaskID: "3"}); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
			t.Errorf("without a kernel: %v", err)
		}
	})
}
