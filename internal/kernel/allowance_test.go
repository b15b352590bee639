package kernel_test

import (
	"cmp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
	"agentkernel/internal/sys/systest/toy"
)

// allowing gives a kernel allowances.
func allowing(t *testing.T, texts ...string) func(*kernel.Config) {
	t.Helper()
	all := allowances(t, texts...)
	return func(c *kernel.Config) { c.Allowances = all }
}

func allowances(t *testing.T, texts ...string) agentkernel.Allowances {
	t.Helper()
	all, err := agentkernel.ParseAllowances(texts)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checkAllowances compares what the kernel says of allowances with the journals, if there is power: by the days on which calls began.
func checkAllowances(t *testing.T, r *rig) []agentkernel.AllowanceState {
	t.Helper()
	synctest.Wait() // what is due at this moment is under way
	got, err := r.Allowances(t.Context(), "")
	all, err2 := r.List(t.Context(), agentkernel.Filter{})
	if err = cmp.Or(err, err2); agentkernel.CodeOf(err) == agentkernel.CodeStorage {
		return got
	} else if err != nil {
		t.Fatal(err)
	}
	for _, s := range got {
		var spent, held agentkernel.Amounts
		for _, p := range all {
			if p.Namespace != s.Namespace {
				continue
			}
			entries, err := r.Journal(t.Context(), p.PID, 1, 0)
			if agentkernel.CodeOf(err) == agentkernel.CodeStorage {
				return got
			} else if err != nil {
				t.Fatal(err)
			}
			reserved, begun := map[int64]agentkernel.Amounts{}, map[int64]time.Time{}
			charge := func(call int64, a agentkernel.Amounts) {
				if at := begun[call]; !at.Before(s.Since) && at.Before(s.Until) {
					spent = spent.Plus(a)
				}
			}
			for _, e := range entries {
				switch {
				case e.Kind == agentkernel.EntryCall && e.Reserve != nil:
					reserved[e.Call], begun[e.Call] = e.Reserve, e.At
				case e.Kind == agentkernel.EntryRetry:
					charge(e.Call, reserved[e.Call])
					reserved[e.Call], begun[e.Call] = e.Reserve, e.At
				case e.Kind == agentkernel.EntryResult:
					if used := e.Settle; used != nil {
						charge(e.Call, used)
					} else {
						charge(e.Call, reserved[e.Call])
					}
					delete(reserved, e.Call)
				case e.Kind == agentkernel.EntryTerminal:
					for call, a := range reserved {
						charge(call, a)
					}
					clear(reserved)
				}
			}
			for call, a := range reserved {
				if at := begun[call]; !at.Before(s.Since) && at.Before(s.Until) {
					held = held.Plus(a)
				}
			}
		}
		if s.Spent != agentkernel.SpendingOf(spent) || s.Held != agentkernel.SpendingOf(held) {
			t.Errorf("%+v; the journals say %s, and held %s", s, spent, held)
		}
		if s.Limit.USD > 0 && s.Spent.USD+s.Held.USD > s.Limit.USD || s.Limit.Calls > 0 && s.Spent.Calls+s.Held.Calls > s.Limit.Calls {
			t.Errorf("beyond the allowance: %+v", s)
		}
	}
	return got
}

// TestAnAllowancePauses: processes of a namespace share what may be spent in a day. Who finds too little is paused until the next day, also
// over a crash, or until the allowance is larger.
func TestAnAllowancePauses(t *testing.T) {
	for _, how := range []string{"", "crash", "raise", "gone", "other kernel"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := &toy.World{}
				allowed := allowing(t, "default day usd 0.000000007", "* month calls 100")
				r := newRig(t, newRAMStore(), with(y), parkSoon, allowed)
				r.spenders()
				for range 2 {
					if _, err := r.Spawn(t.Context(), budgeted("spender", agentkernel.Budget{})); err != nil {
						t.Fatal(err)
					}
				}
				pass(time.Hour)
				paused := 0
				for pid := range agentkernel.PID(2) {
					p, err := r.Process(t.Context(), pid+1)
					if err != nil {
						t.Fatal(err)
					}
					if p.Paused {
						paused++
						if want := ", and the allowance of namespace default for the day is $0.000000007: spent $0.000000006; it begins anew at 2000-01-02 00:00 UTC"; !strings.HasSuffix(p.PauseNote, want) {
							t.Errorf("%q, want %q", p.PauseNote, want)
						}
						if raise := p.RaiseBudget(); raise != "" {
							t.Errorf("no command raises it: %q", raise)
						}
					}
				}
				if s := checkAllowances(t, r); paused == 0 || len(s) != 2 || s[0].Spent.USD != 6 || s[1].Spent.Calls != 6 {
					t.Errorf("%d are paused: %+v", paused, s)
				}
				ends := "2000-01-02 00:0"
				switch how {
				case "crash":
					r = r.boot(t, r.store.crash(), with(y), parkSoon, allowed)
					r.spenders()
					if _, err := r.Recover(t.Context(), 0); err != nil {
						t.Fatal(err)
					}
				case "other kernel":
					ends = "2000-01-01 01:0"
					r = r.boot(t, r.store.crash(), with(y), parkSoon, allowing(t, "default day usd 1"))
					r.spenders()
					if _, err := r.Recover(t.Context(), 0); err != nil {
						t.Fatal(err)
					}
				case "raise":
					ends = "2000-01-01 01:0"
					r.Allow(allowances(t, "default day usd 1"))
				case "gone":
					ends = "2000-01-01 01:0"
					r.Allow(nil)
				}
				for pid := range agentkernel.PID(2) {
					for p, err := r.Wait(t.Context(), pid+1); ; p, err = r.Wait(t.Context(), pid+1) {
						if err != nil {
							t.Fatal(err)
						}
						if !p.Paused {
							break
						}
						pass(time.Minute)
					}
				}
				if now := time.Now().UTC().Format(time.DateTime); !strings.HasPrefix(now, ends) {
					t.Errorf("they have ended at %s", now)
				}
				if n := len(y.Charged()); n != 10 && how != "crash" && how != "other kernel" {
					t.Errorf("%d payments were made", n)
				}
				checkAllowances(t, r)
			})
		})
	}
}

