package kernel_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/locals"
	"agentkernel/internal/sys"
	"agentkernel/internal/sys/stream"
	"agentkernel/internal/sys/systest/toy"
)

// checkBases looks at each image that a test's kernel has made: what it says of the process and the entries behind it come
// to what the whole journal comes to. Every test that parks a process is a test of that.
func checkBases(t *testing.T, s *ramStore) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, bases := map[agentkernel.PID][]agentkernel.Entry{}, map[agentkernel.PID]*history.Base{}
	for _, b := range s.all() {
		if b.Image != nil && bases[b.Image.PID] != nil {
			checkBase(t, bases[b.Image.PID], entries[b.Image.PID])
			delete(bases, b.Image.PID)
		}
		for _, e := range b.Entries {
			entries[e.PID] = append(entries[e.PID], e)
		}
		if b.Image != nil && len(b.Image.Bytes) > 0 {
			base, err := history.ParseBase(b.Image.Kernel, b.Image.Seq)
			if err != nil {
				t.Errorf("the base of process %d: %v", b.Image.PID, err)
			}
			bases[b.Image.PID] = &base
		}
	}
	for pid, base := range bases {
		checkBase(t, base, entries[pid])
	}
}

func checkBase(t *testing.T, b *history.Base, entries []agentkernel.Entry) {
	t.Helper()
	if len(entries) == 0 || entries[len(entries)-1].Seq < b.Seq {
		return // the test has taken them away
	}
	var some []agentkernel.Entry
	for _, e := range entries {
		if e.Seq > b.Seq || slices.Contains(b.Refs, e.Seq) {
			some = append(some, e)
		}
	}
	set := locals.New([]sys.Family{(&toy.World{}).Family(), stream.Family()})
	from, err := set.At(entries[0].PID, b)
	if err != nil {
		t.Error(err)
		return
	}
	h, whole := history.FoldInto(from, *b, some), history.FoldInto(set.Empty(), history.Base{}, entries)
	if a, b := fmt.Sprintf("%s", h.Locals.Save()), fmt.Sprintf("%s", whole.Locals.Save()); a != b {
		t.Errorf("process %d from its image at %d keeps %s; from the beginning %s", entries[0].PID, h.Base.Seq, a, b)
	}
	if h.Stale() {
		t.Errorf("the image of process %d at %d was left where it is stale", entries[0].PID, b.Seq)
		return
	}
	text := func(h *history.History) string {
		moved := int64(0)
		if h.Moved != nil {
			moved = h.Moved.Seq
		}
		var asked, again []int64
		if u := h.Unresolved; u != nil {
			asked, again = slices.Sorted(maps.Keys(u.Asked)), slices.Sorted(maps.Keys(u.Again))
		}
		return fmt.Sprintf("seq %d, account %+v, servers %v, pauses %s %s %d %t, noted %t, cell %d, moved %d, asked %v, again %v",
			h.Seq, h.Account, h.Servers, h.Pauses.At.UTC(), h.Pauses.Ended, h.Pauses.With, h.Pauses.Paused, h.Noted, h.Cell.Next, moved, asked, again)
	}
	if got, want := text(h), text(whole); got != want {
		t.Errorf("process %d from its image at %d:\n%s\nfrom the beginning:\n%s", entries[0].PID, b.Seq, got, want)
	}
	open := map[int64]bool{}
	for id, e := range whole.Queue.Calls {
		if _, answered := whole.Queue.Results[id]; e.Seq <= b.Seq && !e.Done && !answered {
			open[id] = true
		}
	}
	got := map[int64]bool{}
	for _, e := range h.Queue.Open {
		got[e.Call] = true
	}
	if !reflect.DeepEqual(got, open) {
		t.Errorf("process %d from its image at %d: open calls %v, want %v", entries[0].PID, b.Seq, got, open)
	}
}

