package sandboxtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"agentkernel"
)

// busy computes until a file of its own or a call would tell it to stop: it makes none, so only a pause can stop it. What
// it prints after `on` says how far it has come.
const busy = `
print('on')
n = 0
while n < 3_000_000:
    n += 1
print('counted', n)
from kernel import state
print(state.get('k'))
`

// paused: a program that computes is stopped at once, no time of it passes meanwhile, and nothing of it is lost or done
// twice; one that is stopped can be ended like any other, and pauses one after the other do no harm.
func (s Suite) paused(t *testing.T, b agentkernel.Backend) {
	t.Run("while it computes", func(t *testing.T) {
		for range 3 {
			s.pausedOnce(t, b)
		}
	})
	t.Run("while it waits", func(t *testing.T) { pausedAtCall(t, b) })
	t.Run("while its image is made", func(t *testing.T) { pausedAtImage(t, b) })
	t.Run("and ended", func(t *testing.T) { s.pausedAndClosed(t, b) })
}

// busyRun starts the busy program, whose first line makes somebody call pause.
func busyRun(t *testing.T, b agentkernel.Backend, pause func(agentkernel.Suspender)) *Run {
	t.Helper()
	r := NewRun(t, b, Case{Source: busy})
	note, first := r.Req.Output, true
	r.Req.Limits.Time = agentkernel.Duration(20 * time.Second)
	r.Req.Output = func(stream, text string) {
		note(stream, text)
		if first {
			first = false
			go pause(suspender(t, r.Box))
		}
	}
	return r.Start()
}

func suspender(t *testing.T, box agentkernel.Sandbox) agentkernel.Suspender {
	s, ok := box.(agentkernel.Suspender)
	if !ok {
		t.Error("its programs cannot be paused while they compute")
		return noSuspender{}
	}
	return s
}

type noSuspender struct{}

func (noSuspender) Suspend(bool) error { return nil }

func (s Suite) pausedOnce(t *testing.T, b agentkernel.Backend) {
	t.Helper()
	paused := make(chan error, 1)
	r := busyRun(t, b, func(s agentkernel.Suspender) { paused <- s.Suspend(true) })
	turn, err := r.Box.Next(t.Context(), nil)
	if perr := <-paused; perr != nil || err != nil {
		t.Fatalf("paused: %v, %v", perr, err)
	}
	_, frozen := s.has([]Feature{Frozen})
	want := agentkernel.TurnLost
	if frozen {
		want = agentkernel.TurnHeld
	}
	if turn.Kind != want || r.Output() != "on\n" {
		t.Fatalf("a paused program gave %+v, want turn %d, and printed %q", turn, want, r.Output())
	}
	ran := r.Box.Running()
	tick := time.NewTimer(200 * time.Millisecond)
	<-tick.C
	if now := r.Box.Running(); now != ran {
		t.Errorf("time passed while it was paused: %v, then %v", ran, now)
	}
	if !frozen {
		if _, err := r.Box.Next(t.Context(), nil); err == nil {
			t.Error("a sandbox that was given up goes on")
		}
		if err := r.Box.Close(); err != nil {
			t.Error(err)
		}
		r = NewRun(t, b, Case{Source: busy}).Start()
	} else if err := suspender(t, r.Box).Suspend(false); err != nil {
		t.Fatal(err)
	}
	if turn, err := r.Finish(); err != nil || turn.Kind != agentkernel.TurnExit || r.Output() != "on\ncounted 3000000\nk\n" {
		t.Errorf("resumed it ended with %+v %v and printed %q", turn, err, r.Output())
	}
	if frozen && r.Box.Running()-ran > 15*time.Second {
		t.Errorf("it ran %v before and %v in all", ran, r.Box.Running())
	}
}

// pausedAtCall: a program that waits for the kernel takes no harm from a pause, however often.
func pausedAtCall(t *testing.T, b agentkernel.Backend) {
	r := NewRun(t, b, Case{Source: "from kernel import state\nfor i in range(3):\n    print(state.get(str(i)))"}).Start()
	var reply *agentkernel.Reply
	for {
		turn, err := r.Box.Next(t.Context(), reply)
		if err != nil || turn.Kind == agentkernel.TurnFail {
			t.Fatalf("%+v %v", turn, err)
		}
		if turn.Kind == agentkernel.TurnExit {
			break
		}
		for _, stop := range []bool{true, true, false, true, false} {
			if err := suspender(t, r.Box).Suspend(stop); err != nil {
				t.Fatal(err)
			}
		}
		reply = r.Reply(turn)
	}
	if r.Output() != "0\n1\n2\n" {
		t.Errorf("it printed %q", r.Output())
	}
}

// pausedAndClosed: a stopped program ends when its sandbox is closed, when its caller gives up, and with its backend.
func (s Suite) pausedAndClosed(t *testing.T, b agentkernel.Backend) {
	for _, end := range []func(*Run){
		func(r *Run) { _ = r.Box.Close() },
		func(r *Run) {
			_ = suspender(t, r.Box).Suspend(false)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := r.Box.Next(ctx, nil); err == nil {
				t.Error("it goes on for a caller that gave up")
			}
		},
	} {
		paused := make(chan error, 1)
		r := busyRun(t, b, func(s agentkernel.Suspender) { paused <- s.Suspend(true) })
		if _, err := r.Box.Next(t.Context(), nil); err != nil || <-paused != nil {
			t.Fatal(err)
		}
		end(r)
		if err := r.Box.Close(); err != nil {
			t.Error(err)
		}
	}
}

// pausedAtImage: a pause that comes while the image of a program is made, which waits for the kernel then, takes nothing from it.
func pausedAtImage(t *testing.T, b agentkernel.Backend) {
	if !b.Info().Images {
		t.Skip("it makes no images")
	}
	r := NewRun(t, b, Case{Source: "from kernel import state\nfor i in range(60):\n    state.set('k', i)\nprint('done')\n"}).Start()
	var reply *agentkernel.Reply
	for calls := 0; ; calls++ {
		turn, err := r.Box.Next(t.Context(), reply)
		if err != nil || turn.Kind == agentkernel.TurnFail || turn.Kind == agentkernel.TurnLost {
			t.Fatalf("after %d calls: %+v %v", calls, turn, err)
		}
		if turn.Kind == agentkernel.TurnExit {
			return
		}
		paused := make(chan error, 1)
		go func() { paused <- suspender(t, r.Box).Suspend(true) }()
		if _, err := r.Box.Image(t.Context()); err != nil {
			t.Fatalf("after %d calls: %v", calls, err)
		}
		if err := errors.Join(<-paused, suspender(t, r.Box).Suspend(false)); err != nil {
			t.Fatal(err)
		}
		reply = r.Reply(turn)
	}
}
