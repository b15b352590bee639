package kernel

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/origin"
	"agentkernel/internal/kernel/replay"
)

// Recover continues unfinished processes of earlier kernels: pid and its descendants, or all (0). Those
// that cannot be taken up fail with the reason; the others go on.
func (k *Kernel) Recover(ctx context.Context, pid agentkernel.PID) ([]agentkernel.Process, error) {
	if k.table.recovering.Enter() {
		defer k.table.recovering.Leave()
	}
	if pid == 0 {
		defer k.table.recovered()
	}
	if err := k.table.refuses(); err != nil {
		return nil, err
	}
	records, err := k.toRecover(ctx, pid)
	if err != nil {
		return nil, err
	}
	var taken []*process
	var failed error // the first
	for _, rec := range records {
		if failed = cmp.Or(failed, ctx.Err()); ctx.Err() != nil {
			break // whoever asked has gone: what was taken up runs, and the rest is for the next who asks
		}
		p, err := k.adopt(ctx, rec)
		failed = cmp.Or(failed, err)
		if p != nil {
			taken = append(taken, p)
		}
	}
	out := make([]agentkernel.Process, 0, len(taken))
	for _, p := range taken {
		k.launch(p)
		p.mu.Lock()
		out = append(out, p.snapshot())
		p.mu.Unlock()
	}
	for _, p := range taken {
		if err := k.flush(ctx, p); err != nil {
			return out, err
		}
	}
	return out, failed
}

// recoverPatience bounds how long a caller waits for a recovery that is under way.
const recoverPatience = 30 * time.Second

// carried finds a process for a caller from outside; nil: no kernel runs it. A kernel is called before it has recovered: one that
// may be taken up is waited for.
func (k *Kernel) carried(ctx context.Context, pid agentkernel.PID) *process {
	p := k.lookup(pid)
	if p == nil {
		if rec, err := k.store.Process(ctx, pid); err != nil || rec.State.Terminal() {
			return nil
		}
	}
	if p == nil || p.recoveries > 0 { // else it is this kernel's own
		k.table.recovering.Await(ctx, recoverPatience)
	}
	return k.lookup(pid)
}

// toRecover lists the unfinished processes that are meant, parents first: a child's PID is greater than its
// parent's.
func (k *Kernel) toRecover(ctx context.Context, pid agentkernel.PID) ([]agentkernel.ProcessRecord, error) {
	var found []agentkernel.ProcessRecord
	var err error
	if pid == 0 {
		found, err = k.store.Processes(ctx, agentkernel.Filter{Unfinished: true})
	} else {
		found, err = k.unfinishedTree(ctx, pid)
		if err == nil && (len(found) == 0 || found[0].PID != pid) {
			err = agentkernel.Errorf(agentkernel.CodeConflict, "recover", "process %d has ended already", pid).WithPID(pid)
		}
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b agentkernel.ProcessRecord) int { return cmp.Compare(a.PID, b.PID) })
	return found, nil
}

// unfinishedTree gives a process and its unfinished descendants, those below one that has ended too.
func (k *Kernel) unfinishedTree(ctx context.Context, pid agentkernel.PID) ([]agentkernel.ProcessRecord, error) {
	root, _, err := history.Row(ctx, k.store, pid)
	if err != nil {
		return nil, err
	}
	tree := []agentkernel.ProcessRecord{root}
	for i := 0; i < len(tree); i++ { // the list grows while it is walked
		children, err := k.store.Processes(ctx, agentkernel.Filter{Parent: tree[i].PID})
		if err != nil {
			return nil, err
		}
		tree = append(tree, children...)
	}
	return slices.DeleteFunc(tree, func(r agentkernel.ProcessRecord) bool { return r.State.Terminal() }), nil
}

// adopt takes up a process of an earlier kernel: it stands where its journal says, not running yet. nil:
// this kernel carries it already, or it could not be taken up and has failed. A caller who leaves is not the reason for that.
func (k *Kernel) adopt(ctx context.Context, row agentkernel.ProcessRecord) (*process, error) {
	ctx = context.WithoutCancel(ctx)
	if k.lookup(row.PID) != nil {
		return nil, nil
	}
	removed := k.table.removed.Load()
	rec, ofRow, err := history.Row(ctx, k.store, row.PID) // lists come without program text
	if err != nil || rec.State.Terminal() {               // the list was older
		return nil, err
	}
	p := k.restored(rec)
	lost := agentkernel.AsError(ofRow, agentkernel.CodeCorrupt, "recover")
	var from *origin.Origin
	var base history.Base
	if lost == nil {
		from, lost = k.originOf(ctx, p)
		base = k.usableImage(ctx, p)
	}
	h, entries, ofJournal, err := k.readBack(ctx, p, base)
	if err != nil {
		return nil, err
	}
	if lost == nil {
		lost = agentkernel.AsError(ofJournal, agentkernel.CodeCorrupt, "recover")
	}
	p.restore(h)
	if p.replayable() {
		k.newRun(p, from, h, entries)
	} else if crashed := k.restoreOnce(p); lost == nil && crashed != nil {
		lost = crashed
	}

	p.step(&stepBegin)
	for !k.table.adopt(p, removed) { // somebody else has it, or it may have been his and have ended
		removed = k.table.removed.Load()
		now, _, err := history.Row(ctx, k.store, p.pid)
		if err = cmp.Or(err, k.table.refuses()); err != nil || now.State.Terminal() || k.lookup(p.pid) != nil {
			return nil, err
		}
	}
	if _, tree := k.forest.trees.Load(p.pid); tree || len(p.spec.Ancestors) > 0 {
		k.rejoin(p)
	}

	p.mu.Lock()
	data := fmt.Appendf(nil, `{"from_image":%t,"kernel":%d}`, h.Base.Seq > 0, os.Getpid())
	k.appendBatch(p, agentkernel.Batch{Entries: []agentkernel.Entry{{Kind: agentkernel.EntryRecover, Data: data}}, Process: p.record()})
	p.mu.Unlock()
	if p.run.backend == nil && p.spec.Backend != hostedBackend {
		k.finish(p, endingFor(agentkernel.Errorf(agentkernel.CodeUnavailable, "recover", "backend %q is not there any more", rec.Backend)))
		return nil, nil
	}
	if lost == nil && k.publishAgain(p, h.Publication) {
		return nil, nil
	}
	if lost != nil {
		p.dropReplay()
		k.finish(p, endingFor(lost))
		return nil, nil
	}
	if h.Base.Seq > 0 {
		k.reopen(p, h.Queue.Open)
	}
	k.pauseOnDrift(p)
	return p, nil
}

