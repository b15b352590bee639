package tool_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/internal/tool"
	"agentkernel/internal/tool/tooltest"
)

// httpServer is an MCP server over streamable HTTP in the test's own process.
type httpServer struct {
	*httptest.Server
	handler atomic.Value // http.Handler of the MCP server; replaced to make it forget its sessions
	calls   atomic.Int64
	refuse  atomic.Int64 // answer every POST with this status
	headers atomic.Value // http.Header of the last request
	over    chan struct{}
	t       *testing.T
}

type num struct {
	N float64 `json:"n"`
}

func newHTTPServer(t *testing.T, opts *mcp.StreamableHTTPOptions) *httpServer {
	s := &httpServer{t: t, over: make(chan struct{})}
	s.forget(opts)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.headers.Store(r.Header.Clone())
		if code := s.refuse.Load(); code != 0 {
			w.WriteHeader(int(code))
			return
		}
		s.handler.Load().(http.Handler).ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(s.over) })
	return s
}

// forget puts a new MCP server in place, which knows no session.
func (s *httpServer) forget(opts *mcp.StreamableHTTPOptions) {
	server := mcp.NewServer(&mcp.Implementation{Name: "h", Version: "1"}, nil)
	count := 0
	mcp.AddTool(server, &mcp.Tool{Name: "count", Description: "Counts."},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			count++
			s.calls.Add(1)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Repeat("i", count)}}}, nil, nil
		})
	server.AddTool(&mcp.Tool{Name: "exact", InputSchema: json.RawMessage(`{"type":"object"}`),
		OutputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: json.RawMessage(`{"z":1.0,"a":12345678901234567890}`)}, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "big"},
		func(_ context.Context, _ *mcp.CallToolRequest, in num) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Repeat("x", int(in.N))}}}, nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "hang"},
		func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			select {
			case <-ctx.Done():
			case <-s.over: // a stateless server does not hear of cancellations
			}
			return nil, nil, errors.New("hung")
		})
	mcp.AddTool(server, &mcp.Tool{Name: "fail"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "no stock"}}}, nil, nil
		})
	s.t.Cleanup(func() { // sessions that no DELETE reached
		for session := range server.Sessions() {
			_ = session.Close()
		}
	})
	s.handler.Store(http.Handler(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, opts)))
}

func (s *httpServer) entry() tooltest.Server {
	return tooltest.Server{"url": s.URL + "/mcp", "headers": map[string]string{"Authorization": "Bearer ${env:MCP_TOKEN}"}}
}

func httpConfig() tool.Config {
	return tool.Config{MaxMessage: 1 << 20, LookupEnv: func(k string) (string, bool) {
		return map[string]string{"MCP_TOKEN": "token-that-nobody-may-see"}[k], k == "MCP_TOKEN"
	}}
}

func TestHTTP(t *testing.T) {
	for name, opts := range map[string]*mcp.StreamableHTTPOptions{
		"sse": nil, "json": {JSONResponse: true}, "stateless": {Stateless: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHTTPServer(t, opts)
			src := open(t, httpConfig(), map[string]tooltest.Server{"web": s.entry()})
			if got, err := call(t, src, "web", "exact", obj{}); err != nil || got != `{"z":1.0,"a":12345678901234567890}` {
				t.Fatalf("exact = %s, %v", got, err)
			}
			if got := s.headers.Load().(http.Header).Get("Authorization"); got != "Bearer token-that-nobody-may-see" {
				t.Errorf("Authorization = %q", got)
			}
			_, err := call(t, src, "web", "fail", obj{})
			wantCode(t, err, agentkernel.CodeTool, "no stock")
			_, err = call(t, src, "web", "big", obj{"n": 2 << 20})
			wantCode(t, err, agentkernel.CodeAnswerLost, "answered big with more than 1 MB", "the tool ran")
			if got, err := call(t, src, "web", "count", obj{}); err != nil || got != `"i"` {
				t.Fatalf("afterwards: %s, %v", got, err)
			}
			r, err := src.Call(context.Background(), agentkernel.ToolCall{Server: "web", Tool: "hang", Timeout: 100 * time.Millisecond})
			wantCode(t, err, agentkernel.CodeTimeout, "within 100ms")
			if r.NotSent {
				t.Error("the call was sent")
			}
		})
	}
}

