// Package client reaches a running kernel: it implements agentkernel.Kernel over HTTP on the kernel's unix
// socket. A program behaves the same with it and with an embedded kernel; errors come back as the same
// *agentkernel.Error. It must never touch the data directory or start a kernel.
package client

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// DefaultPatience is how long Dial waits for a kernel that accepts connections but does not answer.
const DefaultPatience = 5 * time.Second

// ErrSilent is in the error of a Dial that found a kernel which accepts connections but does not answer: it hangs, or is
// stopped. Another one cannot take its place.
var ErrSilent = errors.New("does not answer")

// Options say where the kernel is and who calls.
type Options struct {
	// Socket is the path of the kernel's unix socket; required.
	Socket string
	// Version is the caller's version string; the kernel's must be equal.
	Version string
	// AnyVersion accepts a kernel with another version string. The API version must match even so.
	AnyVersion bool
	// Patience is how long Dial waits for an answer; 0 means DefaultPatience.
	Patience time.Duration
}

// Client is a connection to a kernel. It is safe for concurrent use; Close ends it.
type Client struct {
	opts      Options
	caller    wire.Version
	headers   http.Header
	base      *url.URL
	transport *transport
	starting  chan struct{} // held by whoever starts a kernel

	mu    sync.Mutex
	first net.Conn // made by Dial, for the first request
	start func(ctx context.Context) error
}

var _ agentkernel.Kernel = (*Client)(nil)

// Dial connects to the kernel that listens on the socket and compares versions: one connection, one round
// trip. Errors: CodeUnavailable when nobody listens or answers, CodeVersion when the kernel is of another
// version, CodeDenied when the socket belongs to another user.
func Dial(ctx context.Context, opts Options) (*Client, error) {
	c := newClient(opts)
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	c.first = conn
	if opts.Patience <= 0 {
		opts.Patience = DefaultPatience
	}
	hello, cancel := context.WithTimeout(ctx, opts.Patience)
	defer cancel()
	var kernel wire.Version
	if err := c.get(hello, "attach", wire.Prefix+"/version", nil, &kernel); err != nil {
		_ = c.Close()
		if hello.Err() != nil && !errors.Is(ctx.Err(), context.Canceled) {
			err = c.silentError(ctx)
		}
		return nil, err
	}
	if kernel.API != c.caller.API || !opts.AnyVersion && kernel.Version != c.caller.Version {
		_ = c.Close()
		return nil, wire.VersionError(kernel, c.caller)
	}
	return c, nil
}

// silentError is that of Dial's patience, or of the caller's own, which errors.Is finds.
func (c *Client) silentError(ctx context.Context) error {
	e := agentkernel.Errorf(agentkernel.CodeUnavailable, "attach", "a kernel listens on %s but %w", c.opts.Socket, ErrSilent)
	if err := ctx.Err(); err != nil {
		e = agentkernel.Errorf(agentkernel.CodeTimeout, "attach", "a kernel listens on %s but %w: %w", c.opts.Socket, ErrSilent, err)
	}
	return e.WithHint("look at kernel.log in the data directory; if the kernel hangs, end its process")
}

// Stop ends the kernel behind a socket, of whatever version it is. It returns when the kernel has agreed;
// processes stay as their journals say. CodeUnavailable when nobody listens.
func Stop(ctx context.Context, socket string) error {
	c := newClient(Options{Socket: socket, AnyVersion: true})
	defer func() { _ = c.Close() }()
	return c.Shutdown(ctx)
}

func newClient(opts Options) *Client {
	c := &Client{
		opts:     opts,
		caller:   wire.Version{Version: opts.Version, API: agentkernel.APIVersion},
		base:     &url.URL{Scheme: "http", Host: "agentkernel"},
		starting: make(chan struct{}, 1),
	}
	c.headers = http.Header{wire.HeaderAPI: {strconv.Itoa(c.caller.API)}}
	if !opts.AnyVersion {
		c.headers[wire.HeaderVersion] = []string{opts.Version}
	}
	c.transport = &transport{dial: c.dial}
	return c
}

// dial hands the connection that Dial made to the first request.
func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	c.mu.Lock()
	conn, start := c.first, c.start
	c.first = nil
	c.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	conn, err := c.connect(ctx)
	if start == nil || agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
		return conn, err
	}
	select { // one starts it, the others find it
	case c.starting <- struct{}{}:
		defer func() { <-c.starting }()
	case <-ctx.Done():
		return nil, canceled(ctx, "attach")
	}
	if conn, err = c.connect(ctx); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
		return conn, err
	}
	if err := start(ctx); err != nil {
		return nil, agentkernel.AsError(err, agentkernel.CodeUnavailable, "attach")
	}
	return c.connect(ctx)
}

// Revive has a kernel started whenever a request finds none. What was under way when a kernel went away is not repeated.
// It is for callers that outlive kernels. With nil no more is started.
func (c *Client) Revive(start func(ctx context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start = start
}

func (c *Client) connect(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.opts.Socket)
	if err != nil {
		return nil, c.dialError(ctx, err)
	}
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		return conn, nil
	}
	// A socket in a shared directory may be someone's trap. Root may talk to anybody's kernel.
	uid, err := wire.PeerUID(uc)
	if me := os.Geteuid(); err == nil && uid != me && uid != 0 && me != 0 {
		_ = conn.Close()
		return nil, agentkernel.Errorf(agentkernel.CodeDenied, "attach", "the kernel on %s belongs to user %d", c.opts.Socket, uid).
			WithHint("choose a data directory of your own with --home")
	}
	return conn, nil
}

func (c *Client) dialError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return canceled(ctx, "attach")
	case errors.Is(err, fs.ErrPermission):
		return agentkernel.Errorf(agentkernel.CodeDenied, "attach", "the kernel's socket may not be used: %w", err).
			WithHint("run as the user who owns the data directory")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "attach", "no kernel listens on %s", c.opts.Socket).
			WithHint("`agentkernel run` and `agentkernel spawn` start one, `agentkernel serve` keeps one running")
	}
	return agentkernel.Errorf(agentkernel.CodeUnavailable, "attach", "the kernel cannot be reached: %w", err).
		WithHint("`agentkernel doctor` says what is wrong with the data directory")
}

// canceled is the error of a call whose context ended: errors.Is finds the context's own.
func canceled(ctx context.Context, op string) error {
	code := agentkernel.CodeCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = agentkernel.CodeTimeout
	}
	return agentkernel.Errorf(code, op, "%w", ctx.Err())
}

// Close gives the connections back. The kernel goes on, and so do calls that are under way.
func (c *Client) Close() error {
	c.mu.Lock()
	conn := c.first
	c.first = nil
	c.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
	c.transport.close()
	return nil
}
