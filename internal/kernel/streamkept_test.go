package kernel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/sys/systest/toy"
)

// TestAStreamThatKeeps: what a call has reserved for its stream stays reserved until that has ended, in whatever way; then what it
// has used is charged.
func TestAStreamThatKeeps(t *testing.T) {
	open := `{"items":3,"cost":2,"keep":10}`
	next := func(p *prog, h string, n int) error {
		for range n {
			if _, err := p.call("stream.next", fmt.Sprintf(`{"handle":%q}`, h)); err != nil {
				return err
			}
		}
		return nil
	}
	closes := func(p *prog, h string) error {
		_, err := p.call("stream.close", fmt.Sprintf(`{"handle":%q}`, h))
		return err
	}
	for _, c := range []struct {
		name string
		args string
		run  func(p *prog, h string) error
		want string
	}{
		{"read", open, func(p *prog, h string) error { return next(p, h, 4) }, "spent 6 coins"},
		{"read, and closed", open, func(p *prog, h string) error { _ = next(p, h, 4); return closes(p, h) }, "spent 6 coins"},
		{"closed early", open, func(p *prog, h string) error { _ = next(p, h, 2); return closes(p, h) }, "spent 4 coins"},
		{"left open", open, func(p *prog, h string) error { return next(p, h, 1) }, "spent 2 coins"},
		{"not read", open, func(*prog, string) error { return nil }, "spent 0 coins"},
		{"two", open, func(p *prog, h string) error {
			_, err := p.stream(`{"items":1,"cost":5,"keep":7}`)
			_ = next(p, h, 3)
			return err
		}, "spent 6 coins"},
		{"fails", `{"items":1,"cost":2,"keep":10,"fail":"unavailable"}`, func(p *prog, h string) error { _ = next(p, h, 2); return nil }, "spent 2 coins"},
		{"too much beside it", open, func(p *prog, h string) error {
			if _, err := p.call("toy.charge", charge("read", 11, 0)); agentkernel.CodeOf(err) != agentkernel.CodeLimit {
				return fmt.Errorf("charged: %v", err)
			}
			if err := next(p, h, 4); err != nil { // it holds nothing any more
				return err
			}
			_, err := p.call("toy.charge", charge("read", 11, 1))
			return err
		}, "spent 7 coins"},
		{"killed", open, func(p *prog, h string) error { _ = next(p, h, 3); _, err := p.call("toy.wait", `{}`); return err }, "spent 6 coins"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := &toy.World{Grant: agentkernel.Amounts{"coins": 20}}
				r := newRig(t, newRAMStore(), with(y), parkSoon)
				r.backend.add("p", func(p *prog) error {
					h, err := p.stream(c.args)
					if err == nil {
						err = c.run(p, h)
					}
					return err
				})
				p, err := r.Spawn(t.Context(), spec("p"))
				if err != nil {
					t.Fatal(err)
				}
				if c.name == "killed" {
					pass(30 * time.Second)
					if got := account(t, r, p.PID); got != "spent nothing, held 10 coins" {
						t.Errorf("while it is open: %s", got)
					}
					if err := r.Signal(t.Context(), p.PID, agentkernel.SignalKill); err != nil {
						t.Fatal(err)
					}
				}
				got, err := r.Wait(t.Context(), p.PID)
				if err != nil || got.Error != nil && c.name != "killed" {
					t.Fatalf("%+v %v", got.Error, err)
				}
				if got := account(t, r, p.PID); got != c.want+", held nothing" {
					t.Errorf("%s, want %s", got, c.want)
				}
				synctest.Wait()
				if y.Open() != 0 {
					t.Errorf("%d streams are left open", y.Open())
				}
			})
		})
	}
}

