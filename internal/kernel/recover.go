package kernel

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"agentkernel"
)

// Recover continues unfinished processes of earlier kernels: pid and its descendants, or all (0). Those
// that cannot be taken up fail with the reason; the others go on.
func (k *Kernel) Recover(ctx context.Context, pid agentkernel.PID) ([]agentkernel.Process, error) {
	if err := k.accepting(); err != nil {
		return nil, err
	}
	records, err := k.toRecover(ctx, pid)
	if err != nil {
		return nil, err
	}
	var taken []*process
	var failed error // the first
	for _, rec := range records {
		p, err := k.adopt(ctx, rec)
		if ctx.Err() != nil {
			return nil, err
		}
		if err != nil && failed == nil {
			failed = err
		}
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

// toRecover lists the unfinished processes that are meant, parents first: a child's PID is greater than its
// parent's.
func (k *Kernel) toRecover(ctx context.Context, pid agentkernel.PID) ([]agentkernel.ProcessRecord, error) {
	var found []agentkernel.ProcessRecord
	var err error
	if pid == 0 {
		found, err = k.store.Processes(ctx, agentkernel.Filter{Unfinished: true})
	} else {
		found, err = k.unfinishedTree(ctx, pid)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b agentkernel.ProcessRecord) int { return cmp.Compare(a.PID, b.PID) })
	return found, nil
}

// unfinishedTree gives a process and its unfinished descendants. One that has ended hides what is below it.
func (k *Kernel) unfinishedTree(ctx context.Context, pid agentkernel.PID) ([]agentkernel.ProcessRecord, error) {
	root, _, err := processLeft(ctx, k.store, pid)
	if err != nil {
		return nil, err
	}
	if root.State.Terminal() {
		return nil, agentkernel.Errorf(agentkernel.CodeConflict, "recover", "process %d has ended already: %s", pid, root.State).WithPID(pid)
	}
	tree := []agentkernel.ProcessRecord{root}
	for i := 0; i < len(tree); i++ { // the list grows while it is walked
		children, err := k.store.Processes(ctx, agentkernel.Filter{Unfinished: true, Parent: tree[i].PID})
		if err != nil {
			return nil, err
		}
		tree = append(tree, children...)
	}
	return tree, nil
}

// adopt takes up a process of an earlier kernel: it stands where its journal says, not running yet. nil:
// this kernel carries it already, or it could not be taken up and has failed.
func (k *Kernel) adopt(ctx context.Context, row agentkernel.ProcessRecord) (*process, error) {
	if k.lookup(row.PID) != nil {
		return nil, nil
	}
	rec, entries, lost, err := k.readBack(ctx, row.PID)
	if err != nil {
		return nil, err
	}
	p := k.restored(rec, entries)
	var image *agentkernel.Image
	var part kernelPart
	if lost == nil {
		lost = k.restorePast(ctx, p, entries)
		image, part = k.usableImage(ctx, p)
	}
	if lost == nil && image != nil && image.Seq > p.seq {
		lost = agentkernel.Errorf(agentkernel.CodeCorrupt, "recover", "the journal of process %d ends with entry %d, and its image was made after entry %d", p.pid, p.seq, image.Seq).
			WithPID(p.pid).WithHint("restore a backup: agentkernel restore")
		image = nil
	}
	var open []agentkernel.Entry
	if p.replayable() {
		open = k.restorePosition(p, entries, image, part)
	} else if crashed := k.restoreOnce(p, entries); lost == nil && crashed != nil {
		lost = crashed
	}

	k.mu.Lock()
	if k.procs[p.pid] != nil {
		k.mu.Unlock()
		return nil, nil
	}
	k.procs[p.pid] = p
	k.unfinished = max(0, k.unfinished-1)
	k.mu.Unlock()

	p.mu.Lock()
	data, err := json.Marshal(map[string]any{"kernel": os.Getpid(), "from_image": image != nil})
	if err != nil {
		data = nil
	}
	k.appendBatch(p, agentkernel.Batch{Entries: []agentkernel.Entry{{Kind: agentkernel.EntryRecover, Data: data}}, Process: p.record()})
	p.to(agentkernel.StateReady)
	p.mu.Unlock()
	if p.backend == nil && p.spec.Backend != hostedBackend {
		k.finish(p, endingFor(agentkernel.Errorf(agentkernel.CodeUnavailable, "recover", "backend %q is not there any more", rec.Backend)))
		return nil, nil
	}
	if lost == nil && k.publishAgain(p, entries) {
		return nil, nil
	}
	if lost != nil {
		p.dropReplay()
		k.finish(p, endingFor(lost))
		return nil, nil
	}
	if image != nil {
		k.reopen(p, open)
	}
	k.pauseOnDrift(p)
	return p, nil
}

// readBack reads a process whole: its row (lists come without program text) and its journal. lost says that not all of it can be read:
// then nothing of it can be continued.
func (k *Kernel) readBack(ctx context.Context, pid agentkernel.PID) (rec agentkernel.ProcessRecord, entries []agentkernel.Entry, lost *agentkernel.Error, err error) {
	rec, ofRow, err := processLeft(ctx, k.store, pid)
	if err != nil {
		return rec, nil, nil, err
	}
	entries, ofJournal, err := entriesLeft(ctx, k.store, pid, 1, 0)
	return rec, entries, agentkernel.AsError(cmp.Or(ofRow, ofJournal), agentkernel.CodeCorrupt, "recover"), err
}

// restored builds the table's row from the store's.
func (k *Kernel) restored(rec agentkernel.ProcessRecord, entries []agentkernel.Entry) *process {
	spec := rec.Spec
	var found *backend
	for _, b := range k.backends {
		if b.Name == rec.Backend {
			found = b
		}
	}
	spec.Interactive = false // whoever could answer has gone with the old kernel
	p := k.newProcess(rec.PID, k.specs.take(&spec, specData(&spec)), found)
	p.created, p.paused, p.pauseNote = rec.Created, rec.Paused, rec.PauseNote
	p.restorePauses(entries)
	p.recoveries, p.stood = rec.Recoveries+1, rec.Walls
	p.imaged = true
	p.fingerprint = rec.Fingerprint
	p.moved = restoredMove(entries)
	p.doubts = doubtsIn(entries)
	_, p.noted = notedTools(entries)
	if len(entries) > 0 {
		p.seq = entries[len(entries)-1].Seq
	}
	return p
}

// usableImage gives the newest image if this kernel's engine can load it. An image of another engine, or
// one that is damaged, is not used: the journal has everything.
func (k *Kernel) usableImage(ctx context.Context, p *process) (*agentkernel.Image, kernelPart) {
	var part kernelPart
	if p.backend == nil {
		return nil, part
	}
	image, err := k.store.Image(ctx, p.pid)
	if err != nil {
		if agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
			k.cfg.Logger.Warn("image not used, replaying the journal instead", "pid", p.pid, "err", err)
		}
		return nil, part
	}
	if image.Fingerprint != p.backend.Fingerprint {
		k.cfg.Logger.Info("image of another engine version, replaying the journal instead", "pid", p.pid, "image", image.Fingerprint)
		return nil, part
	}
	if err := json.Unmarshal(image.Kernel, &part); err != nil {
		k.cfg.Logger.Warn("image not used, replaying the journal instead", "pid", p.pid, "err", err)
		return nil, kernelPart{}
	}
	return &image, part
}

