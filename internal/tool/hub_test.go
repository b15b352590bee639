package tool_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentkernel"
	"agentkernel/internal/incoming"
	"agentkernel/internal/tool"
	"agentkernel/internal/tool/catalog"
	"agentkernel/internal/tool/tooltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newHub(t testing.TB, cfg tool.Config) *tool.Hub {
	t.Helper()
	// A busy machine takes its time: what a test says of a start is no matter of seconds unless it says how many.
	cfg.StartTimeout = cmp.Or(cfg.StartTimeout, 5*time.Minute)
	h, err := tool.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func open(t testing.TB, cfg tool.Config, servers map[string]tooltest.Server) agentkernel.ToolSource {
	t.Helper()
	src, err := newHub(t, cfg).Set([]string{tooltest.Config(t, servers)})
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func call(t testing.TB, src agentkernel.ToolSource, server, name string, args any) (string, error) {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	r, err := src.Call(context.Background(), agentkernel.ToolCall{Server: server, Tool: name, Arguments: raw})
	return string(r.Value), err
}

type obj = map[string]any

func wantCode(t testing.TB, err error, code agentkernel.Code, parts ...string) *agentkernel.Error {
	t.Helper()
	if agentkernel.CodeOf(err) != code {
		t.Fatalf("error %v has code %q, want %q", err, agentkernel.CodeOf(err), code)
	}
	e, _ := errors.AsType[*agentkernel.Error](err)
	for _, p := range parts {
		if !strings.Contains(e.GuestText(), p) {
			t.Fatalf("error %q does not say %q", e.GuestText(), p)
		}
	}
	return e
}

func TestResults(t *testing.T) {
	src := open(t, tool.Config{}, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	for _, c := range []struct {
		tool string
		args obj
		want string
	}{
		{"echo", obj{"value": obj{"a": 1}}, `"{\"a\":1}"`},
		{"add", obj{"a": 2, "b": 3}, `{"sum":5}`},
		{"numbers", obj{}, `[1,2,3]`},
		{"text_json", obj{}, `{"n":7}`},
		{"exact", obj{}, `{"$dict":[["z",1.0],["a",123456789012345678901234567890],["$ref","#/x"],["list",[{"$dict":[["$bytes","no"]]}]]]}`},
		{"image", obj{}, `[{"type":"text","text":"a dot"},{"type":"image","mimeType":"image/png","data":{"$bytes":"iVBORw0KGgo="}}]`},
		{"class", obj{"user-id": 1}, `"class {\"user-id\":1}"`},
		{"class_", obj{"user_id": 1, "from_": "x"}, `"class {\"from\":\"x\",\"user-id\":1}"`},
		{"_2fast", obj{"user_id": 1, "from": nil}, `"2fast {\"user-id\":1}"`},
		{"get_user_profile_v2", obj{"user-id": 1}, `"get_user_profile_v2 {\"user-id\":1}"`},
		{"get_user_profile_v2_2", obj{"user-id": 1}, `"get-user.profile/v2 {\"user-id\":1}"`},
	} {
		got, err := call(t, src, "test", c.tool, c.args)
		if err != nil || got != c.want {
			t.Errorf("%s%v = %s, %v; want %s", c.tool, c.args, got, err, c.want)
		}
	}
}

// The release of a server is what it said when it was started, and asking for it starts nothing.
func TestRelease(t *testing.T) {
	src := open(t, tool.Config{}, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	r, ok := src.(catalog.Releaser)
	if !ok {
		t.Fatal("the catalog cannot ask a set of servers for a release")
	}
	if got := r.Release("test") + r.Release("nobody"); got != "" {
		t.Errorf("before any start: %q", got)
	}
	if servers, err := src.Servers(t.Context()); err != nil || servers[0].Running {
		t.Errorf("asking has started it: %+v %v", servers, err)
	}
	if _, err := call(t, src, "test", "add", obj{"a": 1, "b": 2}); err != nil {
		t.Fatal(err)
	}
	if got := r.Release("test"); got != "tooltest 1" {
		t.Errorf("%q", got)
	}
	_, _ = call(t, src, "test", "crash", obj{})
	if got := r.Release("test"); got != "tooltest 1" {
		t.Errorf("after its end: %q", got)
	}
}

func TestArgumentsAreValues(t *testing.T) {
	src := open(t, tool.Config{}, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	r, err := src.Call(context.Background(), agentkernel.ToolCall{Server: "test", Tool: "echo",
		Arguments: json.RawMessage(`{"value":{"$tuple":[{"$bytes":"aGk="},{"$date":"2026-11-21"}]}}`)})
	if err != nil || string(r.Value) != `"[\"aGk=\",\"2026-11-21\"]"` {
		t.Fatalf("got %s, %v", r.Value, err)
	}
	if r.Incarnation == "" || r.NotSent {
		t.Errorf("result %+v: an incarnation is expected, and NotSent only with an error", r)
	}
}

func TestRefusals(t *testing.T) {
	src := open(t, tool.Config{}, map[string]tooltest.Server{"my-server": tooltest.Stdio(t)})
	for _, c := range []struct {
		name         string
		server, tool string
		args         string
		code         agentkernel.Code
		says         []string
	}{
		{"unknown server", "my_servr", "add", `{}`, agentkernel.CodeNotFound, []string{`no tool server "my_servr"`, "did you mean my-server?"}},
		{"unknown tool", "my_server", "append_lines", `{}`, agentkernel.CodeNotFound, []string{`no tool "append_lines"`, "did you mean append_line"}},
		{"missing", "my_server", "add", `{"a":1}`, agentkernel.CodeInvalid, []string{`argument "b" is missing`, "expected add(a: int, b: int) -> dict[str, Any]"}},
		{"unknown argument", "my-server", "add", `{"a":1,"b":2,"bb":3}`, agentkernel.CodeInvalid, []string{`no argument "bb"`, "did you mean b?"}},
		{"wrong type", "my-server", "add", `{"a":"one","b":2}`, agentkernel.CodeInvalid, []string{`argument "a" must be int, not str`, "expected add(a: int"}},
		{"null", "my-server", "add", `{"a":null,"b":2}`, agentkernel.CodeInvalid, []string{`argument "a" must be int, not None`}},
		{"wrong type of a renamed one", "my-server", "class_", `{"user_id":"x"}`, agentkernel.CodeInvalid, []string{`argument "user_id" must be int, not str`}},
		{"no number", "my-server", "echo", `{"value":{"$float":"nan"}}`, agentkernel.CodeInvalid, []string{"NaN and infinite numbers", "would reach the tool as null"}},
		{"an infinite number", "my-server", "echo", `{"value":{"$float":"-inf"}}`, agentkernel.CodeInvalid, []string{"NaN and infinite numbers"}},
		{"keys that are one", "my-server", "echo", `{"value":{"$dict":[[1,2],["1",3]]}}`, agentkernel.CodeInvalid, []string{`two keys of a dict are the same text in JSON: "1"`}},
		{"no object", "my-server", "add", `[1]`, agentkernel.CodeInvalid, []string{"must be an object"}},
		{"tool error", "my-server", "fail", `{"message":"no such order"}`, agentkernel.CodeTool, []string{"tool_error: no such order"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := src.Call(context.Background(), agentkernel.ToolCall{Server: c.server, Tool: c.tool, Arguments: json.RawMessage(c.args)})
			wantCode(t, err, c.code, c.says...)
			if want := c.code != agentkernel.CodeTool; r.NotSent != want {
				t.Errorf("NotSent = %v, want %v", r.NotSent, want)
			}
		})
	}
}

func TestServerTrouble(t *testing.T) {
	cfg := tool.Config{MaxMessage: 1 << 20, StopGrace: 50 * time.Millisecond}
	for _, c := range []struct {
		tool string
		args obj
		code agentkernel.Code
		says []string
	}{
		{"crash", nil, agentkernel.CodeUnavailable, []string{`server "test" failed at crash`, "exited with status 3", "the disk caught fire"}},
		{"garbage", nil, agentkernel.CodeUnavailable, []string{"not JSON", "Traceback (most recent call last)"}},
		{"notjson_rpc", nil, agentkernel.CodeUnavailable, []string{"no JSON-RPC message", `hello`}},
		{"floods", nil, agentkernel.CodeUnavailable, []string{"more than 1 MB to stdout that is no message"}},
		{"close_stdout", nil, agentkernel.CodeUnavailable, []string{"closed its output"}},
		{"leave_child", nil, agentkernel.CodeUnavailable, []string{"exited with status 4"}},
		{"big", obj{"mb": 2}, agentkernel.CodeAnswerLost, []string{`answered big with more than 1 MB`, "the tool ran"}},
		{"big", obj{"mb": 10}, agentkernel.CodeAnswerLost, []string{`answered big with more than 1 MB`}},
	} {
		t.Run(c.tool, func(t *testing.T) {
			t.Parallel()
			src := open(t, cfg, map[string]tooltest.Server{"test": tooltest.Stdio(t), "other": tooltest.Stdio(t)})
			if _, err := call(t, src, "other", "echo", obj{"value": 1}); err != nil {
				t.Fatal(err)
			}
			if c.args == nil {
				c.args = obj{}
			}
			raw, _ := json.Marshal(c.args)
			r, err := src.Call(context.Background(), agentkernel.ToolCall{Server: "test", Tool: c.tool, Arguments: raw})
			wantCode(t, err, c.code, c.says...)
			if r.NotSent {
				t.Error("NotSent is reported for a call that the server got")
			}
			for _, server := range []string{"test", "other"} { // restarted, undisturbed
				if got, err := call(t, src, server, "echo", obj{"value": 1}); err != nil || got != `"1"` {
					t.Errorf("%s afterwards: %s, %v", server, got, err)
				}
			}
		})
	}
}

func TestAnswerTooBigKeepsTheSession(t *testing.T) {
	src := open(t, tool.Config{MaxMessage: 1 << 20}, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	for _, want := range []string{`"1"`, `"2"`} {
		if got, err := call(t, src, "test", "counter", obj{}); err != nil || got != want {
			t.Fatalf("counter = %s, %v; want %s", got, err, want)
		}
		_, err := call(t, src, "test", "big", obj{"mb": 2})
		wantCode(t, err, agentkernel.CodeAnswerLost)
	}
}

// downloader is a command called npx that answers nothing.
func downloader(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "npx")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nwhile read -r line; do :; done\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRoomOfAnswers: what large answers hold is given back when the kernel has the result, or there is none. Beyond it a call learns
// why its answer is lost, and the session goes on.
func TestRoomOfAnswers(t *testing.T) {
	room := incoming.Exactly(12 << 20)
	web := newHTTPServer(t, nil)
	src := open(t, tool.Config{Room: room}, map[string]tooltest.Server{"test": tooltest.Stdio(t), "web": {"url": web.URL}})
	big := func(server, args string) (agentkernel.ToolResult, error) {
		return src.Call(t.Context(), agentkernel.ToolCall{Server: server, Tool: "big", Arguments: json.RawMessage(args)})
	}
	for server, args := range map[string]string{"test": `{"mb":2}`, "web": `{"n":2097152}`} {
		first, err := big(server, args)
		if err != nil || first.Done == nil || room.Used() < incoming.Copies*2<<20 {
			t.Fatalf("%s: %v, %d bytes are taken", server, err, room.Used())
		}
		_, err = big("test", `{"mb":2}`)
		wantCode(t, err, agentkernel.CodeLimit, "too much is being received at the same time", "the tool ran", "fewer at once")
		_, err = big("web", `{"n":2097152}`)
		wantCode(t, err, agentkernel.CodeLimit, "too much is being received at the same time", "the tool ran", "fewer at once")
		if first.Done(); room.Used() != 0 {
			t.Errorf("%s: %d bytes are taken", server, room.Used())
		}
		again, err := big(server, args)
		if err != nil || again.Incarnation != first.Incarnation {
			t.Fatalf("%s: %v, incarnation %s, was %s", server, err, again.Incarnation, first.Incarnation)
		}
		again.Done()
	}
}

// callee is a server over HTTP with the tool "big", whose calls it leaves to answer.
func callee(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, id json.RawMessage)) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			ID     json.RawMessage
			Method string
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&req) != nil || len(req.ID) == 0 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"slow","version":"1"}}`
		if req.Method == "tools/list" {
			result = `{"tools":[{"name":"big","inputSchema":{"type":"object"}}]}`
		}
		w.Header().Set("Content-Type", "application/json")
		if req.Method == "tools/call" {
			answer(w, r, req.ID)
			return
		}
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, req.ID, result)
	}))
	t.Cleanup(server.Close)
	return server
}

// TestASlowAnswerHoldsNoRoom beyond the time of its call.
func TestASlowAnswerHoldsNoRoom(t *testing.T) {
	sent := make(chan struct{})
	server := callee(t, func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","result":"`+strings.Repeat("x", 2<<20))
		w.(http.Flusher).Flush()
		close(sent)
		<-r.Context().Done()
	})
	room := incoming.Exactly(64 << 20)
	src := open(t, tool.Config{Room: room}, map[string]tooltest.Server{"slow": {"url": server.URL}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-sent
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for room.Used() == 0 { // it is being received
			<-tick.C
		}
		cancel()
	}()
	_, err := src.Call(ctx, agentkernel.ToolCall{Server: "slow", Tool: "big", Arguments: json.RawMessage(`{}`)})
	wantCode(t, err, agentkernel.CodeCanceled)
	eventually(t, "the room is given back", func() bool { return room.Used() == 0 })
}

