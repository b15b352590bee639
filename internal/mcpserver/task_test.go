package mcpserver

import (
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