// TestWaitingForAStream: whoever asks is told what a stream waits for. An interrupt leaves it and what is kept for it as they are.
func TestWaitingForAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := &toy.World{Delay: time.Minute}
		r := newRig(t, newRAMStore(), with(y))
		r.backend.add("p", func(p *prog) error {
			h, err := p.stream(`{"items":2,"cost":2,"keep":10}`)
			p.print("%s; ", p.nextOf(h))
			p.print("%s; ", p.nextOf(h))
			if _, err := p.call("stream.close", fmt.Sprintf(`{"handle":%q}`, h)); err != nil {
				return err
			}
			return err
		})
		p, err := r.Spawn(t.Context(), spec("p"))
		if err != nil {
			t.Fatal(err)
		}
		pass(90 * time.Second)
		want := []string{fmt.Sprintf("stream.next %d.1, 1 so far", p.PID)}
		if now, err := r.Process(t.Context(), p.PID); err != nil || !slices.Equal(now.WaitsFor, want) {
			t.Errorf("it waits for %q %v, want %q", now.WaitsFor, err, want)
		}
		if err := r.Signal(t.Context(), p.PID, agentkernel.SignalInterrupt); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		r.expectOutput(t, p.PID, agentkernel.StateExited, "[1]; interrupted: a signal asked it to stop; ")
		if got := account(t, r, p.PID); got != "spent 2 coins, held nothing" {
			t.Error(got)
		}
	})
}

// TestKeptInAnAbortedCell: it is settled with the cell, and not when the session ends.
func TestKeptInAnAbortedCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := &toy.World{}
		r := sessionWith(t, map[string]func(*prog) (string, error){
			"dies": func(p *prog) (string, error) {
				h, err := p.stream(`{"items":3,"cost":2,"keep":10}`)
				if err != nil {
					return "", err
				}
				p.nextOf(h)
				<-p.s.dead
				return "", errStopped
			},
		}, with(y))
		pid := r.begin(t)
		time.AfterFunc(time.Second, func() {
			if err := r.Signal(t.Context(), pid, agentkernel.SignalInterrupt); err != nil {
				t.Error(err)
			}
		})
		if end, err := r.Feed(t.Context(), pid, agentkernel.Cell{Source: "dies"}, func(agentkernel.Event) error { return nil }); err != nil || agentkernel.CodeOf(end.Error) != agentkernel.CodeInterrupted {
			t.Fatalf("%+v %v", end, err)
		}
		if got := account(t, r, pid); got != "spent 2 coins, held nothing" || y.Open() != 0 {
			t.Errorf("%s, %d are open", got, y.Open())
		}
	})
}

// TestKeptOverCrashes cuts the power at each operation of the store, before and after it. A program never gets an item that is not
// behind those that it had: it gets the next one, or is told that the stream is lost. What was kept for a stream that is lost is charged
// whole, and so is what was reserved for one that was opened in vain. A stream whose last item said that it is the last is never lost
// behind that: its end is known.
func TestKeptOverCrashes(t *testing.T) {
	for _, tells := range []bool{false, true} {
		t.Run(fmt.Sprintf("tells %v", tells), func(t *testing.T) { keptOverCrashes(t, tells) })
	}
}

