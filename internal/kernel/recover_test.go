package kernel_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// thirtyCalls is an agent program with every kind of call: pure, read, idempotent, write; sync and async;
// sleeping, printing, keeping state, with a child.
func thirtyCalls(p *prog) error {
	write := func(n int, err error) error {
		if agentkernel.CodeOf(err) == agentkernel.CodeOutcomeUnknown {
			p.print("unknown %d\n", n)
			return nil
		}
		return err
	}
	n := 0
	for range 4 {
		now, err := p.call("time.now", `{}`)
		if err != nil {
			return err
		}
		if _, err := p.call("state.set", fmt.Sprintf(`{"key":"k","value":%s}`, now)); err != nil {
			return err
		}
		n++
		_, err = p.call("tool.call", callTool("append", fmt.Sprintf(`{"n":%d}`, n)))
		if err := write(n, err); err != nil {
			return err
		}
		n++
		slow := p.async("time.sleep", `{"seconds":2}`)
		a := p.async("tool.call", callTool("append", fmt.Sprintf(`{"n":%d}`, n)))
		if _, err := p.call("tool.call", callTool("echo", `{"x":[1,2.5,"é"]}`)); err != nil {
			return err
		}
		if _, err := p.wait(a); write(n, err) != nil {
			return err
		}
		if _, err := p.wait(slow); err != nil {
			return err
		}
		if _, err := p.call("tool.call", callTool("put", fmt.Sprintf(`{"put":%d}`, n))); err != nil {
			return err
		}
		p.print("round %d at %s\n", n, now)
	}
	pid, err := p.call("proc.spawn", `{"source":"child"}`)
	if err != nil {
		return err
	}
	res, err := p.call("proc.wait", fmt.Sprintf(`{"pid":%s}`, pid))
	p.print("%s", res)
	return err
}

func child(p *prog) error {
	_, err := p.call("tool.call", callTool("append", `{"n":"child"}`))
	if agentkernel.CodeOf(err) == agentkernel.CodeOutcomeUnknown {
		p.print("unknown child\n")
		err = nil
	}
	return err
}

// keepLoaded keeps parked processes in memory, as a kernel does with the first some thousand.
func keepLoaded(c *kernel.Config) { c.Loaded = 0 }

func parkSoon(c *kernel.Config) { c.ParkAfter = 500 * time.Millisecond }

// TestCrashAtEveryJournalOperation cuts the power at each operation of the store, before and after it,
// recovers, and checks that each write happened once or was reported as unknown, that what was shown to
// the reader before is a prefix of the whole output, and that nothing is left unfinished.
func TestCrashAtEveryJournalOperation(t *testing.T) {
	total := 0
	for at := 0; at == 0 || at <= total; at++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				store := newRAMStore()
				store.crashAt, store.after = at, after
				r := newRig(t, store, parkSoon)
				r.backend.add("p", thirtyCalls)
				r.backend.add("child", child)
				var seen strings.Builder
				// The first life may end with any storage error: that is what the test provokes.
				p, firstErr := r.Run(t.Context(), spec("p"), func(ev agentkernel.Event) error {
					seen.WriteString(ev.Text)
					return nil
				})
				if at == 0 {
					total = store.ops
					if firstErr != nil || total < 60 {
						t.Fatalf("undisturbed: %v, %d operations", firstErr, total)
					}
				}
				synctest.Wait()
				next := store.crash()
				r2 := r.boot(t, next, parkSoon)
				if _, err := r2.Recover(t.Context(), 0); err != nil {
					t.Fatalf("crash at %d: recover: %v", at, err)
				}
				checkAfterCrash(t, r2, at, p, seen.String())
			})
		}
	}
}

