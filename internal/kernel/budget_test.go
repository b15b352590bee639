package kernel_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/sys/systest/toy"
)

// pay is a call of the toy family that reserves nano-dollars, and uses them up.
func pay(effect agentkernel.Effect, reserve, use int) string {
	return fmt.Sprintf(`{"for":"pay","effect":%q,"reserve":{"usd":%d},"use":{"usd":%d}}`, effect, reserve, use)
}

// spenders adds programs that spend: "spender" makes as many payments as its argument says, "family" starts three of them (the
// second of which may spend 3) and pays one itself.
func (r *rig) spenders() {
	r.backend.add("spender", func(p *prog) error {
		n := 5
		if len(p.args) > 0 {
			_, _ = fmt.Sscan(p.args[0], &n)
		}
		for i := range n {
			if _, err := p.call("toy.charge", pay([]agentkernel.Effect{"paid", "idempotent"}[i%2], 2, 1)); err != nil {
				p.print("%s", agentkernel.CodeOf(err))
				return err
			}
		}
		return nil
	})
	r.backend.add("family", func(p *prog) error {
		var pids []string
		for i := range 3 {
			budget := "null"
			if i == 1 {
				budget = `{"usd":0.000000003}`
			}
			pid, err := p.call("proc.spawn", fmt.Sprintf(`{"source":"spender","budget":%s}`, budget))
			if err != nil {
				return err
			}
			pids = append(pids, string(pid))
		}
		if _, err := p.call("toy.charge", pay("write", 2, 1)); err != nil && agentkernel.CodeOf(err) != agentkernel.CodeOutcomeUnknown {
			return err
		}
		for _, pid := range pids {
			if _, err := p.call("proc.wait", fmt.Sprintf(`{"pid":%s}`, pid)); err != nil {
				return err
			}
		}
		return nil
	})
}

func budgeted(program string, b agentkernel.Budget) agentkernel.Spec {
	s := spec(program)
	s.Tools, s.Allow, s.Budget = nil, nil, b
	return s
}

// spentBelow is what the journals of a process and all below it say, added up.
func spentBelow(t *testing.T, r *rig, root agentkernel.PID) (spent, held agentkernel.Amounts, err error) {
	t.Helper()
	all, err := r.List(t.Context(), agentkernel.Filter{})
	if err != nil {
		return nil, nil, err
	}
	for _, p := range all {
		if s, err := r.Spec(t.Context(), p.PID); err != nil {
			return nil, nil, err
		} else if p.PID != root && !history.Descends(&s, root) {
			continue
		}
		entries, err := r.Journal(t.Context(), p.PID, 1, 0)
		if err != nil {
			return nil, nil, err
		}
		s, h := history.Fold(history.Base{}, entries).Account.Amounts.Used()
		spent, held = spent.Plus(s), held.Plus(h)
	}
	return spent, held, nil
}

// checkBudget compares a budget with the journals, if there is power.
func checkBudget(t *testing.T, r *rig, pid agentkernel.PID) agentkernel.BudgetState {
	t.Helper()
	got, err := r.Budget(t.Context(), pid)
	spent, held, err2 := spentBelow(t, r, pid)
	if err = cmp.Or(err, err2); agentkernel.CodeOf(err) == agentkernel.CodeStorage {
		return got
	} else if err != nil {
		t.Fatal(err)
	}
	if got.Spent != agentkernel.SpendingOf(spent) || got.Held != agentkernel.SpendingOf(held) {
		t.Errorf("the budget of process %d: %+v; the journals say %s, and held %s", pid, got, spent, held)
	}
	if got.Limit.USD > 0 && got.Spent.USD+got.Held.USD > got.Limit.USD {
		t.Errorf("beyond the limit: %+v", got)
	}
	return got
}

