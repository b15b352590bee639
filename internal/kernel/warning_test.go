package kernel_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/sys/systest/toy"
)

// warnings are what the journal of a process says that it was told of its budget.
func (r *rig) warnings(t *testing.T, pid agentkernel.PID) (said []string) {
	t.Helper()
	for _, e := range r.entries(t, pid) {
		if w, ok := history.WarningOf(&e); ok {
			text, _, _ := strings.Cut(w.String(), ", and calls under way hold") // it may have gone on already
			said = append(said, text)
		}
	}
	return said
}

// printed is what a process has printed, without what its watchers were told beside.
func (r *rig) printed(t *testing.T, pid agentkernel.PID) string {
	t.Helper()
	out, err := history.Printed(t.Context(), r.store, pid)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (r *rig) expectWarnings(t *testing.T, pid agentkernel.PID, want ...string) {
	t.Helper()
	if said := r.warnings(t, pid); !slices.Equal(said, want) {
		t.Errorf("it was told %q, want %q", said, want)
	}
}

// TestABudgetWarns: a program is told once when nine tenths of an amount are spent, and once more with the next limit.
func TestABudgetWarns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), with(&toy.World{}), parkSoon)
		r.backend.add("listens", func(p *prog) error {
			for i := range 30 {
				if _, err := p.call("toy.charge", pay("idempotent", 2, 1)); err != nil {
					return err
				}
				// The signal comes at once, but in a goroutine of its own.
				_, _ = p.call("time.sleep", `{"seconds":1}`)
				if res, err := p.call("signals.wait", `{"timeout":0}`); err == nil {
					p.print("%d %s\n", i+1, res)
				}
			}
			return nil
		})
		var lines []string
		s := budgeted("listens", agentkernel.Budget{USD: 100, Calls: 10})
		p, err := r.Spawn(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_ = r.Events(t.Context(), p.PID, 0, true, func(e agentkernel.Event) error {
				if e.Kind == agentkernel.EventBudget {
					text, _, _ := strings.Cut(e.Text, ", and calls under way hold")
					lines = append(lines, text)
				}
				return nil
			})
		}()
		pass(time.Minute)
		r.expectWarnings(t, p.PID, "9 of its budget of 10 calls are spent")
		if _, err := r.AddBudget(t.Context(), p.PID, agentkernel.Budget{Calls: 10}); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		r.expectWarnings(t, p.PID, "9 of its budget of 10 calls are spent", "18 of its budget of 20 calls are spent")
		if _, err := r.AddBudget(t.Context(), p.PID, agentkernel.Budget{Calls: 3}); err != nil { // of 23 nine tenths are not spent yet
			t.Fatal(err)
		}
		pass(time.Minute)
		all := []string{"9 of its budget of 10 calls are spent", "18 of its budget of 20 calls are spent", "21 of its budget of 23 calls are spent"}
		r.expectWarnings(t, p.PID, all...)
		if !slices.Equal(lines, all) {
			t.Errorf("those who watch were told %q", lines)
		}
		want := ""
		for _, c := range [][3]int{{9, 10, 9}, {18, 20, 18}, {21, 23, 21}} {
			want += fmt.Sprintf("%d {\"budget\":{\"amount\":\"calls\",\"held\":0,\"limit\":%d,\"spent\":%d}}\n", c[0], c[1], c[2])
		}
		if out := strings.ReplaceAll(r.printed(t, p.PID), `"held":1`, `"held":0`); out != want {
			t.Errorf("printed %q, want %q", out, want)
		}
	})
}

// TestABudgetWarnsWhoseItIs: what those below it spend is told the process that has the budget, also if it is parked.
func TestABudgetWarnsWhoseItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), with(&toy.World{}), parkSoon)
		r.spenders()
		r.backend.add("boss", func(p *prog) error {
			if _, err := p.call("proc.spawn", `{"source":"spender","args":["10"],"budget":{"calls":20}}`); err != nil {
				return err
			}
			res, err := p.call("signals.wait", `{}`)
			p.print("%s", res)
			return err
		})
		s := budgeted("boss", agentkernel.Budget{USD: 10})
		p, _ := r.run(t, s)
		if p.State != agentkernel.StateExited {
			t.Fatalf("%+v", p)
		}
		var got history.BudgetWarning
		if err := json.Unmarshal([]byte(r.printed(t, p.PID)), &got); err != nil || got.Budget.Amount != "usd" || string(got.Budget.Limit) != "1e-08" {
			t.Errorf("%+v %v", got, err)
		}
		r.expectWarnings(t, p.PID, "$0.000000009 of its budget of $0.00000001 are spent")
	})
}

// TestABudgetWarnsOverCrashes cuts the power at each operation: nobody is warned twice, and whoever has spent nine tenths was warned.
func TestABudgetWarnsOverCrashes(t *testing.T) {
	for at := 1; ; at++ {
		done := false
		synctest.Test(t, func(t *testing.T) {
			y := &toy.World{}
			r := newRig(t, newRAMStore(), with(y), parkSoon)
			r.spenders()
			r.backend.add("waits", func(p *prog) error {
				for range 9 {
					if _, err := p.call("toy.charge", `{"for":"pay","effect":"read"}`); err != nil {
						return err
					}
				}
				res, err := p.call("signals.wait", `{}`)
				p.print("%s", res)
				return err
			})
			r.store.cutPower(at)
			p, err := r.Spawn(t.Context(), budgeted("waits", agentkernel.Budget{Calls: 10}))
			pass(time.Minute)
			r.store.mu.Lock()
			done = r.store.failed == nil
			r.store.mu.Unlock()
			if err != nil {
				return
			}
			r = r.boot(t, r.store.crash(), with(y), parkSoon)
			if _, err := r.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			if n := len(r.warnings(t, p.PID)); n != 1 {
				t.Errorf("at %d: it was warned %d times", at, n)
			}
			now, err := r.Process(t.Context(), p.PID)
			if err != nil || now.State != agentkernel.StateExited {
				t.Errorf("at %d: %+v %v", at, now, err)
			}
		})
		if done || t.Failed() {
			return
		}
	}
}
