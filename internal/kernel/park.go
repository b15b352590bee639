package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// parkTimeout bounds how long a sandbox may take to give its image.
const parkTimeout = 30 * time.Second

// base is the kernel's half of an image: where the process stands; p.mu is held.
func (p *process) base() history.Base {
	b := history.Base{
		Version: history.BaseVersion, Seq: p.standing.Seq, Account: p.standing.Account, Servers: p.standing.Servers, Noted: p.standing.Noted,
		Pauses: p.standing.Pauses, Locals: p.standing.Locals.Save(), Waits: p.run.waits, Running: p.run.running,
	}
	b.Calls = p.run.calls
	if !p.asksForCell() {
		b.Cell.Next = p.run.cell
	}
	if p.run.need == needReply {
		b.Reply = p.run.current
		if p.run.reply != nil {
			b.Refs = append(b.Refs, p.run.replySeq)
		}
	}
	for _, a := range p.run.arrived {
		b.Arrived, b.Refs = append(b.Arrived, a.ID), append(b.Refs, a.seq)
	}
	for _, f := range p.inflight {
		b.Refs = append(b.Refs, f.seq)
	}
	if p.run.moved != nil {
		b.Refs = append(b.Refs, p.run.moved.Seq)
	}
	if u := p.standing.Unresolved; u != nil {
		for _, q := range u.Asked {
			b.Refs = append(b.Refs, q.Seq)
		}
		b.Again = slices.Sorted(maps.Keys(u.Again))
	}
	slices.Sort(b.Refs)
	return b
}

// park takes the sandbox of a waiting process away and keeps its image. The caller owns the process.
func (k *Kernel) park(p *process) {
	ctx, cancel := context.WithTimeout(k.ctx, parkTimeout)
	defer cancel()
	box := p.sandbox()
	var image []byte
	var err error
	if box != nil && p.run.backend.Images { // else it was killed before we came to it, or is repeated when it is needed
		image, err = box.Image(ctx)
	}
	p.mu.Lock()
	box = k.keepImage(p, image, err)
	p.release()
	if p.state == agentkernel.StateReady { // drive may have met it owned and left it to us; else it still waits for its slot
		k.queue.Push(p)
	}
	k.wake(p)
	p.mu.Unlock()
	k.discard(p, box)
	k.table.Parked(p.pid, p)
	k.trim()
}

// keepImage stores the image of a process and takes its sandbox off it; p.mu is held. It gives nil if the sandbox has to stay.
func (k *Kernel) keepImage(p *process, image []byte, err error) agentkernel.Sandbox {
	if p.state.Terminal() {
		return p.takeBox()
	}
	if !p.run.backend.Images {
		return p.dropBox()
	}
	part, partErr := json.Marshal(p.base())
	if err != nil || partErr != nil {
		if agentkernel.CodeOf(err) != agentkernel.CodeCrashed { // a dead one is replaced when it is needed
			k.cfg.Logger.Warn("a sandbox gave no image; it stays in memory", "pid", p.pid, "err", errors.Join(err, partErr))
		}
		p.run.lastRun = k.cfg.Now().UnixNano()
		return nil
	}
	k.appendBatch(p, agentkernel.Batch{Image: &agentkernel.Image{
		PID: p.pid, Seq: p.standing.Seq, Fingerprint: p.run.fingerprint, Kernel: part, Bytes: image,
	}})
	p.imaged = true
	return p.dropBox()
}

// discard closes a sandbox that its process no longer has. No lock is held.
func (k *Kernel) discard(p *process, box agentkernel.Sandbox) {
	if box == nil {
		return
	}
	if err := box.Close(); err != nil {
		k.cfg.Logger.Warn("sandbox did not close", "pid", p.pid, "err", err)
	}
	k.table.unsettle(p)
}

// roomEvery is how often room is made for one who waits for it: who was needed a moment ago waits now, perhaps for the slot of that one.
const roomEvery = 20 * time.Millisecond

// makeRoom parks sandboxes until there is room for one more. One that gives no image stays, and the next is
// tried; if none gives way, memory holds more than Config.Residents for a while.
func (k *Kernel) makeRoom() {
	for n := 0; n < k.cfg.Residents && k.table.residents.Count() >= k.cfg.Residents; n++ {
		p := k.table.idlest(func(*process) bool { return true })
		if p == nil {
			return
		}
		k.park(p)
	}
}

// schedulePark arranges that sandboxes which wait for long are parked.
func (k *Kernel) schedulePark() {
	if !k.table.Closed() && k.table.residents.Look() {
		k.timers.After(k.cfg.ParkAfter, func() { k.external.Go(k.parkIdle) })
	}
}

func (k *Kernel) parkIdle() {
	now := k.cfg.Now()
	idle := func() *process { return k.table.idlest(func(p *process) bool { return k.idleLong(p, now) }) }
	for p := idle(); p != nil; p = idle() {
		k.park(p)
	}
	k.table.residents.Looked()
	k.schedulePark()
}

// idleLong says whether a waiting process has been so long enough to lose its sandbox; p.mu is held.
func (k *Kernel) idleLong(p *process, now time.Time) bool {
	stay := k.cfg.ParkAfter
	if !p.run.backend.Images {
		stay = k.cfg.SessionStay
	}
	return p.state == agentkernel.StateWaiting && p.run.lastRun < now.Add(-stay).UnixNano()
}

// dropBox takes the sandbox off a process, and with it what is read again when it is needed; p.mu is held.
func (p *process) dropBox() agentkernel.Sandbox {
	box := p.takeBox()
	p.dropWork()
	p.dropContext()
	return box
}