func keptOverCrashes(t *testing.T, tells bool) {
	lost, again := 0, 0
	for at := 1; ; at++ {
		done := false
		synctest.Test(t, func(t *testing.T) {
			y := &toy.World{Grant: agentkernel.Amounts{"coins": 100}}
			r := newRig(t, newRAMStore(), with(y), parkSoon)
			r.backend.add("p", func(p *prog) error {
				h, err := p.stream(fmt.Sprintf(`{"items":3,"cost":2,"keep":10,"tells":%v}`, tells))
				if err != nil {
					return err
				}
				for got := ""; got != "[]" && !strings.Contains(got, ":"); {
					got = p.nextOf(h)
					code, _, _ := strings.Cut(got, ":")
					p.print("%s ", code)
				}
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
			out, spent := next.output(t, p.PID), 0
			switch prefix, gone := strings.CutSuffix(out, "session_lost "); {
			case out == "[1] [2] [3] [] ":
				spent = 6
			case gone && strings.HasPrefix("[1] [2] [3] ", prefix) && !(tells && strings.Contains(prefix, "[3]")):
				lost++
				spent = 10
			default:
				t.Errorf("printed %q", out)
			}
			asked := y.Asked()
			if len(asked) != len(slices.Compact(slices.Sorted(slices.Values(asked)))) {
				t.Errorf("asked twice: %q", asked)
			}
			entries, err := next.Journal(t.Context(), p.PID, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(entries, func(e agentkernel.Entry) bool { return e.Kind == agentkernel.EntryRetry }) {
				again++
				spent += 10
			}
			if got, want := account(t, next, p.PID), fmt.Sprintf("spent %d coins, held nothing", spent); got != want {
				t.Errorf("%s, want %s: %q", got, want, out)
			}
			if used := y.Used()["coins"]; used > int64(spent) {
				t.Errorf("%d coins were used, and %d charged", used, spent)
			}
			if t.Failed() {
				t.Errorf("the power was cut at operation %d", at)
			}
		})
		if done || t.Failed() {
			if (at < 20 || lost == 0 || again == 0) && !t.Failed() {
				t.Errorf("only %d operations; %d times a stream was lost, %d times opened again", at, lost, again)
			}
			return
		}
	}
}

// TestAStreamThatHasEndedHoldsNothing: what a call has reserved for its stream is there again for others when that has ended, or is lost,
// though the program has not read it: it may not come to that before it has made another call.
func TestAStreamThatHasEndedHoldsNothing(t *testing.T) {
	lost := "session_lost: stream 1.1 is lost: the kernel that had it has ended, or another process opened it; what it gave before is all there is"
	for _, c := range []struct {
		name, stream string
		reads        bool // an item before the crash
		crash        bool
		spent        agentkernel.NanoUSD // with 3 for another call
		says         string
	}{
		{"ended", `"ahead":true,"items":1`, false, false, 1 + 3, "[1] []"},
		{"ended and lost", `"ahead":true,"items":1`, false, true, 1 + 3, lost + " " + fmt.Sprintf(notOpen, "1.1")},
		{"ended and given", `"ahead":true,"items":1`, true, true, 1 + 3, "[1] []"},
		{"ended, and half of it given", `"ahead":true,"items":2`, true, true, 2 + 3, "[1] " + lost},
		{"lost", `"items":1`, false, true, 6 + 3, "$0.000000009 of its budget of $0.00000001 are spent" + lost + " " + fmt.Sprintf(notOpen, "1.1")},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := &toy.World{}
				r := newRig(t, newRAMStore(), with(y))
				program := func(p *prog) error {
					h, err := p.stream(`{"cost":1,"keep":6,"usd":true,"tells":true,` + c.stream + `}`)
					if err != nil {
						return err
					}
					first := ""
					if c.reads {
						first = p.nextOf(h)
					}
					if _, err := p.call("time.sleep", `{"seconds":60}`); err != nil {
						return err
					}
					if _, err := p.call("toy.charge", pay("paid", 4, 3)); err != nil {
						return err
					}
					if _, err := p.call("time.sleep", `{"seconds":1}`); err != nil { // it is warned in a goroutine of its own
						return err
					}
					if !c.reads {
						first = p.nextOf(h)
					}
					p.print("%s %s", first, p.nextOf(h))
					return nil
				}
				r.backend.add("p", program)
				p, err := r.Spawn(t.Context(), budgeted("p", agentkernel.Budget{USD: 10}))
				if err != nil {
					t.Fatal(err)
				}
				pass(30 * time.Second)
				if checkBudget(t, r, p.PID); c.crash { // all is durable now
					r = r.boot(t, r.store.crash(), with(y))
					r.backend.add("p", program)
					if _, err := r.Recover(t.Context(), p.PID); err != nil {
						t.Fatal(err)
					}
				}
				pass(time.Hour)
				r.expectOutput(t, p.PID, agentkernel.StateExited, c.says)
				if got := checkBudget(t, r, p.PID); got.Spent.USD != c.spent || got.Held.USD != 0 {
					t.Errorf("%+v, want %d spent", got, c.spent)
				}
			})
		})
	}
}
