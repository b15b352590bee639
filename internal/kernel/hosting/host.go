package hosting

import (
	"context"
	"encoding/json"

	"agentkernel"
	"agentkernel/internal/kernel/replay"
)

// Process is a hosted process in its kernel. A channel that it is given has room for one reply, and gets one, unless the process ends.
type Process interface {
	// Entries reads its journal, with what is not durable yet.
	Entries(from int64, limit int) ([]agentkernel.Entry, error)
	// Ended says that it has ended, and how; nil: it has not.
	Ended() error
	// Arguments gives the canonical form of the arguments of a call, and what is wrong with them.
	Arguments(call *agentkernel.Call) (json.RawMessage, *agentkernel.Error)
	// Issue makes a new call. bad says what is wrong with its arguments.
	Issue(call agentkernel.Call, place string, canonical json.RawMessage, bad *agentkernel.Error, reply chan agentkernel.Reply)
	// Rejoin lets a call that is under way answer to reply. False: it is not under way.
	Rejoin(call int64, reply chan agentkernel.Reply) bool
	// Reissue makes a call that the journal has, and that has no result, or ends the process with one that ends it.
	Reissue(e *agentkernel.Entry, args json.RawMessage, reply chan agentkernel.Reply)
	// Exits says whether a call ends the process, and has no answer but that.
	Exits(op string) bool
	// Finish ends the process, with err if that is not nil.
	Finish(exitCode int, result json.RawMessage, err *agentkernel.Error)
	// Reply waits until a reply may leave the kernel. An error that is not the context's ends the tenure of the host.
	Reply(ctx context.Context) error
	// Outcome is the process, durably.
	Outcome(ctx context.Context) (agentkernel.Process, error)
	// Left notes that it has no host.
	Left()
}

// Host makes the calls of one hosted program.
type Host struct {
	p    Process
	seat *Seat
	*Tenure
}

// NewHost makes t the host of a process, whose seat is locked.
func NewHost(p Process, seat *Seat, t *Tenure) *Host {
	seat.sit(t)
	return &Host{p: p, seat: seat, Tenure: t}
}

// Attached says what the program learns of its process.
func (h *Host) Attached() agentkernel.Attached { return h.Tenure.Attached }

// Done is closed when h is not the host any more.
func (h *Host) Done() <-chan struct{} { return h.over }

// Err says why; nil: it is the host, or the process has ended.
func (h *Host) Err() error {
	if why := h.reason(); why != nil {
		return why
	}
	return nil
}

// Close lets go of the process; another host may attach.
func (h *Host) Close() error {
	h.seat.Lock()
	defer h.seat.Unlock()
	if h.seat.leave(h.Tenure) {
		h.p.Left()
	}
	return nil
}

// gone is the error of one that is not the host any more; nil: it is.
func (h *Host) gone() error {
	if err := h.Err(); err != nil {
		return err
	}
	return h.p.Ended()
}

// Issue makes the next call of a lane, or takes it from the journal.
func (h *Host) Issue(c agentkernel.HostedCall) agentkernel.Awaited {
	canonical, bad := h.p.Arguments(&agentkernel.Call{Op: c.Op, Args: c.Args})
	h.seat.Lock()
	defer h.seat.Unlock()
	reply := make(chan agentkernel.Reply, 1)
	err := h.issue(&c, canonical, bad, reply)
	return func(ctx context.Context) (json.RawMessage, error) {
		if err != nil {
			return nil, err
		}
		return h.await(ctx, c.Op, reply)
	}
}

// issue lets a call begin; the seat is locked.
func (h *Host) issue(c *agentkernel.HostedCall, canonical json.RawMessage, bad *agentkernel.Error, reply chan agentkernel.Reply) error {
	if err := h.gone(); err != nil {
		return err
	}
	known, old, err := h.take(c.Place)
	switch {
	case err != nil:
		return err
	case old:
		return h.again(c, known, canonical, reply)
	}
	h.p.Issue(agentkernel.Call{Op: c.Op, Args: c.Args, Async: true}, c.Place.String(), canonical, bad, reply)
	return nil
}

// again takes a call from the journal: its result, or what becomes of it.
func (h *Host) again(c *agentkernel.HostedCall, k known, canonical json.RawMessage, reply chan agentkernel.Reply) error {
	entries, err := h.p.Entries(k.seq, 1)
	if err != nil {
		return err
	}
	call := entries[0]
	if diverged := replay.Differs(&call, &replay.Issued{ID: call.Call, Op: c.Op, Async: true, Args: canonical}); diverged != nil {
		h.p.Finish(0, nil, diverged)
		return diverged
	}
	if k.answer == 0 {
		if h.p.Rejoin(k.call, reply) {
			return nil
		}
		if entries, err = h.p.Entries(k.seq, 0); err != nil {
			return err
		}
		if k.answer = answered(entries, k.call); k.answer == 0 {
			h.p.Reissue(&call, c.Args, reply)
			return nil
		}
	}
	if call.Err == nil && h.p.Exits(c.Op) { // the kernel died before it was at its end
		h.p.Reissue(&call, c.Args, reply)
		return nil
	}
	if entries, err = h.p.Entries(k.answer, 1); err != nil {
		return err
	}
	reply <- agentkernel.Reply{ID: k.call, Result: entries[0].Data, Err: entries[0].Err}
	return nil
}

// await waits for the result of a call.
func (h *Host) await(ctx context.Context, op string, reply chan agentkernel.Reply) (json.RawMessage, error) {
	var r agentkernel.Reply
	select {
	case r = <-reply:
	case <-h.over:
		select {
		case r = <-reply: // it has the reason
		default:
			err := h.gone()
			if h.Err() == nil && h.p.Exits(op) {
				return json.RawMessage("null"), nil
			}
			return nil, err
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := h.p.Reply(ctx); err != nil {
		select {
		case <-h.over:
		case <-ctx.Done():
		}
		return nil, err
	}
	if r.Err != nil {
		return nil, r.Err
	}
	return r.Result, nil
}

// End ends the process as the program did.
func (h *Host) End(ctx context.Context, e agentkernel.HostedEnd) (agentkernel.Process, error) {
	result, failure, err := ending(&e)
	if err != nil {
		return agentkernel.Process{}, err
	}
	if err := h.finish(e.ExitCode, result, failure); err != nil {
		return agentkernel.Process{}, err
	}
	return h.p.Outcome(ctx)
}

func (h *Host) finish(exitCode int, result json.RawMessage, failure *agentkernel.Error) error {
	h.seat.Lock()
	defer h.seat.Unlock()
	err := h.gone()
	if err == nil {
		h.p.Finish(exitCode, result, failure)
	}
	return err
}
