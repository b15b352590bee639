package kernel_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"agentkernel"
)

// A process that was paused when its kernel ended, and is resumed where no one can answer what it asks, is not told no: it is
// paused again, as often as that happens, until somebody is there.
func TestAQuestionThatFindsNoOne(t *testing.T) {
	r := newRig(t, newRAMStore())
	r.backend.add("p", func(p *prog) error {
		_, err := p.call("tool.call", callTool("append", `{}`))
		p.print("%s", agentkernel.CodeOf(err))
		return nil
	})
	p := r.pausedAtItsQuestion(t, "p")
	for range 2 {
		r = r.boot(t, r.store.crash())
		if _, err := r.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if err := r.Signal(t.Context(), p.PID, agentkernel.SignalResume); err != nil {
			t.Fatal(err)
		}
		got, err := r.Wait(t.Context(), p.PID)
		if err != nil || !got.Paused || !slices.Contains(got.WaitsFor, agentkernel.YourAnswer+"fake.append") {
			t.Fatalf("%+v, %v: %s", got, err, r.output(t, p.PID))
		}
	}
	resumed := false
	err := r.Events(t.Context(), p.PID, 1, true, func(ev agentkernel.Event) error {
		switch {
		case ev.Kind == agentkernel.EventAsk:
			return r.Answer(t.Context(), p.PID, ev.Ask.ID, agentkernel.AnswerYes)
		case !resumed:
			resumed = true
			return r.Signal(t.Context(), p.PID, agentkernel.SignalResume)
		}
		return nil
	})
	if out := r.output(t, p.PID); err != nil || out != "" || r.tools.wrote() != 1 {
		t.Errorf("%v, the program is told %q, %d writes", err, out, r.tools.wrote())
	}
}

// Whoever is asked may lose his terminal, and his kernel may end or be killed: neither is an answer. The process is paused, or
// will be when it is taken up, and says what it asked; whoever is there next is asked, and the call is made once.
func TestAQuestionOutlivesWhoIsAsked(t *testing.T) {
	leave, gone := errors.New("left"), errors.New("its kernel has gone")
	ends := map[string]func(*testing.T, *rig) (*ramStore, error){
		"its client leaves":  func(*testing.T, *rig) (*ramStore, error) { return nil, leave },
		"the kernel stops":   func(t *testing.T, r *rig) (*ramStore, error) { return r.store, r.Close() },
		"the kernel crashes": func(_ *testing.T, r *rig) (*ramStore, error) { return r.store.crash(), gone },
	}
	for name, end := range ends {
		for _, answer := range []agentkernel.Answer{agentkernel.AnswerYes, agentkernel.AnswerNo} {
			t.Run(name+", "+string(answer), func(t *testing.T) {
				r := newRig(t, newRAMStore())
				r.backend.add("p", func(p *prog) error {
					_, err := p.call("tool.call", callTool("append", `{}`))
					p.print("%s", agentkernel.CodeOf(err))
					return nil
				})
				s := spec("p")
				s.Allow, s.Interactive = nil, true
				var pid agentkernel.PID
				var left *ramStore
				asked := make(chan agentkernel.PID, 1)
				var ran sync.WaitGroup
				defer ran.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ran.Go(func() {
					_, _ = r.Run(ctx, s, func(ev agentkernel.Event) error {
						if ev.Kind == agentkernel.EventAsk {
							asked <- ev.PID
							if name == "its client leaves" {
								return leave
							}
						}
						return nil
					})
				})
				pid = <-asked
				if name == "its client leaves" {
					ran.Wait()
				} else {
					var err error
					if left, err = end(t, r); err != nil && err != gone {
						t.Fatal(err)
					}
					cancel()
					r = r.boot(t, left)
				}
				if name == "the kernel stops" {
					if p, err := r.Process(t.Context(), pid); err != nil || !p.Paused || p.Asks() != "fake.append" {
						t.Errorf("before it is taken up: %+v, %v", p, err)
					}
				}
				if left != nil {
					if _, err := r.Recover(t.Context(), 0); err != nil {
						t.Fatal(err)
					}
				}
				p, err := r.Wait(t.Context(), pid)
				if err != nil || !p.Paused || p.Asks() != "fake.append" || p.PauseNote != agentkernel.YourAnswer+"fake.append" {
					t.Fatalf("%+v, %v; want it paused at its question", p, err)
				}
				err = r.Events(t.Context(), pid, 1, true, func(ev agentkernel.Event) error {
					if ev.Kind == agentkernel.EventAsk {
						return r.Answer(t.Context(), pid, ev.Ask.ID, answer)
					}
					return nil
				})
				told, wrote := "", int64(1)
				if answer == agentkernel.AnswerNo {
					told, wrote = string(agentkernel.CodeDenied), 0
				}
				if out := r.output(t, pid); err != nil || out != told || int64(r.tools.wrote()) != wrote {
					t.Errorf("%v, the program is told %q, %d writes", err, out, r.tools.wrote())
				}
			})
		}
	}
}