// TestAnswersWithoutResultHoldNoRoom: whatever a large answer is, if there is no result in it nothing is held once the call has returned.
func TestAnswersWithoutResultHoldNoRoom(t *testing.T) {
	x := strings.Repeat("x", 2<<20)
	for _, stream := range []bool{false, true} {
		for name, answer := range map[string]string{
			"neither":              `"padding":"` + x + `"`,
			"an error":             `"error":{"code":1,"message":"` + x + `"}`,
			"both":                 `"error":{"code":1,"message":"no"},"result":"` + x + `"`,
			"no error, no result":  `"error":null,"padding":"` + x + `"`,
			"a result that is not": `"result":["` + x + `"]`,
			"a result of null":     `"result":null,"padding":"` + x + `"`,
			"to another":           `"id":77,"result":"` + x + `"`,
			"cut off":              `"result":"` + x,
			"a request of its own": `"method":"roots/list","params":{"x":"` + x + `"}`,
		} {
			var calls atomic.Int64
			server := callee(t, func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				calls.Add(1)
				body := `{"jsonrpc":"2.0","id":` + string(id) + `,` + answer + `}`
				if name == "cut off" {
					body = strings.TrimSuffix(body, "}")
				}
				if stream {
					w.Header().Set("Content-Type", "text/event-stream")
					body = "event: message\ndata: " + body + "\n\n"
				}
				_, _ = io.WriteString(w, body)
			})
			room := incoming.Exactly(64 << 20)
			src := open(t, tool.Config{Room: room, CallTimeout: time.Second}, map[string]tooltest.Server{"slow": {"url": server.URL}})
			var err error
			for tries := 0; calls.Load() == 0 && tries < 60; tries++ { // a second may be too short for a busy machine to reach the server
				var r agentkernel.ToolResult
				r, err = src.Call(t.Context(), agentkernel.ToolCall{Server: "slow", Tool: "big", Arguments: json.RawMessage(`{}`)})
				if r.Done != nil {
					r.Done()
				}
			}
			if calls.Load() == 0 {
				t.Errorf("%s, stream %t: the server was not called: %v", name, stream, err)
			}
			eventually(t, name+": the room is given back, after "+fmt.Sprint(err)[:min(60, len(fmt.Sprint(err)))], func() bool { return room.Used() == 0 })
		}
	}
}

