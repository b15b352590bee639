package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/tool/tooltest"
)

// spender writes lines until nothing is left of the budget.
const spender = `
from tools.lines import append_line
from kernel import sleep
n = 0
while True:
    try:
        append_line(path=%q, text="line")
    except MemoryError:
        break
    except OSError as e:
        assert str(e).startswith("outcome_unknown: "), str(e)
        continue
    n += 1
    sleep(%v)
`

// crowd starts spenders and waits for them.
const crowd = `
from kernel import spawn, wait
for pid in [spawn(%q, name="spender") for _ in range(%d)]:
    r = wait(pid)
    assert r["state"] == "exited", str(r["error"])
`

// TestBudgetUnderKill kills the kernel with SIGKILL at random moments while many spend under one cap. At the end the cap is spent to the last
// call, by what the kernel says and by what the journals come to, and the server has seen no more.
func TestBudgetUnderKill(t *testing.T) {
	spenders, most, deaths := 60, 500, kills(t, 8)
	if deaths > 8 {
		spenders, most = 1000, 5000
	}
	dir := home(t)
	file := filepath.Join(t.TempDir(), "lines.txt")
	cfg := tooltest.Config(t, map[string]tooltest.Server{"lines": tooltest.Stdio(t)})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	v := startVictim(t, dir)
	const window = 400 * time.Millisecond
	pause := float64(deaths) * window.Seconds() / (float64(most) / float64(spenders))
	s := program(fmt.Sprintf(crowd, fmt.Sprintf(spender, file, pause), spenders))
	s.Tools, s.Allow = []string{cfg}, []string{"lines.*"}
	s.Budget, s.OnBudget = agentkernel.Budget{Calls: int64(most)}, agentkernel.BudgetRaise
	s.Limits.Processes = spenders + 1
	p, err := v.client(t, dir).Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for range deaths {
		time.Sleep(time.Duration(rng.Int64N(int64(window)))) //nolint:forbidigo // the random moment is what is tested
		if got, err := v.client(t, dir).Budget(t.Context(), p.PID); err == nil && got.Spent.Calls+got.Held.Calls > int64(most) {
			t.Errorf("beyond the cap: %+v", got)
		}
		v.kill()
		v = startVictim(t, dir)
	}
	k := v.client(t, dir)
	if got, err := k.Wait(t.Context(), p.PID); err != nil || got.State != agentkernel.StateExited {
		t.Fatalf("ended as %s: %v %v\n%s", got.State, got.Error, err, tracebackOf(got.Error))
	}
	got, err := k.Budget(t.Context(), p.PID)
	if err != nil || got.Spent.Calls != int64(most) || got.Held.Calls != 0 {
		t.Errorf("%+v %v, and %d were to be spent", got, err, most)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Count(string(text), "\n")
	t.Logf("%d spenders, %d kills: %+v spent, %d lines written", spenders, deaths, got.Spent, lines)
	if lines > most || lines < most-deaths*spenders {
		t.Errorf("%d lines were written under a cap of %d", lines, most)
	}
}
