package kernel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// sleeper adds a program that sleeps for an hour between two lines, and prints how its sleep ended.
func (r *rig) sleeper(name string) {
	r.backend.add(name, func(p *prog) error {
		if _, err := p.call("tool.call", callTool("append", `{}`)); err != nil {
			return err
		}
		_, err := p.call("time.sleep", `{"seconds":3600}`)
		p.print("%s woke: %v\n", name, err)
		return nil
	})
}

// asleep spawns one and waits until it is in the store alone.
func (r *rig) asleep(t *testing.T, name string) agentkernel.PID {
	t.Helper()
	before := r.info(t).Parked
	p, err := r.Spawn(t.Context(), spec(name))
	if err != nil {
		t.Fatal(err)
	}
	pass(10 * time.Second)
	if got := r.info(t).Parked; got != before+1 {
		t.Fatalf("%d processes are in the store alone, not %d", got, before+1)
	}
	return p.PID
}

func (r *rig) info(t *testing.T) agentkernel.KernelInfo {
	t.Helper()
	info, err := r.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func (r *rig) entries(t *testing.T, pid agentkernel.PID) []agentkernel.Entry {
	t.Helper()
	list, err := r.Journal(t.Context(), pid, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// What is read about a process that is in the store alone does not wake it, in this kernel or in the next, and tells what it
// waits for.
func TestReadingWakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), parkSoon)
		r.sleeper("a")
		pid := r.asleep(t, "a")
		look := func(r *rig, state agentkernel.State) {
			t.Helper()
			before := len(r.entries(t, pid))
			p, err := r.Process(t.Context(), pid)
			if err != nil || p.State != state || p.Usage.ToolCalls != 1 || p.Resident {
				t.Errorf("%+v %v", p, err)
			}
			if state == agentkernel.StateWaiting && !slices.Equal(p.WaitsFor, []string{"time.sleep"}) {
				t.Errorf("it waits for %q", p.WaitsFor)
			}
			list, err := r.List(t.Context(), agentkernel.Filter{Unfinished: true})
			if err != nil || len(list) != 1 || list[0].State != state || !slices.Equal(list[0].WaitsFor, p.WaitsFor) {
				t.Errorf("%+v %v", list, err)
			}
			for _, read := range []func(ctx context.Context) error{
				func(ctx context.Context) error { _, err := r.Spec(ctx, pid); return err },
				func(ctx context.Context) error { _, err := r.State(ctx, pid); return err },
				func(ctx context.Context) error {
					return r.Events(ctx, pid, 1, false, func(agentkernel.Event) error { return nil })
				},
			} {
				if err := read(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if state == agentkernel.StateWaiting { // they wait with it
				for _, wait := range []func(ctx context.Context) error{
					func(ctx context.Context) error { _, err := r.Wait(ctx, pid); return err },
					func(ctx context.Context) error {
						return r.Events(ctx, pid, 1, true, func(agentkernel.Event) error { return nil })
					},
				} {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					if err := wait(ctx); agentkernel.CodeOf(err) != agentkernel.CodeTimeout && err != context.DeadlineExceeded {
						t.Errorf("waited: %v", err)
					}
					cancel()
				}
			}
			if after := len(r.entries(t, pid)); after != before || r.backend.sandboxes() != 0 {
				t.Errorf("%d entries, then %d; %d sandboxes", before, after, r.backend.sandboxes())
			}
		}
		look(r, agentkernel.StateWaiting)
		_ = r.store.Flush(t.Context(), 0)
		next := r.boot(t, r.store.crash(), parkSoon)
		look(next, agentkernel.StateUnfinished)
		if i := next.info(t); i.Unfinished != 1 || i.Processes != 0 {
			t.Errorf("%+v", i)
		}
		list, err := next.Recover(t.Context(), 0)
		if err != nil || len(list) != 1 || list[0].PID != pid || list[0].State != agentkernel.StateWaiting {
			t.Errorf("taken up: %+v %v", list, err)
		}
		if i := next.info(t); i.Unfinished != 0 || i.Processes != 1 || i.Parked != 1 {
			t.Errorf("%+v", i)
		}
		look(next, agentkernel.StateWaiting)
		pass(time.Hour)
		p, err := next.Process(t.Context(), pid)
		if err != nil || p.State != agentkernel.StateExited || p.Recoveries != 1 || next.output(t, pid) != "a woke: <nil>\n" {
			t.Errorf("%+v %v, printed %q", p, err, next.output(t, pid))
		}
		kinds := map[agentkernel.EntryKind]int{}
		for _, e := range next.entries(t, pid) {
			kinds[e.Kind]++
		}
		if kinds[agentkernel.EntryRecover] != 1 || len(next.tools.lines) != 1 {
			t.Errorf("journal %v, the tool was called %d times", kinds, len(next.tools.lines))
		}
	})
}