func TestServersThatDoNotStart(t *testing.T) {
	cfg := tool.Config{StartTimeout: 300 * time.Millisecond, StopGrace: 50 * time.Millisecond}
	for _, c := range []struct {
		name  string
		entry tooltest.Server
		code  agentkernel.Code
		says  []string
	}{
		{"exits", tooltest.Stdio(t, "-no-start", "Error: DATABASE_URL is required"), agentkernel.CodeUnavailable,
			[]string{`server "test" did not start: it exited with status 1`, "DATABASE_URL is required", "mcp.json"}},
		{"hangs", tooltest.Stdio(t, "-hang-start", "-stderr", "connecting..."), agentkernel.CodeTimeout,
			[]string{"did not answer the handshake within 300ms", "connecting...", `a longer limit: "startTimeout" there`}},
		{"downloads", tooltest.Server{"command": downloader(t), "args": []string{}}, agentkernel.CodeTimeout,
			[]string{"did not answer the handshake within 300ms", "; npx may still be downloading it: run its command once by hand"}},
		{"speaks nonsense", tooltest.Stdio(t, "-bad-init"), agentkernel.CodeUnavailable, []string{"1999-01-01"}},
		{"no such command", tooltest.Server{"command": "no-such-command-xyz"}, agentkernel.CodeUnavailable,
			[]string{`there is no no-such-command-xyz on the PATH of the running kernel`}},
		{"a whole line", tooltest.Server{"command": "npx -y @scope/server"}, agentkernel.CodeUnavailable,
			[]string{`there is no program "npx -y @scope/server": "command" is the program alone, "npx", and its arguments belong in "args"`}},
		{"no such path", tooltest.Server{"command": "./nope"}, agentkernel.CodeUnavailable, []string{"does not exist"}},
		{"nothing listens", tooltest.Server{"url": "http://127.0.0.1:1/mcp"}, agentkernel.CodeUnavailable,
			[]string{`server "test" cannot be reached: connection refused (127.0.0.1:1) (see `}},
		{"no directory", tooltest.Server{"command": "sh", "cwd": "nope"}, agentkernel.CodeUnavailable, []string{"its directory (cwd) does not exist"}},
		{"disabled", tooltest.Stdio(t).With("disabled", true), agentkernel.CodeUnavailable, []string{"is disabled"}},
		{"no MCP server", tooltest.Server{"command": "echo", "args": []string{"hello"}}, agentkernel.CodeUnavailable,
			[]string{"exited with status 0", "printed to stdout:\nhello"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src := open(t, cfg, map[string]tooltest.Server{"test": c.entry})
			r, err := src.Call(context.Background(), agentkernel.ToolCall{Server: "test", Tool: "x"})
			wantCode(t, err, c.code, c.says...)
			if !r.NotSent {
				t.Error("nothing was sent, and NotSent is not reported")
			}
		})
	}
}