// restorePosition sets p to where its image stands, or to the beginning, with the rest of the journal to
// be repeated. It returns the calls in the image that have no result.
func (k *Kernel) restorePosition(p *process, entries []agentkernel.Entry, image *agentkernel.Image, part kernelPart) []agentkernel.Entry {
	after := int64(0)
	if image != nil {
		after = image.Seq
	} else if p.backend != nil {
		p.fingerprint = p.backend.Fingerprint
	}
	var open []agentkernel.Entry
	p.replay, open = newReplay(entries, after, part)
	p.replay.session = p.spec.Program.Session
	for _, e := range entries {
		if e.Kind == agentkernel.EntryOutput && e.Seq > after {
			p.usage.Output += int64(len(outputText(e)))
		}
	}
	if image == nil {
		p.replayed()
		return nil
	}
	p.calls, p.sessions, p.approved = part.Calls, part.Sessions, part.Approved
	p.usage = agentkernel.Usage{Syscalls: part.Calls, ToolCalls: part.ToolCalls, Waits: part.Waits, BytesIn: part.BytesIn,
		Output: part.Output + p.usage.Output, Running: part.Running}
	p.setNeed(needAny, 0, nil)
	if part.Reply != 0 {
		p.setNeed(needReply, part.Reply, nil)
		if e, ok := p.replay.results[part.Reply]; ok {
			delete(p.replay.results, part.Reply)
			p.reply = &agentkernel.Reply{ID: e.Call, Result: e.Data, Err: e.Err}
		}
	}
	p.reemit = true
	p.replayed()
	return open
}

// reopen issues again what was under way when the image was made.
func (k *Kernel) reopen(p *process, open []agentkernel.Entry) {
	for _, e := range open {
		f := &inflight{id: e.Call, op: e.Op, effect: e.Effect, async: e.Async, args: e.Args, label: label(e), since: e.At, intent: true}
		p.mu.Lock()
		p.inflight.add(f)
		p.mu.Unlock()
		k.reissue(p, f)
	}
	// A process of which everything waits needs no sandbox yet; deliverable decides.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == agentkernel.StateReady && !p.deliverable() {
		p.to(agentkernel.StateRunning)
		p.to(agentkernel.StateWaiting)
	}
}

func label(e agentkernel.Entry) string {
	switch e.Op {
	case "tool.call":
	case fetchOp:
		return labelOfFetch(e.Args)
	default:
		return e.Op
	}
	a := toolTarget(e)
	return fmt.Sprintf("%s %s.%s", e.Op, a.Server, a.Tool)
}

// toolTarget is which tool a journalled tool.call was for.
func toolTarget(e agentkernel.Entry) toolArgs {
	var a toolArgs
	if json.Unmarshal(e.Args, &a) != nil {
		return toolArgs{Server: "?", Tool: "?"}
	}
	return a
}
