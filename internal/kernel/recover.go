package kernel

import (
	"cmp"
	"context"
	"math"

	"agentkernel"
	"agentkernel/internal/fastpath"
	"agentkernel/internal/kernel/ends"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/inbox"
	"agentkernel/internal/kernel/moves"
	"agentkernel/internal/kernel/origin"
	"agentkernel/internal/kernel/replay"
	"agentkernel/internal/kernel/reserve"
	"agentkernel/internal/kernel/specs"
	"agentkernel/internal/kernel/steps"
)

// Recover continues unfinished processes of earlier kernels: pid and its descendants, or all (0). Those that cannot be taken up fail with
// the reason, or are left and come back unfinished if what they lack can be put back; the others go on. All of them are in the answer.
func (k *Kernel) Recover(ctx context.Context, pid agentkernel.PID) ([]agentkernel.Process, error) {
	if k.table.recovering.Enter() {
		defer k.table.recovering.Leave()
	}
	if pid == 0 {
		defer k.table.recovered()
	}
	if err := k.table.Refuses(); err != nil {
		return nil, err
	}
	pids, err := history.Unfinished(ctx, k.store, pid)
	if err != nil {
		return nil, err
	}
	var asleep []agentkernel.Process
	if pid == 0 {
		if asleep, err = k.carryAll(ctx); err != nil {
			return nil, err
		}
	}
	reading, done := fastpath.Together(ctx, k.store, len(pids))
	var taken []*process
	var failed error // the first
	for _, pid := range pids {
		if failed = cmp.Or(failed, ctx.Err()); ctx.Err() != nil {
			break // whoever asked has gone: what was taken up runs, and the rest is for the next who asks
		}
		p, left, err := k.adopt(reading, pid, false)
		failed, asleep = cmp.Or(failed, err), append(asleep, left...)
		if p != nil {
			taken = append(taken, p)
		}
	}
	done()
	out := make([]agentkernel.Process, 0, len(taken))
	for _, p := range taken {
		k.launch(p)
		out = append(out, p.seen())
		defer k.unpin(p)
	}
	for _, p := range taken {
		failed = cmp.Or(failed, k.flush(ctx, p))
	}
	return append(out, asleep...), failed
}

// carryAll makes what other kernels have parked this kernel's to wake, and tells of it.
func (k *Kernel) carryAll(ctx context.Context) (told []agentkernel.Process, err error) {
	parked, err := history.Parked(ctx, k.store)
	if err != nil {
		return nil, err
	}
	_, asleep, _ := k.table.Counts()
	parked = max(parked-asleep, 0)
	k.table.CarryAll(parked)
	k.wakes.TakeAll()
	posted, err := k.store.Posted(ctx)
	if err != nil {
		return nil, err
	}
	for _, pid := range posted { // they were sent something that woke nobody any more
		k.external.Go(func() { _ = k.wakeParked(k.ctx, pid) })
	}
	if parked == 0 || parked > history.Told {
		return nil, nil
	}
	rows, err := k.store.Processes(ctx, agentkernel.Filter{Unfinished: true})
	for _, rec := range rows {
		if rec.Parked != nil && rec.Parked.Kernel != k.stamp() {
			told = append(told, k.shown(rec, nil))
		}
	}
	return told, err
}

