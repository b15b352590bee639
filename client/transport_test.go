package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// farEnd is an HTTP server on a unix socket, and a transport to it that counts its connections.
type farEnd struct {
	*transport
	server *http.Server
	dials  atomic.Int64
}

func newFarEnd(t *testing.T, handle http.HandlerFunc) *farEnd {
	t.Helper()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	f := &farEnd{server: &http.Server{Handler: handle, ReadHeaderTimeout: time.Minute}}
	f.transport = &transport{dial: func(ctx context.Context) (net.Conn, error) {
		f.dials.Add(1)
		var d net.Dialer
		return d.DialContext(ctx, "unix", ln.Addr().String())
	}}
	var serving sync.WaitGroup
	serving.Go(func() { _ = f.server.Serve(ln) })
	t.Cleanup(func() {
		f.CloseIdleConnections()
		_ = f.server.Close()
		serving.Wait()
	})
	return f
}

func (f *farEnd) ask(ctx context.Context, path string, sent io.Reader) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://far"+path, sent)
	if err != nil {
		return "", err
	}
	resp, err := f.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(b)), err
}

func (f *farEnd) idlers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.idle)
}

func echo(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	if r.URL.Path == "/parts" { // an answer of unknown length
		for i := range b {
			_, _ = w.Write(b[i : i+1])
			_ = http.NewResponseController(w).Flush()
		}
		return
	}
	if r.URL.Path == "/nothing" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	_, _ = w.Write(b)
}

func TestOneConnectionServesOneCallerAfterTheOther(t *testing.T) {
	f := newFarEnd(t, echo)
	for range 3 {
		for _, path := range []string{"/", "/parts", "/nothing"} {
			want := "200 hello"
			if path == "/nothing" {
				want = "204 "
			}
			if got, err := f.ask(t.Context(), path, strings.NewReader("hello")); got != want || err != nil {
				t.Errorf("%s: %q %v", path, got, err)
			}
		}
	}
	if n := f.dials.Load(); n != 1 {
		t.Errorf("%d connections for calls one after the other", n)
	}
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			for j := range 5 {
				text := fmt.Sprint(i, " ", j)
				if got, err := f.ask(t.Context(), "/parts", strings.NewReader(text)); got != "200 "+text || err != nil {
					t.Errorf("%q: %q %v", text, got, err)
				}
			}
		})
	}
	group.Wait()
	if n := f.idlers(); n > maxIdle {
		t.Errorf("%d connections are kept", n)
	}
}

// A connection that the other side has closed, or on which it has said what nobody asked, serves nobody.
func TestADeadConnectionIsNotUsed(t *testing.T) {
	f := newFarEnd(t, echo)
	for name, spoil := range map[string]func(){
		"closed": func() { _ = f.idle[0].Close() },
		"closed there": func() {
			ours, theirs := socketPair(t)
			_ = theirs.Close()
			f.idle[0] = newConnection(ours)
		},
		"spoken on": func() {
			ours, theirs := socketPair(t)
			if _, err := theirs.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")); err != nil {
				t.Fatal(err)
			}
			f.idle[0] = newConnection(ours)
		},
	} {
		if _, err := f.ask(t.Context(), "/", strings.NewReader("a")); err != nil || f.idlers() != 1 {
			t.Fatal(err, f.idlers())
		}
		spoil()
		before := f.dials.Load()
		if got, err := f.ask(t.Context(), "/", strings.NewReader("b")); got != "200 b" || err != nil {
			t.Errorf("%s: %q %v", name, got, err)
		}
		if n := f.dials.Load() - before; n != 1 {
			t.Errorf("%s: %d new connections", name, n)
		}
	}
}

func socketPair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "p"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if ours, err = net.Dial("unix", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if theirs, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	return ours, theirs
}

// A context that ends breaks an exchange off wherever it stands, and nothing of it meets the next one.
func TestAnExchangeEndsWithItsContext(t *testing.T) {
	for _, where := range []string{"before the status", "in the body"} {
		t.Run(where, func(t *testing.T) {
			there := make(chan struct{})
			f := newFarEnd(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/stuck" {
					echo(w, r)
					return
				}
				if where == "in the body" {
					_, _ = w.Write([]byte("begun"))
					_ = http.NewResponseController(w).Flush()
				}
				close(there)
				<-r.Context().Done() // our side has hung up
			})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-there; cancel() }()
			if got, err := f.ask(ctx, "/stuck", nil); err == nil {
				t.Errorf("%q", got)
			}
			if got, err := f.ask(t.Context(), "/", strings.NewReader("next")); got != "200 next" || err != nil {
				t.Errorf("%q %v", got, err)
			}
			if _, err := f.ask(ctx, "/", strings.NewReader("too late")); err == nil {
				t.Error("an exchange began with a context that had ended")
			}
		})
	}
}

// A body that is not read to its end costs the connection, not the next caller.
func TestABodyThatIsLeft(t *testing.T) {
	f := newFarEnd(t, echo)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://far/", bytes.NewReader(make([]byte, 1<<20)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := f.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || f.idlers() != 0 {
		t.Errorf("%v, %d kept", err, f.idlers())
	}
	if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read after the end: %d %v", n, err)
	}
}

// zeros are a body without end.
type zeros struct{ closed atomic.Bool }

func (z *zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func (z *zeros) Close() error { z.closed.Store(true); return nil }

// What is refused before it was sent whole is an answer.
func TestAnAnswerBeforeTheRequestWasRead(t *testing.T) {
	f := newFarEnd(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTeapot) })
	z := &zeros{}
	if got, err := f.ask(t.Context(), "/", z); got != "418 no\n" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if !z.closed.Load() || f.idlers() != 0 {
		t.Errorf("closed %v, %d connections kept", z.closed.Load(), f.idlers())
	}
	refused := errors.New("nobody is there")
	f.transport.dial = func(context.Context) (net.Conn, error) { return nil, refused }
	z = &zeros{}
	if _, err := f.ask(t.Context(), "/", z); !errors.Is(err, refused) || !z.closed.Load() {
		t.Errorf("%v, closed %v", err, z.closed.Load())
	}
}

// A header without end is refused.
func TestAHeaderThatDoesNotEnd(t *testing.T) {
	ours, theirs := socketPair(t)
	f := &farEnd{transport: &transport{dial: func(context.Context) (net.Conn, error) { return ours, nil }}}
	go func() {
		_, err := theirs.Write([]byte("HTTP/1.1 200 OK\r\n"))
		for line := []byte("A: " + strings.Repeat("a", 1<<10) + "\r\n"); err == nil; {
			_, err = theirs.Write(line)
		}
	}()
	if _, err := f.ask(t.Context(), "/", nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}
