package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"

	"agentkernel"
	"agentkernel/internal/api/wire"
	"agentkernel/internal/clip"
)

// unread is how many bytes of answers a host may leave unread; beyond it no more of its calls are read.
const unread = 1 << 20

// getHost makes the caller the host of a process: docs/hosted.md.
func (s *Server) getHost(w http.ResponseWriter, r *http.Request, q query) error {
	pid, err := pathPID(r)
	if err != nil {
		return err
	}
	kernel, ok := s.kernel(r).(agentkernel.Hosted)
	if !ok {
		return agentkernel.Errorf(agentkernel.CodeUnsupported, "attach", "this kernel has no hosted processes")
	}
	how, err := attaching(r, q)
	if err != nil {
		return err
	}
	h, err := kernel.Attach(r.Context(), pid, how)
	if err != nil {
		return err
	}
	defer func() { _ = h.Close() }()
	s.hosting.Add(1)
	defer s.hosting.Done()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return agentkernel.Errorf(agentkernel.CodeUnsupported, "attach", "the connection cannot be upgraded: %w", err)
	}
	head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + wire.UpgradeHost + "\r\n"
	for _, name := range []string{wire.HeaderVersion, wire.HeaderAPI} {
		head += name + ": " + w.Header().Get(name) + "\r\n"
	}
	if _, err := conn.Write([]byte(head + "\r\n")); err != nil {
		_ = conn.Close()
		return nil //nolint:nilerr // nobody is there to hear of it
	}
	c := &hosting{s: s, r: r, h: h, lines: wire.NewLines(conn, buffered.Reader, wire.Beat)}
	c.serve(r.Context())
	return nil
}

// attaching reads how a host takes a process up.
func attaching(r *http.Request, q query) (how agentkernel.Attaching, err error) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), wire.UpgradeHost) {
		return how, invalid("a host's connection is upgraded: this request has no header Upgrade: %s", wire.UpgradeHost).WithHint("docs/hosted.md")
	}
	if how.Epoch, err = q.number("epoch"); err != nil {
		return how, err
	}
	how.TakeOver, err = q.flag("takeover")
	return how, err
}

// hosting is the connection of a host.
type hosting struct {
	s     *Server
	r     *http.Request
	h     agentkernel.Host
	lines *wire.Lines

	issuing sync.Mutex
	answers sync.WaitGroup // of calls that were issued
}

// serve reads calls until the attachment is over, or the host is gone.
func (c *hosting) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	told := make(chan struct{})
	go func() {
		defer close(told)
		c.tell(ctx)
	}()
	defer func() {
		cancel()
		<-told
		c.lines.Close()
	}()
	a := c.h.Attached()
	if c.lines.Send(wire.KernelLine{Attached: &wire.Attached{Attached: a, Beat: int(wire.Beat.Seconds())}}) != nil {
		return
	}
	for {
		c.lines.Room(unread)
		line, err := c.lines.ReadLine()
		if err == nil {
			err = c.take(ctx, line)
		}
		if err == nil {
			continue
		}
		if own, ok := errors.AsType[*agentkernel.Error](err); ok {
			c.fail(own)
		} else if errors.Is(err, wire.ErrSilent) {
			c.fail(agentkernel.Errorf(agentkernel.CodeTimeout, "host", "%w", err))
		} else if errors.Is(err, wire.ErrLine) {
			c.fail(invalid("%w", err))
		}
		return
	}
}

// take does what a line says.
func (c *hosting) take(ctx context.Context, b []byte) error {
	var line wire.HostLine
	if err := decode(b, &line); err != nil {
		return err
	}
	switch {
	case line.End != nil && (line.Place != agentkernel.Place{} || line.Op != "" || line.Args != nil):
		return invalid("a line is a call, or the end, and not both")
	case line.End != nil:
		_, err := c.h.End(ctx, *line.End)
		if err != nil && agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			return nil // the attachment is over, and c.tell says why
		}
		return err
	case line.Op == "":
		return invalid("a line is neither a call nor the end: %s", clip.Short(string(b)))
	case line.Args == nil:
		line.Args = json.RawMessage("{}")
	}
	if err := line.Validate(); err != nil {
		return err
	}
	c.issuing.Lock()
	defer c.issuing.Unlock()
	wait := c.h.Issue(line.HostedCall)
	c.answers.Go(func() {
		result, err := wait(ctx)
		if ctx.Err() == nil {
			c.reply(line.Place, result, err)
		}
	})
	return nil
}

// reply answers a call.
func (c *hosting) reply(place agentkernel.Place, result json.RawMessage, err error) {
	e := agentkernel.AsError(err, agentkernel.CodeInternal, "host")
	if e == nil && len(result) == 0 {
		result = json.RawMessage("null")
	}
	if e != nil && e.Code == agentkernel.CodeFenced {
		return // c.tell says it
	}
	if c.lines.Send(wire.KernelLine{Place: &place, Result: result, Error: e}) != nil {
		e = agentkernel.Errorf(agentkernel.CodeAnswerLost, "host", "the call was made, and its result is too large for a line: %d bytes", len(result))
		_ = c.lines.Send(wire.KernelLine{Place: &place, Error: e})
	}
}

// tell says that the attachment is over, and why.
func (c *hosting) tell(ctx context.Context) {
	select {
	case <-c.h.Done():
	case <-ctx.Done():
		if c.r.Context().Err() != nil { // it is the server that ends
			c.fail(c.s.refused(c.r))
		}
		return
	}
	if err := c.h.Err(); err != nil {
		c.fail(agentkernel.AsError(err, agentkernel.CodeInternal, "host"))
		return
	}
	p, err := c.s.kernel(c.r).Process(context.WithoutCancel(ctx), c.h.Attached().PID)
	if err != nil {
		c.fail(agentkernel.AsError(err, agentkernel.CodeInternal, "host"))
		return
	}
	c.issuing.Lock() // the call that has ended it may be about to answer why
	defer c.issuing.Unlock()
	c.answers.Wait()
	_ = c.lines.Send(wire.KernelLine{Ended: &p})
	c.lines.Close()
}

// fail says why the attachment is over, and closes.
func (c *hosting) fail(err *agentkernel.Error) {
	_ = c.lines.Send(wire.KernelLine{Failure: c.s.explainOf(c.r, c.h.Attached().PID, err)})
	c.lines.Close()
}
