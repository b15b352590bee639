package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/client"
	"agentkernel/internal/api"
	"agentkernel/internal/api/wire"
)

// ask speaks HTTP to a served kernel as curl would.
func (s *served) ask(t *testing.T, method, path string, body string, header ...string) *http.Response {
	t.Helper()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.socket)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), method, "http://k"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func readError(t *testing.T, resp *http.Response) *agentkernel.Error {
	t.Helper()
	e := &agentkernel.Error{}
	if err := json.NewDecoder(resp.Body).Decode(e); err != nil {
		t.Fatalf("%s: the error is not JSON: %v", resp.Status, err)
	}
	return e
}

func TestBadRequests(t *testing.T) {
	s := serve(t, api.Config{})
	const processes, one = "/api/v1/processes", "/api/v1/processes/1"
	if _, err := s.kernel.Spawn(t.Context(), spec("print")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, method, path, body string
		status                   int
		code                     agentkernel.Code
		says                     string // in message or hint
	}{
		{"no such path", "GET", "/api/v1/proceses", "", 404, agentkernel.CodeNotFound, "nearest: /api/v1/processes"},
		{"outside the API", "GET", "/", "", 404, agentkernel.CodeNotFound, "docs/api.md lists all: all begin with /api/v1/"},
		{"the API itself", "GET", "/api/v1/", "", 404, agentkernel.CodeNotFound, "docs/api.md lists all: all begin with /api/v1/"},
		{"a short path", "GET", "/api/v1/procs", "", 404, agentkernel.CodeNotFound, "nearest: /api/v1/processes"},
		{"wrong method", "DELETE", processes, "", 405, agentkernel.CodeInvalid, "GET or POST"},
		{"wrong method below", "GET", one + "/signal", "", 405, agentkernel.CodeInvalid, "POST"},
		{"not a pid", "GET", processes + "/x", "", 400, agentkernel.CodeInvalid, "whole numbers"},
		{"pid of nobody", "GET", processes + "/99", "", 404, agentkernel.CodeNotFound, "no process 99"},
		{"a huge pid", "GET", processes + "/" + strings.Repeat("9", 2000), "", 400, agentkernel.CodeInvalid, "..."},
		{"empty body", "POST", processes, "", 400, agentkernel.CodeInvalid, "empty"},
		{"null for a process", "POST", processes, " null\n", 400, agentkernel.CodeInvalid, "the body is null"},
		{"nanoseconds", "POST", processes, `{"limits":{"time":5000000000}}`, 400, agentkernel.CodeInvalid, `limits.time must be a text such as "5s", not a number`},
		{"not JSON", "POST", processes, "{program}", 400, agentkernel.CodeInvalid, "line 1, column 2: a name in double quotes should be here"},
		{"half a JSON", "POST", processes, `{"program":`, 400, agentkernel.CodeInvalid, "ends too early"},
		{"two JSONs", "POST", processes, `{"program":{"source":"print"}} {}`, 400, agentkernel.CodeInvalid, "follows"},
		{"an array", "POST", processes, `[]`, 400, agentkernel.CodeInvalid, "must be an object, not a list"},
		{"unknown field", "POST", processes, `{"programm":{}}`, 400, agentkernel.CodeInvalid, "did you mean program?"},
		{"field in another case", "POST", processes, `{"program":{"source":"1"},"ALLOW":["x"]}`, 400, agentkernel.CodeInvalid, "did you mean allow?"},
		{"nested field in another case", "POST", processes, `{"program":{"source":"1"},"limits":{"Calls":1}}`, 400, agentkernel.CodeInvalid, `no field "Calls" in limits`},
		{"in another case beside itself", "POST", processes, `{"program":{"source":"1"},"idempotency_key":"a","Idempotency_Key":"b"}`, 400, agentkernel.CodeInvalid, `no field "Idempotency_Key"`},
		{"field twice", "POST", processes, `{"program":{"source":"1"},"allow":[],"allow":["x"]}`, 400, agentkernel.CodeInvalid, `the field "allow" is there twice`},
		{"nested field twice", "POST", processes, `{"program":{"source":"1","source":"2"}}`, 400, agentkernel.CodeInvalid, `twice in program`},
		{"field of a list twice", "POST", processes, `{"program":{"source":"1"},"volumes":[{"name":"a","name":"b"}]}`, 400, agentkernel.CodeInvalid, `twice in volumes[0]`},
		{"module twice", "POST", processes, `{"program":{"source":"1","modules":{"a":"1","a":"2"}}}`, 400, agentkernel.CodeInvalid, `twice in program.modules`},
		{"half a character", "POST", processes, `{"program":{"source":"1","name":"\ud800"}}`, 400, agentkernel.CodeInvalid, "half of a character"},
		{"field that belongs elsewhere", "POST", processes, `{"program":{"source":"1"},"args":["a"]}`, 400, agentkernel.CodeInvalid, "did you mean program.args?"},
		{"unknown nested field", "POST", processes, `{"limits":{"memroy":1}}`, 400, agentkernel.CodeInvalid, "did you mean memory?"},
		{"wrong type", "POST", processes, `{"limits":{"memory":"1G"}}`, 400, agentkernel.CodeInvalid, "limits.memory must be a whole number, not a string"},
		{"bad duration", "POST", processes, `{"limits":{"time":"soon"}}`, 400, agentkernel.CodeInvalid, "500ms"},
		{"not UTF-8", "POST", processes, "{\"program\":{\"source\":\"\xff\"}}", 400, agentkernel.CodeInvalid, "UTF-8"},
		{"deep", "POST", processes, strings.Repeat(`{"program":`, 20000), 400, agentkernel.CodeInvalid, "nested more than 10,000 deep"},
		{"too large", "POST", processes, `{"program":{"source":"` + strings.Repeat("x", wire.MaxBody) + `"}}`, 400, agentkernel.CodeInvalid, "64 MiB"},
		{"syntax error", "POST", processes, `{"program":{"source":""}}`, 400, agentkernel.CodeSyntax, "write something"},
		{"syntax error, followed", "POST", processes + "?follow=true", `{"program":{"source":""}}`, 400, agentkernel.CodeSyntax, "write something"},
		{"a defect", "POST", processes, `{"program":{"source":"panic"}}`, 500, agentkernel.CodeInternal, "defect"},
		{"a defect, followed", "POST", processes + "?follow=1", `{"program":{"source":"panic"}}`, 500, agentkernel.CodeInternal, "defect"},
		{"unknown parameter", "POST", processes + "?folow=true", `{}`, 400, agentkernel.CodeInvalid, "did you mean follow?"},
		{"parameter twice", "GET", processes + "?limit=1&limit=2", "", 400, agentkernel.CodeInvalid, `the parameter "limit" is there twice`},
		{"unknown parameter where none is", "GET", one + "?x=1", "", 400, agentkernel.CodeInvalid, "no parameter"},
		{"bad flag", "GET", processes + "?unfinished=perhaps", "", 400, agentkernel.CodeInvalid, "true or false"},
		{"bad number", "GET", processes + "?limit=-1", "", 400, agentkernel.CodeInvalid, "0 or more"},
		{"bad query", "GET", processes + "?limit=%zz", "", 400, agentkernel.CodeInvalid, "query"},
		{"bad timeout", "GET", one + "/wait?timeout=3", "", 400, agentkernel.CodeInvalid, "500ms"},
		{"bad signal", "POST", one + "/signal", `{"signal":"hup"}`, 400, agentkernel.CodeInvalid, "interrupt, stop, user, pause, resume or kill"},
		{"bad answer", "POST", one + "/answers", `{"ask":1,"answer":"maybe"}`, 400, agentkernel.CodeInvalid, "yes, always or no"},
		{"bad recover", "POST", "/api/v1/recover", `{"pid":-1}`, 400, agentkernel.CodeInvalid, "0 means all"},
		{"import of no recording", "POST", "/api/v1/import", "", 400, agentkernel.CodeCorrupt, "nothing"},
		{"replay of no recording", "POST", "/api/v1/replay", "", 400, agentkernel.CodeCorrupt, "nothing"},
		{"events of nobody", "GET", processes + "/99/events?follow=true", "", 404, agentkernel.CodeNotFound, "no process 99"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp := s.ask(t, tc.method, tc.path, tc.body)
			e := readError(t, resp)
			if resp.StatusCode != tc.status || e.Code != tc.code || !strings.Contains(e.Message()+" | "+e.Hint, tc.says) {
				t.Errorf("%d %s: %s | %s; want %d %s with %q", resp.StatusCode, e.Code, e.Message(), e.Hint, tc.status, tc.code, tc.says)
			}
			if len(e.Message()) > 500 {
				t.Errorf("what was sent comes back at length: %d bytes", len(e.Message()))
			}
			if resp.Header.Get("AgentKernel-Version") != "1.0" || resp.Header.Get("AgentKernel-API") != "1" {
				t.Errorf("headers: %v", resp.Header)
			}
		})
	}
	if _, err := s.dial(t).Info(t.Context()); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

