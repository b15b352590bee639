package kernel

import (
	"errors"
	"fmt"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/kernel/ends"
	"agentkernel/internal/kernel/files"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/limits"
	"agentkernel/internal/kernel/replay"
	"agentkernel/internal/kernel/steps"
	"agentkernel/internal/sys"
)

// drive runs a ready process until it waits or ends. It is called in a slot.
func (k *Kernel) drive(p *process) {
	if p.own() {
		k.driveOwned(p)
	}
}

// own makes the caller the one who drives a ready process.
func (p *process) own() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owned || p.state != agentkernel.StateReady {
		return false
	}
	p.step(steps.Drive)
	return true
}

func (k *Kernel) driveOwned(p *process) {
	err := k.ensureBox(p)
	switch {
	case err == nil:
		k.driveOn(p)
	case k.setAside(p, err):
	case k.moveUnstarted(p, err):
		if k.startMoved(p) {
			k.driveOn(p)
		}
	default:
		k.sandboxFailed(p, err)
	}
}

// driveOn drives a process that has its sandbox.
func (k *Kernel) driveOn(p *process) {
	for since := k.clock(); ; {
		reply, fresh, ok := k.nextReply(p)
		if !ok {
			k.afterRun(p)
			return
		}
		turn, err := k.next(p, reply)
		if fresh && err == nil && p.stopped() == nil && k.repeatedTurn(p, turn) {
			continue
		}
		if !k.handleTurn(p, turn, err) || k.clock()-since >= k.cfg.Slice && k.queue.Wanted() && k.yield(p) {
			return
		}
	}
}

// yield lets a program that has had its slot for long queue behind those that wait for one. It keeps the slot if a sandbox more
// would be one too many in memory and it cannot be parked.
func (k *Kernel) yield(p *process) bool {
	crowded := k.table.residents.Count() >= k.cfg.Residents
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != agentkernel.StateRunning || !p.deliverable() || p.run.abort != nil || p.run.verifies != nil {
		return false
	}
	p.run.lastRun = k.cfg.Now().UnixNano()
	p.step(steps.Yield)
	if crowded && !p.evictable() {
		p.step(steps.Drive)
		return false
	}
	k.queue.Push(p)
	return true
}

// handleTurn deals with what Next returned. False: the process has ended, or is no longer the caller's.
func (k *Kernel) handleTurn(p *process, turn agentkernel.Turn, err error) bool {
	if err == nil {
		err = p.stopped()
	}
	if err != nil {
		k.sandboxFailed(p, err)
		return false
	}
	p.mu.Lock()
	if p.run.box != nil {
		p.run.running = max(p.run.running, p.run.box.Running()) // a sandbox that is lost forgets
	}
	p.mu.Unlock()
	return k.applyTurn(p, turn)
}

// setAside pauses a process that has done something already and gets no sandbox now because the backend's engine is missing:
// that is mended by an installation, and the work is not lost. One that stands still by now goes on doing so, whatever is wrong.
func (k *Kernel) setAside(p *process, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	begun := p.imaged || p.recoveries.Load() > 0 || p.losses != nil || p.canAbort() && p.run.replay != nil
	code, ofProgram := agentkernel.CodeOf(err), errors.Is(err, agentkernel.ErrOfProgram) // then it was paused when it was taken up
	mendable := begun && (code == agentkernel.CodeUnavailable || code == agentkernel.CodeDenied) && !ofProgram
	if !p.standsStill() && !mendable || p.migration != nil || p.runEnded() || k.ctx.Err() != nil {
		return false
	}
	note := agentkernel.AsError(err, agentkernel.CodeUnavailable, "sandbox").Message()
	switch p.step(steps.Wait); {
	case p.paused(): // it asks again when it goes on
		p.pausing.Pause = p.pausing.Found(note)
		k.journalState(p, agentkernel.EntryPaused, p.standing.Pauses.With)
	case mendable:
		k.pause(p, 0, history.Pause{Note: fmt.Sprintf(advice.WhenMended, note, p.pid)})
	}
	return true
}