func TestHTTPSessionForgotten(t *testing.T) {
	s := newHTTPServer(t, nil)
	src := open(t, httpConfig(), map[string]tooltest.Server{"free": s.entry(), "kept": s.entry().With("session", "kept")})
	incarnation := map[string]string{}
	for _, server := range []string{"free", "kept"} {
		r, err := src.Call(context.Background(), agentkernel.ToolCall{Server: server, Tool: "count"})
		if err != nil {
			t.Fatal(err)
		}
		incarnation[server] = r.Incarnation
	}
	s.forget(nil)
	before := s.calls.Load()
	r, err := src.Call(context.Background(), agentkernel.ToolCall{Server: "free", Tool: "count", Expect: incarnation["free"]})
	if err != nil || string(r.Value) != `"i"` || s.calls.Load() != before+1 || r.Incarnation == incarnation["free"] {
		t.Fatalf("a session that the server forgot is not made anew: %+v, %v, %d calls", r, err, s.calls.Load()-before)
	}
	r, err = src.Call(context.Background(), agentkernel.ToolCall{Server: "kept", Tool: "count", Expect: incarnation["kept"]})
	wantCode(t, err, agentkernel.CodeSessionLost)
	if !r.NotSent {
		t.Error("nothing was sent")
	}
}

// A server that answers every call with 404 has not forgotten a session: the call is made once more, in a new one, and
// servers that do nothing else are left alone for a while as those that die.
func TestHTTPNotFoundIsNotAskedForEver(t *testing.T) {
	s := newHTTPServer(t, nil)
	var calls, sessions atomic.Int64
	lost := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch {
		case bytes.Contains(body, []byte(`"tools/call"`)):
			calls.Add(1)
			w.WriteHeader(http.StatusNotFound)
			return
		case bytes.Contains(body, []byte(`"initialize"`)):
			sessions.Add(1)
		}
		s.handler.Load().(http.Handler).ServeHTTP(w, r)
	}))
	t.Cleanup(lost.Close)
	src := open(t, httpConfig(), map[string]tooltest.Server{"web": {"url": lost.URL}})
	for range 2 {
		before, begun := calls.Load(), sessions.Load()
		r, err := src.Call(context.Background(), agentkernel.ToolCall{Server: "web", Tool: "count", Timeout: 5 * time.Second})
		e := wantCode(t, err, agentkernel.CodeUnavailable, `server "web" answered count with HTTP 404, in a new session, too`)
		if sent, new := calls.Load()-before, sessions.Load()-begun; sent != 2 || new != 2 || !r.NotSent || e.Hint == "" {
			t.Errorf("sent %d times in %d sessions, NotSent %t, hint %q", sent, new, r.NotSent, e.Hint)
		}
	}
	before := calls.Load()
	_, err := call(t, src, "web", "count", obj{})
	wantCode(t, err, agentkernel.CodeUnavailable, "failed 5 times in a row", "HTTP 404")
	if sent := calls.Load() - before; sent != 1 {
		t.Errorf("sent %d times", sent)
	}
}

