package mcpserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A client that says nothing for an hour is gone; one that says a word an hour is not.
func TestASilentClientIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Kernel: &manySessions{}, Version: "1"})
		if err != nil {
			t.Fatal(err)
		}
		h, err := s.Handler(HTTPConfig{Tokens: map[string]string{"token-of-ann-0123456789": "ann"}})
		if err != nil {
			t.Fatal(err)
		}
		post := func(session, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/", strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer token-of-ann-0123456789")
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			if session != "" {
				r.Header.Set("Mcp-Session-Id", session)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		hello := post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
		session := hello.Header().Get("Mcp-Session-Id")
		if session == "" {
			t.Fatalf("HTTP %d %s", hello.Code, hello.Body)
		}
		post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		for _, c := range []struct {
			silence time.Duration
			want    int
		}{{59 * time.Minute, http.StatusOK}, {59 * time.Minute, http.StatusOK}, {61 * time.Minute, http.StatusNotFound}} {
			<-time.After(c.silence)
			if w := post(session, `{"jsonrpc":"2.0","id":2,"method":"ping"}`); w.Code != c.want {
				t.Errorf("after %s: HTTP %d %s, want %d", c.silence, w.Code, w.Body, c.want)
			}
		}
		s.Close()
	})
}

// A user who begins MCP sessions without end, and uses none, has the memory of 500; those who make calls stay, and so do others'.
func TestClientsOfOneUserAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Kernel: &manySessions{}, Version: "1"})
		if err != nil {
			t.Fatal(err)
		}
		h, err := s.Handler(HTTPConfig{Tokens: map[string]string{"token-of-ann-0123456789": "ann", "token-of-bob-0123456789": "bob"}})
		if err != nil {
			t.Fatal(err)
		}
		post := func(user, session, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/", strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer token-of-"+user+"-0123456789")
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			if session != "" {
				r.Header.Set("Mcp-Session-Id", session)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		begin := func(user string) string {
			w := post(user, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
			if w.Code != http.StatusOK {
				t.Fatalf("HTTP %d %s", w.Code, w.Body)
			}
			return w.Header().Get("Mcp-Session-Id")
		}
		there := func(user, session string) bool {
			post(user, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			return post(user, session, `{"jsonrpc":"2.0","id":2,"method":"ping"}`).Code == http.StatusOK
		}
		bob, first := begin("bob"), begin("ann")
		var last string
		for range maxOwnClients + 50 {
			last = begin("ann")
		}
		synctest.Wait()
		for name, c := range map[string]struct {
			user, session string
			want          bool
		}{"another user's": {"bob", bob, true}, "the first": {"ann", first, false}, "the last": {"ann", last, true}} {
			if got := there(c.user, c.session); got != c.want {
				t.Errorf("%s client: there %t, want %t", name, got, c.want)
			}
		}
		s.Close()
	})
}

// deadlined is a response that remembers what time its request is given.
type deadlined struct {
	*httptest.ResponseRecorder
	given []time.Time
}

func (d *deadlined) SetReadDeadline(t time.Time) error {
	d.given = append(d.given, t)
	return nil
}

// A body has two minutes to come, whoever sends it.
func TestABodyHasTwoMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Kernel: &manySessions{}, Version: "1"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		h, err := s.Handler(HTTPConfig{Tokens: map[string]string{"token-of-ann-0123456789": "ann"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range []string{"", "Bearer token-of-ann-0123456789"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/", strings.NewReader("{}"))
			r.Header.Set("Authorization", token)
			w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
			h.ServeHTTP(w, r)
			if len(w.given) == 0 || !w.given[0].Equal(time.Now().Add(2*time.Minute)) {
				t.Errorf("with the token %q it has until %v", token, w.given)
			}
		}
	})
}
