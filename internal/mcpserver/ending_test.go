package mcpserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A server that ends takes no more calls: a client that is told so tries again.
func TestAnEndingServerTakesNoCalls(t *testing.T) {
	s, err := New(Config{Kernel: &manySessions{}, Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Handler(HTTPConfig{Tokens: map[string]string{"token-of-ann-0123456789": "ann"}})
	if err != nil {
		t.Fatal(err)
	}
	hello := func() *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/", strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
		r.Header.Set("Authorization", "Bearer token-of-ann-0123456789")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	if w := hello(); w.Code != http.StatusOK {
		t.Fatalf("HTTP %d %s", w.Code, w.Body)
	}
	s.Close()
	if w := hello(); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), sameCall) || w.Header().Get("Retry-After") == "" {
		t.Errorf("after the end: HTTP %d %s", w.Code, w.Body)
	}
}
