package kernel_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// sessionWith is a sessionRig whose sessions know these cells, too, and "ran": how many they have run.
func sessionWith(t *testing.T, more map[string]func(*prog) (string, error), change ...func(*kernel.Config)) *rig {
	t.Helper()
	r := sessionRig(t, newRAMStore(), change...)
	all := maps.Clone(cells)
	maps.Copy(all, more)
	all["ran"] = func(p *prog) (string, error) { return fmt.Sprint(p.ran), nil }
	for name := range all {
		r.backend.add(name, nil)
	}
	r.backend.add("session", func(p *prog) error { return p.session(all) })
	return r
}

// A cell can be aborted while a call of it is not in the journal yet, since a human is asked. The session goes on, and
// repeats its journal as often as it has to.
func TestACellIsAbortedWhileAHumanIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sessionWith(t, map[string]func(*prog) (string, error){"ask": func(p *prog) (string, error) {
			p.async("tool.call", callTool("append", `{}`))
			<-p.s.dead
			return "", errStopped
		}})
		s := spec("session")
		s.Allow, s.Interactive = nil, true
		pid := r.beginAs(t, s)
		asked := false
		end, err := r.Feed(t.Context(), pid, agentkernel.Cell{Source: "ask"}, func(ev agentkernel.Event) error {
			if ev.Kind == agentkernel.EventAsk {
				asked = true
				return r.Signal(t.Context(), pid, agentkernel.SignalInterrupt)
			}
			return nil
		})
		if err != nil || !asked || end.Ended || agentkernel.CodeOf(end.Error) != agentkernel.CodeInterrupted {
			t.Fatalf("asked %v: %+v %v", asked, end, err)
		}
		for _, c := range [][2]string{{"quick", "42"}, {"state", "1"}, {"ran", "3"}} {
			if got, err := r.feed(t.Context(), pid, c[0]); got != c[1] || err != nil {
				t.Errorf("%s: %q %v", c[0], got, err)
			}
		}
		again := r.boot(t, r.store.crash())
		if _, err := again.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, err := again.feed(t.Context(), pid, "ran"); got != "4" || err != nil {
			t.Errorf("after a crash: %q %v", got, err)
		}
	})
}

// A signal that comes when a cell has ended, and before the session has said so, ends the session or leaves it.
func TestASignalAtTheEndOfACell(t *testing.T) {
	for _, parked := range []bool{false, true} {
		t.Run(fmt.Sprintf("interrupt, once parked: %v", parked), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, pid := signalledAtTheEnd(t, agentkernel.SignalInterrupt, parked)
				for ran := range 3 {
					if got, err := r.feed(t.Context(), pid, "ran"); got != fmt.Sprint(ran+3) || err != nil {
						t.Errorf("the session has run %q cells: %v", got, err)
					}
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r, pid := signalledAtTheEnd(t, agentkernel.SignalKill, false)
		if p, err := r.Process(t.Context(), pid); err != nil || p.State != agentkernel.StateKilled {
			t.Errorf("a kill: %+v %v", p, err)
		}
	})
}

// What stood around a session is known also when its sandbox is gone: because a cell was aborted, or it was idle.
func TestWallsOfASessionWithoutSandbox(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, *rig, agentkernel.PID){
		"a cell was aborted": func(t *testing.T, r *rig, pid agentkernel.PID) {
			time.AfterFunc(time.Second, func() {
				if err := r.Signal(t.Context(), pid, agentkernel.SignalInterrupt); err != nil {
					t.Error(err)
				}
			})
			if _, err := r.feed(t.Context(), pid, "computes"); err != nil {
				t.Error(err)
			}
		},
		"idle": func(*testing.T, *rig, agentkernel.PID) { time.Sleep(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := sessionWith(t, map[string]func(*prog) (string, error){"computes": func(p *prog) (string, error) {
					<-p.s.dead
					return "", errStopped
				}}, func(c *kernel.Config) {
					c.SessionStay = time.Second
					c.Backends[0].(*goBackend).noImages = true
				})
				r.backend.walls = []agentkernel.Wall{{Name: "no network", On: true}}
				pid := r.begin(t)
				lose(t, r, pid)
				synctest.Wait()
				if p, err := r.Process(t.Context(), pid); err != nil || p.Resident || !reflect.DeepEqual(p.Walls, r.backend.walls) {
					t.Errorf("%+v %v", p, err)
				}
			})
		})
	}
}

// A session that nobody feeds for six hours ends by itself, also if its kernel dies meanwhile.
func TestASessionThatNobodyFeedsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sessionWith(t, nil)
		pid := r.begin(t)
		pass(5 * time.Hour)
		if got, err := r.feed(t.Context(), pid, "quick"); got != "42" || err != nil {
			t.Fatal(got, err)
		}
		pass(5 * time.Hour)
		if err := r.store.Flush(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		r2 := r.boot(t, r.store.crash())
		if _, err := r2.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			wait time.Duration
			want bool
		}{{59 * time.Minute, false}, {2 * time.Minute, true}} {
			pass(c.wait)
			if p, err := r2.Process(t.Context(), pid); err != nil || p.State.Terminal() != c.want || c.want && p.State != agentkernel.StateExited {
				t.Errorf("%v later: %+v %v", c.wait, p, err)
			}
		}
	})
}