func checkAfterCrash(t *testing.T, r *rig, at int, first agentkernel.Process, seen string) {
	t.Helper()
	rows, err := r.List(t.Context(), agentkernel.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		if first.PID != 0 && seen != "" || len(r.tools.lines) > 0 {
			t.Errorf("crash at %d: the process was seen and is gone", at)
		}
		return
	}
	var out strings.Builder
	for _, row := range rows {
		p, err := r.Wait(t.Context(), row.PID)
		if err != nil || p.State != agentkernel.StateExited {
			t.Fatalf("crash at %d: process %d ended as %s: %v %v", at, row.PID, p.State, p.Error, err)
		}
		if err := r.Events(t.Context(), row.PID, 1, false, func(ev agentkernel.Event) error {
			if row.PID == 1 {
				out.WriteString(ev.Text)
			} else {
				out.WriteString("\n" + ev.Text)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	whole := out.String()
	if i := strings.Index(whole, "round 2"); len(rows) == 1 && i < 0 || !strings.Contains(whole, seen) {
		t.Errorf("crash at %d: shown before: %q, the journal has: %q", at, seen, whole)
	}
	for n := 1; n <= 8; n++ {
		checkOnce(t, r, at, fmt.Sprintf(`{"n":%d}`, n), strings.Contains(whole, fmt.Sprintf("unknown %d\n", n)))
	}
	checkOnce(t, r, at, `{"n":"child"}`, strings.Contains(whole, "unknown child"))
	if len(rows) > 2 {
		t.Errorf("crash at %d: %d processes, want the parent and one child", at, len(rows))
	}
}

func checkOnce(t *testing.T, r *rig, at int, line string, unknown bool) {
	t.Helper()
	count := 0
	for _, l := range r.tools.lines {
		if l == line {
			count++
		}
	}
	if count > 1 || count == 0 && !unknown {
		t.Errorf("crash at %d: %s was written %d times, reported unknown: %v", at, line, count, unknown)
	}
}

// TestReplayDivergence edits what a program does between two lives: the difference is shown, and nothing
// new happens.
func TestReplayDivergence(t *testing.T) {
	first := func(p *prog) error {
		p.print("one\n")
		if _, err := p.call("tool.call", callTool("append", `{"n":1}`)); err != nil {
			return err
		}
		_, err := p.call("time.sleep", `{"seconds":100}`)
		return err
	}
	for name, c := range map[string]struct {
		second func(*prog) error
		want   string
	}{
		"other arguments": {func(p *prog) error {
			p.print("one\n")
			_, err := p.call("tool.call", callTool("append", `{"n":2}`))
			return err
		}, "call 1 is not the one in the journal\n  journal: tool.call {\"arguments\":{\"n\":1}"},
		"other call":   {func(p *prog) error { p.print("one\n"); _, err := p.call("time.now", `{}`); return err }, `program: time.now {}`},
		"other output": {func(p *prog) error { p.print("two\n"); return nil }, `program: "two\n"`},
		"other stream": {func(p *prog) error { p.s.output("stderr", "one\n"); return nil }, "on stderr than the journal has on stdout"},
		"ends early":   {func(p *prog) error { p.print("one\n"); return nil }, "the journal goes on with call 1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore())
				r.backend.add("p", first)
				p, _ := r.Spawn(t.Context(), spec("p"))
				pass(10 * time.Millisecond)
				_ = r.store.Flush(t.Context(), 0)
				r2 := r.boot(t, r.store.crash())
				r.backend.add("p", c.second)
				if _, err := r2.Recover(t.Context(), p.PID); err != nil {
					t.Fatal(err)
				}
				got, err := r2.Wait(t.Context(), p.PID)
				if err != nil || got.Error == nil || got.Error.Code != agentkernel.CodeDiverged || got.State != agentkernel.StateFailed {
					t.Fatalf("got %+v, %v", got, err)
				}
				if !strings.Contains(got.Error.Message(), c.want) {
					t.Errorf("the difference is not shown: %s", got.Error.Message())
				}
				if len(r.tools.lines) != 1 {
					t.Errorf("the tool ran again: %q", r.tools.lines)
				}
			})
		})
	}
}

// TestReplayWaitsForWhatWasNotIssued: a program that waits where it had issued a call before is not handed the result of
// a call that it has not made this time.
func TestReplayWaitsForWhatWasNotIssued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("p", func(p *prog) error {
			if _, err := p.wait(p.async("tool.call", callTool("append", `{"n":1}`))); err != nil {
				return err
			}
			_, err := p.call("time.sleep", `{"seconds":100}`)
			return err
		})
		p, _ := r.Spawn(t.Context(), spec("p"))
		pass(10 * time.Millisecond)
		_ = r.store.Flush(t.Context(), 0)
		r2 := r.boot(t, r.store.crash())
		r.backend.add("p", func(p *prog) error { _, err := p.wait(1); return err })
		if _, err := r2.Recover(t.Context(), p.PID); err != nil {
			t.Fatal(err)
		}
		got, err := r2.Wait(t.Context(), p.PID)
		if err != nil || got.Error == nil || got.Error.Code != agentkernel.CodeDiverged || !strings.Contains(got.Error.Message(), "has not issued") {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// TestAnsweredCallsInAnImageAreDelivered: the result of an async call that was answered at once, and that the program
// has not taken when its image is made, is there for it afterwards.
func TestAnsweredCallsInAnImageAreDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), parkSoon)
		r.backend.add("p", func(p *prog) error {
			id := p.async("state.get", `{"key":"a","default":7}`)
			if _, err := p.call("time.sleep", `{"seconds":100}`); err != nil {
				return err
			}
			var err error
			p.result, err = p.wait(id)
			return err
		})
		p, _ := r.Spawn(t.Context(), spec("p"))
		pass(2 * time.Second) // it is parked
		_ = r.store.Flush(t.Context(), 0)
		if n := r.backend.sandboxes(); n != 0 {
			t.Fatalf("%d sandboxes: the process is not parked", n)
		}
		r2 := r.boot(t, r.store.crash(), parkSoon)
		if _, err := r2.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if got, err := r2.Wait(ctx, p.PID); err != nil || got.State != agentkernel.StateExited || string(got.Result) != "7" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestUnknownOutcomePausesIfAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.tools.delay = func() { pass(time.Hour) }
		r.backend.add("p", func(p *prog) error {
			_, err := p.call("tool.call", callTool("append", `{}`))
			p.print("%s", agentkernel.CodeOf(err))
			return nil
		})
		s := spec("p")
		s.OnUnknown = agentkernel.UnknownPause
		p, _ := r.Spawn(t.Context(), s)
		synctest.Wait()
		r2 := r.boot(t, r.store.crash())
		if _, err := r2.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got, _ := r2.Process(t.Context(), p.PID)
		if !got.Paused || !strings.Contains(got.PauseNote, "call 1 (tool.call fake.append) is unknown") {
			t.Fatalf("got %+v", got)
		}
		if err := r2.Signal(t.Context(), p.PID, agentkernel.SignalResume); err != nil {
			t.Fatal(err)
		}
		if got, _ = r2.Wait(t.Context(), p.PID); got.State != agentkernel.StateExited {
			t.Errorf("after resume: %+v", got)
		}
	})
}