// TestOverTheAllowance: what else can happen to a process for whose call too little is left; and one of another namespace is not bound.
func TestOverTheAllowance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), with(&toy.World{}), allowing(t, "default day calls 3"))
		r.spenders()
		s := budgeted("spender", agentkernel.Budget{})
		s.OnBudget = agentkernel.BudgetRaise
		if p, out := r.run(t, s); p.State != agentkernel.StateKilled || out != "limit_exceeded" || !strings.Contains(p.Error.Hint, "the setting allowances") {
			t.Errorf("%+v %q", p, out)
		}
		s.OnBudget = agentkernel.BudgetKill
		if p, out := r.run(t, s); p.State != agentkernel.StateKilled || out != "" || !strings.Contains(p.Error.Error(), "the allowance of namespace default for the day is 3 calls") {
			t.Errorf("%+v %q", p, out)
		}
		s.Namespace = "other"
		if p, _ := r.run(t, s); p.State != agentkernel.StateExited {
			t.Errorf("%+v", p)
		}
		checkAllowances(t, r)
	})
}

// TestAllowancesOverCrashes cuts the power at each operation of the store, before and after it, a moment before the end of a month. What a
// namespace has spent and holds in a day and in a month is at all times what its journals say, and neither is passed.
func TestAllowancesOverCrashes(t *testing.T) {
	for at := 1; ; at++ {
		done := false
		synctest.Test(t, func(t *testing.T) {
			pass(31*24*time.Hour - 90*time.Second)
			y := &toy.World{Delay: 20 * time.Second}
			allowed := allowing(t, "default day usd 0.000000013", "default month calls 14")
			r := newRig(t, newRAMStore(), with(y), parkSoon, allowed)
			r.spenders()
			s := budgeted("family", agentkernel.Budget{})
			s.IdempotencyKey = "one"
			end := func(r *rig) bool {
				p, err := r.Spawn(t.Context(), s)
				for range 16 {
					if err != nil || p.State.Terminal() {
						break
					}
					pass(35 * time.Second)
					checkAllowances(t, r)
					for pid := p.PID; pid < p.PID+8; pid++ { // that of the child with a budget
						_, _ = r.AddBudget(t.Context(), pid, agentkernel.Budget{USD: 2})
					}
					p, err = r.Process(t.Context(), p.PID)
				}
				return err == nil && p.State == agentkernel.StateExited
			}
			r.store.cutPower(at)
			done = end(r)
			next := r.boot(t, r.store.crash(), with(y), parkSoon, allowed)
			if _, err := next.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if !end(next) {
				all, err := next.List(t.Context(), agentkernel.Filter{})
				t.Errorf("it has not ended: %v", err)
				for _, p := range all {
					t.Errorf("%d: %s, waits for %q, paused %t: %s", p.PID, p.State, p.WaitsFor, p.Paused, p.PauseNote)
				}
			}
			checkAllowances(t, next)
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
