package e2e_test

import (
	"strings"
	"testing"

	"agentkernel"
)

// TestPauseOfABusyProgram: a program that computes and makes no call is paused at once. It can be killed then, and goes on
// when it is resumed, also by another kernel than the one in which it was paused.
func TestPauseOfABusyProgram(t *testing.T) {
	t.Setenv(envSandboxes, systemPython(t))
	const source = `
from kernel import state
print("begin", state.get("k"))
n = 0
while n < 4000000:
    n += 1
print("counted", n)
`
	for _, backend := range []string{"monty", "process"} {
		t.Run(backend, func(t *testing.T) {
			dir := home(t)
			v := startVictim(t, dir)
			k := v.client(t, dir)
			busy := func() agentkernel.PID {
				s := program(source)
				s.Backend = backend
				p, err := k.Spawn(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				eventually(t, "it computes", func() bool { return strings.Contains(logOf(t, k, p.PID), "begin") })
				if err := k.Signal(t.Context(), p.PID, agentkernel.SignalPause); err != nil {
					t.Fatal(err)
				}
				if got, err := k.Wait(t.Context(), p.PID); err != nil || !got.Paused {
					t.Fatalf("it is not paused: %+v %v", got, err)
				}
				return p.PID
			}
			ends := func(pid agentkernel.PID, want agentkernel.State, text string) {
				t.Helper()
				end, err := k.Wait(t.Context(), pid)
				if out := logOf(t, k, pid); err != nil || end.State != want || out != text {
					t.Errorf("it ended as %s: %v %v, printed %q", end.State, end.Error, err, out)
				}
			}
			signal := func(pid agentkernel.PID, sig agentkernel.Signal) {
				t.Helper()
				if err := k.Signal(t.Context(), pid, sig); err != nil {
					t.Fatal(err)
				}
			}
			killed, resumed, survivor := busy(), busy(), busy()
			signal(killed, agentkernel.SignalKill)
			ends(killed, agentkernel.StateKilled, "begin None\n")
			signal(resumed, agentkernel.SignalResume)
			ends(resumed, agentkernel.StateExited, "begin None\ncounted 4000000\n")
			v.kill()
			v = startVictim(t, dir)
			k = v.client(t, dir)
			if got, err := k.Process(t.Context(), survivor); err != nil || !got.Paused || got.State.Terminal() {
				t.Fatalf("after the death of its kernel: %+v %v", got, err)
			}
			signal(survivor, agentkernel.SignalResume)
			ends(survivor, agentkernel.StateExited, "begin None\ncounted 4000000\n")
		})
	}
}

// logOf is what a process has printed.
func logOf(t *testing.T, k agentkernel.Kernel, pid agentkernel.PID) string {
	t.Helper()
	var out strings.Builder
	if err := k.Events(t.Context(), pid, 1, false, func(ev agentkernel.Event) error { out.WriteString(ev.Text); return nil }); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