// TestABudgetPauses: a process for whose call too little is left is paused before anything of the call is in its journal, and makes
// it once when the budget was raised.
func TestABudgetPauses(t *testing.T) {
	for _, c := range []struct{ crash, again bool }{{}, {crash: true}, {again: true}} {
		crash := c.crash
		synctest.Test(t, func(t *testing.T) {
			y := &toy.World{}
			r := newRig(t, newRAMStore(), with(y), parkSoon)
			r.spenders()
			p, err := r.Spawn(t.Context(), budgeted("spender", agentkernel.Budget{USD: 3, Calls: 9}))
			if err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			if crash {
				r = r.boot(t, r.store.crash(), with(y), parkSoon)
				if _, err := r.Recover(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				pass(time.Minute)
			}
			now, err := r.Process(t.Context(), p.PID)
			const want = "budget: the call costs $0.000000002, and the budget of process 1 is $0.000000003: spent $0.00000000"
			spent, ok := strings.CutPrefix(now.PauseNote, want)
			// After a crash what the last payment came to may have been durable or not: it is paid for twice then.
			if err != nil || !now.Paused || !ok || spent != "2" && (spent != "3" || !crash) {
				t.Errorf("%v %q, want %q", err, now.PauseNote, want+"2")
			}
			if got := checkBudget(t, r, p.PID); !crash && got.Spent != (agentkernel.Spending{USD: 2, Calls: 2}) {
				t.Errorf("%+v", got)
			}
			if err := r.Signal(t.Context(), p.PID, agentkernel.SignalResume); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			if now, err := r.Process(t.Context(), p.PID); err != nil || !now.Paused {
				t.Errorf("it goes on with nothing left: %+v %v", now, err)
			}
			if c.again { // it is paused and durable, and a kernel begins that has not taken it up
				r = r.boot(t, r.store.crash(), with(y), parkSoon)
				for more, code := range map[agentkernel.Budget]agentkernel.Code{{Tokens: 1}: agentkernel.CodeInvalid, {}: agentkernel.CodeInvalid} {
					if _, err := r.AddBudget(t.Context(), p.PID, more); agentkernel.CodeOf(err) != code {
						t.Errorf("%+v: %v", more, err)
					}
				}
				if now, err := r.Process(t.Context(), p.PID); err != nil || now.State != agentkernel.StateUnfinished {
					t.Errorf("a budget that cannot be raised so has it taken up: %+v %v", now, err)
				}
			}
			if s, err := r.AddBudget(t.Context(), p.PID, agentkernel.Budget{USD: 6}); err != nil || s.Limit.USD != 9 {
				t.Errorf("%+v %v", s, err)
			}
			if p, err := r.Wait(t.Context(), p.PID); err != nil || p.State != agentkernel.StateExited {
				t.Errorf("%+v %v", p, err)
			}
			if n := len(y.Charged()); n != 5 && !crash || n > 6 {
				t.Errorf("%d payments were made", n)
			}
			if got := checkBudget(t, r, p.PID); !crash && got.Spent != (agentkernel.Spending{USD: 5, Calls: 5}) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestAPauseOverABudget: whoever pauses a process that is paused for its budget has paused it. It does not go on by itself when there is
// enough, be it that the budget was raised or that whoever had it has ended, but when it is resumed; after a crash, too.
func TestAPauseOverABudget(t *testing.T) {
	for _, c := range []struct{ ends, crash bool }{{false, false}, {false, true}, {true, false}} {
		synctest.Test(t, func(t *testing.T) {
			y := &toy.World{}
			r := newRig(t, newRAMStore(), with(y))
			r.spenders()
			r.backend.add("parent", func(p *prog) error {
				_, err := p.call("proc.spawn", `{"source":"spender"}`)
				if err == nil {
					_, err = p.call("time.sleep", `{"seconds":100}`)
				}
				return err
			})
			root, err := r.Spawn(t.Context(), budgeted("parent", agentkernel.Budget{USD: 3}))
			if err != nil {
				t.Fatal(err)
			}
			pass(30 * time.Second)
			below, err := r.List(t.Context(), agentkernel.Filter{Parent: root.PID})
			if err != nil || len(below) != 1 || !below[0].Paused {
				t.Fatalf("%+v %v", below, err)
			}
			pid := below[0].PID
			if err := r.Signal(t.Context(), pid, agentkernel.SignalPause); err != nil {
				t.Fatal(err)
			}
			if c.crash {
				r = r.boot(t, r.store.crash(), with(y))
				if _, err := r.Recover(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
			}
			if c.ends {
				pass(time.Hour)
			} else if _, err := r.AddBudget(t.Context(), root.PID, agentkernel.Budget{USD: 100}); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			if now, err := r.Process(t.Context(), pid); err != nil || !now.Paused || now.PauseNote != "" {
				t.Errorf("%+v: it was paused, and has gone on: %s %q %v", c, now.State, now.PauseNote, err)
			}
			if err := r.Signal(t.Context(), pid, agentkernel.SignalResume); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			if now, err := r.Process(t.Context(), pid); err != nil || c.ends != (now.State != agentkernel.StateExited) {
				t.Errorf("%+v: resumed, it is %s %q %v", c, now.State, now.PauseNote, err)
			}
		})
	}
}

// TestABudgetRaisedBeforeACrash: a budget was raised, and the power was cut before those went on who were paused for it. Whoever
// takes them up lets them ask again; one whose budget is as it was stays paused.
func TestABudgetRaisedBeforeACrash(t *testing.T) {
	for _, raised := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore(), with(&toy.World{}))
			r.spenders()
			p, err := r.Spawn(t.Context(), budgeted("spender", agentkernel.Budget{Calls: 3}))
			if err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			if now, err := r.Process(t.Context(), p.PID); err != nil || !now.Paused { // what it says is durable
				t.Fatalf("%+v %v", now, err)
			}
			store := r.store.crash()
			if raised {
				entries, err := store.Entries(t.Context(), p.PID, 1, 0)
				if err != nil {
					t.Fatal(err)
				}
				e := agentkernel.Entry{PID: p.PID, Seq: int64(len(entries)) + 1, Kind: agentkernel.EntryBudget, At: time.Now(), Data: json.RawMessage(`{"calls":5}`)}
				if _, err := store.Append(agentkernel.Batch{Entries: []agentkernel.Entry{e}}); err != nil {
					t.Fatal(err)
				}
			}
			r = r.boot(t, store, with(&toy.World{}))
			if _, err := r.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			if now, err := r.Process(t.Context(), p.PID); err != nil || now.Paused == raised || now.State.Terminal() != raised {
				t.Errorf("raised %t: %+v %v", raised, now, err)
			}
			checkBudget(t, r, p.PID)
		})
	}
}

// TestOverTheBudget: what else can happen to a process for whose call too little is left.
func TestOverTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), with(&toy.World{}))
		r.spenders()
		s := budgeted("spender", agentkernel.Budget{Calls: 3})
		s.OnBudget = agentkernel.BudgetRaise
		if p, out := r.run(t, s); p.State != agentkernel.StateKilled || out != "limit_exceeded" {
			t.Errorf("%+v %q", p, out)
		}
		s.OnBudget = agentkernel.BudgetKill
		p, out := r.run(t, s)
		if p.State != agentkernel.StateKilled || out != "" || !strings.Contains(p.Error.Error(), "the call costs 1 call,") {
			t.Errorf("%+v %q", p, out)
		}
		if got := checkBudget(t, r, p.PID); got.Spent.Calls != 3 {
			t.Errorf("%+v", got)
		}
	})
}

