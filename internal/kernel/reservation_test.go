package kernel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/sys/systest/toy"
)

// account is what the journal of a process says that it has used up and holds.
func account(t *testing.T, r *rig, pid agentkernel.PID) string {
	t.Helper()
	entries, err := r.Journal(t.Context(), pid, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	spent, held := history.Fold(history.Base{}, entries).Account.Amounts.Used()
	return fmt.Sprintf("spent %s, held %s", spent, held)
}

// charge is a call of the toy family that reserves coins; used < 0: it does not say what it has used up.
func charge(effect agentkernel.Effect, coins, used int) string {
	use := "null"
	if used >= 0 {
		use = fmt.Sprintf(`{"coins":%d}`, used)
	}
	return fmt.Sprintf(`{"for":"%d","effect":%q,"reserve":{"coins":%d},"use":%s}`, coins, effect, coins, use)
}

// TestReservations: what calls reserve is taken before they go out, the rest is returned with their results, and what is more
// than is left is refused before anything goes out.
func TestReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := &toy.World{Grant: agentkernel.Amounts{"coins": 10}, Delay: time.Second}
		r := newRig(t, newRAMStore(), with(y), parkSoon)
		var errs []string
		r.backend.add("p", func(p *prog) error {
			errs = nil
			for _, args := range []string{charge("read", 11, 0), charge("read", 10, 3), charge("idempotent", 8, 0), charge("paid", 4, -1),
				`{"for":"negative","reserve":{"coins":-1}}`, `{"for":"gratis","free":true}`} {
				_, err := p.call("toy.charge", args)
				errs = append(errs, told(err))
			}
			if _, err := p.call("toy.wait", `{}`); err != nil { // it is parked, with its account
				return err
			}
			for _, args := range []string{charge("read", 4, 2), charge("read", 2, 5), charge("read", 1, 0)} {
				_, err := p.call("toy.charge", args)
				errs = append(errs, told(err))
			}
			return nil
		})
		p, _ := r.run(t, spec("p"))
		want := []string{
			"limit_exceeded: it may use up 11 coins, and 10 of 10 are left: 0 are spent, and calls under way hold 0", "",
			"limit_exceeded: it may use up 8 coins, and 7 of 10 are left: 3 are spent, and calls under way hold 0", "",
			"internal: it reserves -1 coins", "",
			"limit_exceeded: it may use up 4 coins, and 3 of 10 are left: 7 are spent, and calls under way hold 0", "",
			"limit_exceeded: it may use up 1 coins, and 0 of 10 are left: 12 are spent, and calls under way hold 0",
		}
		if got := strings.Join(errs, "\n"); got != strings.Join(want, "\n") {
			t.Errorf("the calls said:\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
		if got, want := strings.Join(y.Charged(), " "), fmt.Sprintf("10 /%d/2 4 /%d/4 gratis /%[1]d/6 2 /%[1]d/9", p.PID, p.PID); got != want {
			t.Errorf("went out: %s, want %s", got, want)
		}
		if got := account(t, r, p.PID); got != "spent 12 coins, held nothing" {
			t.Error(got)
		}
	})
}

// TestReservationsAtTheSameTime: calls that are under way hold what they have reserved.
func TestReservationsAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := &toy.World{Grant: agentkernel.Amounts{"coins": 10}, Delay: time.Minute}
		r := newRig(t, newRAMStore(), with(y))
		r.backend.add("p", func(p *prog) error {
			var ids []int64
			for range 3 {
				ids = append(ids, p.async("toy.charge", charge("read", 4, 1)))
			}
			for _, id := range ids {
				if _, err := p.wait(id); err != nil {
					p.print("%s; ", told(err))
				}
			}
			return nil
		})
		p, err := r.Spawn(t.Context(), spec("p"))
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if got := account(t, r, p.PID); got != "spent nothing, held 8 coins" {
			t.Error(got)
		}
		pass(time.Hour)
		r.expectOutput(t, p.PID, agentkernel.StateExited, "limit_exceeded: it may use up 4 coins, and 2 of 10 are left: 0 are spent, and calls under way hold 8; ")
		if got := account(t, r, p.PID); got != "spent 2 coins, held nothing" {
			t.Error(got)
		}
	})
}

