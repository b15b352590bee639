package fetch

import (
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/incoming"
)

// until writes again and again, as slowly as pause says, until the reader has gone.
func until(w io.Writer, text []byte, pause time.Duration) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		if _, err := w.Write(text); err != nil {
			return
		}
		<-tick.C
	}
}

func TestHostileServers(t *testing.T) {
	f := newFetcher(t, Config{})
	bomb := func() []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		zero := make([]byte, 1<<20)
		for range 8 {
			_, _ = z.Write(zero)
		}
		_ = z.Close()
		return b.Bytes()
	}()
	for name, c := range map[string]struct {
		talk    func(net.Conn)
		code    agentkernel.Code
		says    string
		settled bool // for a POST
	}{
		"slow drip": {func(c net.Conn) {
			request(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
			until(c, []byte("x"), time.Millisecond)
		}, agentkernel.CodeTimeout, "within", false},
		"slow headers": {func(c net.Conn) {
			request(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-A: ")
			until(c, []byte("x"), time.Millisecond)
		}, agentkernel.CodeTimeout, "within", false},
		"silence": {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, agentkernel.CodeTimeout, "within", false},
		"endless body": {func(c net.Conn) {
			request(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			until(c, make([]byte, 16<<10), time.Microsecond)
		}, agentkernel.CodeLimit, "larger than 65536 bytes", true},
		"endless chunks": {func(c net.Conn) {
			request(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			until(c, []byte("1000\r\n"+strings.Repeat("y", 0x1000)+"\r\n"), time.Microsecond)
		}, agentkernel.CodeLimit, "larger", true},
		"announced size": {func(c net.Conn) {
			request(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9000000000000\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		}, agentkernel.CodeLimit, "larger", true},
		"gzip bomb": {func(c net.Conn) {
			request(c)
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", len(bomb))
			_, _ = c.Write(bomb)
		}, agentkernel.CodeLimit, "larger", true},
		"bad gzip": {func(c net.Conn) { // whole but for its body: without Connection: close, the connection would be used again
			request(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Length: 36\r\n\r\nthis is anything but not gzip at all")
		}, agentkernel.CodeUnavailable, "not HTTP", false},
		"huge headers": {func(c net.Conn) {
			request(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			until(c, []byte("X-A: "+strings.Repeat("b", 8<<10)+"\r\n"), time.Microsecond)
		}, agentkernel.CodeUnavailable, "headers that are too large", false},
		"informational for ever": {func(c net.Conn) {
			request(c)
			until(c, []byte("HTTP/1.1 103 Early Hints\r\nX-A: "+strings.Repeat("b", 8<<10)+"\r\n\r\n"), time.Microsecond)
		}, agentkernel.CodeUnavailable, "", false},
		"truncated body": {func(c net.Conn) {
			request(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it")
		}, agentkernel.CodeUnavailable, "before its answer was complete", false},
		"truncated headers": {func(c net.Conn) {
			request(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-A")
		}, agentkernel.CodeUnavailable, "", false},
		"bad chunks": {func(c net.Conn) {
			request(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
		}, agentkernel.CodeUnavailable, "", false},
		"not HTTP":       {func(c net.Conn) { request(c); _, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.6\r\n") }, agentkernel.CodeUnavailable, "not HTTP", false},
		"hangs up":       {func(c net.Conn) { request(c) }, agentkernel.CodeUnavailable, "", false},
		"hangs up first": {func(net.Conn) {}, agentkernel.CodeUnavailable, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			url, host := raw(t, c.talk)
			for _, r := range []agentkernel.FetchRequest{get(url, host), post(url, host)} {
				r.MaxBytes, r.Timeout = 64<<10, time.Minute
				if c.code == agentkernel.CodeTimeout {
					r.Timeout = 100 * time.Millisecond
				}
				res := want(t, f, r, c.code, c.says)
				if settled := c.settled || r.Method == "GET"; res.Settled != settled || res.Body != nil {
					t.Errorf("%s: settled %v, body of %d bytes", r.Method, res.Settled, len(res.Body))
				}
			}
			if used := f.cfg.Room.Used(); used != 0 {
				t.Errorf("%d bytes are still taken", used)
			}
		})
	}
}

func TestUnsent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := l.Addr().String()
	_ = l.Close()
	if res := want(t, newFetcher(t, Config{}), post("http://"+host, host), agentkernel.CodeUnavailable, "refused the connection"); !res.Settled {
		t.Error("the outcome of a request that nobody received is open")
	}
}

// TestWritesAreSentOnce: a connection that was kept and breaks under a POST does not make the transport send it again,
// whatever headers it has.
func TestWritesAreSentOnce(t *testing.T) {
	var posts atomic.Int64
	url, host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			posts.Add(1)
			panic(http.ErrAbortHandler)
		}
	})
	f := newFetcher(t, Config{})
	for _, change := range []func(*agentkernel.FetchRequest){
		func(*agentkernel.FetchRequest) {},
		func(r *agentkernel.FetchRequest) { r.Body = nil },
		func(r *agentkernel.FetchRequest) {
			r.Headers = map[string]string{"Idempotency-Key": "x", "X-Idempotency-Key": "y"}
		},
		func(r *agentkernel.FetchRequest) {
			r.Body, r.Headers = nil, map[string]string{"X-Idempotency-Key": "y"}
		},
	} {
		posts.Store(0)
		want(t, f, get(url, host), "", "")
		r := post(url, host)
		change(&r)
		if res := want(t, f, r, agentkernel.CodeUnavailable, ""); res.Settled || posts.Load() != 1 {
			t.Errorf("settled %v, sent %d times", res.Settled, posts.Load())
		}
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, r.TLS.Version >= 0x0303) }))
	t.Cleanup(s.Close)
	host := s.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(host)
	want(t, newFetcher(t, Config{}), get(s.URL, host), agentkernel.CodeUnavailable, "certificate of an unknown authority")
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	f := newFetcher(t, Config{Roots: roots})
	if res := want(t, f, get(s.URL, host), "", ""); string(res.Body) != "true" {
		t.Errorf("got %q", res.Body)
	}
	l, err := net.Listen("tcp", "127.0.0.2:0") // an address that the certificate is not for
	if err != nil {
		t.Skip("this machine has no 127.0.0.2")
	}
	other := httptest.NewUnstartedServer(nil)
	_ = other.Listener.Close()
	other.Listener, other.TLS = l, s.TLS
	other.StartTLS()
	t.Cleanup(other.Close)
	want(t, f, get(other.URL, l.Addr().String()), agentkernel.CodeUnavailable, "certificate for another host")
	plain, plainHost := serve(t, func(http.ResponseWriter, *http.Request) {})
	want(t, f, get(strings.Replace(plain, "http:", "https:", 1), plainHost), agentkernel.CodeUnavailable, "does not speak TLS")
	want(t, f, get("http://127.0.0.1:"+port, host), "", "") // Go's server answers that with a 400
}

// TestNoRoomForBodies: a body counts with its copies, and as large as it is in JSON, until the kernel has what became of it.
func TestNoRoomForBodies(t *testing.T) {
	const size = 1<<20 - 1
	answer := map[string]string{"/text": strings.Repeat("x", size), "/zeros": strings.Repeat("\x00", size), "/bytes": strings.Repeat("\xff", size)}
	url, host := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, answer[r.URL.Path]) })
	get := func(path string) agentkernel.FetchRequest { return get(url+path, host) }
	room := incoming.Exactly(2*incoming.Copies*size - 1)
	f := newFetcher(t, Config{Room: room})
	first := want(t, f, get("/text"), "", "")
	if room.Used() != incoming.Copies*size {
		t.Errorf("%d bytes are taken", room.Used())
	}
	for _, path := range []string{"/text", "/zeros", "/bytes"} {
		if res := want(t, f, get(path), agentkernel.CodeLimit, "no room"); !res.Settled || res.Done != nil {
			t.Errorf("%s: settled %v", path, res.Settled)
		}
	}
	first.Done()
	want(t, f, get("/zeros"), agentkernel.CodeLimit, "no room")
	want(t, f, get("/bytes"), agentkernel.CodeLimit, "no room")
	want(t, f, get("/text"), "", "").Done()
	if room.Used() != 0 {
		t.Errorf("%d bytes are still taken", room.Used())
	}
	f = newFetcher(t, Config{Room: incoming.New(0)}) // a small machine
	usual := get("/text")
	usual.MaxBytes = 0
	answer["/text"] = strings.Repeat("x\n", defaultBody/2)
	if res := want(t, f, usual, "", ""); len(res.Body) != defaultBody {
		t.Errorf("%d bytes", len(res.Body))
	}
}