func TestVersionsMustMatch(t *testing.T) {
	s := serve(t, api.Config{Version: "2.0"})
	for _, tc := range []struct {
		name   string
		header []string
		ok     bool
		says   string
	}{
		{"nothing said", nil, true, ""},
		{"the same", []string{wire.HeaderAPI, "1", wire.HeaderVersion, "2.0"}, true, ""},
		{"same API, version not insisted on", []string{wire.HeaderAPI, "1"}, true, ""},
		{"another version", []string{wire.HeaderAPI, "1", wire.HeaderVersion, "1.9"}, false, "this is agentkernel 1.9, and the kernel"},
		{"another API", []string{wire.HeaderAPI, "2", wire.HeaderVersion, "3.0"}, false, "agentkernel 3.0 (API 2), and the kernel that runs on this data directory is agentkernel 2.0 (API 1)"},
		{"another API, nameless", []string{wire.HeaderAPI, "7"}, false, "(API 7)"},
	} {
		resp := s.ask(t, "GET", "/api/v1/processes", "", tc.header...)
		if tc.ok {
			if resp.StatusCode != 200 {
				t.Errorf("%s: %s", tc.name, resp.Status)
			}
			continue
		}
		if e := readError(t, resp); resp.StatusCode != 426 || e.Code != agentkernel.CodeVersion ||
			!strings.Contains(e.Message(), tc.says) || !strings.Contains(e.Hint, "agentkernel shutdown") {
			t.Errorf("%s: %s, %v | %s", tc.name, resp.Status, e, e.Hint)
		}
	}
	if resp := s.ask(t, "GET", "/api/v1/info", "", wire.HeaderAPI, "one"); resp.StatusCode != 400 {
		t.Errorf("API version that is no number: %s", resp.Status)
	}

	_, err := client.Dial(t.Context(), client.Options{Socket: s.socket, Version: "1.9"})
	if agentkernel.CodeOf(err) != agentkernel.CodeVersion || !strings.Contains(err.Error(), "1.9") || !strings.Contains(err.Error(), "2.0") {
		t.Errorf("Dial with another version: %v", err)
	}
	c, err := client.Dial(t.Context(), client.Options{Socket: s.socket, Version: "1.9", AnyVersion: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Info(t.Context()); err != nil {
		t.Errorf("Info with any version: %v", err)
	}
	_ = c.Close()
	// The way out of a mismatch works across versions.
	if resp := s.ask(t, "POST", "/api/v1/shutdown", "", wire.HeaderAPI, "9", wire.HeaderVersion, "9.9"); resp.StatusCode != 202 {
		t.Errorf("shutdown by another version: %s", resp.Status)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

func TestEventsOnTheWire(t *testing.T) {
	s := serve(t, api.Config{})
	resp := s.ask(t, "POST", "/api/v1/processes?follow=true", `{"program":{"name":"p","source":"print <a>\nprint b"}}`)
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%v, %v", resp.Header, err)
	}
	var names, ids []string
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "event: "); ok {
			names = append(names, strings.TrimSpace(v))
		}
		if v, ok := strings.CutPrefix(line, "id: "); ok {
			ids = append(ids, strings.TrimSpace(v))
		}
	}
	if got := strings.Join(names, " ") + " / " + strings.Join(ids, " "); got != "created output output end done / 1 2 3 4" {
		t.Errorf("stream: %s\n%s", got, b)
	}
	if !bytes.Contains(b, []byte(`"text":"<a>\n"`)) {
		t.Errorf("text was changed: %s", b)
	}

	for last, want := range map[string]int{"0": 4, "2": 2, "4": 0} {
		resp := s.ask(t, "GET", "/api/v1/processes/1/events?from=1", "", "Last-Event-ID", last)
		b, err := io.ReadAll(resp.Body)
		if got := bytes.Count(b, []byte("id: ")); err != nil || got != want {
			t.Errorf("behind event %s: %d events, want %d; %v", last, got, want, err)
		}
	}
	if resp := s.ask(t, "GET", "/api/v1/processes/1/events", "", "Last-Event-ID", "x"); resp.StatusCode != 400 {
		t.Errorf("bad Last-Event-ID: %s", resp.Status)
	}
}

func TestAStreamWithoutEventsHasAStatus(t *testing.T) {
	s := serve(t, api.Config{})
	if _, err := s.kernel.Spawn(t.Context(), spec("block")); err != nil {
		t.Fatal(err)
	}
	// The answer's header comes although nothing happens; else ask would not return.
	resp := s.ask(t, "GET", "/api/v1/processes/1/events?from=100&follow=true", "")
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if resp.StatusCode != 200 || line != ":\n" || err != nil {
		t.Errorf("%s, %q, %v", resp.Status, line, err)
	}
}

func TestWaitWithATimeout(t *testing.T) {
	s := serve(t, api.Config{})
	if _, err := s.kernel.Spawn(t.Context(), spec("block")); err != nil {
		t.Fatal(err)
	}
	for _, timeout := range []string{"5ms", "0", "0s"} { // 0 is at once, and not for ever
		resp := s.ask(t, "GET", "/api/v1/processes/1/wait?timeout="+timeout, "")
		var p agentkernel.Process
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil || resp.StatusCode != 200 || p.State != agentkernel.StateRunning {
			t.Errorf("%s: %s, %+v, %v", timeout, resp.Status, p, err)
		}
	}
}

func TestAProcessGoesOnWithoutItsCaller(t *testing.T) {
	s := serve(t, api.Config{})
	c := s.dial(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.Run(ctx, spec("print a\npause\nprint b\nblock"), func(ev agentkernel.Event) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	err = c.Signal(t.Context(), 1, agentkernel.SignalResume)
	if err != nil {
		t.Fatal(err)
	}
	err = c.Events(ctx, 1, 0, true, func(ev agentkernel.Event) error {
		if ev.Text == "b\n" {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || agentkernel.CodeOf(err) != agentkernel.CodeCanceled {
		t.Errorf("Events with an ended context: %v", err)
	}
	<-s.kernel.gone // the kernel was told that the caller left
	if p, err := c.Process(t.Context(), 1); err != nil || p.State != agentkernel.StateRunning {
		t.Errorf("the process: %+v, %v", p, err)
	}
	// A deadline may pass before the request is on its way, of which the kernel learns nothing.
	for patience := time.Millisecond; ; patience *= 2 {
		short, done := context.WithTimeout(t.Context(), patience)
		_, err := c.Wait(short, 1)
		done()
		if !errors.Is(err, context.DeadlineExceeded) || agentkernel.CodeOf(err) != agentkernel.CodeTimeout {
			t.Fatalf("Wait with a deadline of %v: %v", patience, err)
		}
		select {
		case <-s.kernel.gone:
			return
		default:
		}
	}
}

func TestShutdownTellsTheWatchers(t *testing.T) {
	s := serve(t, api.Config{})
	c := s.dial(t)
	watching := make(chan struct{})
	results := make(chan error, 2)
	go func() {
		_, err := c.Run(t.Context(), spec("print a\nblock"), func(ev agentkernel.Event) error {
			if ev.Kind == agentkernel.EventOutput {
				close(watching)
			}
			return nil
		})
		results <- err
	}()
	<-watching
	go func() { _, err := c.Wait(t.Context(), 1); results <- err }()
	if err := client.Stop(t.Context(), s.socket); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-results; agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
			t.Errorf("a watcher was told %v", err)
		}
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	if _, err := c.Info(t.Context()); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
		t.Errorf("a call to an ended kernel: %v", err)
	}
	if err := client.Stop(t.Context(), s.socket); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
		t.Errorf("stopping it again: %v", err)
	}
}

func TestServeEndsWhenIdle(t *testing.T) {
	s := serve(t, api.Config{IdleAfter: 10 * time.Millisecond})
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	<-s.server.Idle()
}
