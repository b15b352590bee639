package deadline

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestBodies(t *testing.T) {
	const patience = 100 * time.Millisecond
	ended := make(chan error, 1)
	srv := httptest.NewServer(Bodies(patience, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if r.URL.Path == "/wait" { // a handler may take longer than a body
			select {
			case <-r.Context().Done():
				err = r.Context().Err()
			case <-time.After(3 * patience):
			}
		}
		ended <- err
		_, _ = fmt.Fprintf(w, "%d bytes", len(b))
	})))
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a body that does not come was read")
		}
	case <-time.After(time.Minute):
		t.Fatal("a body that does not come is waited for")
	}
	_, _ = io.ReadAll(bufio.NewReader(conn))

	res, err := http.Post(srv.URL+"/wait", "text/plain", strings.NewReader("0123456789"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); string(text) != "10 bytes" {
		t.Errorf("%q", text)
	}
	if err := <-ended; err != nil {
		t.Errorf("the deadline of a body ended its handler: %v", err)
	}
}
