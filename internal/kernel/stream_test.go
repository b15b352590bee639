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
	"agentkernel/internal/sys/systest/toy"
)

// stream opens a stream of the toy family.
func (p *prog) stream(args string) (handle string, err error) {
	raw, err := p.call("toy.stream", args)
	if err == nil {
		err = json.Unmarshal(raw, &handle)
	}
	return handle, err
}

// nextOf asks a stream for its next items, and says what came of that.
func (p *prog) nextOf(handle string) string {
	raw, err := p.call("stream.next", fmt.Sprintf(`{"handle":%q}`, handle))
	if err != nil {
		return told(err)
	}
	return string(raw)
}

const notOpen = "not_found: stream %s is not open: it was read to its end, it failed, it was closed, or there never was one"

// TestStreams: a program reads streams item by item, to their ends, until they fail, or until it closes them; what it leaves
// open is closed when it ends. One that is parked keeps them.
func TestStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := &toy.World{Grant: agentkernel.Amounts{"coins": 3}}
		r := newRig(t, newRAMStore(), with(y), parkSoon)
		var said []string
		r.backend.add("p", func(p *prog) error {
			said = nil
			say := func(s string) { said = append(said, s) }
			for _, args := range []string{`{"items":2}`, `{"items":1,"fail":"timeout"}`, `{"items":9,"cost":2}`} {
				h, err := p.stream(args)
				if err != nil {
					return err
				}
				if say(p.nextOf(h)); len(said) < 4 {
					if _, err := p.call("toy.wait", `{}`); err != nil { // it is parked
						return err
					}
				}
				say(p.nextOf(h))
				say(p.nextOf(h))
				for range 2 {
					raw, err := p.call("stream.close", fmt.Sprintf(`{"handle":%q}`, h))
					say(fmt.Sprint(string(raw), err))
				}
			}
			say(p.nextOf("1.1"))
			_, err := p.stream(`{"items":9}`)
			return err
		})
		p, _ := r.run(t, spec("p"))
		want := []string{
			`[1]`, `[2]`, `[]`, "false<nil>", "false<nil>",
			`[1]`, "unavailable: the line is dead", fmt.Sprintf(notOpen, fmt.Sprintf("%d.8", p.PID)), "false<nil>", "false<nil>",
			`[1]`, "limit_exceeded: it may use up 2 coins, and 1 of 3 are left: 2 are spent, and calls under way hold 0",
			"limit_exceeded: it may use up 2 coins, and 1 of 3 are left: 2 are spent, and calls under way hold 0", "true<nil>", "false<nil>",
			fmt.Sprintf(notOpen, "1.1"),
		}
		if !slices.Equal(said, want) {
			t.Errorf("the program got\n%s\nwant\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
		}
		synctest.Wait()
		if y.Open() != 0 {
			t.Errorf("%d streams are left open", y.Open())
		}
		if got := account(t, r, p.PID); got != "spent 2 coins, held nothing" {
			t.Error(got)
		}
	})
}

// TestStreamsStayInMemory: the store does not have what stands behind a handle, so a process that has one is not unloaded.
func TestStreamsStayInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := &toy.World{}
		r := newRig(t, newRAMStore(), with(y), parkSoon)
		r.backend.add("p", func(p *prog) error {
			h, err := p.stream(`{"items":2}`)
			if err == nil {
				_, err = p.call("toy.wait", `{}`)
			}
			p.print("%s", p.nextOf(h))
			return err
		})
		p, err := r.Spawn(t.Context(), spec("p"))
		if err != nil {
			t.Fatal(err)
		}
		pass(30 * time.Second)
		if i := r.info(t); i.Processes != 1 || i.Parked != 0 || i.Resident != 0 || y.Open() != 1 {
			t.Fatalf("%+v, %d streams", i, y.Open())
		}
		pass(time.Minute)
		r.expectOutput(t, p.PID, agentkernel.StateExited, `[1]`)
	})
}

// TestTooManyStreams: those under way count.
func TestTooManyStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := &toy.World{}
		r := newRig(t, newRAMStore(), with(y))
		r.backend.add("p", func(p *prog) error {
			refused := 0
			var ids []int64
			for range 70 {
				ids = append(ids, p.async("toy.stream", `{"items":1}`))
			}
			var last error
			for _, id := range ids {
				if _, err := p.wait(id); err != nil {
					refused, last = refused+1, err
				}
			}
			p.print("%d %s", refused, told(last))
			return nil
		})
		s := spec("p")
		s.Limits.InFlight = 100
		if _, out := r.run(t, s); !strings.HasPrefix(out, "6 limit_exceeded: 64 streams are open, which is the limit") {
			t.Errorf("printed %q", out)
		}
		synctest.Wait()
		if y.Open() != 0 {
			t.Errorf("%d streams are left open", y.Open())
		}
	})
}

