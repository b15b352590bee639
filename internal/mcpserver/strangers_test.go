package mcpserver

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Whoever reaches the port without a token may open connections without end, and keeps nobody out who has one.
func TestStrangersKeepNobodyOut(t *testing.T) {
	s, err := New(Config{Kernel: &manySessions{}, Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	s.h.strangers.most = 8
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- s.ServeHTTP(ctx, ln, HTTPConfig{Tokens: map[string]string{"token-of-ann-0123456789": "ann"}})
	}()
	t.Cleanup(func() {
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	dial := func() net.Conn {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	ask := func(c net.Conn, token string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+ln.Addr().String()+"/", strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if err := r.Write(c); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		return resp
	}
	closed := func(c net.Conn) {
		t.Helper()
		if _, err := c.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("a connection of a stranger stays open: %v", err)
		}
	}
	ann := dial()
	if resp := ask(ann, "token-of-ann-0123456789"); resp.StatusCode != http.StatusOK || resp.Close {
		t.Fatalf("HTTP %d, closed: %t", resp.StatusCode, resp.Close)
	}
	refused := dial()
	if resp := ask(refused, "token-of-nobody-0123456"); resp.StatusCode != http.StatusUnauthorized || !resp.Close {
		t.Fatalf("HTTP %d, closed: %t", resp.StatusCode, resp.Close)
	}
	closed(refused)
	var silent []net.Conn
	for range 3 * s.h.strangers.most {
		silent = append(silent, dial())
	}
	for _, c := range silent[:2*s.h.strangers.most] {
		closed(c)
	}
	if resp := ask(ann, "token-of-ann-0123456789"); resp.StatusCode != http.StatusOK {
		t.Errorf("over her connection ann gets HTTP %d", resp.StatusCode)
	}
	if resp := ask(dial(), "token-of-ann-0123456789"); resp.StatusCode != http.StatusOK {
		t.Errorf("over another connection ann gets HTTP %d", resp.StatusCode)
	}
}
