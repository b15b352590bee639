package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ask sends a request and returns its answer: result or error, as JSON.
func (c rawMCP) ask(session, version, method, params string) string {
	c.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params)
	res := c.do("POST", session, body, "Mcp-Protocol-Version", version)
	ev, _ := eventWith(c.t, bufio.NewReader(res.Body), `"id":7`)
	return ev.data
}

// A client gets what the version of the protocol has that was agreed on, and nothing newer, whatever it offers itself.
func TestMCPFeaturesByVersion(t *testing.T) {
	c := rawMCP{t, serveHTTP(t, askingServer(t)), annToken}
	for asked, want := range map[string]struct {
		agreed                        string
		annotations, structured, asks bool
	}{
		"2024-11-05": {"2024-11-05", false, false, false},
		"2025-03-26": {"2025-03-26", true, false, false},
		"2025-06-18": {"2025-06-18", true, true, true},
		"2025-11-25": {"2025-11-25", true, true, true},
		"2026-07-28": {"2025-11-25", true, true, true}, // over HTTP with sessions
		"2099-01-01": {"2025-11-25", true, true, true},
		"1":          {"2025-11-25", true, true, true},
	} {
		res := c.do("POST", "", strings.Replace(rawHello, "2025-11-25", asked, 1))
		hello, before := eventWith(t, bufio.NewReader(res.Body), `"id":"hello"`)
		session := res.Header.Get("Mcp-Session-Id")
		c.do("POST", session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Protocol-Version", want.agreed)
		var answer struct {
			Result struct {
				ProtocolVersion string
				ServerInfo      map[string]any
			}
		}
		if err := json.Unmarshal([]byte(hello.data), &answer); err != nil || answer.Result.ProtocolVersion != want.agreed {
			t.Errorf("%s: agreed on %s, %v", asked, hello.data, err)
			continue
		}
		has := func(what, text, word string, wanted bool) {
			t.Helper()
			if strings.Contains(text, word) != wanted {
				t.Errorf("%s: %s has %s: %v; %.300s", asked, what, word, !wanted, text)
			}
		}
		if primed := len(before) > 0 && before[0].id != "" && before[0].retry != ""; primed != (want.agreed >= "2025-11-25") && asked == want.agreed {
			t.Errorf("%s: a stream that can be taken up: %v", asked, primed)
		}
		has("initialize", hello.data, `"title"`, want.structured)
		list := c.ask(session, want.agreed, "tools/list", `{}`)
		has("tools/list", list, `"outputSchema"`, want.structured)
		has("tools/list", list, `"annotations"`, want.annotations)
		has("prompts/list", c.ask(session, want.agreed, "prompts/list", `{}`), `"title"`, want.structured)
		long := c.ask(session, want.agreed, "tools/call", `{"name":"execute_code","arguments":{"code":"print('x' * 100000)"}}`)
		has("tools/call", long, `"structuredContent"`, want.structured)
		has("tools/call", long, `"resource_link"`, want.structured)
		has("resources/read", c.ask(session, want.agreed, "resources/read", `{"uri":"agentkernel://output/99999"}`), `"code":-32002`, true)
		if !want.asks {
			refused := c.ask(session, want.agreed, "tools/call", `{"name":"execute_code","arguments":{"code":"from tools.test import append_line\nappend_line(path='/x', text='y')"}}`)
			has("a call that has to be allowed", refused, "permission_denied", true)
		}
	}
	cs := connectMCP(t, askingServer(t), nil)
	_, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "agentkernel://output/99999"})
	if v := cs.InitializeResult().ProtocolVersion; v < "2026" || err == nil || !strings.Contains(err.Error(), "Resource not found") || strings.Contains(err.Error(), "32002") {
		t.Errorf("protocol %s: %v", v, err)
	}
}

// Pages of the named origins may call, and those of this machine: with a token, never with what the browser keeps.
func TestMCPFromWebPages(t *testing.T) {
	url := serveHTTP(t, mcpConfig(openEmbedded(t, home(t)), ""))
	none, ann := rawMCP{t, url, ""}, rawMCP{t, url, annToken}
	for origin, allowed := range map[string]bool{"https://app.example.org": true, "http://localhost:3000": true, "http://127.0.0.1": true,
		"https://evil.example": false, "null": false, "https://app.example.org.evil.example": false, "http://app.example.org": false} {
		before := none.do("OPTIONS", "", "", "Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type,mcp-session-id")
		call := ann.do("POST", "", rawHello, "Origin", origin)
		shut := none.do("POST", "", rawHello, "Origin", origin)
		for what, res := range map[string]*http.Response{"preflight": before, "call": call, "without a token": shut} {
			want := ""
			if allowed {
				want = origin
			}
			if got := res.Header.Get("Access-Control-Allow-Origin"); got != want || res.Header.Get("Access-Control-Allow-Credentials") != "" || res.Header.Get("Vary") != "Origin" {
				t.Errorf("%s of %s: HTTP %d %v", what, origin, res.StatusCode, res.Header)
			}
		}
		want := [3]int{http.StatusNoContent, http.StatusOK, http.StatusUnauthorized}
		if !allowed {
			want = [3]int{http.StatusForbidden, http.StatusForbidden, http.StatusForbidden}
		}
		if got := [3]int{before.StatusCode, call.StatusCode, shut.StatusCode}; got != want {
			t.Errorf("%s: HTTP %v, not %v", origin, got, want)
		}
		if !allowed {
			continue
		}
		for _, h := range []string{"Authorization", "Content-Type", "Last-Event-ID", "Mcp-Protocol-Version", "Mcp-Session-Id"} {
			if !strings.Contains(before.Header.Get("Access-Control-Allow-Headers"), h) {
				t.Errorf("a page may not send %s: %v", h, before.Header)
			}
		}
		for _, m := range []string{"GET", "POST", "DELETE"} {
			if !strings.Contains(before.Header.Get("Access-Control-Allow-Methods"), m) {
				t.Errorf("a page may not %s: %v", m, before.Header)
			}
		}
		if exposed := call.Header.Get("Access-Control-Expose-Headers"); !strings.Contains(exposed, "Mcp-Session-Id") {
			t.Errorf("a page cannot read its session: %q", exposed)
		}
	}
	if res := none.do("OPTIONS", "", ""); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("OPTIONS that no page sends: HTTP %d", res.StatusCode)
	}
}

// Whoever is refused for his token is told how one is shown, and nobody else is.
func TestMCPChallenge(t *testing.T) {
	url := serveHTTP(t, mcpConfig(openEmbedded(t, home(t)), ""))
	for token, want := range map[string]string{"": `Bearer realm="agentkernel"`, "wrong-token-0123456789": `Bearer realm="agentkernel", error="invalid_token"`, annToken: ""} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			body := ""
			if method == "POST" {
				body = rawHello
			}
			res := rawMCP{t, url, token}.do(method, "", body)
			if got := res.Header.Get("WWW-Authenticate"); got != want || (res.StatusCode == http.StatusUnauthorized) != (want != "") {
				t.Errorf("%s with %q: HTTP %d, %q", method, token, res.StatusCode, got)
			}
		}
	}
}