// TestStreamsOfAnAbortedCell: they go with the cell; those of before stay.
func TestStreamsOfAnAbortedCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := &toy.World{}
		var before, within string
		r := sessionWith(t, map[string]func(*prog) (string, error){
			"open": func(p *prog) (s string, err error) {
				before, err = p.stream(`{"items":3}`)
				return fmt.Sprintf("%q", p.nextOf(before)), err
			},
			"dies": func(p *prog) (s string, err error) {
				if within, err = p.stream(`{"items":3}`); err != nil {
					return "", err
				}
				p.nextOf(within)
				p.nextOf(before)
				<-p.s.dead
				return "", errStopped
			},
			"go on": func(p *prog) (string, error) {
				return fmt.Sprintf("%q", p.nextOf(before)+" "+p.nextOf(within)), nil
			},
		}, with(y))
		pid := r.begin(t)
		if got, err := r.feed(t.Context(), pid, "open"); got != `"[1]"` || err != nil {
			t.Fatalf("%s %v", got, err)
		}
		time.AfterFunc(time.Second, func() {
			if y.Open() != 2 {
				t.Errorf("%d streams are open", y.Open())
			}
			if err := r.Signal(t.Context(), pid, agentkernel.SignalInterrupt); err != nil {
				t.Error(err)
			}
		})
		if end, err := r.Feed(t.Context(), pid, agentkernel.Cell{Source: "dies"}, func(agentkernel.Event) error { return nil }); err != nil || agentkernel.CodeOf(end.Error) != agentkernel.CodeInterrupted {
			t.Fatalf("%+v %v", end, err)
		}
		synctest.Wait()
		if y.Open() != 1 {
			t.Errorf("%d streams are open after the abort", y.Open())
		}
		want := fmt.Sprintf("%q", "[3] "+fmt.Sprintf(notOpen, within)) // the item that the cell had taken is gone with it
		if got, err := r.feed(t.Context(), pid, "go on"); got != want || err != nil {
			t.Errorf("%s %v, want %s", got, err, want)
		}
	})
}

// TestAnInterruptedNext: the item that its call would have been answered with comes with the next one, also where the stream
// gave it to a call that had its answer.
func TestAnInterruptedNext(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			y := &toy.World{Delay: time.Minute}
			r := newRig(t, newRAMStore(), with(y))
			r.backend.add("p", func(p *prog) error {
				h, err := p.stream(fmt.Sprintf(`{"items":2,"cost":2,"deaf":%t}`, deaf))
				for range 4 {
					p.print("%s; ", p.nextOf(h))
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
			pass(time.Hour)
			r.expectOutput(t, p.PID, agentkernel.StateExited, "interrupted: a signal asked it to stop; [1]; [2]; []; ")
			want := "spent 6 coins, held nothing" // the call that was interrupted costs what it had reserved
			if deaf {
				want = "spent 4 coins, held nothing" // and has paid for the item that comes with the next one
			}
			if got := account(t, r, p.PID); got != want {
				t.Errorf("deaf %v: %s, want %s", deaf, got, want)
			}
		})
	}
}

// TestTheEndOfAStreamThatComesWithTheProgramsOwn is no answer of the call that waits for the stream: who runs the program again would be
// told it.
func TestTheEndOfAStreamThatComesWithTheProgramsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		wall time.Duration
		end  func(t *testing.T, r *rig, pid agentkernel.PID)
	}{
		"killed": {end: func(t *testing.T, r *rig, pid agentkernel.PID) {
			if err := r.Signal(t.Context(), pid, agentkernel.SignalKill); err != nil {
				t.Error(err)
			}
		}},
		"out of time": {wall: 10 * time.Second, end: func(*testing.T, *rig, agentkernel.PID) {}},
		"closed": {end: func(t *testing.T, r *rig, _ agentkernel.PID) {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := &toy.World{}
				r := newRig(t, newRAMStore(), with(y))
				program := func(p *prog) error {
					h, err := p.stream(`{"items":9,"cost":1,"keep":9,"usd":true,"hangs":true}`)
					if err == nil {
						p.print("%s", p.nextOf(h))
					}
					return err
				}
				r.backend.add("p", program)
				s := budgeted("p", agentkernel.Budget{USD: 10})
				s.Limits.Wall = agentkernel.Duration(c.wall)
				p, err := r.Spawn(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				pass(time.Second)
				c.end(t, r, p.PID)
				pass(time.Minute)
				if y.Open() != 0 {
					t.Errorf("%d streams are left open", y.Open())
				}
				if name == "closed" {
					r = r.boot(t, r.store, with(y))
					r.backend.add("p", program)
				}
				for _, e := range r.entries(t, p.PID) {
					if e.Kind == agentkernel.EntryResult && e.Call > 1 {
						t.Errorf("call %d was answered: %s %v", e.Call, e.Data, e.Err)
					}
				}
				pid := p.PID
				if name == "closed" { // it is continued
					_, err = r.Recover(t.Context(), pid)
					pass(time.Minute)
				} else {
					again, _ := r.run(t, rerunning("p", pid))
					pid = again.PID
				}
				if out := printed(t, r, pid); err != nil || !strings.HasPrefix(out, "session_lost: ") {
					t.Errorf("it was told %q, %v", out, err)
				}
			})
		})
	}
}

// TestARerunWithAStream: what the origin has received is received again, and of the rest it is said that it is gone.
func TestARerunWithAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := &toy.World{}
		r := newRig(t, newRAMStore(), with(y))
		more := 0
		r.backend.add("p", func(p *prog) error {
			h, err := p.stream(`{"items":9}`)
			for range 2 + more {
				p.print("%s; ", p.nextOf(h))
			}
			return err
		})
		first, _ := r.run(t, spec("p"))
		more = 2
		again, _ := r.run(t, rerunning("p", first.PID))
		out := printed(t, r, again.PID)
		want := fmt.Sprintf("[1]; [2]; session_lost: stream %d.1 is lost: the kernel that had it has ended, or another process opened it; what it gave before is all there is; ", first.PID) + fmt.Sprintf(notOpen, fmt.Sprintf("%d.1", first.PID)) + "; "
		if out != want || len(y.Asked()) != 2 {
			t.Errorf("printed %q, want %q; asked for %q", out, want, y.Asked())
		}
	})
}
