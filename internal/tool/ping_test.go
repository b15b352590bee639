package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/tool"
	"agentkernel/internal/tool/tooltest"
)

// logBook is a log that is read while it is written.
type logBook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// line is the first line with all the parts, "" if there is none.
func (l *logBook) line(parts ...string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for line := range strings.Lines(l.buf.String()) {
		for _, p := range parts {
			if !strings.Contains(line, p) {
				continue next
			}
		}
		return line
	}
	return ""
}

func (l *logBook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// started are the processes that a server with -start-log was so far.
func started(t testing.TB, log string) []int {
	t.Helper()
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for field := range strings.FieldsSeq(string(b)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// A server whose process hangs would keep each later call for its whole time.
func TestAServerThatHangsIsReplaced(t *testing.T) {
	var log logBook
	starts := filepath.Join(t.TempDir(), "starts")
	src := open(t, tool.Config{PingTimeout: 500 * time.Millisecond, StopGrace: 50 * time.Millisecond, Logger: log.logger()},
		map[string]tooltest.Server{"test": tooltest.Stdio(t, "-start-log", starts, "-stderr", "waiting for a lock")})
	first, err := src.Call(t.Context(), agentkernel.ToolCall{Server: "test", Tool: "counter"})
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		r   agentkernel.ToolResult
		err error
	}
	patient := make(chan answer, 1) // it has two minutes
	go func() {
		r, err := src.Call(t.Context(), agentkernel.ToolCall{Server: "test", Tool: "freeze"})
		patient <- answer{r, err}
	}()
	var got answer
	eventually(t, "the call that hangs fails, because the server does not answer a ping", func() bool {
		_, _ = src.Call(t.Context(), agentkernel.ToolCall{Server: "test", Tool: "echo", Arguments: json.RawMessage(`{"value":1}`), Timeout: 300 * time.Millisecond})
		select {
		case got = <-patient:
			return true
		default:
			return false
		}
	})
	wantCode(t, got.err, agentkernel.CodeUnavailable, `server "test" failed at freeze`, "did not answer a ping within 500ms", "waiting for a lock")
	if got.r.NotSent || got.r.Incarnation != first.Incarnation {
		t.Errorf("the call was sent to %s: %+v", first.Incarnation, got.r)
	}
	next, err := src.Call(t.Context(), agentkernel.ToolCall{Server: "test", Tool: "counter"})
	if err != nil || string(next.Value) != `"1"` || next.Incarnation == first.Incarnation {
		t.Errorf("the next call: %+v, %v", next, err)
	}
	pids := started(t, starts)
	eventually(t, "the process that hangs is killed", func() bool { return gone(pids[0]) })
	for _, want := range [][]string{
		{"level=WARN", "timed out", "server=test", "tool=echo", "after="},
		{"level=WARN", "it is killed", "server=test", "tool=echo", "ping=500ms", first.Incarnation},
	} {
		if log.line(want...) == "" {
			t.Errorf("no line of the log has %q:\n%s", want, log.buf.String())
		}
	}
}

// A slow tool is no reason to kill its server, nor is a program that leaves one to ask it.
func TestAServerThatAnswersPingsIsLeftAlone(t *testing.T) {
	var log logBook
	src := open(t, tool.Config{PingTimeout: 30 * time.Second, Logger: log.logger()}, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	first, err := src.Call(t.Context(), agentkernel.ToolCall{Server: "test", Tool: "counter"})
	if err != nil {
		t.Fatal(err)
	}
	pings := func(want string) func() bool {
		return func() bool {
			got, err := call(t, src, "test", "pings", obj{})
			return err == nil && got == want
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = src.Call(ctx, agentkernel.ToolCall{Server: "test", Tool: "hang"})
	wantCode(t, err, agentkernel.CodeCanceled)
	eventually(t, "the server hears of the cancellation", func() bool {
		got, err := call(t, src, "test", "cancelled", obj{})
		return err == nil && got == `"1"`
	})
	for _, want := range []string{`"1"`, `"2"`} { // the first for the first call that timed out
		_, err = src.Call(t.Context(), agentkernel.ToolCall{Server: "test", Tool: "hang", Timeout: 50 * time.Millisecond})
		wantCode(t, err, agentkernel.CodeTimeout)
		eventually(t, "a ping, and no other", pings(want))
	}
	// As the kernel limits calls: by the time of their context.
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = src.Call(ctx, agentkernel.ToolCall{Server: "test", Tool: "hang"})
	wantCode(t, err, agentkernel.CodeTimeout)
	eventually(t, "a third ping", pings(`"3"`))
	next, err := src.Call(t.Context(), agentkernel.ToolCall{Server: "test", Tool: "counter"})
	if err != nil || next.Incarnation != first.Incarnation || string(next.Value) != `"2"` {
		t.Errorf("afterwards: %+v, %v", next, err)
	}
	if got, err := call(t, src, "test", "pings", obj{}); err != nil || got != `"3"` {
		t.Errorf("%s pings for three calls that timed out and one that was cancelled, %v", got, err)
	}
	if line := log.line("killed"); line != "" {
		t.Error(line)
	}
}

// A server that works on one call at a time answers a ping when its turn comes: the calls that it has before that
// do not fail because one that waited behind others timed out.
func TestABusyServerIsLeftAlone(t *testing.T) {
	var log logBook
	src := liar(t, tool.Config{PingTimeout: 50 * time.Millisecond, Logger: log.logger()},
		obj{"tools": list("t", nil), "results": obj{"t": obj{"content": []obj{}}}, "slow": "1s"})
	if _, err := src.Tools(t.Context(), "liar"); err != nil {
		t.Fatal(err)
	}
	// Whatever order they come in: one is answered in time, an impatient one is not, and a patient one waits behind it.
	patient, impatient := make(chan error, 2), make(chan error, 2)
	send := func(limit time.Duration, to chan error) {
		_, err := src.Call(t.Context(), agentkernel.ToolCall{Server: "liar", Tool: "t", Timeout: limit})
		to <- err
	}
	for range 2 {
		go send(30*time.Second, patient)
		go send(1500*time.Millisecond, impatient)
	}
	if err := errors.Join(<-impatient, <-impatient); err == nil {
		t.Error("none of the impatient calls timed out")
	}
	for range 2 {
		if err := <-patient; err != nil {
			t.Error(err)
		}
	}
	if line := log.line("killed"); line != "" {
		t.Error(line)
	}
}

// Of several calls that time out the newest counts: the server has answered none since that one was sent.
func TestAServerThatHangsLaterIsReplaced(t *testing.T) {
	src := open(t, tool.Config{PingTimeout: 2 * time.Second, StopGrace: 50 * time.Millisecond}, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	if _, err := src.Tools(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	impatient, patient := make(chan error, 3), make(chan error, 1)
	go func() {
		_, err := src.Call(t.Context(), agentkernel.ToolCall{Server: "test", Tool: "hang", Timeout: 400 * time.Millisecond})
		impatient <- err
	}()
	if _, err := call(t, src, "test", "echo", obj{"value": 1}); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := call(t, src, "test", "freeze", obj{})
		patient <- err
	}()
	for range 2 {
		go func() {
			_, err := src.Call(t.Context(), agentkernel.ToolCall{Server: "test", Tool: "hang", Timeout: 600 * time.Millisecond})
			impatient <- err
		}()
	}
	for range 3 {
		wantCode(t, <-impatient, agentkernel.CodeTimeout)
	}
	select {
	case err := <-patient:
		wantCode(t, err, agentkernel.CodeUnavailable, "did not answer a ping within 2s")
	case <-time.After(time.Minute):
		t.Error("the server was not replaced")
	}
}

// The first list of tools belongs to the start: its time counts, and nothing stays behind.
func TestAServerThatDoesNotListItsTools(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	src := open(t, tool.Config{StopGrace: 50 * time.Millisecond}, map[string]tooltest.Server{
		"test": tooltest.Stdio(t, "-hang-list", "-start-log", starts, "-stderr", "looking for the licence server").With("startTimeout", "1.5s")})
	says := []string{`server "test" did not answer tools/list within 1.5s`, "looking for the licence server", "mcp.json, line ", `"startTimeout"`}
	_, err := src.Tools(t.Context(), "test")
	wantCode(t, err, agentkernel.CodeTimeout, says...)
	r, err := src.Call(t.Context(), agentkernel.ToolCall{Server: "test", Tool: "echo"})
	wantCode(t, err, agentkernel.CodeTimeout, says...)
	if !r.NotSent {
		t.Error("nothing was sent, and NotSent is not reported")
	}
	pids := started(t, starts)
	if len(pids) != 2 {
		t.Errorf("%d starts for two questions", len(pids))
	}
	for _, pid := range pids {
		eventually(t, "the server's process is gone", func() bool { return gone(pid) })
	}
	eventually(t, "it counts as a failure", func() bool {
		servers, err := src.Servers(t.Context())
		return err == nil && strings.Contains(servers[0].Problem, "failed 2 times in a row: it did not answer tools/list within 1.5s")
	})
}
