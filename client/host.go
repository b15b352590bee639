package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

var _ agentkernel.Hosted = (*Client)(nil)

// Attach makes the caller the host of a hosted process, on a connection of its own. When the connection breaks the host's Err has
// the code unavailable; its program may go on with the epoch.
func (c *Client) Attach(ctx context.Context, pid agentkernel.PID, how agentkernel.Attaching) (agentkernel.Host, error) {
	q := url.Values{}
	setNumber(q, "epoch", how.Epoch)
	if how.TakeOver {
		q.Set("takeover", "true")
	}
	req := request{op: "attach", method: http.MethodGet, path: wire.ProcessPath(pid, "host"), query: q}
	conn, err := c.upgrade(ctx, req)
	if err != nil {
		return nil, err
	}
	h := &host{pid: pid, lines: wire.NewLines(conn, conn.r, wire.Beat), waiting: map[agentkernel.Place]chan wire.KernelLine{}, done: make(chan struct{})}
	first, err := h.read()
	if err != nil || first.Attached == nil {
		h.lines.Close()
		return nil, c.broken(ctx, req.op, errors.Join(err, errNotAttached))
	}
	h.attached = first.Attached.Attached
	go h.run()
	return h, nil
}

var errNotAttached = errors.New("the connection was not taken up")

// upgrade asks for a connection that is the caller's own.
func (c *Client) upgrade(ctx context.Context, req request) (*connection, error) {
	hr, err := c.compose(req)
	if err != nil {
		return nil, err
	}
	hr.Header.Set("Connection", "Upgrade")
	hr.Header.Set("Upgrade", wire.UpgradeHost)
	dialled, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	conn := newConnection(dialled)
	release := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	resp, err := conn.exchange(hr.WithContext(ctx))
	if err != nil {
		err = c.broken(ctx, req.op, err)
	} else if err = c.check(resp); err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		err = c.readError(ctx, req, resp)
	}
	if !release() && err == nil {
		err = canceled(ctx, req.op)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// host is the host of a process behind a connection.
type host struct {
	pid      agentkernel.PID
	attached agentkernel.Attached
	lines    *wire.Lines

	mu      sync.Mutex
	waiting map[agentkernel.Place]chan wire.KernelLine // calls without an answer
	done    chan struct{}
	ended   *agentkernel.Process // set before done is closed
	err     error
}

func (h *host) read() (line wire.KernelLine, err error) {
	b, err := h.lines.ReadLine()
	if err == nil {
		err = json.Unmarshal(b, &line)
	}
	return line, err
}

// run hands the answers out, until the attachment is over.
func (h *host) run() {
	for {
		line, err := h.read()
		switch {
		case err != nil:
			h.over(nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "host", "the kernel went away while it was attached to: %w", brokenCause{err}).WithPID(h.pid))
			return
		case line.Ended != nil:
			h.over(line.Ended, nil)
			return
		case line.Failure != nil:
			h.over(nil, line.Failure)
			return
		case line.Place == nil:
			continue // of a newer kernel
		}
		h.mu.Lock()
		answer := h.waiting[*line.Place]
		delete(h.waiting, *line.Place)
		h.mu.Unlock()
		if answer != nil {
			answer <- line
		}
	}
}

func (h *host) over(p *agentkernel.Process, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.done:
	default:
		h.ended, h.err = p, err
		close(h.done)
	}
	h.lines.Close()
}

// Attached says what the program learns of its process.
func (h *host) Attached() agentkernel.Attached { return h.attached }

// Done is closed when h is not the host any more, or the connection has broken.
func (h *host) Done() <-chan struct{} { return h.done }

// Err says why; nil: it is the host, or the process has ended.
func (h *host) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Issue sends a call.
func (h *host) Issue(call agentkernel.HostedCall) agentkernel.Awaited {
	answer := make(chan wire.KernelLine, 1)
	h.mu.Lock()
	h.waiting[call.Place] = answer
	err := h.lines.Send(wire.HostLine{HostedCall: call})
	h.mu.Unlock()
	return func(ctx context.Context) (json.RawMessage, error) {
		if err != nil {
			return nil, agentkernel.Errorf(agentkernel.CodeInvalid, call.Op, "the call cannot be sent: %w", err)
		}
		var line wire.KernelLine
		select {
		case line = <-answer:
		case <-h.done:
			select {
			case line = <-answer:
			default:
				return nil, h.unanswered(call.Op)
			}
		case <-ctx.Done():
			return nil, canceled(ctx, call.Op)
		}
		if line.Error != nil {
			return nil, line.Error
		}
		return line.Result, nil
	}
}

// unanswered is the error of a call without an answer.
func (h *host) unanswered(op string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return h.err
	}
	e := agentkernel.Errorf(agentkernel.CodeKilled, op, "the process has ended: %s", h.ended.State)
	return e.WithPID(h.pid)
}

// End ends the process.
func (h *host) End(ctx context.Context, e agentkernel.HostedEnd) (agentkernel.Process, error) {
	if err := h.lines.Send(struct {
		End agentkernel.HostedEnd `json:"end"`
	}{e}); err != nil {
		return agentkernel.Process{}, agentkernel.Errorf(agentkernel.CodeInvalid, "end", "the end cannot be sent: %w", err)
	}
	select {
	case <-h.done:
	case <-ctx.Done():
		return agentkernel.Process{}, canceled(ctx, "end")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended == nil {
		return agentkernel.Process{}, h.err
	}
	return *h.ended, nil
}

// Close lets go of the process.
func (h *host) Close() error {
	h.over(nil, agentkernel.Errorf(agentkernel.CodeCanceled, "host", "the host has let go of process %d", h.pid).WithPID(h.pid))
	return nil
}