// TestReservationsOverCrashes cuts the power at each operation of the store, before and after it. What was charged is what
// was used, however often the kernel began again; what nobody knows costs all that was reserved.
func TestReservationsOverCrashes(t *testing.T) {
	for at := 1; ; at++ {
		done := false
		synctest.Test(t, func(t *testing.T) {
			y := &toy.World{Grant: agentkernel.Amounts{"coins": 20}}
			r := newRig(t, newRAMStore(), with(y), parkSoon)
			r.backend.add("p", func(p *prog) error {
				unknown := 0
				for _, args := range []string{charge("write", 5, 3), charge("read", 5, 0), charge("write", 5, 3), charge("paid", 5, 3)} {
					_, err := p.call("toy.charge", args)
					if agentkernel.CodeOf(err) == agentkernel.CodeOutcomeUnknown {
						unknown++
					} else if err != nil {
						return err
					}
				}
				if _, err := p.call("toy.wait", `{}`); err != nil {
					return err
				}
				_, err := p.call("toy.charge", charge("read", 12, 0))
				p.print("%d %s", unknown, agentkernel.CodeOf(err))
				return nil
			})
			s := spec("p")
			s.IdempotencyKey = "one"
			r.store.cutPower(at)
			if p, err := r.Spawn(t.Context(), s); err == nil {
				pass(10 * time.Minute)
				p, err = r.Process(t.Context(), p.PID)
				done = err == nil && p.State.Terminal()
			}
			next, p := r.afterCrash(t, s, with(y), parkSoon)
			// Three charges that use 3 of 5. One that nobody knows about costs 5, and one that is paid twice 5 and 3.
			made, unknown, paid := y.Charged(), 0, 0
			out := next.output(t, p.PID)
			if _, err := fmt.Sscanf(out, "%d limit_exceeded", &unknown); err != nil {
				t.Errorf("printed %q", out)
			}
			entries, err := next.Journal(t.Context(), p.PID, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.Kind == agentkernel.EntryRetry {
					paid++
				}
			}
			if got, want := account(t, next, p.PID), fmt.Sprintf("spent %d coins, held nothing", 9+2*unknown+5*paid); got != want {
				t.Errorf("%s, want %s: %d unknown, %d paid again", got, want, unknown, paid)
			}
			if used := y.Used()["coins"]; used > int64(9+2*unknown+5*paid) || unknown+paid > 1 {
				t.Errorf("%d coins were used, by %q", used, made)
			}
			if n := strings.Count(strings.Join(made, "\n")+"\n", fmt.Sprintf("/%d/1\n", p.PID)); n > 1 || n == 0 && unknown == 0 {
				t.Errorf("the write was made %d times: %q", n, made)
			}
			if t.Failed() {
				t.Errorf("the power was cut at operation %d", at)
			}
		})
		if done || t.Failed() {
			if at < 20 {
				t.Errorf("only %d operations", at)
			}
			return
		}
	}
}

// TestACallThatIsLeft: a call that ends with its process, or by a signal, costs what its family says that it has used up.
func TestACallThatIsLeft(t *testing.T) {
	for _, left := range []struct{ arg, spent string }{{`null`, "5 coins"}, {`{}`, "nothing"}, {`{"coins":2}`, "2 coins"}, {`{"coins":-1}`, "5 coins"}} {
		for _, sig := range []agentkernel.Signal{agentkernel.SignalKill, agentkernel.SignalInterrupt, agentkernel.SignalStop} {
			for _, crash := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					y := &toy.World{Grant: agentkernel.Amounts{"coins": 10}, Delay: time.Hour}
					r := newRig(t, newRAMStore(), with(y))
					r.backend.add("p", func(p *prog) error {
						_, err := p.call("toy.charge", `{"for":"x","effect":"paid","reserve":{"coins":5},"left":`+left.arg+`}`)
						return err
					})
					p, err := r.Spawn(t.Context(), spec("p"))
					if err != nil {
						t.Fatal(err)
					}
					pass(time.Second)
					if crash { // what the first time has cost, nobody knows
						r = r.boot(t, r.store.crash(), with(y))
						if _, err := r.Recover(t.Context(), 0); err != nil {
							t.Fatal(err)
						}
						pass(time.Second)
					}
					if err := r.Signal(t.Context(), p.PID, sig); err != nil {
						t.Fatal(err)
					}
					pass(time.Minute)
					if p, err := r.Process(t.Context(), p.PID); err != nil || !p.State.Terminal() {
						t.Fatalf("%+v, %v", p, err)
					}
					want := map[bool]map[string]string{false: {"nothing": "nothing", "2 coins": "2 coins", "5 coins": "5 coins"},
						true: {"nothing": "5 coins", "2 coins": "7 coins", "5 coins": "10 coins"}}[crash][left.spent]
					if got := account(t, r, p.PID); got != "spent "+want+", held nothing" {
						t.Errorf("%s, left with %s, crash %t: %s, want %s", sig, left.arg, crash, got, want)
					}
				})
			}
		}
	}
}

