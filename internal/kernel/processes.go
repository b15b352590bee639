package kernel

import (
	"cmp"
	"context"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/watch"
)

// Process is one process: from the table, or, if it has ended or is unfinished, from the store.
func (k *Kernel) Process(ctx context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	p := k.lookup(pid)
	if p == nil {
		rec, lost, err := history.Row(ctx, k.store, pid)
		if p = k.lookup(pid); p == nil && err == nil { // else somebody has read it into memory meanwhile
			rec.Usage = history.Used(ctx, k.store, &rec)
			return k.shown(rec, lost), k.flushAll(ctx)
		} else if p == nil {
			return agentkernel.Process{}, err
		}
	}
	p.mu.Lock()
	snapshot := p.now(k.clock())
	snapshot.Walls = p.walls()
	p.mu.Unlock()
	return snapshot, k.flushAll(ctx)
}

// List gives a page of processes, newest first, as they stand at this moment. The store alone says which are on it: it has all that this
// kernel carries.
func (k *Kernel) List(ctx context.Context, f agentkernel.Filter) ([]agentkernel.Process, error) {
	records, err := history.Page(ctx, k.store, f)
	if err != nil {
		return nil, err
	}
	out := make([]agentkernel.Process, 0, len(records))
	for _, rec := range records {
		out = append(out, k.current(ctx, rec))
	}
	return out, k.flushAll(ctx)
}

// Count says how many processes a filter selects.
func (k *Kernel) Count(ctx context.Context, f agentkernel.Filter) (int, error) {
	n, err := k.store.Count(ctx, f)
	return n, cmp.Or(err, k.flushAll(ctx))
}

// current is a process of a list as it stands at this moment.
func (k *Kernel) current(ctx context.Context, rec agentkernel.ProcessRecord) agentkernel.Process {
	for again := true; ; again = false {
		if p := k.lookup(rec.PID); p != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.now(k.clock())
		}
		if rec.State.Terminal() || k.carries(&rec) || !again {
			rec.Usage = history.Used(ctx, k.store, &rec)
			return k.shown(rec, nil)
		}
		// It may have ended, or been parked, since the list was read.
		if now, _, err := history.Row(ctx, k.store, rec.PID); err == nil {
			rec = now
		}
	}
}

// Wait returns when the process has ended or is paused; a process that no kernel carries is an error.
func (k *Kernel) Wait(ctx context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	p := k.carried(ctx, pid)
	if p == nil {
		rec, lost, err := history.Row(ctx, k.store, pid)
		if err != nil {
			return agentkernel.Process{}, err
		}
		if !rec.State.Terminal() {
			return history.Shown(rec, nil), history.RunByNone("wait", pid)
		}
		return history.Shown(rec, lost), k.flushAll(ctx)
	}
	defer k.unpin(p)
	p.mu.Lock()
	snapshot := p.snapshot()
	held := p.paused() && !p.computing()
	w := k.watch(p, false)
	p.mu.Unlock()
	defer k.unwatch(p, w)
	if snapshot.State.Terminal() || held {
		return snapshot, k.flush(ctx, p)
	}
	err := k.pump(ctx, p, w, 0, true, func(ev agentkernel.Event) error {
		if ev.Process != nil {
			snapshot = *ev.Process
		}
		return nil
	})
	return snapshot, err
}

// Events reports the events of a process from a journal position on; with follow until it ends.
func (k *Kernel) Events(ctx context.Context, pid agentkernel.PID, from int64, follow bool, fn func(agentkernel.Event) error) error {
	p := k.lookup(pid)
	if follow {
		p = k.carried(ctx, pid)
		defer k.unpin(p)
	}
	var w *watch.Watcher
	if p != nil && follow {
		p.mu.Lock()
		follow = !p.state.Terminal() // else it ended meanwhile: the journal has everything
		w = k.watch(p, p.spec.Interactive)
		p.mu.Unlock()
		defer k.unwatch(p, w)
		k.showQuestions(p, w)
	}
	if p == nil {
		if _, _, err := history.Row(ctx, k.store, pid); err != nil {
			return err
		}
	}
	last, done, err := k.replayEvents(ctx, pid, max(from, 1), fn)
	if p == nil {
		return history.StillThere(ctx, k.store, pid, err)
	}
	if err != nil || done || !follow {
		return err
	}
	return k.pump(ctx, p, w, last, false, fn)
}
