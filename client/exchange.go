package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// request is one HTTP exchange.
type request struct {
	op     string // the verb for error messages
	method string
	path   string
	query  url.Values
	body   any // nil: none
	accept string
}

// repeats is how often an exchange that may be made again is repeated while its connection breaks, with a pause that doubles:
// the socket of a kernel that is killed outlives its connections for a moment, and takes new ones only to break them.
const repeats = 6

// again repeats an exchange whose connection has broken, with err, as long as that happens.
func again(ctx context.Context, err error, exchange func() error) error {
	pause := firstPause
	for try := 0; isBroken(err) && try < repeats; try++ {
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		pause *= 2
		err = exchange()
	}
	return err
}

// ask is send for a request that changes nothing, and so may be made again.
func (c *Client) ask(ctx context.Context, req request) (*http.Response, error) {
	resp, err := c.send(ctx, req)
	err = again(ctx, err, func() (err error) {
		resp, err = c.send(ctx, req) //nolint:bodyclose // whoever asked closes it
		return err
	})
	return resp, err
}

// keyed is again for what has a key, and so may be made again: where no kernel has an answer to that, nothing more is known than
// before, and the first may have been done.
func keyed(ctx context.Context, err error, exchange func() error) error {
	if last := again(ctx, err, exchange); agentkernel.CodeOf(last) != agentkernel.CodeUnavailable {
		return last
	}
	return err
}

// get asks for JSON.
func (c *Client) get(ctx context.Context, op, path string, q url.Values, into any) error {
	req := request{op: op, method: http.MethodGet, path: path, query: q}
	resp, err := c.ask(ctx, req)
	if err != nil {
		return err
	}
	return c.read(ctx, req, resp, into)
}

func (c *Client) post(ctx context.Context, op, path string, body, into any) error {
	req := request{op: op, method: http.MethodPost, path: path, body: body}
	resp, err := c.send(ctx, req)
	if err != nil {
		return err
	}
	return c.read(ctx, req, resp, into)
}

// brokenCause is a connection that ended before the answer was complete.
type brokenCause struct{ error }

func (c brokenCause) Unwrap() error { return c.error }

// Error leaves out what package net puts before the cause: the operation, and addresses that a socket of this machine has not.
func (c brokenCause) Error() string {
	for _, cut := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed} {
		if errors.Is(c.error, cut) {
			return "the connection broke"
		}
	}
	if errno, ok := errors.AsType[syscall.Errno](c.error); ok {
		return errno.Error()
	}
	return c.error.Error()
}

func isBroken(err error) bool {
	_, ok := errors.AsType[brokenCause](err)
	return ok
}

// broken is the error of a connection that ended too early, or of the context that ended it.
func (c *Client) broken(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return canceled(ctx, op)
	}
	e := agentkernel.Errorf(agentkernel.CodeUnavailable, agentkernel.OpKernel, "the kernel went away before it answered: %w", brokenCause{err})
	if op == "run" || op == "spawn" {
		return e.WithRecover(0)
	}
	return e.WithHint("`agentkernel ps` shows what became of your processes, `agentkernel recover` continues unfinished ones")
}

// send makes the exchange up to the answer's status. An answer that is an error comes back as one.
func (c *Client) send(ctx context.Context, req request) (*http.Response, error) {
	hr, err := c.compose(req)
	if err != nil {
		return nil, err
	}
	resp, err := c.transport.RoundTrip(hr.WithContext(ctx))
	if err != nil {
		// Errors of our own from dialling come through as they are.
		if own, ok := errors.AsType[*agentkernel.Error](err); ok {
			return nil, own
		}
		return nil, c.broken(ctx, req.op, err)
	}
	if err := c.check(resp); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, c.readError(ctx, req, resp)
	}
	return resp, nil
}

func (c *Client) compose(req request) (*http.Request, error) {
	u := *c.base
	u.Path, u.RawQuery = req.path, req.query.Encode()
	if n := len(u.Path) + len(u.RawQuery); n > wire.MaxTarget {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, req.op, "what is asked for has %d KiB; at most %d are possible", n>>10, wire.MaxTarget>>10).
			WithHint("ask in fewer words")
	}
	hr := &http.Request{Method: req.method, URL: &u, Host: u.Host, Header: c.headers.Clone(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if req.accept != "" {
		hr.Header.Set("Accept", req.accept)
	}
	if req.body == nil {
		return hr, nil
	}
	if file, ok := req.body.(upload); ok {
		file.attach(hr)
		return hr, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(req.body); err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, req.op, "the request cannot be written as JSON: %w", err)
	}
	if b.Len() > wire.MaxBody {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, req.op, "the request has %d MiB; at most %d are possible", b.Len()>>20, wire.MaxBody>>20).
			WithHint("read large data inside the program, from a file or a tool")
	}
	hr.Header.Set("Content-Type", "application/json")
	hr.Body = io.NopCloser(bytes.NewReader(b.Bytes()))
	hr.ContentLength = int64(b.Len())
	hr.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	return hr, nil
}

// check makes sure that a kernel of our version answered: another one may have taken the socket since Dial.
func (c *Client) check(resp *http.Response) error {
	n, err := strconv.Atoi(resp.Header.Get(wire.HeaderAPI))
	if err != nil {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "attach", "what listens on %s is not a kernel", c.opts.Socket).
			WithHint("end it, or choose another data directory with --home")
	}
	if path := resp.Request.URL.Path; path == wire.Prefix+"/version" || path == wire.Prefix+"/shutdown" || resp.StatusCode == http.StatusUpgradeRequired {
		return nil // these explain themselves
	}
	kernel := wire.Version{Version: resp.Header.Get(wire.HeaderVersion), API: n}
	if kernel.API != c.caller.API || !c.opts.AnyVersion && resp.StatusCode/100 == 2 && kernel.Version != c.caller.Version {
		return wire.VersionError(kernel, c.caller)
	}
	return nil
}

// maxError bounds what is read of an error answer; tracebacks can be long.
const maxError = 16 << 20

func (c *Client) readError(ctx context.Context, req request, resp *http.Response) error {
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if err != nil {
		return c.broken(ctx, req.op, err)
	}
	e := &agentkernel.Error{}
	if err := json.Unmarshal(b, e); err != nil || e.Code == "" {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, req.op, "the kernel answered %s and no explanation", resp.Status)
	}
	return e
}

// read takes the answer's JSON; into may be nil.
func (c *Client) read(ctx context.Context, req request, resp *http.Response, into any) error {
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return c.broken(ctx, req.op, err)
	}
	if into == nil || resp.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.Unmarshal(b, into); err != nil {
		return agentkernel.Errorf(agentkernel.CodeInternal, req.op, "the kernel's answer cannot be read: %w", err)
	}
	return nil
}