// TestACallThatHasNotGoneOut: where a kernel ends in order, what has not gone out yet costs nothing, and is sent for the first time by the next.
func TestACallThatHasNotGoneOut(t *testing.T) {
	for _, c := range []struct{ left, held, spent string }{
		{`{}`, "spent nothing, held 1 unsent", "3 coins"},
		{`{"model x":1}`, "spent 1 model x, held 1 unsent", "3 coins, 1 model x"}, // of its budget no call
		{`{"tokens":1}`, "spent nothing, held 5 coins", "8 coins"},
		{`null`, "spent nothing, held 5 coins", "8 coins"},
	} {
		synctest.Test(t, func(t *testing.T) {
			y := &toy.World{Delay: time.Hour}
			r := newRig(t, newRAMStore(), with(y))
			r.backend.add("p", func(p *prog) error {
				_, err := p.call("toy.charge", `{"for":"x","effect":"paid","reserve":{"coins":5},"use":{"coins":3},"left":`+c.left+`}`)
				return err
			})
			p, err := r.Spawn(t.Context(), spec("p"))
			if err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second one ends before it could go out again
				r = r.boot(t, r.store.crash(), with(y))
				if got := account(t, r, p.PID); got != c.held {
					t.Errorf("left with %s: %s, want %s", c.left, got, c.held)
				}
			}
			y.Delay = time.Second
			if _, err := r.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			r.expectOutput(t, p.PID, agentkernel.StateExited, "")
			if got := account(t, r, p.PID); got != "spent "+c.spent+", held nothing" {
				t.Errorf("left with %s: %s, want %s", c.left, got, c.spent)
			}
		})
	}
}

// TestACallThatIsPutBack: a call that was begun a second time, and went back to waiting for its turn, is begun once more, and not twice.
func TestACallThatIsPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := &toy.World{Delay: time.Hour}
		r := newRig(t, newRAMStore(), with(y))
		r.backend.add("p", func(p *prog) error {
			_, err := p.call("toy.charge", `{"for":"x","effect":"paid","reserve":{"coins":5},"use":{"coins":3},"left":{}}`)
			p.print("%s", agentkernel.CodeOf(err))
			return nil
		})
		p, err := r.Spawn(t.Context(), spec("p"))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"spent nothing, held 5 coins", "spent 5 coins, held 1 unsent", "spent 5 coins, held 1 unsent", "spent 5 coins, held 5 coins"} {
			if i > 0 {
				r = r.boot(t, r.store.crash(), with(y))
				if _, err := r.Recover(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
			}
			pass(time.Second)
			if i == 1 || i == 2 {
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if got := account(t, r, p.PID); got != want {
				t.Errorf("kernel %d: %s, want %s", i+1, got, want)
			}
		}
		r = r.boot(t, r.store.crash(), with(y))
		if _, err := r.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		r.expectOutput(t, p.PID, agentkernel.StateExited, "outcome_unknown")
		if got := account(t, r, p.PID); got != "spent 10 coins, held nothing" {
			t.Error(got)
		}
	})
}

// TestACallThatIsTakenUp: what a call holds of the time before a crash is not given back by who would make it again.
func TestACallThatIsTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := &toy.World{Delay: time.Hour}
		r := newRig(t, newRAMStore(), with(y))
		r.backend.add("p", func(p *prog) error {
			_, err := p.call("toy.charge", `{"for":"x","effect":"paid","reserve":{"usd":8},"left":{}}`)
			return err
		})
		s := spec("p")
		s.Budget.USD = 10
		p, err := r.Spawn(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		r = r.boot(t, r.store.crash(), with(y))
		if _, err := r.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		pass(time.Second) // the family was asked again, and there is too little for a second time
		if p, err := r.Process(t.Context(), p.PID); err != nil || !p.Paused {
			t.Fatalf("%+v, %v", p, err)
		}
		if err := r.Signal(t.Context(), p.PID, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		if got := account(t, r, p.PID); !strings.Contains(got, "held nothing") || !strings.Contains(got, "8 nano") && !strings.Contains(got, "8 usd") {
			t.Error(got)
		}
	})
}

