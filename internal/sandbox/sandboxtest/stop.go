package sandboxtest

import (
	"slices"
	"testing"
	"time"

	"agentkernel"
)

// stopped: a program whose calls are not repeated is asked to end by SIGTERM, also one that stands still when it is asked: it may
// clean up, and otherwise ends as by an interrupt.
func stopped(t *testing.T, b agentkernel.Backend) {
	if !slices.Contains(b.Info().Languages, agentkernel.Script) {
		t.Skip("it runs no scripts")
	}
	const loop = "echo on\nwhile :; do sleep 0.02; done\n"
	for name, c := range map[string]struct {
		Case
		code   agentkernel.Code
		paused bool
	}{
		"a script that cleans up":     {script(Case{Source: "trap 'echo clean; exit 3' TERM\n" + loop}), "", false},
		"a script that does not":      {script(Case{Source: loop}), agentkernel.CodeInterrupted, false},
		"a script that stands still":  {script(Case{Source: loop}), agentkernel.CodeInterrupted, true},
		"a command":                   {command(Case{}, "sh", "-c", "echo on; exec sleep 100"), agentkernel.CodeInterrupted, false},
		"one that cleans up, stopped": {script(Case{Source: "trap 'echo clean; exit 3' TERM\n" + loop}), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRun(t, b, c.Case)
			r.Req.Limits.Time = agentkernel.Duration(20 * time.Second)
			note, first := r.Req.Output, true
			asked := make(chan error, 1)
			r.Req.Output = func(stream, text string) {
				note(stream, text)
				if first {
					first = false
					go func() { asked <- ask(t, r.Box, c.paused) }()
				}
			}
			turn, err := r.Start().Box.Next(t.Context(), nil)
			if fault := <-asked; fault != nil {
				t.Fatal(fault)
			}
			if turn.Kind == agentkernel.TurnWait { // it was suspended
				turn, err = r.Box.Next(t.Context(), nil)
			}
			switch {
			case err != nil:
				t.Fatal(err)
			case c.code != "" && (turn.Kind != agentkernel.TurnFail || agentkernel.CodeOf(turn.Err) != c.code):
				t.Errorf("%+v", turn)
			case c.code == "" && (turn.Kind != agentkernel.TurnExit || turn.ExitCode != 3):
				t.Errorf("%+v", turn)
			}
		})
	}
}

// ask asks a program to end, perhaps while it is suspended.
func ask(t *testing.T, box agentkernel.Sandbox, paused bool) error {
	s, ok := box.(agentkernel.Stopper)
	if !ok {
		t.Error("its programs cannot be asked to end")
		return box.Close()
	}
	if !paused {
		return s.Stop()
	}
	if err := suspender(t, box).Suspend(true); err != nil {
		return err
	}
	if err := s.Stop(); err != nil {
		return err
	}
	return suspender(t, box).Suspend(false)
}