// TestABudgetOfATree: a child's budget reserves nothing, and binds it with those below it; what one above has left binds all.
func TestABudgetOfATree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), with(&toy.World{}), parkSoon)
		r.spenders()
		p, err := r.Spawn(t.Context(), budgeted("family", agentkernel.Budget{USD: 10}))
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		root := checkBudget(t, r, p.PID)
		if root.Spent.USD != 9 && root.Spent.USD != 10 {
			t.Errorf("%+v", root)
		}
		if _, err := r.AddBudget(t.Context(), p.PID, agentkernel.Budget{USD: 100}); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if root := checkBudget(t, r, p.PID); root.Spent.USD != 1+5+2+5 {
			t.Errorf("the second child has no more than its own budget: %+v", root)
		}
		if child := checkBudget(t, r, 3); child.Spent.USD != 2 || child.Limit.USD != 3 {
			t.Errorf("%+v", child)
		}
		if _, err := r.AddBudget(t.Context(), 3, agentkernel.Budget{USD: 3}); err != nil {
			t.Fatal(err)
		}
		if p, err := r.Wait(t.Context(), p.PID); err != nil || p.State != agentkernel.StateExited {
			t.Errorf("%+v %v", p, err)
		}
		checkBudget(t, r, p.PID)
		for pid, code := range map[agentkernel.PID]agentkernel.Code{p.PID: agentkernel.CodeConflict, 99: agentkernel.CodeNotFound} {
			if _, err := r.AddBudget(t.Context(), pid, agentkernel.Budget{USD: 1}); agentkernel.CodeOf(err) != code {
				t.Errorf("raising the budget of %d: %v", pid, err)
			}
		}
	})
}

