package kernel

import (
	"time"

	"agentkernel"
)

// A caller who waits for a process drives it himself for as long as nothing has to be waited for: the first
// microseconds, in which small programs end. What takes longer goes to a goroutine of the queue, so that the caller
// can show what the program prints meanwhile, and can go when its own context ends.

// hereTime bounds how long a caller drives.
const hereTime = time.Millisecond

// launchHere is launch for a caller who waits for the process anyway, and then reads what w has.
func (k *Kernel) launchHere(p *process, w *watcher) {
	if !k.canDriveHere(p) || !k.queue.borrow() {
		w.letGo()
		k.launch(p)
		return
	}
	p.mu.Lock()
	k.startWallClock(p)
	p.mu.Unlock()
	rest := k.driveHere(p)
	if rest == nil {
		k.queue.giveBack()
	} else {
		k.queue.passOn(rest)
	}
	w.letGo()
}

// canDriveHere says whether a new process may end within hereTime.
func (k *Kernel) canDriveHere(p *process) bool {
	if p.backend == nil || p.past != nil || p.spec.HasFiles() || !p.replayable() {
		return false
	}
	if _, ok := p.backend.Backend.(agentkernel.PromptBackend); !ok {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state == agentkernel.StateReady && !p.paused
}

// driveHere drives a process until it waits or ends, in a slot that the caller has. What is left of that to be done,
// because it may take longer, it gives as a function.
func (k *Kernel) driveHere(p *process) (rest func()) {
	if !p.own() {
		return nil
	}
	begun := time.Now()
	box := k.promptBox(p)
	if box == nil {
		return func() { k.driveOwned(p) }
	}
	for staged := p.spec.Durability == agentkernel.DurabilityRelaxed; ; staged = true {
		left := hereTime - time.Since(begun)
		if left <= 0 {
			return func() { k.driveOn(p) }
		}
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
		if !staged { // while the program runs
			k.stage()
		}
		if !box.Ready(left) {
			return func() { k.driveFrom(p, nil) }
		}
		turn, err := box.Next(p.context(), nil)
		if turn.Kind == agentkernel.TurnFail { // it may have to move, and another backend takes its time
			return func() { k.driveAfter(p, turn, err) }
		}
		if !k.took(p, turn, err) {
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
	if k.took(p, turn, err) {
		k.driveOn(p)
	}
}

// promptBox gives a new process a sandbox, if one is at hand.
func (k *Kernel) promptBox(p *process) agentkernel.PromptSandbox {
	k.mu.Lock()
	full := len(k.resident) >= k.cfg.Residents
	k.mu.Unlock()
	if full {
		return nil
	}
	_, bound, err := k.boundBefore(p)
	if bound == nil || err != nil {
		return nil
	}
	k.noteTools(p, bound)
	box := p.backend.Backend.(agentkernel.PromptBackend).StartNow(k.startRequest(p, bound))
	if box != nil {
		k.settle(p, box, bound, false)
	}
	return box
}

// stage lets the store begin with what the caller will wait for.
func (k *Kernel) stage() {
	if s, ok := k.store.(agentkernel.Stager); ok {
		s.Stage()
	}
}
