package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// transport makes HTTP/1.1 exchanges on the kernel's socket. Unlike http.Transport it has no goroutines: whoever calls
// writes the request and reads the answer himself. To be woken by another goroutine, at each of four points of an exchange,
// takes as long as a small program.
type transport struct {
	dial func(context.Context) (net.Conn, error)

	mu   sync.Mutex
	idle []*connection // the one used last at the end
	over bool          // close was called: nobody will use another
}

const (
	maxIdle   = 64       // connections that wait for the next request
	maxHeader = 10 << 20 // bytes of an answer before its body
)

// connection is used by one exchange at a time.
type connection struct {
	net.Conn
	limit io.LimitedReader // what r reads from
	r     *bufio.Reader
	w     *bufio.Writer
}

func newConnection(conn net.Conn) *connection {
	c := &connection{Conn: conn, limit: io.LimitedReader{R: conn}, w: bufio.NewWriterSize(conn, readBuffer)}
	c.r = bufio.NewReaderSize(&c.limit, 4*readBuffer)
	return c
}

// RoundTrip sends a request and gives its answer; when the body has been read to its end the connection serves again. An
// exchange whose context ends is broken off, also while the body is read.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var c *connection
	err := req.Context().Err() // what ends later ends the exchange a moment later
	if err == nil {
		c, err = t.take(req.Context())
	}
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	release := context.AfterFunc(req.Context(), func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	resp, err := c.exchange(req)
	if err != nil {
		release()
		_ = c.Close()
		return nil, err
	}
	resp.Body = &body{ReadCloser: resp.Body, t: t, c: c, release: release, last: resp.Close}
	return resp, nil
}

// take gives a connection that the kernel has not closed.
func (t *transport) take(ctx context.Context) (*connection, error) {
	for {
		t.mu.Lock()
		n := len(t.idle)
		if n == 0 {
			t.mu.Unlock()
			conn, err := t.dial(ctx)
			if err != nil {
				return nil, err
			}
			return newConnection(conn), nil
		}
		c := t.idle[n-1]
		t.idle[n-1] = nil
		t.idle = t.idle[:n-1]
		t.mu.Unlock()
		if c.silent() {
			return c, nil
		}
		_ = c.Close()
	}
}

// give takes a connection back.
func (t *transport) give(c *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || len(t.idle) == maxIdle {
		_ = c.Close()
		return
	}
	t.idle = append(t.idle, c)
}

// close is CloseIdleConnections, also for those that are used now: each when its exchange is over.
func (t *transport) close() {
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	t.CloseIdleConnections()
}

// CloseIdleConnections closes those that nobody uses.
func (t *transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.idle {
		_ = c.Close()
	}
	t.idle = nil
}

// silent says that the other side has neither closed an idle connection nor said anything on it, which nobody had asked.
func (c *connection) silent() bool {
	if c.r.Buffered() > 0 {
		return false
	}
	socket, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	silent := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT) //nolint:gosec // a descriptor
		silent = err == syscall.EAGAIN
		return true
	})
	return err == nil && silent
}

// exchange writes a request and reads the answer up to its body.
func (c *connection) exchange(req *http.Request) (*http.Response, error) {
	sent := req.Write(c.w)
	if sent == nil {
		sent = c.w.Flush()
	}
	c.limit.N = maxHeader
	resp, err := http.ReadResponse(c.r, req)
	if err != nil {
		if sent != nil {
			return nil, sent
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	c.limit.N = math.MaxInt64
	if sent != nil { // it was refused before it was read to its end
		resp.Close = true
	}
	return resp, nil
}

// body is that of an answer.
type body struct {
	io.ReadCloser
	t       *transport
	c       *connection // nil: given back, or closed
	release func() bool
	last    bool // the connection serves no other exchange
}

func (b *body) Read(p []byte) (int, error) {
	if b.c == nil {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end(err == io.EOF)
	}
	return n, err
}

// Close breaks the exchange off if the body was not read to its end.
func (b *body) Close() error {
	if b.c != nil {
		b.end(false)
	}
	return nil
}

func (b *body) end(whole bool) {
	c := b.c
	b.c = nil
	if b.release() && whole && !b.last {
		b.t.give(c)
		return
	}
	_ = c.Close()
}