// afterCrash runs a program until it sleeps, cuts the power and recovers it in another kernel.
func afterCrash(t *testing.T, r *rig, s agentkernel.Spec, before func(agentkernel.Process)) (*rig, agentkernel.Process) {
	t.Helper()
	p, err := r.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	pass(2 * time.Second)
	if before != nil {
		before(p)
		pass(time.Millisecond)
	}
	_ = r.store.Flush(t.Context(), 0)
	r2 := r.boot(t, r.store.crash())
	if _, err := r2.Recover(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	return r2, p
}

// overTheJournalLimit runs the program p with a limit of 100,000 bytes, which it passes only after a crash.
func overTheJournalLimit(t *testing.T, r *rig) agentkernel.Process {
	t.Helper()
	s := spec("p")
	s.Limits.Journal = 100_000
	r2, p := afterCrash(t, r, s, nil)
	got, err := r2.Wait(t.Context(), p.PID)
	if err != nil || got.State != agentkernel.StateKilled || got.Error == nil || got.Error.Op != "limit.journal" {
		t.Errorf("got %+v, %v", got, err)
	}
	return got
}

// TestAccountSurvivesACrash: what a process has written before a crash counts towards its limits after it, whether it is
// replayed or loaded from an image.
func TestAccountSurvivesACrash(t *testing.T) {
	for name, change := range map[string]bool{"replayed": false, "from an image": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore())
				if change {
					r = r.boot(t, r.store, parkSoon)
				}
				half := strings.Repeat("x", 60_000)
				r.backend.add("p", func(p *prog) error {
					p.print("%s", half)
					_, _ = p.call("time.sleep", `{"seconds":50}`)
					p.print("%s", half)
					_, err := p.call("time.now", `{}`)
					return err
				})
				got := overTheJournalLimit(t, r)
				if got.Usage.Output != 120_000 {
					t.Errorf("it has printed %d bytes", got.Usage.Output)
				}
			})
		})
	}
}

// TestAlwaysSurvivesACrash: a human who has said "always" is not asked again after a crash.
func TestAlwaysSurvivesACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("p", func(p *prog) error {
			if _, err := p.call("tool.call", callTool("append", `{}`)); err != nil {
				return err
			}
			_, _ = p.call("time.sleep", `{"seconds":50}`)
			_, err := p.call("tool.call", callTool("append", `{}`))
			return err
		})
		s := spec("p")
		s.Allow, s.Interactive = nil, true
		created := make(chan agentkernel.PID, 1)
		go func() { // which is there before the program asks
			_, _ = r.Run(t.Context(), s, func(ev agentkernel.Event) error {
				switch ev.Kind {
				case agentkernel.EventCreated:
					created <- ev.PID
				case agentkernel.EventAsk:
					return r.Answer(t.Context(), ev.PID, ev.Ask.ID, agentkernel.AnswerAlways)
				}
				return nil
			})
		}()
		pid := <-created
		pass(time.Second)
		_ = r.store.Flush(t.Context(), 0)
		r2 := r.boot(t, r.store.crash())
		if _, err := r2.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if got, err := r2.Wait(t.Context(), pid); err != nil || got.State != agentkernel.StateExited {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// TestInterruptSurvivesACrash: one that came while the program computed, and waits for its next call.
func TestInterruptSurvivesACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		computes := make(chan struct{})
		r.backend.add("p", func(p *prog) error {
			_, _ = p.call("time.now", `{}`)
			<-computes
			if _, err := p.call("time.now", `{}`); agentkernel.CodeOf(err) != agentkernel.CodeInterrupted {
				p.print("not interrupted: %v\n", err)
			}
			_, err := p.call("time.now", `{}`)
			return err
		})
		r2, p := afterCrash(t, r, spec("p"), func(p agentkernel.Process) {
			if err := r.Signal(t.Context(), p.PID, agentkernel.SignalInterrupt); err != nil {
				t.Fatal(err)
			}
		})
		close(computes)
		got, err := r2.Wait(t.Context(), p.PID)
		if err != nil || got.State != agentkernel.StateExited || got.Usage.Output != 0 {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// TestRecoveryReadsTheTail: a process that was parked is taken up by its image and what came behind that, not by all that it
// has ever done.
func TestRecoveryReadsTheTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), parkSoon)
		r.backend.add("p", func(p *prog) error {
			for range 1000 {
				_, _ = p.call("time.now", `{}`)
			}
			_, _ = p.call("time.sleep", `{"seconds":50}`)
			_, err := p.call("time.now", `{}`)
			return err
		})
		r2, p := afterCrash(t, r, spec("p"), nil)
		got, err := r2.Wait(t.Context(), p.PID)
		if err != nil || got.State != agentkernel.StateExited || got.Usage.Syscalls != 1002 {
			t.Errorf("got %+v, %v", got, err)
		}
		r2.store.mu.Lock()
		defer r2.store.mu.Unlock()
		if r2.store.mostRead > 10 {
			t.Errorf("a read gave %d entries", r2.store.mostRead)
		}
	})
}

