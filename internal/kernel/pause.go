package kernel

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// pause lets no reply through any more; p.mu is held. with is the process because of which, 0: because of none.
func (k *Kernel) pause(p *process, with agentkernel.PID, why history.Pause) {
	if p.paused() {
		return
	}
	k.arrest(p, why)
	k.journalState(p, agentkernel.EntryPaused, with)
	k.startClock(p)
}

// arrest notes why a process is paused, and stops its program and what it has run; p.mu is held.
func (k *Kernel) arrest(p *process, why history.Pause) {
	clock, stops := k.clock(), p.halted == nil && !p.paused()
	if p.run.running = p.ran(clock); p.run.turning != 0 { // also where its sandbox is lost with the pause
		p.run.turning = clock
	}
	under := p.pausing
	if under != nil && !under.ByHand {
		under = under.Under
	}
	p.pausing = &history.Pausing{Pause: why, Under: under}
	if stops {
		k.suspend(p, true)
	}
}

// setFree is the reverse of arrest, and makes the calls that have waited for it; p.mu is held.
func (k *Kernel) setFree(p *process) {
	p.pausing = nil
	if p.run.turning != 0 {
		p.run.turning = k.clock()
	}
	if p.halted == nil {
		k.suspend(p, false)
		k.inOrder(p.laters())
	}
}

func (k *Kernel) resume(p *process) {
	if !p.paused() {
		return
	}
	k.leaveUnknown(p)
	k.setFree(p)
	k.journalState(p, agentkernel.EntryResumed, 0)
	k.startClock(p)
	k.wake(p)
	k.pauseUnheard(p)
}

func (k *Kernel) journalState(p *process, kind agentkernel.EntryKind, with agentkernel.PID) {
	entry := agentkernel.Entry{Kind: kind, Note: p.whyPaused().Note, Data: history.PauseData{With: with}.Encode()}
	k.appendBatch(p, agentkernel.Batch{Entries: []agentkernel.Entry{entry}, Process: p.record()})
	if !p.computing() { // else nextReply reports the pause, when the sandbox has stopped
		k.announce(p)
	}
}

// computing says that the program runs at this moment: a pause takes effect when its sandbox has stopped, or at once if it has none yet.
func (p *process) computing() bool { return p.state == agentkernel.StateRunning && p.run.box != nil }

func (k *Kernel) announce(p *process) {
	snapshot := p.snapshot()
	k.publish(p, agentkernel.Event{Kind: agentkernel.EventState, Process: &snapshot})
}

// A pause by a signal holds the process and all below it. What was held only because of it goes on when it is resumed;
// what was paused by itself, or by the kernel, stays so. Of each process its journal knows with whom it was paused.

// pauseTree pauses a process and its descendants, durably. False: it has ended, and there is nothing below.
func (k *Kernel) pauseTree(ctx context.Context, pid agentkernel.PID, above []agentkernel.PID, all bool) (any bool, err error) {
	if p := k.lookup(pid); p != nil {
		any = k.pauseWith(p, 0, nil, all)
		if !k.inTree(p) {
			return any, k.flushAll(ctx)
		}
	}
	// One that still runs may start another while the tree is being stopped: it is seen the next time, or it sees the
	// pause of its parent when it is born.
	for again := true; again; {
		again = k.overTree(pid, all, func(q *process) bool { return k.pauseWith(q, pid, above, all) })
		any = any || again
	}
	return any, k.flushAll(ctx)
}

// pauseWith pauses a process because of another one; 0: by itself. above are the ancestors of that one: what was paused
// because of them is from now on paused because of it; all: so is what it detaches. False: there was nothing to do.
func (k *Kernel) pauseWith(p *process, with agentkernel.PID, above []agentkernel.PID, all bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.state.Terminal():
		return false
	case !p.paused():
		k.pause(p, with, history.ByHand(with, p.asks()))
		p.pausing.All = all
	case p.standing.Pauses.With != 0 && (with == 0 || slices.Contains(above, p.standing.Pauses.With)),
		with == 0 && p.pausing.EndsByItself():
		p.pausing = &history.Pausing{Pause: history.ByHand(with, p.asks()), All: all}
		k.journalState(p, agentkernel.EntryPaused, with)
	case with == 0:
		p.pausing.All = p.pausing.All || all
		return true // it is paused, as was asked for
	default:
		return false
	}
	return true
}

// resumeTree lets a process go on, and those below it that were paused because of it or of one above it, durably.
// False: it has ended, and there is nothing below.
func (k *Kernel) resumeTree(ctx context.Context, pid agentkernel.PID, above []agentkernel.PID) (any bool, err error) {
	if p := k.lookup(pid); p != nil {
		p.mu.Lock()
		if any = !p.state.Terminal(); any {
			k.resume(p)
		}
		p.mu.Unlock()
		if !k.inTree(p) {
			return any, k.flushAll(ctx)
		}
	}
	below := k.overTree(pid, true, func(q *process) bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.state.Terminal() {
			return false
		}
		if q.standing.Pauses.With == pid || slices.Contains(above, q.standing.Pauses.With) {
			k.resume(q)
		}
		return true
	})
	return any || below, k.flushAll(ctx)
}

// overTree does something to those below a process, with all also to those detached from it, and says whether it did it to any.
// Those whose sandboxes are stopped or continued, which takes a while each, have it done at the same time.
func (k *Kernel) overTree(pid agentkernel.PID, all bool, do func(*process) bool) bool {
	var group sync.WaitGroup
	var any atomic.Bool
	slots := make(chan struct{}, 16) // many at once: to stop real processes takes a while each
	for _, q := range k.under(pid, all) {
		slots <- struct{}{}
		one := func() {
			defer func() { <-slots }()
			if do(q) {
				any.Store(true)
			}
		}
		q.mu.Lock()
		_, slow := q.run.box.(agentkernel.Suspender)
		q.mu.Unlock()
		if slow {
			group.Go(one)
		} else {
			one()
		}
	}
	group.Wait()
	return any.Load()
}

// pausedWith says because of whom a process that is born now has to be paused; 0: it need not be. The process is in the
// table already, so that whoever pauses its parent after this sees it.
func (k *Kernel) pausedWith(newborn *process) agentkernel.PID {
	p := k.lookup(newborn.spec.Parent)
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.paused() || newborn.spec.Detached && !p.pausing.All || !p.pausing.ByHand { // the kernel holds that one alone
		return 0
	}
	return cmp.Or(p.standing.Pauses.With, p.pid)
}

// pauseNewborn pauses a process whose parent is held, unless whoever held the parent lets it go meanwhile: he may have looked
// at what is below it before the child was paused.
func (k *Kernel) pauseNewborn(p *process) {
	with := k.pausedWith(p)
	if with == 0 {
		return
	}
	k.pauseWith(p, with, nil, p.spec.Detached)
	if k.pausedWith(p) != 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.standing.Pauses.With == with && !p.state.Terminal() {
		k.resume(p)
	}
}