// unreadable is a store whose journals cannot be read for a while.
type unreadable struct {
	*ramStore
	broken bool
}

func (u *unreadable) Entries(ctx context.Context, pid agentkernel.PID, from int64, limit int) ([]agentkernel.Entry, error) {
	if u.broken {
		return nil, agentkernel.Errorf(agentkernel.CodeStorage, "test", "the disk is gone")
	}
	return u.ramStore.Entries(ctx, pid, from, limit)
}

// TestAProcessThatCannotBeReadLeavesNothing: each try to read a parked process back took memory for its Spec for good.
func TestAProcessThatCannotBeReadLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &unreadable{ramStore: newRAMStore()}
		r := newRig(t, store.ramStore, parkSoon, func(c *kernel.Config) { c.Store = store })
		r.backend.add("sleeps", func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":1e6}`); return err })
		s := spec("sleeps")
		s.Program.Args = []string{strings.Repeat("x", 1<<20)}
		p, err := r.Spawn(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		before := r.HeldForAll()
		store.broken = true
		for range 3 {
			if err := r.Signal(t.Context(), p.PID, agentkernel.SignalUser, agentkernel.SignalOptions{}); err == nil {
				t.Fatal("a process whose journal cannot be read got a signal")
			}
		}
		if after := r.HeldForAll(); after != before {
			t.Errorf("%d bytes are held, %d before", after, before)
		}
		store.broken = false
		if err := r.Signal(t.Context(), p.PID, agentkernel.SignalKill, agentkernel.SignalOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// Each kind of signal reaches a process that is in the store alone.
func TestSignalsReachTheParked(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %t", restart), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore(), parkSoon)
				r.sleeper("a")
				killed, paused, interrupted := r.asleep(t, "a"), r.asleep(t, "a"), r.asleep(t, "a")
				if restart {
					_ = r.store.Flush(t.Context(), 0)
					r = r.boot(t, r.store.crash(), parkSoon)
					if _, err := r.Recover(t.Context(), 0); err != nil {
						t.Fatal(err)
					}
				}
				signal := func(pid agentkernel.PID, sig agentkernel.Signal) {
					t.Helper()
					if err := r.Signal(t.Context(), pid, sig); err != nil {
						t.Errorf("%s: %v", sig, err)
					}
				}
				expect := func(pid agentkernel.PID, state agentkernel.State, paused bool, out string) {
					t.Helper()
					p, err := r.Process(t.Context(), pid)
					if err != nil || p.State != state || p.Paused != paused || r.output(t, pid) != out {
						t.Errorf("pid %d: %s, paused %t, printed %q, error %v", pid, p.State, p.Paused, r.output(t, pid), err)
					}
				}
				signal(killed, agentkernel.SignalKill)
				expect(killed, agentkernel.StateKilled, false, "")
				signal(paused, agentkernel.SignalPause)
				pass(10 * time.Second)
				expect(paused, agentkernel.StateWaiting, true, "")
				signal(interrupted, agentkernel.SignalInterrupt)
				pass(time.Second)
				expect(interrupted, agentkernel.StateExited, false, "a woke: time.sleep: a signal asked it to stop\n")
				pass(2 * time.Hour)
				expect(paused, agentkernel.StateWaiting, true, "")
				signal(paused, agentkernel.SignalResume)
				pass(time.Second)
				expect(paused, agentkernel.StateExited, false, "a woke: <nil>\n")
				if i := r.info(t); i.Processes != 0 || i.Parked != 0 {
					t.Errorf("%+v", i)
				}
			})
		})
	}
}

