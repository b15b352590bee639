package mcpserver

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A request for a name that is not the server's is refused: a web page may have made its own name stand for this machine.
func TestHosts(t *testing.T) {
	cfg := HTTPConfig{Origins: []string{"https://app.example.org"}, Hosts: []string{"Proxy.example.org", "[fd00::1]"}, JWT: &JWTConfig{Audience: "https://mcp.example.org/mcp"}}
	handler := cfg.toHosts(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]struct{ outside, loopback bool }{
		"evil.example.org": {}, "evil.example.org:7778": {}, "": {}, "127.0.0.1.evil.example.org": {}, "proxy.example.org.evil": {},
		"proxy.example.org": {true, true}, "PROXY.example.org.:7778": {true, true}, "app.example.org": {true, true}, "mcp.example.org": {true, true}, "[fd00::1]:7778": {true, true},
		"localhost:7778": {true, true}, "127.0.0.1:7778": {true, true}, "[::1]": {true, true},
		"192.0.2.7:7778": {outside: true}, "[2001:db8::1]:7778": {outside: true},
	} {
		for ip, allowed := range map[string]bool{"192.0.2.7": want.outside, "127.0.0.1": want.loopback} {
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.Host = host
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(ip), Port: 7778}))
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if (w.Code == http.StatusOK) != allowed {
				t.Errorf("%q at %s: %d, want allowed: %t", host, ip, w.Code, allowed)
			}
		}
	}
}
