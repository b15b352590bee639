package e2e_test

import (
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/tool/tooltest"
)

// TestNoProgress: programs of both backends that catch what they are answered, and make the same call again, are paused; that holds
// over the death of the kernel. One that sleeps in between is left alone.
func TestNoProgress(t *testing.T) {
	t.Setenv(envSandboxes, systemPython(t))
	const stuck = `
from kernel import sleep
from tools.lines import append_line
for n in range(60):
    try:
        append_line(path="/nowhere/at/all", text="line")
    except RuntimeError:
        pass
    if POLLS:
        sleep(0.001)
print("done")
`
	dir := home(t)
	cfg := tooltest.Config(t, map[string]tooltest.Server{"lines": tooltest.Stdio(t)})
	v := startVictim(t, dir)
	k := v.client(t, dir)
	spawn := func(backend, polls string) agentkernel.PID {
		s := program(strings.Replace(stuck, "POLLS", polls, 1))
		s.Backend, s.Tools, s.Allow = backend, []string{cfg}, []string{"lines.*"}
		p, err := k.Spawn(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return p.PID
	}
	for _, backend := range []string{"monty", "process"} {
		if p, err := k.Wait(t.Context(), spawn(backend, "True")); err != nil || p.State != agentkernel.StateExited {
			t.Errorf("%s polls: %+v %v", backend, p, err)
		}
	}
	pids := []agentkernel.PID{spawn("monty", "False"), spawn("process", "False")}
	paused := func() {
		t.Helper()
		for _, pid := range pids {
			p, err := k.Wait(t.Context(), pid)
			if want := "no progress: lines.append_line was made 50 times in a row"; err != nil || !p.Paused || !strings.Contains(p.PauseNote, want) {
				t.Errorf("%v %q, want %q", err, p.PauseNote, want)
			}
			if p.Usage.ToolCalls != 50 {
				t.Errorf("%d calls were made", p.Usage.ToolCalls)
			}
		}
	}
	paused()
	v.kill()
	v = startVictim(t, dir)
	k = v.client(t, dir)
	if _, err := k.Recover(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	paused()
	for _, pid := range pids {
		if err := k.Signal(t.Context(), pid, agentkernel.SignalResume); err != nil {
			t.Fatal(err)
		}
		if p, err := k.Wait(t.Context(), pid); err != nil || p.State != agentkernel.StateExited || logOf(t, k, pid) != "done\n" || p.Usage.ToolCalls != 60 {
			t.Errorf("%+v %v", p, err)
		}
	}
}
