package monty

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/sandbox/confine"
)

// struck is a worker behind what passes for walls, which somebody kills at once.
type struck struct{ body }

// mute is an engine of the right version that says nothing when it is to work.
func mute(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "monty")
	script := "#!/bin/sh\n[ \"$1\" = --version ] && echo 'monty-runtime " + EngineVersion + "' && exit\nexec sleep 1000\n"
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	return path
}

// passWait lets the time pass that a worker has for its first answer, with the nth timer of a clock.
func passWait(t *testing.T, clock *slowClock, nth int) {
	t.Helper()
	until(t, "an answer is waited for", func() bool { return clock.waits(nth) })
	clock.advance(housekeeping)
}

// first starts the worker that decides about walls. fate says what becomes of the nth behind them: "" nothing.
func first(t *testing.T, fate func(n int) string) (decided bool, walled bool, tries int, err error) {
	t.Helper()
	clock := &slowClock{now: time.Unix(1, 0)}
	b := newBackend(t, func(c *Config) { c.Spare, c.Clock = -1, clock })
	w := newWalls(&b.cfg)
	w.decision.Store(nil) // as with a spawner
	stand := w.plainFor(agentkernel.Errorf(agentkernel.CodeUnavailable, "test", "these are the walls"))
	w.behind = func(ctx context.Context, engine string, in, out *os.File, said io.Writer, wall uint64) (body, error) {
		tries++
		switch fate(tries) {
		case "no descriptor":
			return nil, &os.PathError{Op: "pipe2", Path: "|", Err: syscall.EMFILE}
		case "refused":
			return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "test", "no namespaces")
		case "dies":
			engine = "/bin/false"
		case "late":
			engine = mute(t)
			go passWait(t, clock, 1)
		case "killed":
			made, err := stand(ctx, engine, in, out, said, wall)
			if err == nil {
				made.kill()
			}
			return &struck{made}, err
		}
		return stand(ctx, engine, in, out, said, wall)
	}
	wk, err := w.start(t.Context(), enginePath(t), spareSettings(), func(*worker) {})
	d := w.decision.Load()
	if hung := w.stillHung(); (hung != nil) != errors.Is(err, errLate) {
		t.Errorf("it failed with %v, and is remembered as %v", err, hung)
	}
	if err == nil {
		wk.kill(errRetired)
		<-wk.buried
		wk.closePipes()
	}
	return d != nil, d != nil && d.problem == nil, tries, err
}

// TestFirstWorker: walls are given up where they cannot stand, not where somebody killed the first worker: out of memory, say.
func TestFirstWorker(t *testing.T) {
	always := func(what string) func(int) string { return func(int) string { return what } }
	until := func(n int, what string) func(int) string {
		return func(i int) string {
			if i < n {
				return what
			}
			return ""
		}
	}
	for name, c := range map[string]struct {
		fate            func(int) string
		decided, walled bool
		tries           int
	}{
		"good":             {always(""), true, true, 1},
		"refused":          {always("refused"), true, false, 1},
		"no descriptor":    {always("no descriptor"), false, false, 1},
		"killed once":      {until(2, "killed"), true, true, 2},
		"killed each time": {always("killed"), false, false, 3},
		"dies once":        {until(2, "dies"), true, true, 2},
		"dies each time":   {always("dies"), true, false, 3},
		"hangs":            {always("late"), false, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			decided, walled, tries, err := first(t, c.fate)
			if decided != c.decided || walled != c.walled || tries != c.tries {
				t.Errorf("decided %v, walled %v after %d tries; want %v, %v, %d (%v)", decided, walled, tries, c.decided, c.walled, c.tries, err)
			}
			if (err == nil) != c.decided || err != nil && (agentkernel.CodeOf(err) != agentkernel.CodeUnavailable || !strings.Contains(err.Error(), "stopped") && !strings.Contains(err.Error(), "hangs") && !confine.Passing(err)) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestEngineHangs: one program waits for an engine that says nothing. After it all know, and the engine is tried again
// after a while without anybody who waits.
func TestEngineHangs(t *testing.T) {
	clock, path := &slowClock{now: time.Unix(1, 0)}, mute(t)
	b := newBackend(t, func(c *Config) { c.Clock, c.Engine = clock, path })
	r := newRun(t, b, "print(1)")
	if _, err := b.Check(r.req.Program); err != nil {
		t.Fatal(err)
	}
	go passWait(t, clock, 2) // the first is that of --version
	if _, err := b.Start(t.Context(), r.req); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable || !strings.Contains(err.Error(), "hangs at its start: no answer within 10s") {
		t.Errorf("the first program: %v", err)
	}
	known := func(what string) {
		t.Helper()
		_, checked := b.Check(r.req.Program)
		_, started := b.Start(t.Context(), r.req)
		info := b.Info()
		if agentkernel.CodeOf(checked) != agentkernel.CodeUnavailable || agentkernel.CodeOf(started) != agentkernel.CodeUnavailable || info.Available || info.Fix == "" {
			t.Errorf("%s: checked: %v, started: %v, info: %+v", what, checked, started, info)
		}
	}
	known("the next")
	if n := b.Stats().Started; n > 2 {
		t.Errorf("%d workers were started", n)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(enginePath(t), path); err != nil {
		t.Fatal(err)
	}
	known("while it was tried a moment ago")
	clock.advance(hungFor)
	until(t, "the engine is known to work", func() bool {
		_, err := b.Check(r.req.Program)
		return err == nil && b.Info().Available
	})
	mustExit(t, b, "print(1)")
}