// Waking a process reads its image and the end of its journal, however long the journal is.
func TestWakingReadsTheEnd(t *testing.T) {
	const calls = 3000
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), parkSoon)
		r.backend.add("long", func(p *prog) error {
			for range calls {
				if _, err := p.call("state.set", `{"key":"k","value":"0123456789012345678901234567890123456789"}`); err != nil {
					return err
				}
			}
			_, err := p.call("time.sleep", `{"seconds":3600}`)
			p.print("%v", err)
			return nil
		})
		pid := r.asleep(t, "long")
		if n := len(r.entries(t, pid)); n < calls {
			t.Fatalf("%d entries", n)
		}
		r.store.mu.Lock()
		r.store.entriesRead = 0
		r.store.mu.Unlock()
		pass(time.Hour)
		r.store.mu.Lock()
		read := r.store.entriesRead
		r.store.mu.Unlock()
		if out := r.output(t, pid); out != "<nil>" || read > 100 || read == 0 {
			t.Errorf("printed %q, read %d entries", out, read)
		}
	})
}

// A process gets a child although it is in the store alone, and is a tree with it from then on.
func TestAParkedProcessGetsAChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), parkSoon)
		r.sleeper("a")
		parent := r.asleep(t, "a")
		s := spec("a")
		s.Parent = parent
		child, err := r.Spawn(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		if err := r.Signal(t.Context(), parent, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		for _, pid := range []agentkernel.PID{parent, child.PID} {
			if p, err := r.Process(t.Context(), pid); err != nil || p.State != agentkernel.StateKilled {
				t.Errorf("pid %d: %s %v", pid, p.State, err)
			}
		}
	})
}

// A session that is in the store alone takes its next cell, and the cells of before.
func TestAParkedSessionIsFed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sessionRig(t, newRAMStore(), parkSoon)
		pid := r.begin(t)
		for source, want := range map[string]string{"quick": "42", "print": "hello\nnull", "tool": `{"n":1}`, "fail": "!no"} {
			pass(10 * time.Second)
			if i := r.info(t); i.Parked != 1 {
				t.Fatalf("%+v", i)
			}
			if out, err := r.feed(t.Context(), pid, source); err != nil || out != want {
				t.Errorf("%s: %q, %v", source, out, err)
			}
		}
		pass(10 * time.Second)
		if p, err := r.EndSession(t.Context(), pid); err != nil || p.State != agentkernel.StateExited {
			t.Errorf("%+v %v", p, err)
		}
	})
}

// Hundreds of processes that sleep for different times, with little memory, in two kernels one after the other: each wakes at
// its time, once.
func TestEachWakesAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 120
		r := newRig(t, newRAMStore(), parkSoon)
		began := time.Now()
		r.backend.add("nap", func(p *prog) error {
			var self struct{ Args []string }
			raw, err := p.call("proc.self", `{}`)
			if err == nil {
				err = json.Unmarshal(raw, &self)
			}
			if err != nil {
				return err
			}
			if _, err := p.call("time.sleep", `{"seconds":`+self.Args[0]+`}`); err != nil {
				return err
			}
			raw, err = p.call("time.now", `{}`)
			p.print("%s", raw)
			return err
		})
		var pids []agentkernel.PID
		for i := range n {
			s := spec("nap")
			s.Program.Args = []string{fmt.Sprint(60 + i*7%n)}
			p, err := r.Spawn(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, p.PID)
		}
		pass(time.Until(began.Add(100*time.Second + 500*time.Millisecond)))
		if i := r.info(t); i.Parked == 0 || i.Resident != 0 {
			t.Errorf("%+v", i)
		}
		_ = r.store.Flush(t.Context(), 0)
		r = r.boot(t, r.store.crash(), parkSoon)
		if _, err := r.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Minute)
		for i, pid := range pids {
			var at float64
			p, err := r.Process(t.Context(), pid)
			if err != nil || p.State != agentkernel.StateExited || json.Unmarshal([]byte(r.output(t, pid)), &at) != nil {
				t.Fatalf("pid %d: %+v %v", pid, p, err)
			}
			want := float64(began.UnixMicro())/1e6 + float64(60+i*7%n)
			if at < want || at > want+0.1 {
				t.Errorf("pid %d woke at %.3f, not at %.3f", pid, at, want)
			}
		}
	})
}