// TestBadBudgets: what is no budget, and what cannot be added to one.
func TestBadBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), with(&toy.World{}))
		r.spenders()
		r.backend.add("sleeps", func(p *prog) error {
			_, err := p.call("time.sleep", `{"seconds":3600}`)
			return err
		})
		for text, says := range map[string]string{`{"usd":0}`: "is 0", `{"usd":-1}`: "negative", `{"usd":"x"}`: "no number", `{"euro":1}`: "usd, tokens, calls, turns and time",
			`{"usd":1e300}`: "", `[]`: "object", `{"calls":1.5}`: "whole number", `{"usd":10000000000}`: "too many"} {
			var b agentkernel.Budget
			if err := json.Unmarshal([]byte(text), &b); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", text, err)
			}
		}
		if _, err := r.Spawn(t.Context(), budgeted("spender", agentkernel.Budget{Calls: -1})); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Error(err)
		}
		with, err := r.Spawn(t.Context(), budgeted("sleeps", agentkernel.Budget{Calls: 1}))
		if err != nil {
			t.Fatal(err)
		}
		without := r.spawnWith(t, "sleeps", 10)
		for _, c := range []struct {
			pid  agentkernel.PID
			more agentkernel.Budget
			code agentkernel.Code
		}{{with.PID, agentkernel.Budget{}, agentkernel.CodeInvalid}, {with.PID, agentkernel.Budget{USD: 1}, agentkernel.CodeInvalid},
			{with.PID, agentkernel.Budget{Calls: -1}, agentkernel.CodeInvalid}, {without, agentkernel.Budget{Calls: 1}, agentkernel.CodeNotFound}} {
			if _, err := r.AddBudget(t.Context(), c.pid, c.more); agentkernel.CodeOf(err) != c.code {
				t.Errorf("%+v: %v", c, err)
			}
		}
		if _, err := r.Budget(t.Context(), without); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
			t.Error(err)
		}
	})
}

// TestBudgetsOverCrashes cuts the power at each operation of the store, before and after it. What a tree has spent and holds is at all
// times what its journals say, no limit is passed, and what was used is not more than what was charged.
func TestBudgetsOverCrashes(t *testing.T) {
	for at := 1; ; at++ {
		done := false
		synctest.Test(t, func(t *testing.T) {
			y := &toy.World{}
			r := newRig(t, newRAMStore(), with(y), parkSoon)
			r.spenders()
			s := budgeted("family", agentkernel.Budget{USD: 10})
			s.IdempotencyKey = "one"
			var pid agentkernel.PID
			end := func(r *rig) bool {
				p, err := r.Spawn(t.Context(), s)
				pid = p.PID
				for range 40 {
					if err != nil || p.State.Terminal() {
						break
					}
					pass(time.Minute)
					checkBudget(t, r, p.PID)
					for pid := p.PID; pid < p.PID+8; pid++ { // it, and the child with a budget
						_, _ = r.AddBudget(t.Context(), pid, agentkernel.Budget{USD: 2})
					}
					p, err = r.Process(t.Context(), p.PID)
				}
				return err == nil && p.State == agentkernel.StateExited
			}
			r.store.cutPower(at)
			done = end(r)
			next := r.boot(t, r.store.crash(), with(y), parkSoon)
			if _, err := next.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if !end(next) {
				t.Error("it has not ended")
			}
			state := checkBudget(t, next, pid)
			if used := agentkernel.NanoUSD(y.Used()["usd"]); used > state.Spent.USD {
				t.Errorf("%d were used, %+v", used, state)
			}
			if t.Failed() {
				t.Errorf("the power was cut at operation %d", at)
			}
		})
		if done || t.Failed() {
			if at < 40 {
				t.Errorf("only %d operations", at)
			}
			return
		}
	}
}

