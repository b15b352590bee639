package kernel

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/fastpath"
	"agentkernel/internal/kernel/backends"
	"agentkernel/internal/kernel/cells"
	"agentkernel/internal/kernel/running"
	"agentkernel/internal/kernel/steps"
	"agentkernel/internal/kernel/watch"
	"agentkernel/internal/sys"
)

// A caller who waits for a process drives it himself for as long as nothing has to be waited for: the first
// microseconds, in which small programs and the small cells of sessions end. A program runs while the caller still
// makes the process and its entries. What takes longer goes to a goroutine of the queue, so that the caller can show what
// the program prints meanwhile, and can go when its own context ends.

// inlineTime bounds how long a caller drives.
const inlineTime = time.Millisecond

// inline is a caller of Run: what it waits with, and its program, which runs already while its process is made.
type inline struct {
	w     *watch.Watcher
	since time.Time        // it drives
	box   fastpath.Sandbox // its program has begun, in a slot that the caller has; nil: not
	bound *sys.Binding
	rc    *running.Context

	mu      sync.Mutex
	p       *process    // whose program it is; nil until the process has moved in
	printed [][2]string // before that: stream and text
}

func (h *inline) process() *process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.p
}

// output takes what the program prints.
func (h *inline) output(k *Kernel, stream, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.p == nil {
		h.printed = append(h.printed, [2]string{stream, text})
		return
	}
	k.output(h.p, stream, text)
}

// isOf says whose program it is.
func (h *inline) isOf(k *Kernel, p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.p = p
	for _, out := range h.printed {
		k.output(p, out[0], out[1])
	}
	h.printed = nil
}

// headStart begins a program if it may end within inlineTime and a sandbox is at hand.
func (k *Kernel) headStart(h *inline, pid agentkernel.PID, s *agentkernel.Spec, b *backends.Backend) {
	quick, ok := b.Backend.(fastpath.Backend)
	if !ok || s.HasFiles() || !b.RunsAgain(s.Program.Language) || k.table.residents.Count() >= k.cfg.Residents || !k.queue.TryAcquire() {
		return
	}
	if k.beginInline(h, pid, s, b, quick); h.box == nil {
		k.queue.Release(nil, nil)
	}
}

func (k *Kernel) beginInline(h *inline, pid agentkernel.PID, s *agentkernel.Spec, b *backends.Backend, quick fastpath.Backend) {
	h.since = time.Now()
	_, bound, err := k.boundFor(b, s)
	if bound == nil || err != nil {
		return
	}
	box := quick.StartNow(agentkernel.StartRequest{
		PID: pid, Namespace: s.Namespace, Program: s.Program, Limits: k.specs.Limits(s), Tools: bound.Tools,
		Output: func(stream, text string) { h.output(k, stream, text) },
		Wake: func() {
			if p := h.process(); p != nil { // else it is asked anyway
				k.stirred(p)
			}
		},
	})
	if box == nil {
		return
	}
	h.box, h.bound, h.rc = box, bound, running.New()
	if begun, err := box.Begin(h.rc.Context, nil); !begun || err != nil {
		_ = box.Close() // whoever drives it next is told what is wrong
		h.box, h.bound, h.rc = nil, nil, nil
	}
}

// abandon ends a beginning that was for nothing. h may be nil, or have begun nothing.
func (h *inline) abandon(k *Kernel) {
	if h == nil || h.box == nil {
		return
	}
	_ = h.box.Close()
	_, _ = h.box.Next(h.rc.Context, nil) // it says that it was closed
	h.box = nil
	k.queue.Release(nil, nil)
}

// launchInline is launch for a caller who waits for the process anyway, and then reads what h.w has.
func (k *Kernel) launchInline(p *process, h *inline) {
	defer h.w.Release()
	if h.box == nil {
		k.launch(p)
		return
	}
	p.mu.Lock()
	k.begins(p)
	p.mu.Unlock()
	if !k.moveIn(p, h) { // it was paused or killed
		h.abandon(k)
		k.launch(p)
		return
	}
	k.queue.Release(p, k.driveInline(p, h.box, h.since, true))
}

// moveIn makes the caller the one who drives the process, in the sandbox in which it has begun.
func (k *Kernel) moveIn(p *process, h *inline) bool {
	k.table.residents.Add(p.pid, p)
	p.mu.Lock()
	ok := !p.standsStill() && p.state == agentkernel.StateReady && !p.owned
	if ok {
		p.step(steps.Drive)
		p.run.box, p.run.bound = h.box, h.bound
	}
	p.mu.Unlock()
	if ok {
		k.noteTools(p, h.bound)
		h.isOf(k, p)
	} else {
		k.table.unsettle(p)
	}
	return ok
}