// TestImageOfAnotherEngineIsNotUsed: a new engine version replays the journal.
// A journal that ends before the image of its process was made has lost its end: nothing of it may be done again.
func TestAJournalThatEndsBeforeItsImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), parkSoon, keepLoaded)
		r.backend.add("p", func(p *prog) error {
			for {
				if _, err := p.call("tool.call", callTool("append", `{}`)); err != nil {
					return err
				}
				if _, err := p.call("time.sleep", `{"seconds":100}`); err != nil {
					return err
				}
			}
		})
		p, _ := r.Spawn(t.Context(), spec("p"))
		pass(10 * time.Second)
		_ = r.store.Flush(t.Context(), 0)
		after := r.store.crash()
		cut := 0
		for i := range after.durable {
			if im := after.durable[i].Image; im != nil && len(im.Bytes) > 0 {
				later := *im
				later.Seq += 10
				after.durable[i].Image, cut = &later, cut+1
			}
		}
		if cut == 0 {
			t.Fatal("it was not parked")
		}
		r2 := r.boot(t, after, parkSoon, keepLoaded)
		list, err := r2.Recover(t.Context(), 0)
		if err != nil || len(list) != 1 || list[0].State != agentkernel.StateFailed {
			t.Fatalf("taken up: %+v, %v", list, err)
		}
		got, err := r2.Process(t.Context(), p.PID)
		if err != nil || got.State != agentkernel.StateFailed || got.Error == nil || got.Error.Code != agentkernel.CodeCorrupt || len(r.tools.lines) != 1 {
			t.Errorf("%s, %v, %v; the tool ran %d times", got.State, got.Error, err, len(r.tools.lines))
		}
	})
}