// heirs adds a program that leaves a child behind, after so many seconds, and the child, which pays for something after ten.
func (r *rig) heirs(after int) {
	r.backend.add("leaves", func(p *prog) error {
		if _, err := p.call("proc.spawn", `{"source":"stays"}`); err != nil {
			return err
		}
		_, err := p.call("time.sleep", fmt.Sprintf(`{"seconds":%d}`, after))
		return err
	})
	r.backend.add("stays", func(p *prog) error {
		if _, err := p.call("time.sleep", `{"seconds":10}`); err != nil {
			return err
		}
		_, err := p.call("toy.charge", pay("paid", 2, 1))
		p.print("%s", agentkernel.CodeOf(err))
		return nil
	})
}

// TestTheBudgetOfOneThatHasEnded: whoever has too little left of a budget that nobody can raise any more is told, whether the process with
// the budget ends before or afterwards.
func TestTheBudgetOfOneThatHasEnded(t *testing.T) {
	for _, c := range []struct {
		after int // the owner ends
		on    agentkernel.OnBudget
		state agentkernel.State
		says  string
	}{
		{1, "", agentkernel.StateExited, "limit_exceeded"},
		{100, "", agentkernel.StateExited, "limit_exceeded"},
		{1, agentkernel.BudgetRaise, agentkernel.StateExited, "limit_exceeded"},
		{1, agentkernel.BudgetKill, agentkernel.StateKilled, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore(), with(&toy.World{}), parkSoon)
			r.heirs(c.after)
			s := budgeted("leaves", agentkernel.Budget{USD: 1})
			s.OnBudget = c.on
			root, err := r.Spawn(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			pass(50 * time.Second)
			if p, err := r.Process(t.Context(), root.PID+1); err != nil || p.Paused != (c.after > 10) {
				t.Errorf("%+v %v", p, err)
			}
			pass(100 * time.Second)
			r.expectOutput(t, root.PID+1, c.state, c.says)
		})
	}
}

// TestTheBudgetOfOneThatHasEndedOverCrashes cuts the power at each operation of the store, before and after it.
func TestTheBudgetOfOneThatHasEndedOverCrashes(t *testing.T) {
	for at, done := 1, false; !done && !t.Failed(); at++ {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore(), with(&toy.World{}), parkSoon)
			r.heirs(100)
			s := budgeted("leaves", agentkernel.Budget{USD: 1})
			s.IdempotencyKey = "one"
			r.store.cutPower(at)
			end := func(r *rig) bool {
				root, err := r.Spawn(t.Context(), s)
				pass(5 * time.Minute)
				if err != nil {
					return false
				}
				below, err := r.List(t.Context(), agentkernel.Filter{Parent: root.PID})
				return err == nil && len(below) == 1 && below[0].State == agentkernel.StateExited
			}
			done = end(r)
			next := r.boot(t, r.store.crash(), with(&toy.World{}), parkSoon)
			if _, err := next.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if !end(next) {
				t.Fatalf("the child has not ended; the power was cut at operation %d", at)
			}
			if all, err := next.List(t.Context(), agentkernel.Filter{}); err != nil || next.output(t, all[0].PID) != "limit_exceeded" {
				t.Errorf("%+v %v", all, err)
			}
			if done && at < 20 {
				t.Errorf("only %d operations", at)
			}
		})
	}
}
