package e2e_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

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

// TestPauseOfATree: with a process everything that it has started is paused, within 100 ms also what computes, and goes on
// with it: but for a child that was paused by itself. The death of the kernel changes nothing of that.
func TestPauseOfATree(t *testing.T) {
	t.Setenv(envSandboxes, systemPython(t))
	const busy = `
i = 0
while True:
    n = 0
    while n < 30000:
        n += 1
    i += 1
    print(i)
`
	for _, backend := range []string{"monty", "process"} {
		t.Run(backend, func(t *testing.T) {
			dir := home(t)
			v := startVictim(t, dir)
			k := v.client(t, dir)
			s := program("from kernel import spawn, wait\npids = [spawn(" + strconv.Quote(busy) + ") for _ in range(3)]\nwait(pids[0])\n")
			s.Backend = backend
			root, err := k.Spawn(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			children := []agentkernel.PID{root.PID + 1, root.PID + 2, root.PID + 3}
			printed := func() (n [3]int) {
				for i, pid := range children {
					n[i] = strings.Count(logOf(t, k, pid), "\n")
				}
				return n
			}
			going := func(want ...bool) {
				t.Helper()
				var from [3]int
				eventually(t, "all are there", func() bool {
					list, err := k.List(t.Context(), agentkernel.Filter{Parent: root.PID})
					return err == nil && len(list) == len(children)
				})
				from = printed()
				eventually(t, "those that are not paused compute", func() bool {
					now := printed()
					for i, w := range want {
						if w && now[i] <= from[i]+1 {
							return false
						}
					}
					return true
				})
				for i, now := range printed() {
					if !want[i] && now != from[i] {
						t.Errorf("process %d goes on", children[i])
					}
				}
			}
			signal := func(pid agentkernel.PID, sig agentkernel.Signal) {
				t.Helper()
				if err := k.Signal(t.Context(), pid, sig); err != nil {
					t.Fatal(err)
				}
			}
			stands := func() {
				t.Helper()
				<-time.After(100 * time.Millisecond) // the bound that is promised
				from := printed()
				<-time.After(200 * time.Millisecond)
				if now := printed(); now != from {
					t.Errorf("after the pause they went on from %v to %v", from, now)
				}
			}
			going(true, true, true)
			signal(children[1], agentkernel.SignalPause)
			<-time.After(100 * time.Millisecond)
			going(true, false, true)
			signal(root.PID, agentkernel.SignalPause)
			stands()
			signal(root.PID, agentkernel.SignalResume)
			going(true, false, true)
			signal(root.PID, agentkernel.SignalPause)
			v.kill()
			v = startVictim(t, dir)
			k = v.client(t, dir)
			if _, err := k.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			stands()
			signal(root.PID, agentkernel.SignalResume)
			going(true, false, true)
			signal(children[1], agentkernel.SignalResume)
			going(true, true, true)
			signal(root.PID, agentkernel.SignalKill)
		})
	}
}