func TestImageOfAnotherEngineIsNotUsed(t *testing.T) {
	for _, engine := range []string{"go-1", "go-2"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore(), parkSoon)
			started := 0
			r.backend.add("p", func(p *prog) error {
				if !p.quiet {
					started++
				}
				if _, err := p.call("tool.call", callTool("append", `{}`)); err != nil {
					return err
				}
				_, err := p.call("time.sleep", `{"seconds":100}`)
				return err
			})
			p, _ := r.Spawn(t.Context(), spec("p"))
			pass(10 * time.Second)
			_ = r.store.Flush(t.Context(), 0)
			r.backend.fingerprint = engine
			r2 := r.boot(t, r.store.crash(), parkSoon)
			if _, err := r2.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			got, err := r2.Wait(t.Context(), p.PID)
			if err != nil || got.State != agentkernel.StateExited || len(r.tools.lines) != 1 {
				t.Errorf("%s: %+v %v, tool ran %d times", engine, got, err, len(r.tools.lines))
			}
			if d := time.Since(start); d > 91*time.Second {
				t.Errorf("%s: the sleep was prolonged to %v by the crash", engine, d)
			}
			if want := map[string]int{"go-1": 1, "go-2": 2}[engine]; started != want {
				t.Errorf("%s: the program began %d times, want %d", engine, started, want)
			}
		})
	}
}

func TestKillAnUnfinishedProcessWithoutContinuingIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("p", func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":100}`); return err })
		p, _ := r.Spawn(t.Context(), spec("p"))
		synctest.Wait()
		before := r.backend.started
		r2 := r.boot(t, r.store.crash())
		info, _ := r2.Info(t.Context())
		if info.Unfinished != 1 {
			t.Errorf("unfinished: %d", info.Unfinished)
		}
		if err := r2.Signal(t.Context(), p.PID, agentkernel.SignalPause); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
			t.Errorf("pause of an unfinished process: %v", err)
		}
		if err := r2.Signal(t.Context(), p.PID, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		got, _ := r2.Process(t.Context(), p.PID)
		if got.State != agentkernel.StateKilled || r.backend.started != before {
			t.Errorf("got %+v, sandboxes started: %d", got, r.backend.started-before)
		}
	})
}

// TestReplayOrderOfParallelCalls: async results are delivered again in the order of the first life.
func TestReplayOrderOfParallelCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stay := func(c *kernel.Config) { c.ParkAfter = time.Hour } // no image: the journal alone must do
		r := newRig(t, newRAMStore(), stay)
		var orders []string
		r.backend.add("p", func(p *prog) error {
			for i := range 5 {
				p.async("time.sleep", fmt.Sprintf(`{"seconds":%d}`, (i*3)%5))
			}
			var order []int64
			for range 5 {
				rep := p.turn(agentkernel.Turn{Kind: agentkernel.TurnWait})
				order = append(order, rep.ID)
			}
			orders = append(orders, fmt.Sprint(order))
			_, err := p.call("time.sleep", `{"seconds":50}`)
			return err
		})
		if _, err := r.Spawn(t.Context(), spec("p")); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		_ = r.store.Flush(t.Context(), 0)
		r2 := r.boot(t, r.store.crash())
		if _, err := r2.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(orders) != 2 || orders[0] != orders[1] || orders[0] != "[1 3 5 2 4]" {
			t.Errorf("orders of delivery: %q", orders)
		}
	})
}

func TestSessionIsRememberedAcrossCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		var expected []string
		r.tools.fail = func(c agentkernel.ToolCall) (agentkernel.ToolResult, error) {
			expected = append(expected, c.Expect)
			return agentkernel.ToolResult{}, nil
		}
		r.backend.add("p", func(p *prog) error {
			for range 2 {
				if _, err := p.call("tool.call", callTool("echo", `{}`)); err != nil {
					return err
				}
			}
			_, _ = p.call("time.sleep", `{"seconds":50}`)
			_, err := p.call("tool.call", callTool("echo", `{}`))
			return err
		})
		p, _ := r.Spawn(t.Context(), spec("p"))
		pass(time.Millisecond)
		_ = r.store.Flush(t.Context(), 0)
		r2 := r.boot(t, r.store.crash())
		if _, err := r2.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if got, err := r2.Wait(t.Context(), p.PID); err != nil || got.State != agentkernel.StateExited {
			t.Fatalf("%+v %v", got, err)
		}
		if want := []string{"", "one", "one"}; !slices.Equal(expected, want) {
			t.Errorf("expected incarnations: %q, want %q", expected, want)
		}
	})
}

// TestResultThatComesWhileTheImageIsMade is in the journal before the image's position, and yet was not
// delivered to the program in the image.
func TestResultThatComesWhileTheImageIsMade(t *testing.T) {
	for name, wait := range map[string]func(p *prog) error{
		"sync":  func(p *prog) error { _, err := p.call("tool.call", callTool("echo", `{}`)); return err },
		"async": func(p *prog) error { _, err := p.wait(p.async("tool.call", callTool("echo", `{}`))); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore(), parkSoon)
				answer := make(chan struct{})
				r.tools.delay = func() { <-answer }
				var after atomic.Pointer[ramStore]
				var once sync.Once
				r.backend.onImage = func() { once.Do(func() { close(answer); pass(time.Millisecond) }) }
				r.backend.add("p", func(p *prog) error {
					if err := wait(p); err != nil {
						return err
					}
					if after.Load() == nil { // the power fails when the program has just gone on
						_ = r.store.Flush(t.Context(), 0)
						after.Store(r.store.crash())
					}
					return nil
				})
				p, _ := r.Spawn(t.Context(), spec("p"))
				pass(2 * time.Second)
				if after.Load() == nil {
					t.Fatal("the program did not go on")
				}
				r2 := r.boot(t, after.Load(), parkSoon)
				if _, err := r2.Recover(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if got, err := r2.Wait(ctx, p.PID); err != nil || got.State != agentkernel.StateExited {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		})
	}
}

// A kernel that starts where the engine is not installed must not end the work of others before it: the
// process is paused, says why, and goes on when the engine is there.
func TestRecoveryWithoutTheEngineLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRAMStore()
		r := newRig(t, store)
		r.backend.add("p", func(p *prog) error {
			p.print("before\n")
			_, err := p.call("time.sleep", `{"seconds":60}`)
			p.print("after\n")
			return err
		})
		p, err := r.Spawn(t.Context(), spec("p"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		r2 := r.boot(t, store.crash())
		r2.backend.missing = agentkernel.Errorf(agentkernel.CodeUnavailable, "go", "the engine is not installed")
		if _, err := r2.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p, err = r2.Process(t.Context(), p.PID)
		if err != nil || !p.Paused || p.State.Terminal() || !strings.Contains(p.PauseNote, "engine is not installed") {
			t.Fatalf("recovered without an engine: %+v, %v", p, err)
		}
		r2.backend.mu.Lock()
		r2.backend.missing = nil
		r2.backend.mu.Unlock()
		if err := r2.Signal(t.Context(), p.PID, agentkernel.SignalResume); err != nil {
			t.Fatal(err)
		}
		p, err = r2.Wait(t.Context(), p.PID)
		if err != nil || p.State != agentkernel.StateExited || p.Usage.Output != int64(len("before\nafter\n")) {
			t.Errorf("with the engine again: %+v, %v", p, err)
		}
	})
}
