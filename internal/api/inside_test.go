package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// gate is a client that reads only when it is let: each Write waits for a token.
type gate struct {
	http.ResponseWriter
	tokens chan struct{}
	mu     sync.Mutex
	got    bytes.Buffer
	writes int
	err    error
}

func (g *gate) Write(b []byte) (int, error) {
	<-g.tokens
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes++
	if g.err != nil {
		return 0, g.err
	}
	return g.got.Write(b)
}

func (g *gate) FlushError() error { return nil }

func newGate() *gate {
	return &gate{ResponseWriter: httptest.NewRecorder(), tokens: make(chan struct{}, 1<<20)}
}

func TestASlowReaderHoldsItsSourceOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		st := newStream(g)
		const events = 500
		ev := agentkernel.Event{Kind: agentkernel.EventOutput, Text: strings.Repeat("x", 10_000)}
		var sent atomic.Int64
		go func() {
			for range events {
				if err := st.event(t.Context(), &ev); err != nil {
					t.Error(err)
				}
				sent.Add(1)
			}
		}()
		synctest.Wait() // until the source can do no more
		// One buffer is being written, one is full.
		if n := sent.Load(); n < 2 || n*10_000 > 3*streamBuffer {
			t.Errorf("%d events are in memory", n)
		}
		for range events {
			g.tokens <- struct{}{}
			synctest.Wait() // until the next buffer is full
		}
		if n := sent.Load(); n != events {
			t.Errorf("%d events after the reader woke up", n)
		}
		st.stop()
		st.last(wire.FrameDone, wire.Done{})
		if n := strings.Count(g.got.String(), "event: output\n"); n != events || !strings.HasSuffix(g.got.String(), "event: done\ndata: {}\n\n") {
			t.Errorf("%d events came", n)
		}
		if g.writes > events/4 {
			t.Errorf("a burst took %d writes", g.writes)
		}
	})
}

func TestAReaderThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		g.err = errors.New("broken pipe")
		g.tokens <- struct{}{}
		st := newStream(g)
		ev := agentkernel.Event{Kind: agentkernel.EventOutput, Text: "x"}
		if err := st.event(t.Context(), &ev); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := st.event(t.Context(), &ev); agentkernel.CodeOf(err) != agentkernel.CodeCanceled {
			t.Errorf("an event for nobody: %v", err)
		}
		st.stop()
		st.last(wire.FrameDone, wire.Done{})
		if g.got.Len() != 0 {
			t.Errorf("%q was written", g.got.String())
		}
	})
}

func TestASourceThatWaitsForItsReaderObeysItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		st := newStream(g)
		ctx, cancel := context.WithCancel(t.Context())
		ev := agentkernel.Event{Kind: agentkernel.EventOutput, Text: strings.Repeat("x", streamBuffer)}
		ended := make(chan error, 1)
		go func() {
			for {
				if err := st.event(ctx, &ev); err != nil {
					ended <- err
					return
				}
			}
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("event: %v", err)
		}
		close(g.tokens)
		st.stop()
	})
}

func TestASilentStreamSaysThatItLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		close(g.tokens)
		st := newStream(g)
		<-time.After(silence*3 + firstSilence + time.Millisecond)
		synctest.Wait()
		if got := g.got.String(); got != strings.Repeat(":\n\n", 4) {
			t.Errorf("%q", got)
		}
		st.stop()
	})
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Bool
		begin := time.Now()
		i := newIdle(time.Minute, func(context.Context) bool { return busy.Load() })
		go i.watch(t.Context())
		over := func() bool {
			synctest.Wait()
			select {
			case <-i.ended:
				return true
			default:
				return false
			}
		}
		at := func(d time.Duration) { <-time.After(time.Until(begin.Add(d))) }

		at(50 * time.Second) // a long request: nothing ends while it is under way
		i.begin()
		at(5 * time.Minute)
		busy.Store(true) // and a process that goes on behind it
		i.end()
		at(20 * time.Minute)
		if over() {
			t.Fatal("ended while a process ran")
		}
		busy.Store(false)
		at(22*time.Minute + time.Second)
		if !over() {
			t.Error("did not end although nobody called")
		}
		if i.begin() {
			t.Error("a request was let in after the end")
		}
		i.end()
	})
}

func TestIdleNever(t *testing.T) {
	i := newIdle(-1, nil)
	i.watch(t.Context()) // returns at once
	if !i.begin() {
		t.Error("ended")
	}
}

// TestIdleCallerThinks: between a caller's hello and its first request the kernel does not end, however short its
// patience; when the caller has gone it does at once, and one who says nothing keeps it for a while only.
func TestIdleCallerThinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIdle(30*time.Millisecond, func(context.Context) bool { return false })
		go i.watch(t.Context())
		begin := time.Now()
		i.connection(nil, http.StateNew)
		i.begin()
		i.end()
		<-time.After(callerPatience - time.Second)
		if !i.begin() {
			t.Fatal("ended while a caller thought")
		}
		i.end()
		<-time.After(time.Second)
		i.connection(nil, http.StateClosed)
		<-i.ended
		if took := time.Since(begin); took != callerPatience {
			t.Errorf("ended after %s", took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		i := newIdle(30*time.Millisecond, func(context.Context) bool { return false })
		begin := time.Now()
		i.connection(nil, http.StateNew)
		i.watch(t.Context())
		if took := time.Since(begin); took != callerPatience {
			t.Errorf("ended after %s", took)
		}
	})
}

func TestIdleRequestWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIdle(time.Minute, func(context.Context) bool { return false })
		<-time.After(2 * time.Minute)
		i.begin() // between the look at the clock and the decision
		if i.finish() {
			t.Error("ended in the middle of a request")
		}
		i.end()
		if i.finish() {
			t.Error("ended right after a request")
		}
	})
}

func TestStoppingIsAnAnswer(t *testing.T) {
	s, err := New(Config{Kernel: struct{ agentkernel.Kernel }{}, Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", wire.Prefix+"/info", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"unavailable"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if _, err := New(Config{}); err == nil {
		t.Error("a server without a kernel")
	}
}

// brokenKernel is one whose disk is full.
type brokenKernel struct {
	agentkernel.Kernel
	failed bool
}

func (k brokenKernel) Failure() error {
	if !k.failed {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeStorage, "store", "the disk is full").WithHint("make room")
}

// TestABrokenKernelSaysWhyItEnds: a new kernel would fail in the same way, so nobody is told to start one.
func TestABrokenKernelSaysWhyItEnds(t *testing.T) {
	for _, tc := range []struct {
		failed bool
		says   string
	}{{true, "the disk is full"}, {false, "the kernel is ending"}} {
		s, err := New(Config{Kernel: brokenKernel{failed: tc.failed}, Version: "1"})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", wire.Prefix+"/info", nil)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r) // who comes late
		if !strings.Contains(w.Body.String(), tc.says) {
			t.Errorf("failed %t: a caller is told %s", tc.failed, w.Body)
		}
		if err := s.explain(r, context.Canceled); err.Message() != tc.says { // who is cut off
			t.Errorf("failed %t: a call under way is told %v", tc.failed, err)
		}
	}
}

// TestRoutesAreDocumented keeps docs/api.md and the table together.
func TestRoutesAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rt := range routes() {
		if !strings.Contains(string(b), "`"+rt.method+" "+rt.path) {
			t.Errorf("docs/api.md does not name %s %s", rt.method, rt.path)
		}
		for _, p := range rt.query {
			if !strings.Contains(string(b), "`"+p) {
				t.Errorf("docs/api.md does not name the parameter %s of %s", p, rt.path)
			}
		}
	}
}

func TestNearestField(t *testing.T) {
	for name, want := range map[string]string{"programm": "program", "idempotencykey": "idempotency_key", "callwait": "call_wait", "tolos": "tools", "source": "program.source", "recursion": "limits.recursion"} {
		var spec agentkernel.Spec
		e, ok := errors.AsType[*agentkernel.Error](decode([]byte(`{"`+name+`":null}`), &spec))
		if !ok || !strings.Contains(e.Hint, want+"?") {
			t.Errorf("%s: %v, want a hint at %s", name, e, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`, `{"program":{"source":"x","modules":{"a":"b"}},"limits":{"time":"3s"}}`, `null`, `[`, `{"x":1}`, `{"limits":{"time":3}}`,
		"{\"program\":{\"name\":\"\xff\"}}", `{"priority":1e99}`, `{"program":{"args":[1]}}`, `{} {}`, `{"a\u0000":0}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s agentkernel.Spec
		err := decode(b, &s)
		if err == nil {
			if _, err := json.Marshal(s); err != nil {
				t.Errorf("what was read cannot be written: %v", err)
			}
			return
		}
		e, ok := errors.AsType[*agentkernel.Error](err)
		if !ok || e.Code != agentkernel.CodeInvalid || len(e.Message()) > 1000 {
			t.Errorf("%q: %v", b, err)
		}
	})
}

func FuzzQuery(f *testing.F) {
	f.Add("follow=true&from=3")
	f.Add("%zz;&&=")
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := parseQuery(raw, []string{"from", "follow", "timeout"})
		if err != nil {
			return
		}
		n, err := q.number("from")
		if err == nil && n < 0 {
			t.Errorf("from = %d", n)
		}
		_, _ = q.flag("follow")
		if d, err := q.duration("timeout"); err == nil && d < 0 {
			t.Errorf("timeout = %v", d)
		}
	})
}

// TestTheLastEventLeavesWithTheEnd: a short cell costs its caller one write, not two, and no other goroutine.
func TestTheLastEventLeavesWithTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		close(g.tokens)
		st := newStream(g)
		st.lastKind = agentkernel.EventIdle
		if err := st.event(t.Context(), &agentkernel.Event{Kind: agentkernel.EventIdle}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !st.stop() || st.running {
			t.Errorf("the event is lost, or a goroutine was to write it: %v", st.running)
		}
		st.last(wire.FrameDone, wire.Done{})
		if got := g.got.String(); g.writes != 1 || !strings.Contains(got, "event: idle\n") || !strings.HasSuffix(got, "event: done\ndata: {}\n\n") {
			t.Errorf("%d writes: %q", g.writes, got)
		}
	})
}
