package kernel

import (
	"cmp"
	"context"
	"encoding/json"

	"agentkernel"
	"agentkernel/internal/kernel/ends"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/hosting"
	"agentkernel/internal/kernel/specs"
)

// Attach makes the caller the host of a hosted process.
func (k *Kernel) Attach(ctx context.Context, pid agentkernel.PID, how agentkernel.Attaching) (agentkernel.Host, error) {
	p := k.carried(ctx, pid)
	if p == nil {
		rec, err := k.store.Process(ctx, pid)
		if err == nil && rec.State.Terminal() {
			err = history.HasEnded("attach", pid, rec.State)
		}
		if err == nil { // its host comes back, and nobody else would continue it
			_, err = k.Recover(ctx, pid)
		}
		if p = k.carried(ctx, pid); p == nil {
			return nil, cmp.Or[error](err, history.RunByNone("attach", pid))
		}
	}
	defer k.unpin(p) // one that is hosted stays in memory
	seat := k.table.hosts.Of(pid)
	seat.Lock()
	h, err := k.attach(p, seat, how)
	seat.Unlock()
	if err != nil {
		return nil, err
	}
	if err := k.flush(ctx, p); err != nil { // the epoch outlives the kernel
		return nil, cmp.Or(err, h.Close())
	}
	return h, nil
}

// attach is Attach to a process in memory; its seat is locked.
func (k *Kernel) attach(p *process, seat *hosting.Seat, how agentkernel.Attaching) (*hosting.Host, error) {
	hosted := &hostedProcess{k, p}
	p.mu.Lock()
	defer p.mu.Unlock()
	var entries []agentkernel.Entry
	for read := int64(-1); read < p.standing.Seq; { // a long journal takes a while, in which others look at the process
		if err := k.admits(p, seat, 0, how); err != nil {
			return nil, err
		}
		read = p.standing.Seq
		p.mu.Unlock()
		more, err := hosted.Entries(int64(len(entries))+1, 0)
		p.mu.Lock()
		if err != nil {
			return nil, err
		}
		entries = append(entries, more...)
	}
	began, epoch := hosting.Began(entries), p.standing.Account.Host
	if err := k.admits(p, seat, began, how); err != nil {
		return nil, err
	}
	if err := k.journalFull(p, 0); err != nil {
		k.external.Go(func() { k.killFor(p, err) }) // as a call would: nobody can take it up any more
		return nil, err
	}
	if how.Epoch == 0 {
		began = epoch + 1
	}
	tenure := hosting.NewTenure(p.pid, began, epoch+1, entries, how.Epoch > 0 && p.spec.Durability == agentkernel.DurabilityRelaxed)
	p.dropUnissued(0) // it is issued again, or by nobody
	p.run.calls = max(p.run.calls, tenure.Attached.Calls)
	p.setNeed(needGo, 0, nil)
	k.append(p, tenure.Entry())
	return hosting.NewHost(hosted, seat, tenure), nil
}

// admits says whether a process may be taken up, by a program that began with the attachment began; p.mu is held.
func (k *Kernel) admits(p *process, seat *hosting.Seat, began int64, how agentkernel.Attaching) error {
	switch {
	case p.spec.Backend != specs.Hosted:
		return agentkernel.Errorf(agentkernel.CodeConflict, "attach", "process %d is not hosted: it runs in %s", p.pid, p.backendName()).WithPID(p.pid)
	case p.state.Terminal():
		k.table.hosts.Vacate(p.pid, nil) // the seat came after its end
		return history.HasEnded("attach", p.pid, p.state)
	}
	return seat.Admits(p.pid, began, p.standing.Account.Host, how)
}

// hostedProcess is a hosted process as its host sees it.
type hostedProcess struct {
	k *Kernel
	p *process
}

func (h *hostedProcess) Entries(from int64, limit int) ([]agentkernel.Entry, error) {
	return h.k.store.Entries(h.p.context(), h.p.pid, from, limit)
}

func (h *hostedProcess) Ended() error {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	if !h.p.state.Terminal() {
		return nil
	}
	return history.HasEnded("host", h.p.pid, h.p.state)
}

func (h *hostedProcess) Arguments(call *agentkernel.Call) (json.RawMessage, *agentkernel.Error) {
	return h.k.args.Read(h.p.pid, call)
}

func (h *hostedProcess) Issue(call agentkernel.Call, place string, canonical json.RawMessage, bad *agentkernel.Error, reply chan agentkernel.Reply) {
	h.p.mu.Lock()
	f := h.k.number(h.p, call)
	f.place, f.done = place, reply
	h.p.mu.Unlock()
	h.k.dispatch(h.p, f, canonical, bad)
}

func (h *hostedProcess) Rejoin(call int64, reply chan agentkernel.Reply) bool {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	f := h.p.inflight.Find(call)
	if f != nil {
		f.done = reply
	}
	return f != nil
}

func (h *hostedProcess) Reissue(e *agentkernel.Entry, args json.RawMessage, reply chan agentkernel.Reply) {
	f := h.k.opened(e)
	f.args, f.place, f.done = args, e.Stream, reply
	if h.Exits(e.Op) {
		h.k.exit(h.p, f, nil, true)
		return
	}
	h.p.mu.Lock()
	h.p.inflight.Add(f)
	h.p.mu.Unlock()
	h.k.reissue(h.p, f)
}

func (h *hostedProcess) Exits(op string) bool { o := h.k.ops[op]; return o != nil && o.exits }

func (h *hostedProcess) Finish(exitCode int, result json.RawMessage, err *agentkernel.Error) {
	e := ends.Ending{State: agentkernel.StateExited, ExitCode: exitCode, Result: result}
	if err != nil {
		e = ends.For(err)
	}
	h.k.finish(h.p, e)
}

// Reply waits for the journal: what a hosted program is told leaves the kernel.
func (h *hostedProcess) Reply(ctx context.Context) error {
	if h.p.spec.Durability == agentkernel.DurabilityRelaxed {
		return nil
	}
	err := h.k.flush(ctx, h.p)
	if err != nil && ctx.Err() == nil {
		h.k.notStored(h.p, err)
	}
	return err
}

func (h *hostedProcess) Outcome(ctx context.Context) (agentkernel.Process, error) {
	return h.k.Process(ctx, h.p.pid)
}

func (h *hostedProcess) Left() {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	h.p.setNeed(needStart, 0, nil)
}
