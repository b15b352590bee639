package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"agentkernel"
)

// Run runs one simulation. It is called in a bubble of testing/synctest.
func Run(opt Options) Report {
	w := newWorld(opt)
	w.trace.note(fmt.Sprintf("plan %+v", w.plan))
	if w.market != nil {
		w.trace.note(fmt.Sprintf("models %q", w.market.texts))
	}
	w.allot()
	w.boot()
	for range opt.Steps {
		if w.failed() {
			break
		}
		w.step(true)
	}
	w.settle()
	w.unwind()
	w.report.Trace, w.report.Failure = w.trace.sum, w.failure
	return w.report
}

// pass lets the clock go on and everything come to rest.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *World) chance(n, of int) bool { return w.rng.IntN(of) < n }

// step lets one thing happen. chaos: clients act, and the kernel may be stopped.
func (w *World) step(chaos bool) {
	pass(time.Duration(1 + w.rng.IntN(50_000))) // no two steps are at the same moment
	w.report.Steps++
	for _, o := range w.finished() {
		w.ended(o)
	}
	if w.kernel == nil {
		if !w.last {
			w.restart()
		}
		return
	}
	switch {
	case w.store.refused.Load() || w.store.broken.Load() && w.chance(1, 20): // in which order a broken kernel stops is left to chance
		w.giveUp()
	case chaos && w.chance(w.plan.crash, 10_000):
		w.crash()
	case chaos && w.chance(w.plan.stop, 10_000) && !w.running("shutdown"):
		w.shutdown()
	case chaos && w.chance(w.plan.commits, 1000):
		w.commit()
	case chaos && w.chance(w.plan.act, 1000):
		w.act()
	default:
		w.release()
	}
}

// release lets one effect happen, or, if none may, time pass.
func (w *World) release() {
	now := time.Now()
	list, next := w.gate.ready(now)
	if len(list) == 0 {
		w.idle(next)
		return
	}
	e := list[w.rng.IntN(len(list))]
	for range 3 {
		if w.plan.slow == "" || !strings.HasPrefix(e.name, w.plan.slow) {
			break
		}
		e = list[w.rng.IntN(len(list))]
	}
	w.trace.note(e.name)
	w.gate.let(e, now, w.rng.Uint64())
}

// idle lets time pass; next is when an effect may be released.
func (w *World) idle(next time.Time) {
	if next.IsZero() {
		w.checkIdle()
	}
	d := time.Duration(1+w.rng.IntN(1000)) * time.Millisecond >> w.rng.IntN(10)
	if w.engine != nil && w.engine.waiting() > 0 { // limits of models are those of a minute
		d <<= w.rng.IntN(5)
	}
	if !next.IsZero() {
		d = min(d, time.Until(next))
	}
	w.trace.note("time passes")
	pass(d)
}

// commit makes some of the log durable though nobody asked.
func (w *World) commit() {
	d := w.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if rest := len(d.log) - d.durable; rest > 0 {
		pos := d.base + agentkernel.Position(d.durable+1+w.rng.IntN(rest))
		w.trace.note(fmt.Sprintf("commit to %d", pos))
		d.commit(pos)
	}
}

// recovering says whether processes are being taken up. Clients who come meanwhile wait for the end of that.
func (w *World) recovering() bool {
	return w.running("recover") || w.running("resume") || w.running("resolve")
}

// running says whether an op of this kind is under way.
func (w *World) running(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.ops, func(o *op) bool { return strings.HasPrefix(o.what, what) })
}

// crash ends the kernel as a power cut does.
func (w *World) crash() {
	w.report.Crashes++
	w.trace.note("CRASH")
	w.kill()
	kept, lost := w.disk.crash(w.rng.Uint64())
	w.checked = map[agentkernel.PID]checked{}
	w.trace.note(fmt.Sprintf("%d batches are left, %d are lost", kept, lost))
	w.checkKept()
}

// giveUp replaces a kernel whose store has failed: it must have noticed, and nothing that it still did may have left it.
func (w *World) giveUp() {
	select {
	case <-w.kernel.Broken():
	default:
		if w.store.refused.Load() {
			w.failf("the store has failed, and the kernel has not noticed")
		}
	}
	w.crash()
}

// kill unwinds the goroutines of the kernel: nothing that they still do has an effect.
func (w *World) kill() {
	begun := time.Now()
	w.gate.crash()
	w.mu.Lock()
	for _, o := range w.ops {
		o.cancel()
	}
	w.mu.Unlock()
	k := w.kernel
	w.kernel = nil
	if k != nil {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = k.Close() // its store is gone
		}()
		<-done
	}
	if w.engine != nil {
		w.engine.router.Close()
		w.market.checkWindows(w)
		w.engine = nil
	}
	pass(time.Nanosecond)
	w.mu.Lock()
	stuck := slices.DeleteFunc(slices.Clone(w.ops), func(o *op) bool { return o.ended })
	w.ops = nil
	w.mu.Unlock()
	if len(stuck) > 0 {
		w.failf("the kernel was closed, and a client still waits: %v", stuck)
	}
	w.boxes.crash()
	// How long it took is not decided by the seed, so the next kernel starts at a moment that is.
	down := time.Second + time.Duration(w.rng.IntN(1_000_000_000))
	pass(max(0, down-time.Since(begun)))
}

