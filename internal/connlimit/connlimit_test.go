package connlimit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const refusal = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 5\r\nConnection: close\r\n\r\nfull\n"

// serve answers "ok" on a listener for two connections.
func serve(t *testing.T) (connect func() net.Conn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(Bound(ln, 2, []byte(refusal))) }()
	t.Cleanup(func() {
		_ = srv.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return func() net.Conn {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// ask makes a request with a body of so many bytes on a connection, and gives the answer.
func ask(t *testing.T, c net.Conn, body int) string {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", body, strings.Repeat("x", body))
	}()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	<-written
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// TestBound: connections beyond the bound are refused while the others stay open, also those that say nothing, and served when one is closed.
func TestBound(t *testing.T) {
	connect := serve(t)
	first, second := connect(), connect()
	for _, c := range []net.Conn{first, second} {
		if got := ask(t, c, 1); got != "ok" {
			t.Fatalf("within the bound: %s", got)
		}
	}
	for i, size := range []int{0, 1, 1 << 20} {
		began := time.Now()
		if got := ask(t, connect(), size); got != "full" {
			t.Errorf("beyond the bound: %s", got)
		}
		if took := time.Since(began); i > 0 && took > patience/2 {
			t.Errorf("it took %s, though one had waited before", took)
		}
	}
	for range turningMost {
		connect() // and says nothing
	}
	if got := ask(t, connect(), 1); got != "full" {
		t.Errorf("behind those that say nothing: %s", got)
	}
	if got := ask(t, first, 1); got != "ok" {
		t.Errorf("one that was there before: %s", got)
	}
	_ = second.Close()
	for {
		if ask(t, connect(), 1) == "ok" {
			return
		}
	}
}

// TestBoundWaits: one that comes while there is no place is served when another goes soon.
func TestBoundWaits(t *testing.T) {
	connect := serve(t)
	first, second := connect(), connect()
	for _, c := range []net.Conn{first, second} {
		if got := ask(t, c, 1); got != "ok" {
			t.Fatalf("within the bound: %s", got)
		}
	}
	time.AfterFunc(patience/4, func() { _ = first.Close() })
	if got := ask(t, connect(), 1); got != "ok" {
		t.Errorf("it is told %s", got)
	}
}

// TestMost: of the descriptors enough is left for the rest, and callers have some however few there are.
func TestMost(t *testing.T) {
	for descriptors, want := range map[int]int{16: 4, 80: 16, 256: 128, 1024: 512, 1 << 20: 1 << 19} {
		if got := most(descriptors, 2); got != want {
			t.Errorf("of %d descriptors %d are for connections, want %d", descriptors, got, want)
		}
	}
	if Most(2) < least {
		t.Errorf("%d", Most(2))
	}
}
