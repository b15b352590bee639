package tool_test

import (
	"net"
	"net/http"
	"testing"

	"agentkernel"
	"agentkernel/internal/tool/tooltest"
	"agentkernel/internal/usertest"
)

// Whoever listens at the port that a program has left is sent nothing: neither the token nor a call.
func TestPortOfProgramIsAnothers(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0"} {
		t.Run(addr, func(t *testing.T) {
			s := newHTTPServer(t, nil)
			stranger := usertest.Listen(t, "tcp", addr)
			tokens := make(chan string, 10)
			theirs := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tokens <- r.Header.Get("Authorization")
				s.Config.Handler.ServeHTTP(w, r)
			})}
			go func() { _ = theirs.Serve(stranger) }()
			defer theirs.Close()
			_, port, err := net.SplitHostPort(stranger.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			src := open(t, httpConfig(), map[string]tooltest.Server{"own": {"url": "http://127.0.0.1:" + port + "/mcp", "program": 4711,
				"headers": map[string]string{"Authorization": "Bearer of-the-program"}}})
			_, err = call(t, src, "own", "count", obj{})
			wantCode(t, err, agentkernel.CodeUnavailable, agentkernel.OfProgram)
			wantCode(t, src.(agentkernel.ToolHosts).Gone(t.Context()), agentkernel.CodeUnavailable, agentkernel.OfProgram)
			if len(tokens) > 0 || s.calls.Load() > 0 {
				t.Errorf("the stranger was sent %q and %d calls", <-tokens, s.calls.Load())
			}
		})
	}
}

// A server of the tools file at a port of this machine that another user has is sent no headers, and no call; one without headers is asked,
// since there is nothing in it that is for one server alone.
func TestPortOfServerIsAnothers(t *testing.T) {
	s := newHTTPServer(t, nil)
	stranger := usertest.Listen(t, "tcp", "127.0.0.1:0")
	keys := make(chan string, 100)
	theirs := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys <- r.Header.Get("Authorization") + r.URL.RawQuery
		s.Config.Handler.ServeHTTP(w, r)
	})}
	go func() { _ = theirs.Serve(stranger) }()
	defer theirs.Close()
	url := "http://" + stranger.Addr().String() + "/mcp"
	for name, server := range map[string]tooltest.Server{
		"a header":  {"url": url, "headers": map[string]string{"Authorization": "Bearer of-the-server"}},
		"its query": {"url": url + "?key=of-the-server"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := open(t, httpConfig(), map[string]tooltest.Server{"own": server}).Call(t.Context(), agentkernel.ToolCall{Server: "own", Tool: "count"})
			e := wantCode(t, err, agentkernel.CodeUnavailable, `server "own" was sent nothing, since there may be a key in its headers or url`, "another user of this machine (uid 54321) listens at "+stranger.Addr().String())
			if !r.NotSent || e.Hint == "" || len(keys) > 0 {
				t.Errorf("not sent %v, hint %q; %d requests", r.NotSent, e.Hint, len(keys))
			}
		})
	}
	if got, err := call(t, open(t, httpConfig(), map[string]tooltest.Server{"own": {"url": url}}), "own", "count", obj{}); err != nil {
		t.Errorf("without a key: %s, %v", got, err)
	}
}
