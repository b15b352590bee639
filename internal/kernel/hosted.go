package kernel

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/permit"
)

// Attach takes up a hosted process from its first call on.
func (k *Kernel) Attach(ctx context.Context, pid agentkernel.PID) (agentkernel.Syscaller, error) {
	p := k.carried(ctx, pid)
	if p == nil {
		if _, err := k.store.Process(ctx, pid); err != nil {
			return nil, err
		}
		return nil, agentkernel.Errorf(agentkernel.CodeConflict, "attach", "no kernel carries process %d", pid).WithPID(pid).
			WithHint(advice.Recover, pid)
	}
	defer k.release(p) // one that is hosted stays in memory
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run.backend != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeConflict, "attach", "process %d is not hosted: it runs in %s", pid, p.backendName()).WithPID(pid)
	}
	if _, held := k.table.attached.Load(pid); held {
		return nil, agentkernel.Errorf(agentkernel.CodeConflict, "attach", "process %d is held by another connection", pid).WithPID(pid)
	}
	if p.run.calls > 0 {
		// A second holder in the same kernel begins again: its calls are answered from the journal.
		if err := k.rewind(ctx, p); err != nil {
			return nil, err
		}
	}
	k.table.attached.Store(pid, true)
	return &hostedCaller{k: k, p: p}, nil
}

// rewind lets a hosted program repeat its calls from the first on; p.mu is held.
func (k *Kernel) rewind(ctx context.Context, p *process) error {
	entries, err := k.store.Entries(ctx, p.pid, 1, 0)
	if err != nil {
		return err
	}
	k.newRun(p, nil, history.Fold(history.Base{}, entries), entries)
	return nil
}

// hostedCaller issues the syscalls of one hosted program.
type hostedCaller struct {
	k       *Kernel
	p       *process
	issuing sync.Mutex // one call after the other: each limit is looked at with the calls before it under way
}

// Syscall issues one call and waits for its result. Calls are numbered in the order in which they come.
func (h *hostedCaller) Syscall(ctx context.Context, op string, args json.RawMessage) (json.RawMessage, error) {
	canonical, bad := permit.Arguments(&agentkernel.Call{Op: op, Args: args})
	if bad != nil {
		return nil, bad
	}
	k, p := h.k, h.p
	f, known, goesOn := h.issue(op, args, canonical)
	switch {
	case f == nil:
		return nil, agentkernel.Errorf(agentkernel.CodeConflict, op, "process %d has ended: %s", p.pid, p.state).WithPID(p.pid)
	case !goesOn:
		return json.RawMessage("null"), nil
	case known != nil:
		return known.Data, errOrNil(known.Err)
	}
	select {
	case r := <-f.done:
		if err := k.flush(ctx, p); err != nil { // the reply leaves the kernel
			return nil, err
		}
		return r.Result, errOrNil(r.Err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// issue lets a call begin, or gives the result that the journal has. A nil call: its process has ended; goesOn: it does not end with it.
func (h *hostedCaller) issue(op string, args, canonical json.RawMessage) (f *inflight, known *agentkernel.Entry, goesOn bool) {
	h.issuing.Lock()
	defer h.issuing.Unlock()
	h.p.mu.Lock()
	if h.p.state.Terminal() {
		h.p.mu.Unlock()
		return nil, nil, false
	}
	f = h.k.number(h.p, agentkernel.Call{Op: op, Args: args, Async: true})
	f.done = make(chan agentkernel.Reply, 1)
	known = h.p.takeHosted(f)
	h.p.mu.Unlock()
	return f, known, h.k.dispatch(h.p, f, canonical, nil)
}

// takeHosted takes the journalled result of a hosted call, which needs no order of delivery; p.mu is held.
func (p *process) takeHosted(f *inflight) *agentkernel.Entry {
	if p.run.replay == nil {
		return nil
	}
	e, ok := p.run.replay.Results[f.id]
	if !ok {
		return nil
	}
	p.run.replay.Order = slices.DeleteFunc(slices.Clone(p.run.replay.Order), func(id int64) bool { return id == f.id })
	return &e
}

// Close lets go of the process; another holder may attach.
func (h *hostedCaller) Close() error {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	h.k.table.attached.Delete(h.p.pid)
	return nil
}