func TestBannerBeforeTheFirstMessage(t *testing.T) {
	src := open(t, tool.Config{}, map[string]tooltest.Server{"test": tooltest.Stdio(t, "-banner", "Server listening on stdio")})
	if got, err := call(t, src, "test", "echo", obj{"value": 1}); err != nil || got != `"1"` {
		t.Fatalf("got %s, %v", got, err)
	}
}

// TestWhatAServerPrints: a line of text among the messages ends nothing, and is told to whoever lists the servers.
func TestWhatAServerPrints(t *testing.T) {
	var log logBook
	src := open(t, tool.Config{Logger: log.logger()}, map[string]tooltest.Server{"test": tooltest.Stdio(t, "-banner", "Server listening on stdio")})
	for range 2 {
		if _, err := call(t, src, "test", "prints", obj{}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := call(t, src, "test", "echo", obj{"value": 1}); err != nil || got != `"1"` { // the first instance lives
		t.Fatalf("got %s, %v", got, err)
	}
	servers, err := src.Servers(context.Background())
	if err != nil || len(servers) != 1 {
		t.Fatalf("%v, %v", servers, err)
	}
	for _, line := range []string{"Server listening on stdio", "DEBUG looking things up", `{"level": "info"}`, "[INFO] done"} {
		if !strings.Contains(servers[0].Printed, line) {
			t.Errorf("%q is not told: %q", line, servers[0].Printed)
		}
	}
	if servers[0].Problem != "" {
		t.Errorf("a problem: %s", servers[0].Problem)
	}
	if log.line("level=WARN", "server=test", "Server listening on stdio") == "" || log.line("DEBUG looking things up") != "" {
		t.Errorf("the log has the first line and no other: %s", log.buf.String())
	}
}

// A server that is slow to start holds no other up.
func TestServersStartAtOnce(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	src := open(t, tool.Config{StopGrace: 50 * time.Millisecond},
		map[string]tooltest.Server{"slow": tooltest.Stdio(t, "-hang-start", "-start-log", starts), "quick": tooltest.Stdio(t)})
	ctx, cancel := context.WithCancel(t.Context())
	slow := make(chan error, 1)
	go func() {
		_, err := src.Tools(ctx, "slow")
		slow <- err
	}()
	eventually(t, "the slow one is on its way", func() bool {
		b, err := os.ReadFile(starts)
		return err == nil && len(b) > 0
	})
	if got, err := call(t, src, "quick", "echo", obj{"value": 1}); err != nil || got != `"1"` {
		t.Errorf("%s, %v", got, err)
	}
	select {
	case err := <-slow:
		t.Errorf("the slow one was not slow: %v", err)
	default:
	}
	cancel()
	<-slow
}

func TestCircuitOpensAfterFailuresInARow(t *testing.T) {
	now := time.Now()
	src := open(t, tool.Config{Clock: func() time.Time { return now }},
		map[string]tooltest.Server{"test": tooltest.Stdio(t, "-no-start", "out of order")})
	var err error
	for range 5 {
		_, err = call(t, src, "test", "echo", obj{"value": 1})
		wantCode(t, err, agentkernel.CodeUnavailable, "did not start")
		now = now.Add(10 * time.Second) // past every pause
	}
	now = now.Add(-10 * time.Second)
	_, err = call(t, src, "test", "echo", obj{"value": 1})
	wantCode(t, err, agentkernel.CodeUnavailable, "failed 5 times in a row", "left alone for 30s", "out of order")
	servers, err := src.Servers(context.Background())
	if err != nil || !strings.Contains(servers[0].Problem, "failed 5 times in a row") {
		t.Fatalf("servers %+v, %v", servers, err)
	}
	now = now.Add(31 * time.Second) // one more try
	_, err = call(t, src, "test", "echo", obj{"value": 1})
	wantCode(t, err, agentkernel.CodeUnavailable, "did not start")
}

// Each start after a failure waits a little longer than the one before, and a server that dies before it has answered
// any call has failed, too.
func TestPausesBetweenFailures(t *testing.T) {
	now := time.Now()
	src := open(t, tool.Config{Clock: func() time.Time { return now }, StopGrace: 50 * time.Millisecond}, map[string]tooltest.Server{
		"gone": tooltest.Stdio(t, "-no-start", "out of order"), "test": tooltest.Stdio(t)})
	for _, least := range []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond} {
		began := time.Now()
		_, err := call(t, src, "gone", "echo", obj{"value": 1})
		wantCode(t, err, agentkernel.CodeUnavailable, "did not start")
		if took := time.Since(began); took < least {
			t.Errorf("the next start came after %s, not %s", took, least)
		}
	}
	for n := range 5 {
		_, err := call(t, src, "test", "crash", obj{})
		wantCode(t, err, agentkernel.CodeUnavailable, "failed at crash")
		eventually(t, "its end is noted", func() bool {
			servers, err := src.Servers(t.Context())
			i := slices.IndexFunc(servers, func(s agentkernel.ToolServer) bool { return s.Name == "test" })
			return err == nil && (n == 0 || strings.Contains(servers[i].Problem, fmt.Sprintf("failed %d times in a row", n+1))) && servers[i].Problem != ""
		})
		now = now.Add(10 * time.Second) // past every pause
	}
	now = now.Add(-10 * time.Second)
	_, err := call(t, src, "test", "echo", obj{"value": 1})
	wantCode(t, err, agentkernel.CodeUnavailable, "failed 5 times in a row", "left alone for 30s")
}

func TestTimeoutAndCancellation(t *testing.T) {
	src := open(t, tool.Config{}, map[string]tooltest.Server{
		"test": tooltest.Stdio(t), "quick": tooltest.Stdio(t).With("timeout", "2s")})
	if _, err := call(t, src, "test", "echo", obj{"value": 1}); err != nil {
		t.Fatal(err)
	}
	r, err := src.Call(context.Background(), agentkernel.ToolCall{Server: "test", Tool: "hang", Timeout: 100 * time.Millisecond})
	wantCode(t, err, agentkernel.CodeTimeout, `server "test" did not answer hang within 100ms`)
	if r.NotSent {
		t.Error("the call was sent")
	}
	if _, err := call(t, src, "quick", "echo", obj{"value": 1}); err != nil {
		t.Fatal(err) // slow machines: the start counts, too
	}
	_, err = call(t, src, "quick", "hang", obj{})
	wantCode(t, err, agentkernel.CodeTimeout, "within 2s")
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = src.Call(ctx, agentkernel.ToolCall{Server: "test", Tool: "sleep", Arguments: json.RawMessage(`{"seconds":60}`)})
	wantCode(t, err, agentkernel.CodeCanceled)
	eventually(t, "the server hears of both cancellations", func() bool {
		got, err := call(t, src, "test", "cancelled", obj{})
		return err == nil && got == `"2"`
	})
}

// eventually waits for a condition that real processes bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

func TestConcurrencyCap(t *testing.T) {
	src := open(t, tool.Config{}, map[string]tooltest.Server{"test": tooltest.Stdio(t).With("concurrency", 1)})
	if _, err := call(t, src, "test", "echo", obj{"value": 1}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, err := src.Call(ctx, agentkernel.ToolCall{Server: "test", Tool: "hang"})
		done <- err
	}()
	var r agentkernel.ToolResult
	var err error
	eventually(t, "the hanging call holds the slot", func() bool {
		r, err = src.Call(context.Background(), agentkernel.ToolCall{Server: "test", Tool: "echo",
			Arguments: json.RawMessage(`{"value":1}`), Timeout: 50 * time.Millisecond})
		return err != nil
	})
	wantCode(t, err, agentkernel.CodeTimeout, "waiting for one of the slots", "was not sent")
	if !r.NotSent {
		t.Error("NotSent is not reported for a call that never left the queue")
	}
	cancel()
	wantCode(t, <-done, agentkernel.CodeCanceled)
	if _, err := call(t, src, "test", "echo", obj{"value": 1}); err != nil {
		t.Fatal(err)
	}
}

// TestATurnIsAfterTheStart: a call has its turn when its server runs and has said what its tools are, in the order of the calls; and one whose
// server has died since waits for its turn again.
func TestATurnIsAfterTheStart(t *testing.T) {
	src := open(t, tool.Config{}, map[string]tooltest.Server{"test": tooltest.Stdio(t).With("concurrency", 1)})
	made := time.Now()
	turns := []agentkernel.ToolTurn{src.Turn("test", "", made), src.Turn("test", "", made.Add(time.Second))}
	for _, turn := range turns {
		if turn.Ready() {
			t.Fatal("it is the turn of a call whose server does not run")
		}
	}
	if err := turns[0].Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantCode(t, turns[1].Wait(ctx), agentkernel.CodeTimeout, "the time of the call is over; it was not sent")
	c := agentkernel.ToolCall{Server: "test", Tool: "crash", HasTurn: true}
	_, err := src.Call(t.Context(), c)
	wantCode(t, err, agentkernel.CodeUnavailable)
	if r, err := src.Call(t.Context(), c); err == nil || !r.NotSent || !r.Waits {
		t.Errorf("%+v, %v", r, err)
	}
	turns[0].Drop()
	if err := turns[1].Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := src.Call(t.Context(), agentkernel.ToolCall{Server: "test", Tool: "echo", Arguments: json.RawMessage(`{"value":1}`), HasTurn: true}); err != nil {
		t.Errorf("%+v, %v", r, err)
	}
	turns[1].Drop()
	if src.Turn("none", "", made) != nil {
		t.Error("a server that is not there has places")
	}
}

func TestIncarnationsAndKeptSessions(t *testing.T) {
	src := open(t, tool.Config{}, map[string]tooltest.Server{
		"kept": tooltest.Stdio(t).With("session", "kept"), "free": tooltest.Stdio(t)})
	count := func(server, expect string) (agentkernel.ToolResult, error) {
		return src.Call(context.Background(), agentkernel.ToolCall{Server: server, Tool: "counter", Expect: expect})
	}
	first := map[string]string{}
	for _, server := range []string{"kept", "free"} {
		r, err := count(server, "")
		if err != nil {
			t.Fatal(err)
		}
		first[server] = r.Incarnation
		if r, err = count(server, r.Incarnation); err != nil || string(r.Value) != `"2"` {
			t.Fatalf("%s: %s, %v", server, r.Value, err)
		}
		_, err = call(t, src, server, "crash", obj{})
		wantCode(t, err, agentkernel.CodeUnavailable)
	}
	r, err := count("free", first["free"])
	if err != nil || string(r.Value) != `"1"` || r.Incarnation == first["free"] {
		t.Fatalf("free: %+v, %v", r, err)
	}
	r, err = count("kept", first["kept"])
	wantCode(t, err, agentkernel.CodeSessionLost, `server "kept" was restarted`)
	if !r.NotSent || r.Incarnation == "" || r.Incarnation == first["kept"] {
		t.Fatalf("kept: %+v", r)
	}
	if r, err = count("kept", r.Incarnation); err != nil || string(r.Value) != `"1"` {
		t.Fatalf("kept, afterwards: %+v, %v", r, err)
	}
}

func TestIdempotencyKeyReachesTheServer(t *testing.T) {
	src := open(t, tool.Config{}, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	path := t.TempDir() + "/lines"
	args, _ := json.Marshal(obj{"path": path, "text": "once"})
	for range 3 {
		if _, err := src.Call(context.Background(), agentkernel.ToolCall{Server: "test", Tool: "append_idempotent",
			Arguments: args, Key: "store/1/7"}); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "once\n" {
		t.Fatalf("%q, %v", b, err)
	}
}