func TestHTTPTrouble(t *testing.T) {
	s := newHTTPServer(t, nil)
	src := open(t, httpConfig(), map[string]tooltest.Server{"web": s.entry()})
	if _, err := call(t, src, "web", "count", obj{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status  int64
		notSent bool
		says    string
	}{{401, true, "refused access (HTTP 401)"}, {403, true, "refused access (HTTP 403)"}, {405, true, "did not answer count"}, {429, true, "did not answer count"}, {500, false, "did not answer count"}, {400, false, "did not answer count"}} {
		t.Run(http.StatusText(int(c.status)), func(t *testing.T) {
			s.refuse.Store(0)
			if _, err := call(t, src, "web", "exact", obj{}); err != nil {
				t.Fatal(err)
			}
			s.refuse.Store(c.status)
			r, err := src.Call(context.Background(), agentkernel.ToolCall{Server: "web", Tool: "count"})
			e := wantCode(t, err, agentkernel.CodeUnavailable, c.says)
			if r.NotSent != c.notSent {
				t.Errorf("NotSent = %v", r.NotSent)
			}
			if strings.Contains(e.GuestText(), "nobody-may-see") {
				t.Errorf("the token is in the error: %s", e.GuestText())
			}
		})
	}
	s.refuse.Store(0)
	eventually(t, "the server answers again", func() bool {
		_, err := call(t, src, "web", "count", obj{})
		return err == nil
	})
}

// An answer to another request is none.
func TestHTTPAnswerToAnotherRequest(t *testing.T) {
	for _, media := range []string{"application/json", "text/event-stream"} {
		t.Run(media, func(t *testing.T) {
			far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var m struct {
					ID     json.RawMessage `json:"id"`
					Method string          `json:"method"`
					Params struct {
						ProtocolVersion string          `json:"protocolVersion"`
						Arguments       map[string]bool `json:"arguments"`
					} `json:"params"`
				}
				if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
					w.WriteHeader(map[bool]int{true: http.StatusAccepted, false: http.StatusMethodNotAllowed}[r.Method == http.MethodPost])
					return
				}
				result := map[string]string{
					"initialize": fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"f","version":"1"}}`, m.Params.ProtocolVersion),
					"tools/list": `{"tools":[{"name":"w","inputSchema":{"type":"object","properties":{"wrong":{"type":"boolean"}}}}]}`,
					"tools/call": `{"content":[{"type":"text","text":"done"}]}`,
				}[m.Method]
				if m.Params.Arguments["wrong"] {
					m.ID = json.RawMessage("999")
				}
				answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, cmp.Or(result, "{}"))
				w.Header().Set("Content-Type", media)
				if media == "text/event-stream" {
					answer = "event: message\ndata: " + answer + "\n\n"
				}
				_, _ = io.WriteString(w, answer)
			}))
			t.Cleanup(far.Close)
			src := open(t, httpConfig(), map[string]tooltest.Server{"far": {"url": far.URL}})
			if got, err := call(t, src, "far", "w", obj{"wrong": false}); err != nil || got != `"done"` {
				t.Fatal(got, err)
			}
			r, err := src.Call(t.Context(), agentkernel.ToolCall{Server: "far", Tool: "w", Arguments: json.RawMessage(`{"wrong":true}`)})
			wantCode(t, err, agentkernel.CodeUnavailable, "did not answer w")
			if r.NotSent {
				t.Error("it was sent")
			}
		})
	}
}

func TestHTTPCannotBeReached(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>hello</html>"))
	}))
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("a request with headers %v followed a redirect to another host", r.Header)
	}))
	redirect := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client left
		<-r.Context().Done()
	}))
	for _, s := range []*httptest.Server{page, elsewhere, redirect, silent} {
		t.Cleanup(s.Close)
	}
	gone.Close()
	cfg := httpConfig()
	cfg.StartTimeout = 300 * time.Millisecond
	for _, c := range []struct {
		name, url string
		code      agentkernel.Code
		says      string
	}{
		{"nobody listens", gone.URL, agentkernel.CodeUnavailable, "connection refused"},
		{"a web page", page.URL, agentkernel.CodeUnavailable, "text/html"},
		{"another host", redirect.URL, agentkernel.CodeUnavailable, "redirects to another host"},
		{"silence", silent.URL, agentkernel.CodeTimeout, "did not answer the handshake within 300ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := open(t, cfg, map[string]tooltest.Server{"web": {"url": c.url, "headers": map[string]string{"X-Api-Key": "k-0123456789"}}})
			r, err := src.Call(context.Background(), agentkernel.ToolCall{Server: "web", Tool: "x"})
			e := wantCode(t, err, c.code, `server "web"`, c.says)
			if !r.NotSent || strings.Contains(e.GuestText(), "k-0123456789") {
				t.Errorf("NotSent %v, %s", r.NotSent, e.GuestText())
			}
		})
	}
}

// A server that opens the stream of notifications only when there is something to say must not delay calls.
func TestHTTPStreamNeverOpens(t *testing.T) {
	s := newHTTPServer(t, nil)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		s.handler.Load().(http.Handler).ServeHTTP(w, r)
	}))
	t.Cleanup(slow.Close)
	src := open(t, httpConfig(), map[string]tooltest.Server{"web": {"url": slow.URL}})
	if got, err := call(t, src, "web", "count", obj{}); err != nil || got != `"i"` {
		t.Fatalf("%s, %v", got, err)
	}
}
