package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"agentkernel"
)

// family adds a program that starts a second one, which starts a third, and waits for it; the third asks, and prints what it was told.
func (r *rig) family(more string) {
	for name, child := range map[string]string{"root": "middle", "middle": "asker"} {
		r.backend.add(name, func(p *prog) error {
			extra := ""
			if name == "root" {
				extra = more
			}
			pid, err := p.call("proc.spawn", fmt.Sprintf(`{"source":%q%s}`, child, extra))
			if err == nil {
				_, err = p.call("proc.wait", fmt.Sprintf(`{"pid":%s}`, pid))
			}
			return err
		})
	}
	r.backend.add("asker", func(p *prog) error {
		_, err := p.call("tool.call", callTool("append", `{}`))
		p.print("%s", agentkernel.CodeOf(err))
		return nil
	})
}

func askingRoot() agentkernel.Spec {
	s := spec("root")
	s.Allow, s.Interactive = nil, true
	return s
}

// Whoever follows a process is asked what those below it ask, and told who asks.
func TestAQuestionFromBelow(t *testing.T) {
	for answer, want := range map[agentkernel.Answer]struct {
		told  agentkernel.Code
		wrote int
	}{
		agentkernel.AnswerYes:    {"", 1},
		agentkernel.AnswerAlways: {"", 1},
		agentkernel.AnswerNo:     {agentkernel.CodeDenied, 0},
	} {
		t.Run(string(answer), func(t *testing.T) {
			r := newRig(t, newRAMStore())
			r.family("")
			asked := 0
			p, err := r.Run(t.Context(), askingRoot(), func(ev agentkernel.Event) error {
				if ev.Kind != agentkernel.EventAsk {
					return nil
				}
				if asked++; ev.PID != 3 || ev.Seq != 0 || ev.Ask.Call != "fake.append" {
					t.Errorf("asked %+v", ev)
				}
				if q, err := r.Process(t.Context(), 3); err != nil || q.Asks() != "fake.append" || q.Paused {
					t.Errorf("it shows as %+v, %v", q, err)
				}
				return r.Answer(t.Context(), ev.PID, ev.Ask.ID, answer)
			})
			if out := r.output(t, 3); err != nil || p.State != agentkernel.StateExited || asked != 1 || out != string(want.told) || r.tools.wrote() != want.wrote {
				t.Errorf("%+v, %v: asked %d times, told %q, %d writes", p, err, asked, out, r.tools.wrote())
			}
		})
	}
}

// What a human allows a process with "always" is that process's alone: a child asks anew, and one that is detached, which may outlive whoever
// was asked, is denied it. Nor is it in the Spec of a child, which a rerun has, too.
func TestAlwaysIsNotForChildren(t *testing.T) {
	for name, c := range map[string]struct {
		more  string
		told  agentkernel.Code
		asked int
	}{"a child": {"", "", 2}, "detached": {`,"detached":true`, agentkernel.CodeDenied, 1}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, newRAMStore())
			r.backend.add("parent", func(p *prog) error {
				for range 2 {
					if _, err := p.call("tool.call", callTool("append", `{}`)); err != nil {
						return err
					}
				}
				pid, err := p.call("proc.spawn", `{"source":"child"`+c.more+`}`)
				if err == nil {
					_, err = p.call("proc.wait", fmt.Sprintf(`{"pid":%s}`, pid))
				}
				return err
			})
			r.backend.add("child", func(p *prog) error {
				_, err := p.call("tool.call", callTool("append", `{}`))
				p.print("%s", agentkernel.CodeOf(err))
				return nil
			})
			s := spec("parent")
			s.Allow, s.Interactive = nil, true
			asked := 0
			p, err := r.Run(t.Context(), s, func(ev agentkernel.Event) error {
				if ev.Kind != agentkernel.EventAsk {
					return nil
				}
				asked++
				return r.Answer(t.Context(), ev.PID, ev.Ask.ID, agentkernel.AnswerAlways)
			})
			if out := r.output(t, 2); err != nil || p.State != agentkernel.StateExited || asked != c.asked || out != string(c.told) {
				t.Errorf("%+v, %v: asked %d times, the child was told %q", p, err, asked, out)
			}
			if child, err := r.Spec(t.Context(), 2); err != nil || len(child.Allow) > 0 {
				t.Errorf("the child may %q, %v", child.Allow, err)
			}
		})
	}
}

// Without anybody who can answer a call is denied: below a process that is not interactive, and below one that was detached, which may
// outlive whoever follows the root.
func TestNobodyIsAskedFromBelow(t *testing.T) {
	for name, c := range map[string]struct {
		more        string
		interactive bool
	}{"not interactive": {"", false}, "detached": {`,"detached":true`, true}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, newRAMStore())
			r.family(c.more)
			s := askingRoot()
			s.Interactive = c.interactive
			p, err := r.Run(t.Context(), s, func(ev agentkernel.Event) error {
				if ev.Kind == agentkernel.EventAsk {
					t.Errorf("asked %+v", ev)
				}
				return nil
			})
			if out := r.output(t, 3); err != nil || p.State != agentkernel.StateExited || out != string(agentkernel.CodeDenied) || r.tools.wrote() != 0 {
				t.Errorf("%+v, %v: told %q, %d writes", p, err, out, r.tools.wrote())
			}
		})
	}
}

