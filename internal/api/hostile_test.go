package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/api"
)

// TestPathsMeanOneThing: no spelling of a path reaches what another spelling would not, and none ends the kernel.
func TestPathsMeanOneThing(t *testing.T) {
	s := serve(t, api.Config{})
	if _, err := s.kernel.Spawn(t.Context(), spec("block")); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{
		"/api/v1/processes/../shutdown", "/api/v1/processes/1/../../shutdown", "/api/v1/processes/1%2f..%2f..%2fshutdown",
		"/api/v1//shutdown", "//api/v1/shutdown", "/api/v1/./shutdown", "/api/v1/shutdown%00", "/api/v1/shutdown/", "/api/v1/%73hutdown/..",
		"/api/v1/processes/1%00/signal", "/api/v1/processes/0x1/signal", "/api/v1/processes/+1/signal", "/api/v1/processes/1%20/signal",
		"/api/v1/processes/1e0/signal", "/api/v1/processes/01x/signal", "/api/v1/processes/-1/signal", "/api/v1/processes/1\\..\\signal",
		"/api/v1/processes/18446744073709551617/signal", "/api/v1/processes/%D9%A1/signal", "/API/V1/SHUTDOWN", "*", "",
		"http://other/api/v1/processes/1;x/signal",
	} {
		status := s.raw(t, "POST "+target+" HTTP/1.1\r\nHost: k\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{\"signal\":\"kill\"}")
		if !strings.HasPrefix(status, "HTTP/1.1 4") && !strings.HasPrefix(status, "HTTP/1.1 3") {
			t.Errorf("POST %q: %s", target, status)
		}
	}
	if p, err := s.kernel.Process(t.Context(), 1); err != nil || p.State.Terminal() {
		t.Errorf("a process was reached: %+v, %v", p.State, err)
	}
	if _, err := s.dial(t).Info(t.Context()); err != nil {
		t.Errorf("after all that: %v", err)
	}
	if err := s.kernel.Signal(t.Context(), 1, agentkernel.SignalKill); err != nil {
		t.Error(err)
	}
}

// raw sends bytes and gives the first line of the answer.
func (s *served) raw(t *testing.T, request string) string {
	t.Helper()
	conn, err := net.DialTimeout("unix", s.socket, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return err.Error()
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

// TestOddRequests: what is no request of ours costs its connection only.
func TestOddRequests(t *testing.T) {
	s := serve(t, api.Config{})
	for name, request := range map[string]string{
		"a large header":        "GET /api/v1/info HTTP/1.1\r\nHost: k\r\nX: " + strings.Repeat("x", 300<<10) + "\r\n\r\n",
		"two lengths":           "POST /api/v1/recover HTTP/1.1\r\nHost: k\r\nContent-Length: 2\r\nContent-Length: 9\r\n\r\n{}",
		"length and chunks":     "POST /api/v1/recover HTTP/1.1\r\nHost: k\r\nContent-Length: 2\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		"a huge length":         "POST /api/v1/processes HTTP/1.1\r\nHost: k\r\nContent-Length: 9223372036854775807\r\n\r\n{}",
		"an impossible length":  "POST /api/v1/processes HTTP/1.1\r\nHost: k\r\nContent-Length: -1\r\n\r\n{}",
		"a huge chunk":          "POST /api/v1/processes HTTP/1.1\r\nHost: k\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n",
		"no HTTP":               "\x00\x01\x02\x03\r\n\r\n",
		"another version":       "GET /api/v1/info HTTP/9.9\r\nHost: k\r\n\r\n",
		"a method of the enemy": "SHUTDOWN /api/v1/shutdown HTTP/1.1\r\nHost: k\r\n\r\n",
		"a tunnel":              "CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n",
	} {
		if status := s.raw(t, request); strings.HasPrefix(status, "HTTP/1.1 2") {
			t.Errorf("%s: %s", name, status)
		}
	}
	if _, err := s.dial(t).Info(t.Context()); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

// TestTextIsNoFrame: what a program prints cannot end its stream or pretend to be an event of the kernel.
func TestTextIsNoFrame(t *testing.T) {
	s := serve(t, api.Config{})
	const text = "a\r\revent: done\rdata: {}\r\r\u2028\u2029\x00\u0085 id: 9 \\n\\n"
	k := s.dial(t)
	var got []string
	p, err := k.Run(t.Context(), spec("print "+text), func(ev agentkernel.Event) error {
		if ev.Kind == agentkernel.EventOutput {
			got = append(got, ev.Text)
		}
		return nil
	})
	want := text + "\n"
	if err != nil || p.State != agentkernel.StateExited || len(got) != 1 || got[0] != want {
		t.Errorf("%q, not %q; %v %v", got, want, p.State, err)
	}
}

// hoard is a kernel whose journal has large entries; it notes how much was asked of it at once.
type hoard struct {
	*double
	entries int64
	size    func(seq int64) int
	most    atomic.Int64
}

func (k *hoard) Journal(_ context.Context, _ agentkernel.PID, from int64, limit int) ([]agentkernel.Entry, error) {
	var out []agentkernel.Entry
	total := 0
	for seq := max(from, 1); seq <= k.entries && (limit == 0 || len(out) < limit); seq++ {
		raw := json.RawMessage(`"` + strings.Repeat("x", k.size(seq)) + `"`)
		total += len(raw)
		out = append(out, agentkernel.Entry{Seq: seq, PID: 1, Kind: agentkernel.EntryResult, Data: raw})
	}
	k.most.Store(max(k.most.Load(), int64(total)))
	return out, nil
}

// TestJournalPagesAreBounded: a program whose results are large cannot make the kernel hold all of them at once
// for somebody who looks.
func TestJournalPagesAreBounded(t *testing.T) {
	for name, size := range map[string]func(int64) int{
		"large":       func(int64) int { return 4 << 20 },
		"small":       func(int64) int { return 100 },
		"first small": func(seq int64) int { return 100 + int(seq/20)<<18 },
	} {
		t.Run(name, func(t *testing.T) {
			k := &hoard{double: newDouble(), entries: 120, size: size}
			s := serve(t, api.Config{Kernel: k})
			if name == "large" {
				k.entries = 40
			}
			var seen, pages int64
			for next := int64(1); next != 0; pages++ {
				resp := s.ask(t, http.MethodGet, fmt.Sprintf("/api/v1/processes/1/journal?from=%d", next), "")
				var page struct {
					Entries []struct {
						Seq int64 `json:"seq"`
					} `json:"entries"`
					Next int64 `json:"next"`
				}
				if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
					t.Fatal(err)
				}
				for _, e := range page.Entries {
					if seen++; e.Seq != seen {
						t.Fatalf("entry %d instead of %d", e.Seq, seen)
					}
				}
				next = page.Next
			}
			if seen != k.entries {
				t.Errorf("%d entries", seen)
			}
			if most := k.most.Load(); most > 64<<20 {
				t.Errorf("%d MB were asked for at once, in %d pages", most>>20, pages)
			}
		})
	}
}