// restart starts the next kernel; mostly it takes up at once what the last one left.
func (w *World) restart() {
	w.report.Restarts++
	if w.chance(1, 10) {
		w.version++
	}
	w.trace.note("boot")
	if w.boot(); w.kernel == nil {
		return
	}
	if w.chance(w.plan.recovers, 10) {
		w.recover(0)
	}
}

// ended deals with a client that has its answer.
func (w *World) ended(o *op) {
	w.trace.note(fmt.Sprintf("%s: %v", o, agentkernel.CodeOf(o.err)))
	if o.what == "shutdown" {
		w.stopped(o)
		return
	}
	if o.err != nil {
		w.checkError(o)
		return
	}
	if strings.HasPrefix(o.what, "halt ") {
		w.held.add(o.pid)
	}
	if o.answer.PID != 0 {
		w.promises.process(w, &o.answer)
	}
	w.checkAnswer(o)
	if o.check != nil {
		o.check()
	}
}

// stopped deals with a kernel that was closed: everything is durable, and nothing of it runs.
func (w *World) stopped(o *op) {
	if w.store.broken.Load() {
		w.crash()
		return
	}
	if o.err != nil {
		w.failf("the kernel did not close: %v", o.err)
	}
	w.disk.mu.Lock()
	lost := len(w.disk.log) - w.disk.durable
	w.disk.mu.Unlock()
	if lost > 0 {
		w.failf("the kernel was closed, and %d batches are not durable", lost)
	}
	if n := w.boxes.count(); n > 0 {
		w.failf("the kernel was closed, and %d sandboxes are left", n)
	}
	w.mu.Lock()
	busy := len(w.ops) > 0 // what they do inside the kernel ends with them
	w.mu.Unlock()
	names := slices.DeleteFunc(w.gate.names(), func(name string) bool { // it does not wait for ever for the ends of streams
		return strings.HasPrefix(name, "give up ") || strings.HasPrefix(name, "asked ")
	})
	if len(names) > 0 && !busy {
		w.failf("the kernel was closed, and is about to do %q", names)
	}
	w.kill()
}

// patience is how many steps everything may take to come to its end.
const patience = 100_000

// settle lets everything come to its end undisturbed, and checks how it ends.
func (w *World) settle() {
	for i := range patience {
		if w.failed() {
			return
		}
		synctest.Wait()
		if i%16 == 0 && w.kernel != nil && !w.running("shutdown") {
			if w.settled() {
				w.finish()
				return
			}
		}
		w.step(false)
	}
	w.failf("after %d steps without a disturbance there are processes that have not ended: %s", patience, w.standings())
}

// standings says where the processes are that have not ended.
func (w *World) standings() (text string) {
	for _, pid := range w.open() {
		r := w.disk.row(pid)
		text += fmt.Sprintf("%d", pid)
		if s, err := w.reference(r, w.disk.ledger(pid)); err == nil {
			text += fmt.Sprintf(" (call %d %s %v)", s.call, s.issues.Op, s.due)
		}
		text += fmt.Sprintf(" %q; ", r.PauseNote)
	}
	return text
}

// settled says whether everything has ended. What does not go on by itself is helped.
func (w *World) settled() bool {
	open := w.open()
	w.mu.Lock()
	busy := len(w.ops) > 0
	w.mu.Unlock()
	if w.thawOne() {
		return false
	}
	if len(open) == 0 {
		return !busy
	}
	for _, pid := range open {
		switch {
		case w.hostless(pid):
			if !w.recovering() {
				w.host(pid, false, false)
			}
			return false
		case !w.disk.carries(pid):
			if !w.running("recover") {
				w.recover(0)
				return false // one at a time: see act
			}
		case w.disk.ledger(pid).paused && !w.running("fund") && len(w.disk.paysNone(pid)) > 0:
			w.fund(w.disk.paysNone(pid))
			return false
		case w.disk.ledger(pid).paused && w.disk.waitsForTomorrow(pid):
			if !w.running("allow") {
				w.allowMore(w.kernel, 1000) // the next day is far away
			}
			return false
		case w.disk.ledger(pid).paused && !w.running("resume") && !w.running("recover"):
			w.resume(pid)
			return false
		}
	}
	return false
}

// open are the processes that have not ended.
func (w *World) open() (out []agentkernel.PID) {
	for _, r := range w.disk.rows() {
		if !r.State.Terminal() {
			out = append(out, r.PID)
		}
	}
	return out
}

// finish looks at everything once more, and closes the kernel.
func (w *World) finish() {
	rows := w.disk.rows()
	w.report.Ended = len(rows)
	w.checked = map[agentkernel.PID]checked{}
	for _, r := range rows {
		w.checkProcess(r, w.disk.ledger(r.PID))
		w.look(r.PID)
	}
	w.shutdownAfter()
}

// shutdownAfter closes the kernel when all clients have their answers.
func (w *World) shutdownAfter() {
	closing := false
	for range patience {
		synctest.Wait()
		if w.failed() || w.kernel == nil {
			return
		}
		w.mu.Lock()
		busy := len(w.ops) > 0
		w.mu.Unlock()
		if !busy && !closing {
			w.shutdown()
			closing, w.last = true, true
		}
		w.step(false)
	}
	w.failf("the kernel does not close; %q is about to happen", w.gate.names())
}

// unwind ends what is left, so that the bubble can end.
func (w *World) unwind() { w.kill() }
