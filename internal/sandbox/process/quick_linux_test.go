package process

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// Cancel and pause act on the whole tree within 100 ms, also on what has left its session. The quickest
// of five counts, since a machine may be busy.
func TestCancelAndPauseAreQuick(t *testing.T) {
	b := sharedBackend(t)
	const most = 100 * time.Millisecond
	cancelled, forks, paused := time.Hour, time.Hour, time.Hour
	for range 5 {
		r := newRun(t, b, "")
		r.req.Program = shell("trap '' TERM; (while :; do :; done) & (setsid sh -c 'while :; do :; done' &); echo on; while :; do :; done")
		up := make(chan struct{})
		r.req.Output = func(_, _ string) { close(up) }
		r.start()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := r.box.Next(ctx, nil)
			ended <- err
		}()
		<-up
		w, ok := r.box.(*whole)
		if !ok {
			t.Fatal("not ours")
		}
		begun := time.Now()
		if err := w.process.Pause(); err != nil { // returns when every process has stopped
			t.Fatal(err)
		}
		paused = min(paused, time.Since(begun))
		if err := w.process.Resume(); err != nil {
			t.Fatal(err)
		}
		begun = time.Now()
		cancel()
		<-ended
		<-w.process.Done() // nothing of the tree is left
		cancelled = min(cancelled, time.Since(begun))
	}
	for range 5 {
		r := newRun(t, b, "import os\nfor _ in range(3): os.fork()\nprint('on', flush=True)\nwhile True: pass")
		ctx, cancel := context.WithCancel(t.Context())
		up := make(chan struct{}, 64)
		r.req.Output = func(_, _ string) { up <- struct{}{} }
		r.start()
		ended := make(chan error)
		go func() {
			_, err := r.box.Next(ctx, nil)
			ended <- err
		}()
		<-up
		begun := time.Now()
		cancel()
		<-ended
		if s, ok := r.box.(*sandbox); ok && s.c.process != nil {
			<-s.c.process.Done()
		}
		forks = min(forks, time.Since(begun))
	}
	floor := killedPlainly(t)
	t.Logf("cancelled in %v, Python's forks in %v, paused in %v; a plain process is killed in %v", cancelled, forks, paused, floor)
	if most := most + 1000*floor; max(cancelled, forks, paused) > most {
		t.Errorf("cancelled in %v, Python's forks in %v, paused in %v; at most %v", cancelled, forks, paused, most)
	}
}

// killedPlainly is how long it takes on this machine, as busy as it is, until a process that computes is killed and collected,
// without any sandbox: the median of five.
func killedPlainly(t *testing.T) time.Duration {
	t.Helper()
	var took []time.Duration
	for range 5 {
		c := exec.Command("sh", "-c", "echo on; while :; do :; done")
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		_, err = out.Read(make([]byte, 3))
		begun := time.Now()
		if err := errors.Join(err, c.Process.Kill()); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait() // it was killed
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	return took[len(took)/2]
}