// next runs the program for one turn under the kernel's own watchdog.
func (k *Kernel) next(p *process, reply *agentkernel.Reply) (agentkernel.Turn, error) {
	before, timed := p.run.box.Running(), k.table.ledger.Bounds(&p.spec.Spec, agentkernel.AmountTime)
	p.mu.Lock()
	turns := p.runContext().Turns()
	p.run.turning, p.run.running = k.clock(), before
	if timed {
		k.startClock(p)
	}
	p.mu.Unlock()
	turn, err := p.run.box.Next(turns.Begin(limits.TimeLeft(&p.spec.InForce, before)), reply)
	late := turns.End()
	p.mu.Lock()
	if err != nil { // what is lost with its sandbox was running until now
		p.run.running = p.ran(k.clock())
	}
	if timed && err == nil && turn.Kind == agentkernel.TurnCall { // many short turns make a long time
		k.enforceTime(p)
	}
	if p.run.turning = 0; timed {
		k.startClock(p)
	}
	p.mu.Unlock()
	if err != nil && late {
		err = limits.Time(&p.spec.InForce, before)
	}
	return turn, err
}

// nextReply decides what the sandbox is handed now. fresh: it was loaded from an image and says its turn
// again. Not ok: nothing to hand over; the process waits and is no longer owned.
func (k *Kernel) nextReply(p *process) (reply *agentkernel.Reply, fresh, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != agentkernel.StateRunning {
		return nil, false, false
	}
	if p.run.abort != nil {
		return nil, false, true // its sandbox is closed, and says so
	}
	if p.run.reemit {
		p.run.reemit = false
		return nil, true, true
	}
	if !p.deliverable() || k.ctx.Err() != nil {
		p.run.waits++
		p.run.lastRun = k.cfg.Now().UnixNano()
		p.step(steps.Wait)
		k.interruptWaiting(p)
		if p.standsStill() {
			k.announce(p)
		}
		for _, w := range p.watchers {
			w.Hurry()
		}
		return nil, false, false
	}
	switch p.run.need {
	case needStart, needGo:
		return nil, false, true
	case needAny:
		p.run.hasOutput = false // whatever it has to say, it says now
		if !p.hasResult() {
			return nil, false, true
		}
		if r := k.nextFromOrigin(p); r != nil {
			return r, false, true
		}
		r, err := p.nextArrived()
		k.note(p)
		if err != nil {
			p.endRun(err)
			return &agentkernel.Reply{Err: err}, false, true
		}
		return &r, false, true
	}
	r := p.run.reply
	p.run.reply = nil
	return r, false, true
}

// nextArrived takes the next async result, the journal's order first; p.mu is held.
func (p *process) nextArrived() (agentkernel.Reply, *agentkernel.Error) {
	if p.run.replay != nil && len(p.run.replay.Order) > 0 {
		r, err := p.run.replay.NextAsync(p.run.calls)
		p.replayed()
		return r, err
	}
	r := p.run.arrived[0]
	p.run.arrived = p.run.arrived[1:]
	return r.Reply, nil
}

// repeatedTurn takes the turn that a sandbox says again after its image was loaded. It says true when the
// turn is the one that the kernel knows; then the loop goes on with the answer.
func (k *Kernel) repeatedTurn(p *process, turn agentkernel.Turn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run.need == needAny && turn.Kind == agentkernel.TurnWait ||
		p.run.need == needReply && turn.Kind == agentkernel.TurnCall && !turn.Call.Async
}

// applyTurn deals with where the program stopped; it says whether the program can go on at once or must be
// asked for its next reply. False: the caller does not own it any more.
func (k *Kernel) applyTurn(p *process, turn agentkernel.Turn) bool {
	switch turn.Kind {
	case agentkernel.TurnCall:
		if turn.Fault == agentkernel.FaultBackend && k.asksForCell(turn.Call.Op) && k.moveInCell(p, turn.Call) {
			return k.startMoved(p)
		}
		return k.issue(p, turn.Call)
	case agentkernel.TurnWait, agentkernel.TurnHeld:
		next := needAny
		if turn.Kind == agentkernel.TurnHeld {
			next = needGo
		}
		p.mu.Lock()
		p.setNeed(next, 0, nil)
		p.mu.Unlock()
		return true
	case agentkernel.TurnLost:
		if p.run.verifies != nil { // it has no journal of its own to begin again with
			k.finish(p, ends.For(agentkernel.Errorf(agentkernel.CodeUnavailable, "sandbox", "the sandbox was lost while the program ran; try again")))
			return false
		}
		if turn.Err == nil {
			k.beginAgain(p)
		} else {
			k.lostBox(p, turn.Err)
		}
	case agentkernel.TurnExit:
		k.finish(p, k.settleFiles(p, ends.Ending{State: agentkernel.StateExited, ExitCode: turn.ExitCode, Result: turn.Result}))
	case agentkernel.TurnFail:
		return k.handleFailure(p, turn)
	default:
		k.finish(p, ends.For(agentkernel.Errorf(agentkernel.CodeInternal, "sandbox", "unknown turn %d", turn.Kind)))
	}
	return false
}