// A session that no image can bring back keeps its sandbox for a quarter of an hour.
func TestASessionWithoutImagesKeepsItsSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sessionWith(t, nil, func(c *kernel.Config) { c.Backends[0].(*goBackend).noImages = true })
		pid := r.begin(t)
		for _, c := range []struct {
			wait     time.Duration
			resident bool
		}{{14 * time.Minute, true}, {2 * time.Minute, false}} {
			pass(c.wait)
			synctest.Wait()
			if p, err := r.Process(t.Context(), pid); err != nil || p.Resident != c.resident {
				t.Errorf("%v later: resident %t, %v", c.wait, p.Resident, err)
			}
		}
		if got, err := r.feed(t.Context(), pid, "quick"); got != "42" || err != nil {
			t.Error(got, err)
		}
	})
}

// signalledAtTheEnd gives a session that has run two cells, and was sent a signal at the end of the second.
func signalledAtTheEnd(t *testing.T, sig agentkernel.Signal, parked bool) (*rig, agentkernel.PID) {
	t.Helper()
	var r *rig
	var pid agentkernel.PID
	r = sessionWith(t, map[string]func(*prog) (string, error){"lacks": func(*prog) (string, error) {
		// Whether the session could move is looked at between the end of the cell and the call that tells it.
		r.store.beforeNextRead(func() {
			go func() { _ = r.Signal(context.Background(), pid, sig) }()
			synctest.Wait()
		})
		return "", &shortfall{errUnknownName, agentkernel.FaultBackend}
	}}, func(c *kernel.Config) { c.ParkAfter = time.Second })
	pid = r.beginAs(t, auto("session"))
	if got, err := r.feed(t.Context(), pid, "quick"); got != "42" || err != nil {
		t.Fatal(got, err)
	}
	if parked {
		pass(time.Minute)
		if r.backend.sandboxes() != 0 {
			t.Fatal("it is not parked")
		}
	}
	if got, err := r.feed(t.Context(), pid, "lacks"); got != "!"+errUnknownName.Error() || err != nil {
		t.Errorf("the cell: %q %v", got, err)
	}
	synctest.Wait()
	return r, pid
}

// A session that is killed while the sandbox of a cell that was aborted closes says nothing more, and waits for nothing.
func TestAKillWhileACellIsAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		var pid agentkernel.PID
		r = sessionWith(t, map[string]func(*prog) (string, error){"huge": func(p *prog) (string, error) {
			r.backend.onClose = func() {
				r.backend.onClose = nil
				if err := r.Signal(t.Context(), pid, agentkernel.SignalKill); err != nil {
					t.Error(err)
				}
			}
			p.turn(agentkernel.Turn{Kind: agentkernel.TurnFail, Err: agentkernel.Errorf(agentkernel.CodeLimit, "limit.memory", "too much")})
			return "", errStopped
		}})
		pid = r.begin(t)
		idle, end := kernel.IdleEvents(r.Kernel, pid)
		got, err := r.Feed(t.Context(), pid, agentkernel.Cell{Source: "huge"}, func(agentkernel.Event) error { return nil })
		if err != nil || !got.Ended || got.Error.Code != agentkernel.CodeKilled {
			t.Errorf("%+v %v", got, err)
		}
		synctest.Wait()
		if n := idle(); n != 0 {
			t.Errorf("it said %d times that it waits", n)
		}
		end()
	})
}

// What sessions were fed is kept while they live, however they end.
func TestSourcesOfEndedSessionsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sessionWith(t, map[string]func(*prog) (string, error){"exit": func(p *prog) (string, error) {
			_, err := p.call("proc.exit", `{"code":0}`)
			return "", err
		}})
		for name, end := range map[string]func(agentkernel.PID) error{
			"killed": func(pid agentkernel.PID) error { return r.Signal(t.Context(), pid, agentkernel.SignalKill) },
			"left":   func(agentkernel.PID) error { pass(7 * time.Hour); return nil },
			"ended":  func(pid agentkernel.PID) error { _, err := r.EndSession(t.Context(), pid); return err },
			"exited": func(pid agentkernel.PID) error { _, err := r.feed(t.Context(), pid, "exit"); return err },
		} {
			pid := r.begin(t)
			if got, err := r.feed(t.Context(), pid, "quick"); got != "42" || err != nil {
				t.Fatal(name, got, err)
			}
			if n := r.Fed(); n != 1 {
				t.Errorf("%s: the sources of %d sessions are kept while one lives", name, n)
			}
			if err := end(pid); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			synctest.Wait()
			if p, err := r.Process(t.Context(), pid); err != nil || !p.State.Terminal() || r.Fed() != 0 {
				t.Errorf("%s: %+v, %v; the sources of %d sessions are kept", name, p, err, r.Fed())
			}
		}
	})
}