// TestPendingSignalSaysSo: whoever reads the journal sees which interrupt waits for the next call.
func TestPendingSignalSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("p", func(p *prog) error {
			_, err := p.call("time.sleep", `{"seconds":50}`)
			if agentkernel.CodeOf(err) == agentkernel.CodeInterrupted {
				err = nil
			}
			return err
		})
		p, err := r.Spawn(t.Context(), spec("p"))
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if err := r.Signal(t.Context(), p.PID, agentkernel.SignalInterrupt); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Wait(t.Context(), p.PID); err != nil || got.State != agentkernel.StateExited {
			t.Errorf("got %+v, %v", got, err)
		}
		entries, err := r.Journal(t.Context(), p.PID, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Kind == agentkernel.EntrySignal && len(e.Data) > 0 && json.Valid(e.Data) {
				t.Errorf("a signal that struck at once is told as one that waits: %s", e.Data)
			}
		}
	})
}

// TestTreeAccountSurvivesACrash: what parent and child had written before a crash counts together after it.
func TestTreeAccountSurvivesACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("child", func(p *prog) error {
			p.print("%s", strings.Repeat("x", 60_000))
			_, err := p.call("time.sleep", `{"seconds":50}`)
			return err
		})
		r.backend.add("p", func(p *prog) error {
			if _, err := p.call("proc.spawn", `{"source":"child"}`); err != nil {
				return err
			}
			p.print("%s", strings.Repeat("x", 30_000))
			_, _ = p.call("time.sleep", `{"seconds":20}`)
			p.print("%s", strings.Repeat("x", 20_000))
			_, err := p.call("time.now", `{}`)
			return err
		})
		overTheJournalLimit(t, r)
	})
}

// TestWakingReadsTheTail: a parked process is woken by its image and what stands behind it, however long its journal is.
func TestWakingReadsTheTail(t *testing.T) {
	const calls, most = 100_000, 64 << 10
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), parkSoon)
		r.backend.add("p", func(p *prog) error {
			for range calls {
				if _, err := p.call("time.now", `{}`); err != nil {
					return err
				}
			}
			if _, err := p.call("time.sleep", `{"seconds":100}`); err != nil {
				return err
			}
			_, err := p.call("time.now", `{}`)
			return err
		})
		s := spec("p")
		s.Limits = agentkernel.Limits{Calls: 2 * calls, Journal: 1 << 30}
		p, err := r.Spawn(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		pass(50 * time.Second)
		if n := r.backend.sandboxes(); n != 0 {
			t.Fatalf("%d sandboxes: the process is not parked", n)
		}
		_ = r.store.Flush(t.Context(), 0)
		left := r.store.crash()
		_ = r.Close()
		r2 := r.boot(t, left, parkSoon, keepLoaded)
		left.readBytes = 0
		if _, err := r2.Recover(t.Context(), p.PID); err != nil {
			t.Fatal(err)
		}
		pass(100 * time.Second)
		if got, err := r2.Wait(t.Context(), p.PID); err != nil || got.State != agentkernel.StateExited || got.Usage.Syscalls != calls+2 {
			t.Fatalf("got %+v, %v", got, err)
		}
		image, journal := left.sizes(p.PID)
		if left.readBytes > most+2*image {
			t.Errorf("%d bytes were read to wake a process with a journal of %d, and an image of %d", left.readBytes, journal, image)
		}
	})
}