// afterRun looks after a process that has just begun to wait: a reply may have come in between.
func (k *Kernel) afterRun(p *process) {
	p.mu.Lock()
	if p.run.verifies != nil { // under the lock: somebody else may drive it by now, and give it another run
		p.mu.Unlock()
		k.stuck(p)
		return
	}
	cause := p.cause() // it came after the program's last turn
	if cause != nil && p.state == agentkernel.StateWaiting && !p.owned {
		p.step(steps.Reserve)
		p.mu.Unlock()
		k.finish(p, ends.For(cause))
		return
	}
	k.wake(p)
	p.mu.Unlock()
	k.schedulePark()
}

// ensureBox gives the process a sandbox: the one that it has, one from its image, or a fresh one.
func (k *Kernel) ensureBox(p *process) error {
	if p.run.box != nil {
		return nil
	}
	if err := k.repeatIfGone(p); err != nil {
		return err
	}
	k.makeRoom()
	defer k.timers.Every(roomEvery, func() { k.external.Go(k.makeRoom) })()
	bound, err := k.bind(p)
	if err != nil {
		return err
	}
	req := k.startRequest(p, bound)
	p.mu.Lock()
	fresh := p.run.need == needStart
	p.mu.Unlock()
	if fresh && !p.replayable() {
		if err := k.noteStart(p, bound); err != nil {
			return err
		}
	} else if fresh {
		k.noteTools(p, bound)
	} else {
		image, err := k.store.Image(p.context(), p.pid)
		if err != nil {
			return agentkernel.AsError(err, agentkernel.CodeStorage, "unpark")
		}
		req.Image = image.Bytes
	}
	if req.Mounts, req.Stdin, err = files.Begin(k.cfg.Layers, p.pid, &p.spec.Spec); err != nil {
		return err
	}
	box, err := p.run.backend.Start(p.context(), req)
	if err != nil {
		return err
	}
	k.settle(p, box, bound, !fresh)
	k.watchDisk(p)
	return nil
}

func (k *Kernel) startRequest(p *process, bound *sys.Binding) agentkernel.StartRequest {
	return agentkernel.StartRequest{
		PID: p.pid, Namespace: p.spec.Namespace, Program: p.spec.Program, Limits: p.spec.InForce, Tools: bound.Tools,
		Output: func(stream, text string) { k.output(p, stream, text) },
		Wake:   func() { k.stirred(p) },
	}
}

// settle puts a new sandbox in its place.
func (k *Kernel) settle(p *process, box agentkernel.Sandbox, bound *sys.Binding, fromImage bool) {
	k.table.residents.Add(p.pid, p)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run.box, p.run.bound, p.run.reemit = box, bound, fromImage
	if p.state.Terminal() { // killed while it started
		p.endRun(nil)
	}
}

// output takes what a program prints: compared while it repeats what the journal has, journalled and shown beyond that.
func (k *Kernel) output(p *process, stream, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Terminal() || p.cause() != nil {
		return
	}
	if p.run.replay != nil {
		rest, err := p.run.replay.Printed(stream, text)
		if err != nil {
			p.endRun(err)
			return
		}
		text = rest
		p.replayed()
	}
	if text == "" {
		return
	}
	text, full := limits.Output(&p.spec.InForce, p.standing.Account.Output, text)
	if full != nil {
		defer p.endRun(full)
	}
	if p.run.verifies != nil {
		if text != "" {
			p.endRun(replay.Diverged("the program prints more than the recording has: %s", journal.Short(journal.String(text), 120)))
		}
		return
	}
	k.append(p, agentkernel.Entry{Kind: agentkernel.EntryOutput, Stream: stream, Data: journal.String(text)})
	if err := k.journalFull(p, 0); err != nil {
		defer p.endRun(err)
	}
	k.publish(p, agentkernel.Event{Kind: agentkernel.EventOutput, Stream: stream, Text: text})
}