// adopt takes up a process of an earlier kernel: it stands where its journal says, not running yet, and in memory until unpin. nil:
// this kernel carries it already, or left has it, which has failed, or was left as it was. To be killed, it need not be whole.
func (k *Kernel) adopt(ctx context.Context, pid agentkernel.PID, toKill bool) (_ *process, left []agentkernel.Process, _ error) {
	ctx = context.WithoutCancel(ctx) // a caller who leaves is no reason to fail it
	if running, first, err := k.table.Claim(ctx, pid); !first {
		k.unpin(running)
		return nil, nil, err
	}
	defer k.table.Loaded(pid)
	rec, ofRow, err := history.Row(ctx, k.store, pid)
	if err != nil || rec.State.Terminal() { // whoever listed it did so before
		return nil, nil, err
	}
	found, err := k.readProcess(ctx, rec, ofRow, toKill)
	if err != nil {
		left, err := history.NotRead(rec, err)
		return nil, left, err
	}
	p := found.p
	if history.CanBePutBack(found.lost) {
		if !toKill {
			return nil, []agentkernel.Process{history.Unreadable(rec, found.lost)}, k.leave(ctx, rec, found, ofRow == nil)
		}
		found.lost = inbox.Killed()
	}
	if !k.table.Adopt(p.pid, p, k.carries(&rec)) {
		return nil, nil, k.table.Refuses()
	}
	k.rejoin(p)
	p.mu.Lock()
	entries := append([]agentkernel.Entry{k.recoveryEntry(found.h.Base.Seq > 0)}, reserve.Lost(p.standing.Account.Amounts)...)
	k.appendBatch(p, agentkernel.Batch{Entries: entries, Process: p.record()})
	p.mu.Unlock()
	if !k.takeUp(found) {
		defer k.unpin(p)
		return nil, append(left, p.seen()), k.flush(ctx, p)
	}
	return p, nil, nil
}

// leave pauses a process without taking it up, of which something is lost that can be put back: if it ended, that would be for good.
// A row that has lost something is not written, which would lose it for good, too.
func (k *Kernel) leave(ctx context.Context, rec agentkernel.ProcessRecord, f found, write bool) error {
	p := f.p
	p.mu.Lock()
	p.run.replay = p.run.replay.Drop()
	if p.recoveries.Store(int32(rec.Recoveries)); write && !rec.Paused { // else it says already why it stays
		p.pausing = &history.Pausing{Pause: history.Pause{Note: history.UnreadableNote(p.pid, f.lost)}}
		k.journalState(p, agentkernel.EntryPaused, 0)
		k.table.Leave(k.carries(&rec))
	}
	p.mu.Unlock()
	k.specs.Drop(p.spec)
	k.dropLocals(p)
	k.forest.Unload(p.place())
	return k.flush(ctx, p)
}

// found is a process as it was read from the store.
type found struct {
	p       *process
	h       *history.History
	backend string             // that it ran on
	lost    *agentkernel.Error // why it cannot be continued; nil: it can
}

// readProcess reads a process from the store: it stands where its journal says, in no table yet. ofRow is what its row has lost.
func (k *Kernel) readProcess(ctx context.Context, rec agentkernel.ProcessRecord, ofRow error, toKill bool) (f found, err error) {
	p := k.restored(rec)
	f.p, f.backend, f.lost = p, rec.Backend, agentkernel.AsError(ofRow, agentkernel.CodeCorrupt, "recover")
	var from *origin.Origin
	var base history.Base
	if f.lost == nil {
		from, f.lost = k.originOf(ctx, p)
		if p.run.backend != nil && p.replayable() {
			base = history.UsableImage(ctx, k.store, p.pid, p.run.backend.Now().Fingerprint, k.cfg.Logger)
		}
	}
	h, entries, ofJournal, err := history.Resume(ctx, k.store, p.pid, base, p.spec.Past != nil, k.forest.Repeatable(toKill), k.table.locals.From(p.pid))
	if err != nil {
		k.specs.Drop(p.spec) // it comes into no table that would
		return f, err
	}
	if f.h = h; f.lost == nil {
		f.lost = agentkernel.AsError(ofJournal, agentkernel.CodeCorrupt, "recover")
	}
	p.standing = h.Standing
	if h.Moved != nil { // as standing, what no abort and no move unwinds
		p.run.moved = moves.Of(h.Moved)
	}
	if p.replayable() {
		k.newRun(p, from, h, entries)
	} else if crashed := k.restoreOnce(p); f.lost == nil && crashed != nil {
		f.lost = crashed
	}
	p.step(steps.Begin)
	return f, nil
}