// A question from below outlives whoever is asked: the process that asks is paused, the one that was followed waits, and whoever follows
// that next is asked again, also by the next kernel. The call is made once.
func TestAQuestionFromBelowOutlivesWhoIsAsked(t *testing.T) {
	leave := errors.New("left")
	for name, end := range map[string]func(*testing.T, *rig) *ramStore{
		"its client leaves": nil,
		"the kernel stops": func(t *testing.T, r *rig) *ramStore {
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			return r.store
		},
		"the kernel crashes": func(_ *testing.T, r *rig) *ramStore { return r.store.crash() },
	} {
		for _, answer := range []agentkernel.Answer{agentkernel.AnswerYes, agentkernel.AnswerNo} {
			t.Run(name+", "+string(answer), func(t *testing.T) {
				r := newRig(t, newRAMStore())
				r.family("")
				asked := make(chan struct{}, 1)
				var ran sync.WaitGroup
				defer ran.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ran.Go(func() {
					_, _ = r.Run(ctx, askingRoot(), func(ev agentkernel.Event) error {
						if ev.Kind != agentkernel.EventAsk {
							return nil
						}
						asked <- struct{}{}
						if end == nil {
							return leave
						}
						return nil
					})
				})
				<-asked
				if end == nil {
					ran.Wait()
				} else {
					left := end(t, r)
					cancel()
					r = r.boot(t, left)
					if _, err := r.Recover(t.Context(), 0); err != nil {
						t.Fatal(err)
					}
				}
				if p, err := r.Wait(t.Context(), 3); err != nil || !p.Paused || p.Asks() != "fake.append" {
					t.Fatalf("%+v, %v; want it paused at its question", p, err)
				}
				if p, err := r.Process(t.Context(), 1); err != nil || p.Paused || p.State.Terminal() {
					t.Errorf("the root is %+v, %v", p, err)
				}
				n := 0
				err := r.Events(t.Context(), 1, 1, true, func(ev agentkernel.Event) error {
					if ev.Kind == agentkernel.EventAsk {
						n++
						return r.Answer(t.Context(), ev.PID, ev.Ask.ID, answer)
					}
					return nil
				})
				told, wrote := "", 1
				if answer == agentkernel.AnswerNo {
					told, wrote = string(agentkernel.CodeDenied), 0
				}
				if out := r.output(t, 3); err != nil || n != 1 || out != told || r.tools.wrote() != wrote {
					t.Errorf("%v: asked %d times, told %q, %d writes", err, n, out, r.tools.wrote())
				}
			})
		}
	}
}

// A cell of a session may leave a child behind, which asks when nobody is there: whoever feeds the next cell is asked.
func TestAQuestionFromBelowASession(t *testing.T) {
	goes := make(chan struct{})
	r := sessionWith(t, map[string]func(*prog) (string, error){
		"leave": func(p *prog) (string, error) {
			pid, err := p.call("proc.spawn", `{"source":"late"}`)
			return string(pid), err
		},
		"meet": func(p *prog) (string, error) {
			_, err := p.call("proc.wait", `{"pid":2}`)
			return "1", err
		},
	})
	r.backend.add("late", func(p *prog) error {
		<-goes
		_, err := p.call("tool.call", callTool("append", `{}`))
		return err
	})
	s := spec("session")
	s.Allow, s.Interactive = nil, true
	pid := r.beginAs(t, s)
	if out, err := r.feed(t.Context(), pid, "leave"); out != "2" || err != nil {
		t.Fatal(out, err)
	}
	close(goes)
	if p, err := r.Wait(t.Context(), 2); err != nil || !p.Paused || p.Asks() != "fake.append" {
		t.Fatalf("%+v, %v; want it paused at its question", p, err)
	}
	asked := 0
	end, err := r.Feed(t.Context(), pid, agentkernel.Cell{Source: "meet"}, func(ev agentkernel.Event) error {
		if ev.Kind == agentkernel.EventAsk {
			asked++
			return r.Answer(t.Context(), ev.PID, ev.Ask.ID, agentkernel.AnswerYes)
		}
		return nil
	})
	if err != nil || string(end.Result) != "1" || asked != 1 || r.tools.wrote() != 1 {
		t.Errorf("%+v, %v: asked %d times, %d writes", end, err, asked, r.tools.wrote())
	}
}

// A process that is paused with one above it says what it asked, too.
func TestAPauseFromAboveAtAQuestion(t *testing.T) {
	r := newRig(t, newRAMStore())
	r.family("")
	p, err := r.Run(t.Context(), askingRoot(), func(ev agentkernel.Event) error {
		if ev.Kind == agentkernel.EventAsk {
			return r.Signal(t.Context(), 1, agentkernel.SignalPause)
		}
		return nil
	})
	if err != nil || !p.Paused {
		t.Fatalf("%+v, %v", p, err)
	}
	if q, err := r.Process(t.Context(), 3); err != nil || q.Asks() != "fake.append" || q.PauseNote != "with process 1; "+agentkernel.YourAnswer+"fake.append" {
		t.Errorf("%+v, %v", q, err)
	}
	asked := false
	err = r.Events(t.Context(), 1, 1, true, func(ev agentkernel.Event) error {
		if ev.Kind != agentkernel.EventAsk {
			return nil
		}
		asked = true
		if err := r.Signal(t.Context(), 1, agentkernel.SignalResume); err != nil {
			return err
		}
		return r.Answer(t.Context(), ev.PID, ev.Ask.ID, agentkernel.AnswerYes)
	})
	if err != nil || !asked || r.tools.wrote() != 1 {
		t.Errorf("%v, asked %v, %d writes", err, asked, r.tools.wrote())
	}
}
