package e2e_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/tool/tooltest"
)

// untilInterrupted waits for longer than any test runs, and goes on when it is told to.
const untilInterrupted = "from kernel import sleep, KernelInterrupt\ntry:\n    sleep(3600)\nexcept KernelInterrupt:\n    pass\n"

func dispatch(t *testing.T, cs *mcp.ClientSession, code string) agentkernel.PID {
	t.Helper()
	pid, err := agentkernel.ParsePID(fmt.Sprint(tool(t, cs, "dispatch_background_task", args{"code": code}, "task ")["task_id"]))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// standing counts processes by how they stand.
func standing(t *testing.T, k agentkernel.Kernel) map[string]int {
	t.Helper()
	all, err := k.List(t.Context(), agentkernel.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, p := range all {
		n[string(p.State)]++
		if p.Resident {
			n["resident"]++
		}
		for _, op := range p.WaitsFor {
			n[op]++
		}
	}
	return n
}

func interruptAll(t *testing.T, k agentkernel.Kernel, pids []agentkernel.PID) {
	t.Helper()
	for _, pid := range pids {
		if err := k.Signal(t.Context(), pid, agentkernel.SignalInterrupt); err != nil {
			t.Fatal(err)
		}
	}
}

// Waiting takes no slot: with a single one, a hundred tasks wait at the same moment.
func TestMCPTasksThatWait(t *testing.T) {
	const tasks = 100
	k := openEmbedded(t, home(t), func(c *embedded.Config) { c.Slots = 1 })
	cs := connectMCP(t, mcpConfig(k, ""))
	var pids []agentkernel.PID
	for i := range tasks {
		pids = append(pids, dispatch(t, cs, untilInterrupted+fmt.Sprintf("%d * %d", i, i)))
	}
	eventually(t, "all tasks wait at once", func() bool { return standing(t, k)["time.sleep"] == tasks })
	interruptAll(t, k, pids)
	for i, pid := range pids {
		got := tool(t, cs, "wait_for_background_task", args{"task_id": pid.String()}, "completed")
		if got["result"] != float64(i*i) {
			t.Errorf("task %d: %v", i, got)
		}
	}
}

// Computing takes one: no more tasks compute than there are slots, the others wait for their turn, and a cancelled one
// gives its slot and its sandbox back before the answer.
func TestMCPTasksThatCompute(t *testing.T) {
	const tasks, slots = 6, 2
	k := openEmbedded(t, home(t), func(c *embedded.Config) { c.Slots = slots })
	cs := connectMCP(t, mcpConfig(k, ""))
	for range tasks {
		dispatch(t, cs, "while True:\n    pass")
	}
	for left := tasks; left > 0; left-- {
		running := min(left, slots)
		eventually(t, fmt.Sprintf("%d of %d tasks run", running, left), func() bool {
			n := standing(t, k)
			return n["running"] == running && n["ready"] == left-running
		})
		all, err := k.List(t.Context(), agentkernel.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if p.State == agentkernel.StateRunning {
				tool(t, cs, "cancel_background_task", args{"task_id": p.PID.String()}, "cancelled")
				if p, err = k.Process(t.Context(), p.PID); err != nil || p.State != agentkernel.StateKilled || p.Resident {
					t.Errorf("cancelled: %+v %v", p, err)
				}
				tool(t, cs, "cancel_background_task", args{"task_id": p.PID.String()}, "!ended already: cancelled")
				break
			}
		}
	}
	if n := standing(t, k); n["killed"] != tasks || n["resident"] != 0 {
		t.Errorf("in the end: %v", n)
	}
}

// A kernel is killed with fifty tasks in flight. After recovery all finish, and no tool was called twice.
func TestMCPTasksSurviveKill(t *testing.T) {
	const tasks = 50
	dir, file := home(t), filepath.Join(t.TempDir(), "lines")
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	v := startVictim(t, dir)
	k := v.client(t, dir)
	cs := connectMCP(t, mcpConfig(k, cfg))
	var pids []agentkernel.PID
	for i := range tasks {
		pids = append(pids, dispatch(t, cs, fmt.Sprintf("from tools.test import append_line\nappend_line(path=%q, text='begin %d')\n%sappend_line(path=%q, text='end %d')\n%d * 2",
			file, i, untilInterrupted, file, i, i)))
	}
	eventually(t, "all tasks are in flight", func() bool { return standing(t, k)["time.sleep"] == tasks })
	v.kill()
	v = startVictim(t, dir) // recovers everything
	defer v.kill()
	k = v.client(t, dir)
	cs = connectMCP(t, mcpConfig(k, cfg))
	eventually(t, "all tasks are in flight again", func() bool { return standing(t, k)["time.sleep"] == tasks })
	interruptAll(t, k, pids)
	want := map[string]int{}
	for i, pid := range pids {
		if got := tool(t, cs, "wait_for_background_task", args{"task_id": pid.String()}, "completed"); got["result"] != float64(i*2) {
			t.Errorf("task %d: %v", i, got)
		}
		want[fmt.Sprintf("begin %d", i)], want[fmt.Sprintf("end %d", i)] = 1, 1
	}
	got := map[string]int{}
	words := strings.Fields(lines(t, file))
	for i := 0; i+1 < len(words); i += 2 {
		got[words[i]+" "+words[i+1]]++
	}
	for text, n := range want {
		if got[text] != n {
			t.Errorf("%q was written %d times", text, got[text])
		}
	}
	if len(words) != 4*tasks {
		t.Errorf("%d words were written", len(words))
	}
}