// feedInline answers the call at which a session waits, for a caller who waits for what comes of it, and then reads what w
// has. fed is what the session has been fed with the answer, seen the last journal position before it.
func (k *Kernel) feedInline(ctx context.Context, p *process, answer json.RawMessage, fed cells.Sources, w *watch.Watcher) (seen int64, err error) {
	defer w.Release()
	unlock, err := k.keys.Take(ctx, k.store, p.pid, fed.Bind)
	if err != nil {
		return 0, err
	}
	begun, acquired := time.Now(), k.queue.TryAcquire()
	p.mu.Lock()
	seen = p.standing.Seq
	reserved := acquired && p.reserve()
	if err = k.answerNext(p, answer, fed.Bind); err == nil {
		k.listen(p, w)
		k.sessions.Remember(p.pid, fed) // before the cell can be aborted, or end the session: then they are forgotten
	}
	p.mu.Unlock()
	unlock()
	if !acquired {
		return seen, err
	}
	var rest func()
	if reserved && k.goOn(p) {
		rest = k.driveInline(p, p.run.box.(fastpath.Sandbox), begun, false)
	}
	k.queue.Release(p, rest)
	return seen, err
}

// reserve makes the caller the one who drives a waiting process, whatever wakes it, if it can be driven here at all; p.mu is held. It ends with goOn.
func (p *process) reserve() bool {
	if p.owned || p.state != agentkernel.StateWaiting || p.run.need != needReply || p.run.reemit || p.run.origin != nil || p.run.replay != nil || p.run.verifies != nil {
		return false
	}
	if _, ok := p.run.box.(fastpath.Sandbox); !ok {
		return false
	}
	p.step(steps.Reserve)
	return true
}

// goOn lets a process that was reserved run, if there is something for it; else it waits on, and nobody owns it.
func (k *Kernel) goOn(p *process) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != agentkernel.StateWaiting || !p.deliverable() {
		p.release() // killed, paused, or the kernel is closing
		return false
	}
	k.observeWait(p)
	p.step(steps.Proceed)
	return true
}

// driveInline drives a process that the caller owns until it waits or ends, in a slot that the caller has. What is left of
// that to be done, because it may take longer, it gives as a function. since is when the caller began; begun: the program
// goes on already.
func (k *Kernel) driveInline(p *process, box fastpath.Sandbox, since time.Time, begun bool) (rest func()) {
	for staged := p.spec.Durability == agentkernel.DurabilityRelaxed; ; begun = false {
		left := inlineTime - time.Since(since)
		if left <= 0 && !begun {
			return func() { k.driveOn(p) }
		}
		if !begun {
			reply, _, ok := k.nextReply(p)
			if !ok {
				k.afterRun(p)
				return nil
			}
			if ok, err := box.Begin(p.context(), reply); err != nil {
				k.sandboxFailed(p, err)
				return nil
			} else if !ok {
				return func() { k.driveFrom(p, reply) }
			}
		}
		if s, ok := k.store.(fastpath.Stager); ok && !staged { // the store begins with what the caller will wait for, while the program runs
			s.Stage()
		}
		staged = true
		if !box.Ready(max(left, 0)) {
			return func() { k.driveFrom(p, nil) }
		}
		turn, err := box.Next(p.context(), nil)
		if turn.Kind == agentkernel.TurnFail || turn.Kind == agentkernel.TurnLost || turn.Fault == agentkernel.FaultBackend {
			// It may have to begin again or to go elsewhere, and that takes its time.
			return func() { k.driveAfter(p, turn, err) }
		}
		if !k.handleTurn(p, turn, err) {
			return nil
		}
	}
}

// driveFrom is driveOn in the middle of a turn: with what the sandbox is handed next.
func (k *Kernel) driveFrom(p *process, reply *agentkernel.Reply) {
	turn, err := k.next(p, reply)
	k.driveAfter(p, turn, err)
}

// driveAfter is driveOn after a turn.
func (k *Kernel) driveAfter(p *process, turn agentkernel.Turn, err error) {
	if k.handleTurn(p, turn, err) {
		k.driveOn(p)
	}
}