// A kernel that is stopping takes no answer: what it would do because of it might be cut off, and the question is kept.
func TestNoAnswerToAKernelThatStops(t *testing.T) {
	r := newRig(t, newRAMStore())
	r.backend.add("p", func(p *prog) error {
		_, err := p.call("tool.call", callTool("append", `{}`))
		return err
	})
	s := spec("p")
	s.Allow, s.Interactive = nil, true
	asked := make(chan agentkernel.Ask, 1)
	var ran sync.WaitGroup
	ran.Go(func() {
		_, _ = r.Run(t.Context(), s, func(ev agentkernel.Event) error {
			if ev.Kind == agentkernel.EventAsk {
				asked <- *ev.Ask
			}
			return nil
		})
	})
	q := <-asked
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	ran.Wait()
	if err := r.Answer(t.Context(), 1, q.ID, agentkernel.AnswerNo); err == nil {
		t.Error("it was taken")
	}
	if p, err := r.boot(t, r.store).Process(t.Context(), 1); err != nil || p.Asks() != "fake.append" {
		t.Errorf("%+v, %v", p, err)
	}
}

// Who pauses it by hand wants it to stay so, also when somebody looks on; it says what it asked, under the next kernel as well.
func TestAPauseByHandAtAQuestion(t *testing.T) {
	r := newRig(t, newRAMStore())
	r.backend.add("p", func(p *prog) error {
		_, err := p.call("tool.call", callTool("append", `{}`))
		return err
	})
	p := r.pausedAtItsQuestion(t, "p")
	ctx, cancel := context.WithCancel(t.Context())
	err := r.Events(ctx, p.PID, 1, true, func(ev agentkernel.Event) error {
		if ev.Kind == agentkernel.EventAsk {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	r = r.boot(t, r.store.crash())
	if p, err = r.Process(t.Context(), p.PID); err != nil || !p.Paused || p.Asks() != "fake.append" || p.PauseNote != "by hand; "+agentkernel.YourAnswer+"fake.append" {
		t.Errorf("%+v, %v", p, err)
	}
}

// An interrupt at a question is raised by the call that asks, as why says; who answers after that answers nothing.
func TestAnInterruptAtAQuestion(t *testing.T) {
	r := newRig(t, newRAMStore())
	r.backend.add("p", func(p *prog) error {
		_, err := p.call("tool.call", callTool("append", `{}`))
		p.print("%s", agentkernel.CodeOf(err))
		return nil
	})
	s := spec("p")
	s.Allow, s.Interactive = nil, true
	var q agentkernel.Ask
	p, err := r.Run(t.Context(), s, func(ev agentkernel.Event) error {
		if ev.Kind != agentkernel.EventAsk {
			return nil
		}
		q = *ev.Ask
		return r.Signal(t.Context(), ev.PID, agentkernel.SignalInterrupt)
	})
	if out := r.output(t, p.PID); err != nil || p.State != agentkernel.StateExited || out != string(agentkernel.CodeInterrupted) || r.tools.wrote() != 0 {
		t.Fatalf("%+v, %v: told %q, %d writes", p, err, out, r.tools.wrote())
	}
	if err := r.Answer(t.Context(), p.PID, q.ID, agentkernel.AnswerYes); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("an answer after it: %v", err)
	}
	entries, err := r.Journal(t.Context(), p.PID, 1, 0)
	at := slices.IndexFunc(entries, func(e agentkernel.Entry) bool { return e.Op == "tool.call" })
	if err != nil || at < 0 || !entries[at].Done || agentkernel.CodeOf(entries[at].Err) != agentkernel.CodeInterrupted {
		t.Errorf("the journal does not have the call as one that is done: %+v, %v", entries, err)
	}
}
