package kernel_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/sys/systest/toy"
)

// runners adds programs that compute: "runner" for 3 s before each of five payments, and for 2 s at its end; "still" for 20 s without
// a call; "house" starts three of the first and waits for them.
func (r *rig) runners() {
	r.backend.add("runner", func(p *prog) error {
		for range 5 {
			p.compute(3 * time.Second)
			if _, err := p.call("toy.charge", pay("idempotent", 1, 1)); err != nil {
				p.print("%s", agentkernel.CodeOf(err))
				return err
			}
		}
		p.compute(2 * time.Second)
		return nil
	})
	r.backend.add("still", func(p *prog) error {
		p.compute(20 * time.Second)
		return nil
	})
	r.backend.add("house", func(p *prog) error {
		var pids []string
		for _, source := range []string{"runner", "runner", "still"} {
			pid, err := p.call("proc.spawn", fmt.Sprintf(`{"source":%q}`, source))
			if err != nil {
				return err
			}
			pids = append(pids, string(pid))
		}
		for _, pid := range pids {
			if _, err := p.call("proc.wait", fmt.Sprintf(`{"pid":%s}`, pid)); err != nil {
				return err
			}
		}
		return nil
	})
}

const seconds = agentkernel.Duration(time.Second)

// TestTheTimeOfATree: what each program of a tree has run is counted with its calls and at its end, once, over crashes, too, and a
// book that is read from journals says the same.
func TestTheTimeOfATree(t *testing.T) {
	for _, after := range []time.Duration{0, 2 * time.Second, 7 * time.Second, 10 * time.Second, 16 * time.Second, 18 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore(), with(&toy.World{}))
			r.runners()
			p, err := r.Spawn(t.Context(), budgeted("house", agentkernel.Budget{Time: 1000 * seconds}))
			if err != nil {
				t.Fatal(err)
			}
			if after > 0 {
				pass(after)
				checkBudget(t, r, p.PID)
				r = r.boot(t, r.store.crash(), with(&toy.World{}))
				if _, err := r.Recover(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
			}
			pass(time.Minute)
			if got := checkBudget(t, r, p.PID); got.Spent.Time != (17+17+20)*seconds {
				t.Errorf("killed after %s: %s", after, got.Spent.Time)
			}
			r = r.boot(t, r.store.crash(), with(&toy.World{}))
			if got := checkBudget(t, r, p.PID); got.Spent.Time != (17+17+20)*seconds {
				t.Errorf("killed after %s, and read again: %s", after, got.Spent.Time)
			}
		})
	}
}

// TestTimeRunsOut: a call for which a program has run too long is not made; one that computes without a call stands still where its
// time is over, or is killed there. What is added lets it go on from there.
func TestTimeRunsOut(t *testing.T) {
	for _, c := range []struct {
		program string
		on      agentkernel.OnBudget
		note    string
		spent   agentkernel.Duration // when it is paused, or has ended
		state   agentkernel.State
		says    string
	}{
		{"runner", "", "budget: it has run for 1s more, and the budget of process 1 is 10s: spent 9s", 9 * seconds, agentkernel.StateWaiting, ""},
		{"still", "", "budget: it has run for 10s more, and the budget of process 1 is 10s: spent 0s", 0, agentkernel.StateWaiting, ""},
		{"runner", agentkernel.BudgetRaise, "", 12 * seconds, agentkernel.StateKilled, "it has run for 3s more"},
		{"still", agentkernel.BudgetKill, "", 10 * seconds, agentkernel.StateKilled, "the budget of process 1 is 10s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore(), with(&toy.World{}))
			r.runners()
			s := budgeted(c.program, agentkernel.Budget{Time: 10 * seconds})
			s.OnBudget = c.on
			p, err := r.Spawn(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			now, err := r.Process(t.Context(), p.PID)
			if err != nil || now.PauseNote != c.note || now.State != c.state {
				t.Errorf("%s %s: %s, %q %v %v", c.program, c.on, now.State, now.PauseNote, now.Error, err)
			}
			if c.says != "" && (now.Error == nil || !strings.Contains(now.Error.Error()+string(now.Error.Code), c.says)) {
				t.Errorf("%s %s: %v", c.program, c.on, now.Error)
			}
			if got := checkBudget(t, r, p.PID); got.Spent.Time != c.spent {
				t.Errorf("%s %s has spent %s", c.program, c.on, got.Spent.Time)
			}
			if c.note == "" {
				return
			}
			if raise := now.RaiseBudget(); raise != "agentkernel budget add 1 --time N" {
				t.Errorf("%q", raise)
			}
			if _, err := r.AddBudget(t.Context(), p.PID, agentkernel.Budget{Time: 4 * seconds}); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			if now, err = r.Process(t.Context(), p.PID); err != nil || !now.Paused || now.Usage.Running != 14*time.Second {
				t.Errorf("%s: %+v %v", c.program, now, err)
			}
			if _, err := r.AddBudget(t.Context(), p.PID, agentkernel.Budget{Time: 500 * seconds}); err != nil {
				t.Fatal(err)
			}
			if end, err := r.Wait(t.Context(), p.PID); err != nil || end.State != agentkernel.StateExited {
				t.Errorf("%s: %+v %v", c.program, end, err)
			}
			want := map[string]agentkernel.Duration{"runner": 17 * seconds, "still": 20 * seconds}[c.program]
			if got := checkBudget(t, r, p.PID); got.Spent.Time != want {
				t.Errorf("%s has spent %s", c.program, got.Spent.Time)
			}
		})
	}
}

// TestManyShortTurns: a budget bounds the time of a program whose calls never leave the kernel, however short its turns are.
func TestManyShortTurns(t *testing.T) {
	for on, state := range map[agentkernel.OnBudget]agentkernel.State{"": agentkernel.StateWaiting, agentkernel.BudgetKill: agentkernel.StateKilled} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore(), with(&toy.World{}))
			r.backend.add("nibbler", func(p *prog) error {
				for range 1000 {
					p.compute(30 * time.Millisecond)
					if _, err := p.call("time.now", `{}`); err != nil {
						return err
					}
				}
				return nil
			})
			s := budgeted("nibbler", agentkernel.Budget{Time: 10 * seconds})
			s.OnBudget = on
			p, err := r.Spawn(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			now, err := r.Process(t.Context(), p.PID)
			if err != nil || now.State != state || now.Usage.Running < 10*time.Second || now.Usage.Running > 10100*time.Millisecond {
				t.Errorf("%q: %s after %s, %q %v %v", on, now.State, now.Usage.Running, now.PauseNote, now.Error, err)
			}
			if on != "" {
				return
			}
			if _, err := r.AddBudget(t.Context(), p.PID, agentkernel.Budget{Time: 60 * seconds}); err != nil {
				t.Fatal(err)
			}
			if end, err := r.Wait(t.Context(), p.PID); err != nil || end.State != agentkernel.StateExited {
				t.Errorf("%+v %v", end, err)
			}
			if got := checkBudget(t, r, p.PID); got.Spent.Time != 30*seconds {
				t.Errorf("spent %s", got.Spent.Time)
			}
		})
	}
}
