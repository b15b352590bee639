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
		Version: history.BaseVersion, Seq: p.seq, Account: p.account, Servers: p.servers, Noted: p.noted,
		Pauses: p.pauses, Waits: p.waits, Running: p.running,
	}
	b.Calls = p.calls
	if !p.asksForPiece() {
		b.Cell.Next = p.piece
	}
	if p.need == needReply {
		b.Reply = p.current
		if p.reply != nil {
			b.Refs = append(b.Refs, p.replySeq)
		}
	}
	for _, a := range p.arrived {
		b.Arrived, b.Refs = append(b.Arrived, a.ID), append(b.Refs, a.seq)
	}
	for _, f := range p.inflight {
		b.Refs = append(b.Refs, f.seq)
	}
	if p.moved != nil {
		b.Refs = append(b.Refs, p.moved.seq)
	}
	if u := p.unresolved; u != nil {
		for _, q := range u.Asked {
			b.Refs = append(b.Refs, q.Seq)
		}
		b.Again = slices.Sorted(maps.Keys(u.Again))
	}
	slices.Sort(b.Refs)
	return b
}

// park takes the sandbox of a waiting process away and keeps its image. The caller has set p.owned.
func (k *Kernel) park(p *process) {
	ctx, cancel := context.WithTimeout(k.ctx, parkTimeout)
	defer cancel()
	p.mu.Lock()
	box := p.box
	p.mu.Unlock()
	var image []byte
	var err error
	if box != nil && p.backend.Images { // else it was killed before we came to it, or is repeated when it is needed
		image, err = box.Image(ctx)
	}
	p.mu.Lock()
	box = k.keepImage(p, image, err)
	p.owned = false
	if p.state == agentkernel.StateReady { // drive met it owned and left it to us
		k.queue.push(p)
	}
	k.wake(p)
	p.mu.Unlock()
	k.discard(p, box)
}

// keepImage stores the image of a process and takes its sandbox off it; p.mu is held. It gives nil if the
// sandbox has to stay.
func (k *Kernel) keepImage(p *process, image []byte, err error) agentkernel.Sandbox {
	if p.state.Terminal() {
		return p.takeBox()
	}
	if !p.backend.Images {
		return p.letGo()
	}
	part, partErr := json.Marshal(p.base())
	if err != nil || partErr != nil {
		k.cfg.Logger.Warn("a sandbox gave no image; it stays in memory", "pid", p.pid, "err", errors.Join(err, partErr))
		p.lastRun = k.cfg.Now().UnixNano()
		return nil
	}
	k.appendBatch(p, agentkernel.Batch{Image: &agentkernel.Image{
		PID: p.pid, Seq: p.seq, Fingerprint: p.fingerprint, Kernel: part, Bytes: image,
	}})
	box := p.takeBox()
	p.imaged = true
	// The working set is read again from the store; what is journalled needs no second copy in memory.
	p.work = nil
	p.rest()
	return box
}

// discard closes a sandbox that its process no longer has. No lock is held.
func (k *Kernel) discard(p *process, box agentkernel.Sandbox) {
	if box == nil {
		return
	}
	if err := box.Close(); err != nil {
		k.cfg.Logger.Warn("sandbox did not close", "pid", p.pid, "err", err)
	}
	k.forgetResident(p)
}

func (k *Kernel) forgetResident(p *process) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.box == nil {
		delete(k.resident, p.pid)
	}
}

// makeRoom parks sandboxes until there is room for one more. One that gives no image stays, and the next is
// tried; if none gives way, memory holds more than Config.Residents for a while.
func (k *Kernel) makeRoom() {
	for range k.cfg.Residents {
		k.mu.Lock()
		full := len(k.resident) >= k.cfg.Residents
		k.mu.Unlock()
		if !full {
			return
		}
		p := k.ownIdlest(true)
		if p == nil {
			return
		}
		k.park(p)
	}
}

// ownIdlest finds the sandbox that has not run for longest, anyone or one that has waited long enough to be parked for
// that alone, and owns it for its caller. A process that is ready again but has no slot may give way too: whoever has
// the slot may be waiting for its place.
func (k *Kernel) ownIdlest(anyone bool) *process {
	now := k.cfg.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	var best *process
	var idleSince int64 // of best, whose lock is not held
	var ready, images bool
	for _, p := range k.resident {
		p.mu.Lock()
		if p.evictable() && (anyone || k.idleLong(p, now)) &&
			(best == nil || p.givesWayBefore(ready, images, idleSince)) {
			best, idleSince, ready, images = p, p.lastRun, p.state == agentkernel.StateReady, p.backend.Images
		}
		p.mu.Unlock()
	}
	if best == nil {
		return nil
	}
	best.mu.Lock()
	defer best.mu.Unlock()
	if !best.evictable() {
		return nil
	}
	best.owned = true
	return best
}

// givesWayBefore compares p with another that may be parked: those of which there are images go before those that
// have to be repeated, those that wait before those that are ready, of the waiting the one that has waited longest, of
// the ready the one that runs last; p.mu is held.
func (p *process) givesWayBefore(otherReady, otherImages bool, otherRan int64) bool {
	switch mine := p.state == agentkernel.StateReady; {
	case p.backend.Images != otherImages:
		return p.backend.Images
	case mine != otherReady:
		return otherReady
	case mine:
		return p.lastRun > otherRan
	}
	return p.lastRun < otherRan
}

// evictable says whether the sandbox may be parked now; p.mu is held. A call that the journal does not have yet (its server
// starts, a human is asked) keeps it: an image stands behind the call, and after a crash there would be nothing to answer it.
func (p *process) evictable() bool {
	if slices.ContainsFunc(p.inflight, func(f *inflight) bool { return !f.intended() }) {
		return false
	}
	idle := p.state == agentkernel.StateWaiting || p.state == agentkernel.StateReady
	return idle && !p.owned && p.box != nil && !p.reemit && p.replay == nil && p.need != needStart && p.need != needGo && (p.backend.Images || p.betweenPieces())
}

// schedulePark arranges that sandboxes which wait for long are parked.
func (k *Kernel) schedulePark() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.parker != nil || k.closed || len(k.resident) == 0 {
		return
	}
	k.parker = time.AfterFunc(k.cfg.ParkAfter, k.parkIdle)
}

func (k *Kernel) parkIdle() {
	if !k.external.enter() {
		return
	}
	defer k.external.leave()
	for {
		p := k.ownIdlest(false)
		if p == nil {
			break
		}
		k.park(p)
	}
	k.mu.Lock()
	k.parker = nil
	k.mu.Unlock()
	k.schedulePark()
}
