package kernel

import (
	"context"
	"encoding/json"

	"agentkernel"
	"agentkernel/internal/kernel/cells"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/watch"
	"agentkernel/internal/sys"
)

// A cell with a key runs once. Whoever does not know what became of it (his connection broke, the kernel died) feeds it
// again: then he reads in the journal what it did, and follows it if it is still running. The key is in the journal with
// the cell, so that it is durable before anything that the cell does outside.

// fedBefore finds where in the journal of a session a cell with this one's key was handed over; 0: nowhere. CodeConflict if that was another cell.
func (k *Kernel) fedBefore(ctx context.Context, pid agentkernel.PID, cell *agentkernel.Cell) (at int64, err error) {
	if cell.Key == "" {
		return 0, nil
	}
	if known, err := k.mayHaveFed(ctx, pid, cell.Key); !known || err != nil {
		return 0, err
	}
	if err := k.flushAll(ctx); err != nil {
		return 0, err
	}
	handed, err := history.Cells(ctx, k.store, pid)
	if err != nil {
		return 0, err
	}
	return cells.FedBefore(pid, handed, cell)
}

// mayHaveFed says whether a session has had a cell with a key, or has to be asked by its journal. The keys of one that
// runs are kept, so that each new cell does not read all that was before it.
func (k *Kernel) mayHaveFed(ctx context.Context, pid agentkernel.PID, key string) (bool, error) {
	p := k.lookup(pid)
	if p == nil {
		return true, nil
	}
	p.mu.Lock()
	born, ended := p.recoveries.Load() == 0, p.state.Terminal() // this kernel has seen all its cells
	p.mu.Unlock()
	if ended {
		return true, nil
	}
	return k.sessions.HasKey(pid, key, born, func() ([]history.Handed, error) { return history.Cells(ctx, k.store, pid) })
}

// fedAgain reports the events of a cell that was handed over at a journal position, until it has run.
func (k *Kernel) fedAgain(ctx context.Context, pid agentkernel.PID, at int64, fn func(agentkernel.Event) error) (agentkernel.CellEnd, error) {
	end, done, err := cells.Follow(func(fn func(agentkernel.Event) error) error { return k.Events(ctx, pid, at+1, true, fn) }, fn)
	if err != nil {
		return end, err
	}
	p, err := k.Process(ctx, pid)
	if err != nil {
		return end, err
	}
	if end.Process = p; !done {
		return end, cells.Unfinished(pid)
	}
	return end, nil
}

// Feed hands a session its next cell.
func (k *Kernel) Feed(ctx context.Context, pid agentkernel.PID, cell agentkernel.Cell, fn func(agentkernel.Event) error) (agentkernel.CellEnd, error) {
	var end agentkernel.CellEnd
	if err := k.takeSession(ctx, pid, cell.Key != ""); err != nil {
		return end, err
	}
	feeding := true
	defer func() {
		if feeding {
			k.sessions.Release(pid)
		}
	}()
	if known, err := k.fedBefore(ctx, pid, &cell); err != nil {
		return end, err
	} else if known > 0 {
		k.sessions.Release(pid)
		feeding = false
		return k.fedAgain(ctx, pid, known, fn)
	}
	p, err := k.waitingSession(ctx, pid)
	if err != nil {
		return end, err
	}
	defer k.unpin(p)
	next, fed, err := k.prepareCell(ctx, p, cell)
	if err != nil {
		return end, err
	}
	answer, err := json.Marshal(next)
	if err != nil {
		return end, agentkernel.AsError(err, agentkernel.CodeInvalid, "session")
	}
	w := watch.New(p.spec.Interactive) // whoever feeds an interactive session answers its questions
	w.Hold()
	seen, err := k.feedInline(ctx, p, answer, fed, w)
	if err != nil {
		return end, err
	}
	defer k.unwatch(p, w)
	k.showQuestions(p, w)
	k.sessions.Release(pid)
	feeding = false
	end, _, err = cells.Follow(func(fn func(agentkernel.Event) error) error { return k.pump(ctx, p, w, seen, true, fn) }, fn)
	if err != nil {
		return end, err
	}
	end.Process = p.seen()
	return end, nil
}

// prepareCell checks a cell as a program is checked, and finds the tools and skills that it imports. fed is what the
// session has been fed when it has this cell.
func (k *Kernel) prepareCell(ctx context.Context, p *process, cell agentkernel.Cell) (next *agentkernel.NextCell, fed cells.Sources, err error) {
	earlier, err := k.earlierSources(ctx, p)
	if err != nil {
		return nil, fed, err
	}
	spec := agentkernel.Spec{Namespace: p.spec.Namespace, Program: cells.Program(&p.spec.Program, &cell, earlier)}
	if err := spec.Program.Validate(); err != nil {
		return nil, fed, err
	}
	if err := k.cfg.Tools.Shadowed(ctx, &p.spec.Spec, cell.Modules); err != nil {
		return nil, fed, err
	}
	if err := k.Library.Add(ctx, &spec); err != nil {
		return nil, fed, err
	}
	needs, err := k.checkCell(ctx, p, &cell, &spec.Program)
	if err != nil {
		return nil, fed, err
	}
	tools, err := k.cellTools(ctx, p, cell.Name, needs.Tools)
	if err != nil {
		return nil, fed, err
	}
	cell.Modules = spec.Program.Modules
	fed = earlier.Fed(&cell, needs.Plain, p.spec.Namespace)
	return &agentkernel.NextCell{Cell: cell, Tools: tools}, fed, nil
}

// cellTools binds the tools that a cell imports. What is handed over is journalled, so that a replay needs no server: the schemas stay out.
func (k *Kernel) cellTools(ctx context.Context, p *process, name string, refs []agentkernel.ToolRef) ([]agentkernel.Tool, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, bindTimeout)
	defer cancel()
	b, ref, err := k.cfg.Tools.Bind(ctx, &p.spec.Spec, refs)
	if err != nil {
		return nil, sys.AtImport(name, ref, err)
	}
	return cells.Tools(b.Tools), nil
}

// earlierSources are the sources that a session was fed: remembered, or read from its journal.
func (k *Kernel) earlierSources(ctx context.Context, p *process) (cells.Sources, error) {
	if known, ok := k.sessions.Known(p.pid); ok {
		return known, nil
	}
	handed, err := history.Cells(ctx, k.store, p.pid)
	return cells.Earlier(p.spec.Program.Source, handed), err
}

// takeSession makes the caller the one who feeds a session; see cells.Registry.Take.
func (k *Kernel) takeSession(ctx context.Context, pid agentkernel.PID, wait bool) error {
	taken, err := k.sessions.Take(ctx, pid, wait)
	if err == nil && !taken {
		return cells.Conflict(pid, "session %d is being fed by somebody else", pid)
	}
	return err
}

// EndSession lets a session exit.
func (k *Kernel) EndSession(ctx context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	if err := k.takeSession(ctx, pid, false); err != nil {
		return agentkernel.Process{}, err
	}
	defer k.sessions.Release(pid)
	p, err := k.waitingSession(ctx, pid)
	if err != nil {
		return agentkernel.Process{}, err
	}
	defer k.unpin(p)
	p.mu.Lock()
	err = k.answerNext(p, endOfSession, nil)
	p.mu.Unlock()
	if err != nil {
		return agentkernel.Process{}, err
	}
	return k.Wait(ctx, pid)
}