// TestResolveSettles: a write of unknown outcome holds what it has reserved until somebody says what became of it.
func TestResolveSettles(t *testing.T) {
	for _, c := range []struct {
		r           agentkernel.Resolution
		fails       error
		held, spent string
	}{
		{done, nil, "", "spent 5 coins, held nothing"},
		{agentkernel.Resolution{Decision: agentkernel.DecisionFail, Message: "no"}, nil, "", "spent nothing, held nothing"},
		{retry, nil, "", "spent 7 coins, held nothing"}, // the first beginning costs all that it had reserved
		{retry, errors.New("again"), "spent 5 coins, held 5 coins", ""},
	} {
		for _, crash := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				y := &toy.World{Grant: agentkernel.Amounts{"coins": 10}, Fail: errors.New("the line is dead")}
				r := newRig(t, newRAMStore(), with(y))
				r.backend.add("p", func(p *prog) error {
					_, _ = p.call("toy.charge", charge("write", 5, 2))
					return nil
				})
				p, err := r.Spawn(t.Context(), pausing("p"))
				if err != nil {
					t.Fatal(err)
				}
				pass(time.Second)
				if crash {
					r = r.boot(t, r.store.crash(), with(y))
					if _, err := r.Recover(t.Context(), 0); err != nil {
						t.Fatal(err)
					}
					pass(time.Second)
				}
				if got := account(t, r, p.PID); got != "spent nothing, held 5 coins" {
					t.Error(got)
				}
				y.Fail = c.fails
				if err := r.Resolve(t.Context(), p.PID, 1, c.r); err != nil {
					t.Fatal(err)
				}
				pass(time.Second)
				if got := account(t, r, p.PID); got != c.held+c.spent {
					t.Errorf("%s %v, crash %v: %s, want %s", c.r.Decision, c.fails, crash, got, c.held+c.spent)
				}
			})
		}
	}
}

// TestPaidOnceMore: a call that is paid is made once more after a crash, and not a third time; each time costs.
func TestPaidOnceMore(t *testing.T) {
	for _, c := range []struct {
		grant   int64
		reserve string
		crashes int
		made    int
		says    string
		account string
	}{
		{20, charge("paid", 5, 2), 0, 1, "", "spent 2 coins, held nothing"},
		{20, charge("paid", 5, 2), 1, 1, "", "spent 7 coins, held nothing"},
		{20, charge("paid", 5, 2), 2, 0, "outcome_unknown", "spent 10 coins, held nothing"},
		{9, charge("paid", 5, 2), 1, 0, "limit_exceeded", "spent 5 coins, held nothing"},
		{20, `{"for":"x","effect":"paid"}`, 2, 0, "outcome_unknown", "spent nothing, held nothing"},
		{9, charge("read", 5, 2), 3, 1, "", "spent 2 coins, held nothing"}, // costs once, and has reserved it
	} {
		synctest.Test(t, func(t *testing.T) {
			y := &toy.World{Grant: agentkernel.Amounts{"coins": c.grant}, Delay: time.Minute}
			r := newRig(t, newRAMStore(), with(y))
			r.backend.add("p", func(p *prog) error {
				_, err := p.call("toy.charge", c.reserve)
				p.print("%s", agentkernel.CodeOf(err))
				return nil
			})
			p, err := r.Spawn(t.Context(), pausing("p"))
			if err != nil {
				t.Fatal(err)
			}
			for range c.crashes {
				pass(time.Second)
				r = r.boot(t, r.store.crash(), with(y))
				if _, err := r.Recover(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
			}
			pass(time.Hour)
			r.expectOutput(t, p.PID, agentkernel.StateExited, c.says)
			if got := account(t, r, p.PID); got != c.account || len(y.Charged()) != c.made {
				t.Errorf("%s after %d crashes: %s, made %q; want %s, %d times", c.reserve, c.crashes, got, y.Charged(), c.account, c.made)
			}
		})
	}
}
