package kernel_test

import (
	"slices"
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