// takeUp issues again what was under way for a process that has come into the table. False: it could not be continued, and has ended.
func (k *Kernel) takeUp(f found) bool {
	p := f.p
	if p.run.backend == nil && p.spec.Backend != specs.Hosted {
		k.finish(p, ends.For(agentkernel.Errorf(agentkernel.CodeUnavailable, "recover", "backend %q is not there any more", f.backend)))
		return false
	}
	if f.lost == nil && k.publishAgain(p, f.h.Publication) {
		return false
	}
	if f.lost != nil {
		p.dropReplay()
		k.finish(p, ends.For(f.lost))
		return false
	}
	if f.h.Base.Seq > 0 {
		k.reopen(p, f.h.Queue.Open)
	}
	k.pauseIfChanged(p)
	return true
}

// restored builds the table's row from the store's.
func (k *Kernel) restored(rec agentkernel.ProcessRecord) *process {
	p := k.newProcess(rec.PID, k.specs.Take(&rec.Spec, k.specs.Data(&rec.Spec)), k.backends.Find(rec.Backend))
	if p.created = rec.Created; rec.Paused {
		p.pausing = &history.Pausing{Pause: history.PauseOf(rec.PauseNote)}
	}
	p.recoveries.Store(int32(min(rec.Recoveries+1, math.MaxInt32)))
	p.imaged, p.run.lastWalls, p.run.fingerprint = true, rec.Walls, rec.Fingerprint
	return p
}

// newRun replaces the run of a process that has no sandbox by one that stands where the history does: at its image, or at its
// beginning, with the rest of the journal to be repeated. Whatever restarts a process goes through it. Calls that are under
// way stay so; p.mu is held, or p is not in the table yet.
func (k *Kernel) newRun(p *process, from *origin.Origin, h *history.History, entries []agentkernel.Entry) {
	base := &h.Base
	p.dropUnissued(base.Calls)
	from.Restore(entries)
	old := p.run
	old.replay.Drop()
	p.run = &run{
		backend: old.backend, fingerprint: old.fingerprint, moved: old.moved, lastWalls: old.lastWalls, bound: old.bound,
		stays: old.stays, abort: old.abort, running: old.running, waits: old.waits, lastRun: old.lastRun,
		origin: from, calls: base.Calls, cell: base.Cell.Next, reemit: base.Seq > 0,
		replay: replay.New(h.Queue, p.spec.Program.Session, &k.forest.Repeated),
	}
	switch {
	case base.Seq == 0:
		p.setNeed(needStart, 0, nil)
		if p.run.backend != nil {
			p.run.fingerprint = p.run.backend.Now().Fingerprint
		}
	case base.Reply == 0:
		p.setNeed(needAny, 0, nil)
	default:
		p.setNeed(needReply, base.Reply, nil)
		if e, ok := p.run.replay.Results[base.Reply]; ok {
			delete(p.run.replay.Results, base.Reply)
			p.run.reply, p.run.replySeq = &agentkernel.Reply{ID: e.Call, Result: e.Data, Err: e.Err}, e.Seq
		}
	}
	if base.Seq > 0 {
		p.run.running, p.run.waits = base.Running, base.Waits
	}
	if p.spec.Backend == specs.Hosted {
		p.run.replay = p.run.replay.Drop() // its calls are found by their places
	}
	p.replayed()
}

// reopen issues again what was under way when the image was made.
func (k *Kernel) reopen(p *process, open []agentkernel.Entry) {
	for _, e := range open {
		f := k.opened(&e)
		p.mu.Lock()
		p.inflight.Add(f)
		p.mu.Unlock()
		k.reissue(p, f)
	}
	// A process of which everything waits needs no sandbox yet; deliverable decides.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == agentkernel.StateReady && !p.deliverable() {
		p.step(steps.Hold)
		k.interruptWaiting(p)
	}
}
