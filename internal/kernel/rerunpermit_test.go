package kernel_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
)

// TestARetryInARerunNeedsPermission: a write in doubt that a rerun has from its origin was never permitted to this process. A decision to
// make it again says that it did not happen, and not that this process may make it: it is sent as a new call is, by a pattern or the yes of
// a human, also over a crash and a halt; else it is as much in doubt as before.
func TestARetryInARerunNeedsPermission(t *testing.T) {
	for _, when := range []string{"at once", "after a crash", "a crash behind the decision", "a halt"} {
		for _, answer := range []agentkernel.Answer{"", agentkernel.AnswerYes, agentkernel.AnswerAlways, agentkernel.AnswerNo} {
			t.Run(when+", "+string(answer), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { retryInARerun(t, when, answer) })
			})
		}
	}
}

// retryInARerun decides that a write of the origin is made again in a rerun that nobody has allowed anything. answer: what a human says who
// is asked whether it may be; "": nobody can be asked.
func retryInARerun(t *testing.T, when string, answer agentkernel.Answer) {
	r := newRig(t, newRAMStore(), parkSoon)
	server := remembering(r, cut("w2"))
	r.backend.add("p", steps("r1 w2 p7").run)
	first := r.killed(t, spec("p"))
	server.answers()
	s := rerunning("p", first)
	s.Allow, s.Interactive, s.OnUnknown = nil, answer != "", agentkernel.UnknownPause
	p, _ := r.rerun(t, s)
	pass(time.Minute) // it is parked
	crash := func() {
		r = r.boot(t, r.store.crash(), parkSoon)
		server = remembering(r, nil)
		if _, err := r.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if when == "after a crash" {
		crash()
	}
	hold := agentkernel.Hold{}
	if when == "a halt" {
		if err := r.Halt(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Resolve(t.Context(), p.PID, 2, retry); err != nil {
		t.Fatal(err)
	}
	pass(time.Second)
	switch when {
	case "a halt":
		if err := r.Thaw(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
	case "a crash behind the decision":
		crash()
	}
	pass(time.Second)
	if got := server.of("w2"); len(got) > 0 {
		t.Fatalf("nobody has permitted it, and it was made: %v", got)
	}
	if answer != "" {
		answered := errors.New("answered")
		err := r.Events(t.Context(), p.PID, 1, true, func(ev agentkernel.Event) error {
			if ev.Kind != agentkernel.EventAsk {
				return nil
			}
			if ev.Ask.Call != "fake.append" || ev.Ask.Effect != agentkernel.EffectWrite {
				t.Errorf("asked %+v", ev.Ask)
			}
			return errors.Join(answered, r.Answer(t.Context(), ev.PID, ev.Ask.ID, answer))
		})
		if err == nil || err.Error() != answered.Error() {
			t.Fatal(err)
		}
		pass(time.Second)
	}
	p, err := r.Wait(t.Context(), p.PID)
	if err != nil {
		t.Fatal(err)
	}
	if answer == agentkernel.AnswerYes || answer == agentkernel.AnswerAlways {
		if got := server.of("w2"); p.State != agentkernel.StateExited || !slices.Equal(got, []string{"1/2"}) || p.Usage.ToolCalls != 1 {
			t.Errorf("%+v: made with the keys %v", p, got)
		}
		return
	}
	entries := r.entries(t, p.PID)
	last := entries[len(entries)-1]
	if !p.Paused || p.Asks() != "" || last.Kind != agentkernel.EntryPaused || last.Call != 2 || !strings.Contains(last.Err.Message(), "was not allowed") {
		t.Errorf("%+v: its journal ends with %+v", p, last)
	}
	calls := 0
	for _, e := range entries {
		if e.Kind == agentkernel.EntryCall && e.Call == 2 {
			calls++
		}
	}
	if err := r.Resolve(t.Context(), p.PID, 2, done); err != nil {
		t.Fatal(err)
	}
	p, err = r.Wait(t.Context(), p.PID)
	if got := server.of("w2"); err != nil || p.State != agentkernel.StateExited || p.Usage.ToolCalls != 0 || len(got) > 0 || calls != 1 {
		t.Errorf("%+v %v: made with the keys %v, %d entries of the call", p, err, got, calls)
	}
}