// readBack folds the journal of a process from a base on. entries is what it read for that: all of the journal where the
// process has an origin. lost says that something cannot be read, or is not there: then nothing of it can be continued.
func (k *Kernel) readBack(ctx context.Context, p *process, base history.Base) (h *history.History, entries []agentkernel.Entry, lost, err error) {
	from := int64(1)
	if base.Seq > 0 && !base.Whole() && p.spec.Past == nil {
		from = base.Seq
	}
	entries, lost, err = history.Entries(ctx, k.store, p.pid, from, 0)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(entries) == 0 || entries[len(entries)-1].Seq < base.Seq {
		h, entries, lost, err = k.readBack(ctx, p, history.Base{})
		return h, entries, cmp.Or(lost, shorterThanImage(p.pid, h.Seq, base.Seq)), err
	}
	for _, seq := range base.Refs {
		if seq >= from {
			continue
		}
		one, gone, err := history.Entries(ctx, k.store, p.pid, seq, 1)
		if err != nil {
			return nil, nil, nil, err
		}
		entries, lost = append(entries, one...), cmp.Or(lost, gone)
	}
	slices.SortFunc(entries, func(a, b agentkernel.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	h = history.Fold(base, entries)
	if h.Stale() {
		return k.readBack(ctx, p, history.Base{})
	}
	return h, entries, lost, nil
}

func shorterThanImage(pid agentkernel.PID, last, image int64) error {
	if last >= image {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeCorrupt, "recover", "the journal of process %d ends with entry %d, and its image was made after entry %d", pid, last, image).
		WithPID(pid).WithHint(advice.Restore)
}

// restored builds the table's row from the store's.
func (k *Kernel) restored(rec agentkernel.ProcessRecord) *process {
	p := k.newProcess(rec.PID, k.specs.Take(&rec.Spec, history.SpecData(&rec.Spec)), k.backends.Find(rec.Backend))
	p.created, p.paused, p.pauseNote = rec.Created, rec.Paused, rec.PauseNote
	p.recoveries, p.run.lastWalls = int32(min(rec.Recoveries+1, math.MaxInt32)), rec.Walls
	p.imaged = true
	p.run.fingerprint = rec.Fingerprint
	return p
}

// restore takes from the history of a process what no abort and no move unwinds.
func (p *process) restore(h *history.History) {
	p.standing = h.Standing
	if h.Moved != nil {
		p.run.moved = movedBy(h.Moved)
	}
}

// usableImage gives the base of the newest image if this kernel's engine can load it. An image of another engine, or
// one that is damaged, is not used: the journal has everything.
func (k *Kernel) usableImage(ctx context.Context, p *process) (none history.Base) {
	if p.run.backend == nil || !p.replayable() {
		return none
	}
	image, err := k.store.Image(ctx, p.pid)
	if err != nil {
		if agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
			k.cfg.Logger.Warn("image not used, replaying the journal instead", "pid", p.pid, "err", err)
		}
		return none
	}
	if image.Fingerprint != p.run.backend.Now().Fingerprint {
		k.cfg.Logger.Info("image of another engine version, replaying the journal instead", "pid", p.pid, "image", image.Fingerprint)
		return none
	}
	base, err := history.ParseBase(image.Kernel, image.Seq)
	if err != nil {
		k.cfg.Logger.Warn("image not used, replaying the journal instead", "pid", p.pid, "err", err)
		return none
	}
	return base
}

// newRun replaces the run of a process that has no sandbox by one that stands where the history does: at its image, or at its
// beginning, with the rest of the journal to be repeated. Whatever restarts a process goes through it. Calls that are under
// way stay so; p.mu is held, or p is not in the table yet.
func (k *Kernel) newRun(p *process, from *origin.Origin, h *history.History, entries []agentkernel.Entry) {
	base := &h.Base
	p.dropUnissued(base.Calls)
	from.Restore(entries)
	old := p.run
	p.run = &run{
		backend: old.backend, fingerprint: old.fingerprint, moved: old.moved, lastWalls: old.lastWalls, bound: old.bound,
		stays: old.stays, abort: old.abort, running: old.running, waits: old.waits, lastRun: old.lastRun,
		origin: from, calls: base.Calls, piece: base.Cell.Next, reemit: base.Seq > 0,
		replay: replay.New(h.Queue, p.spec.Program.Session),
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
	p.replayed()
}

// reopen issues again what was under way when the image was made.
func (k *Kernel) reopen(p *process, open []agentkernel.Entry) {
	for _, e := range open {
		f := k.opened(&e)
		p.mu.Lock()
		p.inflight.add(f)
		p.mu.Unlock()
		k.reissue(p, f)
	}
	// A process of which everything waits needs no sandbox yet; deliverable decides.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == agentkernel.StateReady && !p.deliverable() {
		p.step(&stepHold)
	}
}
