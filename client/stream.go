package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// A stream that breaks is taken up again so many times in a row without a new event in between, with a
// pause that doubles.
const (
	resumes    = 4
	firstPause = 10 * time.Millisecond
)

// Run creates a process and reports its events until it ends, is paused, or fn fails; the process goes on
// then, and also if ctx ends. A broken connection is taken up where it broke.
func (c *Client) Run(ctx context.Context, s agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
	if err := s.Program.Validate(); err != nil {
		return agentkernel.Process{}, err
	}
	f := &follower{c: c, fn: fn, untilPause: true}
	req := request{op: "run", method: http.MethodPost, path: wire.Prefix + "/processes", query: url.Values{"follow": {"true"}}, body: s}
	err := f.once(ctx, req)
	if s.IdempotencyKey != "" && f.pid == 0 { // the key makes it the same process
		err = keyed(ctx, err, func() error {
			if f.pid != 0 {
				return f.resume(ctx, err)
			}
			return f.once(ctx, req)
		})
	}
	if isBroken(err) && f.pid != 0 {
		err = f.resume(ctx, err)
	}
	if err == nil && f.done.Process == nil {
		// Events were taken up again on a stream that does not know the process as a whole.
		return f.outcome(ctx)
	}
	if f.done.Process != nil {
		return *f.done.Process, err
	}
	return f.latest, err
}

// Events reports the events of a process from a journal position on; with follow until it ends. A broken
// connection is taken up where it broke.
func (c *Client) Events(ctx context.Context, pid agentkernel.PID, from int64, follow bool, fn func(agentkernel.Event) error) error {
	f := &follower{c: c, fn: fn, pid: pid, seen: max(from-1, 0), follow: follow}
	err := f.once(ctx, f.request())
	if isBroken(err) {
		err = f.resume(ctx, err)
	}
	return err
}

// follower reads a process's events over one connection after another.
type follower struct {
	c          *Client
	fn         func(agentkernel.Event) error
	pid        agentkernel.PID // 0 until the process is known
	seen       int64           // position of the last event delivered
	follow     bool
	untilPause bool

	resumed  bool // on a stream that replaces the first
	progress bool // the present connection brought an event
	latest   agentkernel.Process
	done     wire.Done
}

// errEnough ends a stream after the event that was waited for.
var errEnough = errors.New("enough")

func (f *follower) request() request {
	q := url.Values{}
	setNumber(q, "from", f.seen+1)
	if f.follow || f.untilPause {
		q.Set("follow", "true")
	}
	return request{op: "events", method: http.MethodGet, path: wire.ProcessPath(f.pid, "events"), query: q}
}

// resume takes a broken stream up again, as long as the kernel lives. broken is why it broke.
func (f *follower) resume(ctx context.Context, broken error) error {
	err := broken
	pause := firstPause
	for try := 0; isBroken(err) && try < resumes; try++ {
		select {
		case <-ctx.Done():
			return canceled(ctx, "events")
		case <-time.After(pause):
		}
		pause *= 2
		f.resumed, f.progress = true, false
		err = f.once(ctx, f.request())
		if f.progress {
			try, pause = 0, firstPause
		}
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return lost(f.pid, err)
}

// lost is the error of whoever followed a process of a kernel that is not there any more, or whose place another has taken.
func lost(pid agentkernel.PID, err error) error {
	if code := agentkernel.CodeOf(err); code != agentkernel.CodeUnavailable && code != agentkernel.CodeVersion {
		return err
	}
	if own, ok := errors.AsType[*agentkernel.Error](err); ok && own.PID == pid && agentkernel.KernelGone(own) { // the kernel had the time to say so
		return err
	}
	return agentkernel.Errorf(agentkernel.CodeUnavailable, agentkernel.OpKernel, "the kernel ended while process %d was watched: %w", pid, err).WithRecover(pid)
}

// outcome is the process after its events were followed on a stream of their own.
func (f *follower) outcome(ctx context.Context) (agentkernel.Process, error) {
	p, err := f.c.Process(ctx, f.pid)
	if err == nil && !p.State.Terminal() && !p.Paused {
		err = agentkernel.Errorf(agentkernel.CodeUnavailable, agentkernel.OpKernel, "the kernel ended and process %d is %s", p.PID, p.State).WithRecover(p.PID)
	}
	return p, lost(f.pid, err)
}

// once reads one stream to its end: nil when it ended as it should, a broken error when it was cut.
func (f *follower) once(ctx context.Context, req request) error {
	req.accept = "text/event-stream"
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := f.c.send(ctx, req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	frames := newFrames(resp.Body, wire.MaxEvent)
	for {
		fr, err := frames.next()
		if err != nil {
			if own, ok := errors.AsType[*agentkernel.Error](err); ok {
				return own
			}
			return f.c.broken(ctx, req.op, err)
		}
		end, err := f.take(fr)
		if err != nil || end {
			if end { // read the end of the answer too, so that the connection serves again
				_, _ = io.Copy(io.Discard, resp.Body)
			}
			return err
		}
	}
}

// take handles one frame; end says that it was the last.
func (f *follower) take(fr frame) (end bool, err error) {
	switch fr.name {
	case wire.FrameDone:
		return true, f.decode(fr, &f.done)
	case wire.FrameFailure:
		e := &agentkernel.Error{}
		if err := f.decode(fr, e); err != nil {
			return true, err
		}
		return true, e
	}
	var ev agentkernel.Event
	if err := f.decode(fr, &ev); err != nil {
		return false, err
	}
	return false, f.deliver(ev)
}

func (f *follower) decode(fr frame, into any) error {
	if err := json.Unmarshal(fr.data, into); err != nil {
		return agentkernel.Errorf(agentkernel.CodeInternal, "events", "an event of the kernel cannot be read: %w", err)
	}
	return nil
}

// deliver reports an event once: after a resume the kernel may repeat what stands at the same position.
func (f *follower) deliver(ev agentkernel.Event) error {
	if f.pid == 0 {
		f.pid = ev.PID
	}
	if ev.Seq <= f.seen && ev.Kind != agentkernel.EventAsk && ev.Kind != agentkernel.EventState {
		return nil
	}
	f.seen, f.progress = max(f.seen, ev.Seq), true
	if ev.Process != nil {
		f.latest = *ev.Process
	}
	if err := f.fn(ev); err != nil {
		return err
	}
	if f.untilPause && f.resumed && ev.Kind == agentkernel.EventState && ev.Process != nil && ev.Process.Paused {
		return errEnough // the stream of Run ends here by itself, the one that replaces it does not
	}
	return nil
}
