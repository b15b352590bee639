package llmtest

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"agentkernel/internal/llm"
)

func (b bed) limits(t *testing.T) {
	header, want := b.Speaker.Limits()
	_, p := b.start(t, func(w http.ResponseWriter, q *http.Request) {
		for name := range header {
			w.Header().Set(name, header.Get(name))
		}
		w.Header().Set("Date", "Thu, 01 Jan 2026 00:00:30 GMT")
		b.answer(w, plain(), wantsStream(q))
	})
	_, h, e := ask(t, p, simple(), true)
	if e != nil || !reflect.DeepEqual(h.heads[0].Limits, want) {
		t.Errorf("%+v, %v\nwant %+v", h.heads, e, want)
	}
	_, p = b.start(t, b.replies(plain()))
	if _, h, e := ask(t, p, simple(), true); e != nil || len(h.heads[0].Limits) != 0 {
		t.Errorf("without any: %+v, %v", h.heads, e)
	}
	_, p = b.start(t, func(w http.ResponseWriter, q *http.Request) {
		for name := range header {
			w.Header().Set(name, "soon, \"maybe\"")
		}
		b.answer(w, plain(), wantsStream(q))
	})
	if _, h, e := ask(t, p, simple(), true); e != nil || len(h.heads[0].Limits) != 0 {
		t.Errorf("with nonsense: %+v, %v", h.heads, e)
	}
}

func (b bed) faults(t *testing.T) {
	header, limits := b.Speaker.Limits()
	for _, f := range b.Speaker.Faults() {
		s, p := b.start(t, func(w http.ResponseWriter, _ *http.Request) {
			for _, h := range []http.Header{header, f.Header} {
				for name := range h {
					w.Header().Set(name, h.Get(name))
				}
			}
			w.Header().Set("Date", "Thu, 01 Jan 2026 00:00:30 GMT")
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(f.Status)
			io.WriteString(w, f.Body)
		})
		for _, stream := range []bool{false, true} {
			_, h, e := ask(t, p, simple(), stream)
			if e == nil {
				t.Errorf("%d %s: no error", f.Status, f.Body)
				continue
			}
			want := llm.Error{
				Kind: f.Kind, Status: f.Status, Code: f.Code, RetryAfter: time.Duration(f.RetryAfter) * time.Millisecond, Sent: true, Message: e.Message, RequestID: e.RequestID,
			}
			if !reflect.DeepEqual(*e, want) {
				t.Errorf("%s\n%+v\n%+v", f.Body, *e, want)
			}
			if b.Speaker.Can(RequestIDs) && e.RequestID != "req-1" {
				t.Errorf("the id is %q", e.RequestID)
			}
			if len(h.heads) != 1 || len(h.heads[0].Limits) != len(limits) {
				t.Errorf("the heads: %+v", h.heads)
			}
		}
		if n, _ := s.count(); n != 2 {
			t.Errorf("%d requests for two", n)
		}
	}
}

func (b bed) faultAmid(t *testing.T) {
	reply := everything()
	events := b.Speaker.Stream(reply)
	kinds := map[llm.Kind]bool{llm.Overloaded: true, llm.Server: true}
	for _, n := range []int{0, len(events) / 2, len(events) - 1} {
		_, p := b.start(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", b.Speaker.StreamType())
			io.WriteString(w, strings.Join(events[:n], "")+b.Speaker.Fault())
		})
		_, h, e := ask(t, p, simple(), true)
		if e == nil || !kinds[e.Kind] || e.Status != http.StatusOK || !e.Sent {
			t.Errorf("after %d of %d: %+v", n, len(events), e)
			continue
		}
		if n > 0 && (h.deltas == 0 || !e.Usage.Estimated || e.Usage.Outputs() == 0) {
			t.Errorf("after %d: %d deltas and the usage %+v", n, h.deltas, e.Usage)
		}
	}
}

// early: a stream that ends before its end is an error, wherever it ends and however.
func (b bed) early(t *testing.T) {
	events := b.Speaker.Stream(everything())
	type script struct {
		text  string
		abort bool
	}
	next := make(chan script, 1)
	_, p := b.start(t, func(w http.ResponseWriter, _ *http.Request) {
		s := <-next
		w.Header().Set("Content-Type", b.Speaker.StreamType())
		io.WriteString(w, s.text)
		w.(http.Flusher).Flush()
		if s.abort {
			panic(http.ErrAbortHandler)
		}
	})
	for n := range events {
		for _, half := range []string{"", events[n][:len(events[n])/2]} {
			for _, abort := range []bool{false, true} {
				next <- script{strings.Join(events[:n], "") + half, abort}
				a, h, e := ask(t, p, simple(), true)
				if e == nil {
					// All but the mark of the end was there.
					if n != len(events)-1 || a.Text() != strings.Join(everything().Text, "") || len(a.Calls()) != 3 {
						t.Errorf("%d events and %q: %s", n, half, object(a))
					}
					continue
				}
				if e.Kind != llm.Network && e.Kind != llm.Malformed || !e.Sent || !e.Retry() {
					t.Errorf("%d events and %q, aborted %v: %+v", n, half, abort, e)
				}
				if h.deltas > 0 && (!e.Usage.Estimated || e.Usage.Outputs() == 0) {
					t.Errorf("%d events: the usage is %+v", n, e.Usage)
				}
			}
		}
	}
}

// silence: a server that says nothing more is not waited for.
func (b bed) silence(t *testing.T) {
	events := b.Speaker.Stream(everything())
	var wait sync.WaitGroup
	for name, n := range map[string]int{"before the head": -1, "before the first event": 0, "amid the answer": len(events) / 2} {
		arrived, gone := make(chan struct{}), make(chan struct{})
		_, p := b.start(t, func(w http.ResponseWriter, q *http.Request) {
			close(arrived)
			defer close(gone)
			if n >= 0 {
				w.Header().Set("Content-Type", b.Speaker.StreamType())
				io.WriteString(w, strings.Join(events[:n], ""))
				w.(http.Flusher).Flush()
			}
			<-q.Context().Done()
		}, func(o *llm.Options) { o.Idle = time.Second })
		wait.Go(func() {
			_, h, e := ask(t, p, simple(), true)
			if e == nil || e.Kind != llm.Timeout || !e.Retry() {
				t.Errorf("%s: %+v", name, e)
				return
			}
			if h.deltas > 0 && !e.Usage.Estimated {
				t.Errorf("%s: the usage is %+v", name, e.Usage)
			}
			select {
			case <-arrived:
				if !e.Sent {
					t.Errorf("%s: it was not sent", name)
				}
				<-gone // the connection was closed, and the server knows
			default: // the machine is so busy that the server has not seen it
			}
		})
	}
	wait.Wait()
}

func (b bed) malformed(t *testing.T) {
	events := b.Speaker.Stream(everything())
	bad := "data: {\"choices\": nonsense " + Content + "}\n\n"
	wrong := "data: {\"choices\":\"" + Content + "\",\"type\":7}\n\n"
	if !strings.Contains(b.Speaker.StreamType(), "event-stream") {
		bad, wrong = strings.TrimSpace(strings.TrimPrefix(bad, "data: "))+"\n", "{\"message\":\""+Content+"\"}\n"
	}
	for name, c := range map[string]struct {
		kind, body string
		stream     bool
	}{
		"an event":                  {b.Speaker.StreamType(), strings.Join(events[:2], "") + bad + strings.Join(events[2:], ""), true},
		"a type":                    {b.Speaker.StreamType(), strings.Join(events[:2], "") + wrong, true},
		"a body":                    {"application/json", `{"id": nonsense ` + Content, false},
		"half a body":               {"application/json", string(b.Speaker.Whole(plain())[:60]), false},
		"an empty body":             {"application/json", "", false},
		"a list":                    {"application/json", `["` + Content + `"]`, false},
		"an object of nothing":      {"application/json", `{}`, false},
		"a page":                    {"text/html; charset=utf-8", "<html>" + Content + "</html>", true},
		"a page instead of a piece": {"text/html", "<html>", false},
	} {
		_, p := b.start(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			io.WriteString(w, c.body)
		})
		if name == "an object of nothing" {
			if _, ok := b.Speaker.(Responses); ok {
				continue // an answer of nothing
			}
		}
		_, _, e := ask(t, p, simple(), c.stream)
		if e == nil || e.Kind != llm.Malformed || !e.Sent || e.Status != http.StatusOK {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func (b bed) tooLarge(t *testing.T) {
	const most = 64 << 10
	small := func(o *llm.Options) { o.MaxAnswer = most }
	big := plain()
	for range 100 {
		big.Text = append(big.Text, strings.Repeat("x", 1000))
	}
	_, p := b.start(t, b.replies(big), small)
	for _, stream := range []bool{false, true} {
		if _, _, e := ask(t, p, simple(), stream); e == nil || e.Kind != llm.Malformed || !strings.Contains(e.Message, "65536 bytes") {
			t.Errorf("stream %v: %+v", stream, e)
		}
	}
	_, p = b.start(t, b.replies(plain()), small)
	for _, stream := range []bool{false, true} {
		if _, _, e := ask(t, p, simple(), stream); e != nil {
			t.Errorf("a small one: %v", e)
		}
	}
	whole := int64(len(b.Speaker.Whole(plain())))
	for _, less := range []int64{0, 1, 2} {
		_, p := b.start(t, b.replies(plain()), func(o *llm.Options) { o.MaxAnswer = whole - less })
		if _, _, e := ask(t, p, simple(), false); (e != nil) != (less > 0) || e != nil && e.Kind != llm.Malformed {
			t.Errorf("%d bytes less than it has: %v", less, e)
		}
	}
	for name, endless := range map[string]string{"a line": "x", "lines": ": x\n", "events": "data: {}\n\n", "nothing": "\n"} {
		_, p := b.start(t, func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Type", b.Speaker.StreamType())
			for q.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat(endless, 1000)); err != nil {
					return
				}
			}
		}, small)
		if _, _, e := ask(t, p, simple(), true); e == nil || e.Kind != llm.Malformed && e.Kind != llm.Server {
			t.Errorf("%s without an end: %+v", name, e)
		}
	}
	_, p = b.start(t, func(w http.ResponseWriter, _ *http.Request) { // why a request has failed may be long, too
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error":{"message":"`+strings.Repeat("x", 1<<20))
	})
	if _, _, e := ask(t, p, simple(), false); e == nil || e.Kind != llm.Invalid {
		t.Errorf("a large failure: %+v", e)
	}
}

// redirect: the key travels nowhere else.
func (b bed) redirect(t *testing.T) {
	reached := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case reached <- r.Header.Get("Authorization"):
		default:
		}
	}))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		_, p := b.start(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+"/v1?token="+Key, status) })
		if _, _, e := ask(t, p, simple(), false); e == nil || e.Kind != llm.Invalid || e.Status != status || e.Retry() {
			t.Errorf("%d: %+v", status, e)
		}
	}
	select {
	case key := <-reached:
		t.Errorf("the other server was reached, with %q", key)
	default:
	}
}

// compressed: an answer that grows when it is unpacked is held to the same size, and a stream is not packed.
func (b bed) compressed(t *testing.T) {
	packed := func(w http.ResponseWriter, kind, text string, times int) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Encoding", "gzip")
		z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
		if err != nil {
			panic(err)
		}
		for range times {
			if _, err := io.WriteString(z, text); err != nil {
				return
			}
		}
		z.Close()
	}
	_, p := b.start(t, func(w http.ResponseWriter, _ *http.Request) {
		packed(w, "application/json", strings.Repeat(" ", 64<<10), 32)
	}, func(o *llm.Options) { o.MaxAnswer = 64 << 10 })
	if _, _, e := ask(t, p, simple(), false); e == nil || e.Kind != llm.Malformed {
		t.Errorf("a bomb: %+v", e)
	}
	_, p = b.start(t, func(w http.ResponseWriter, _ *http.Request) {
		packed(w, "application/json", string(b.Speaker.Whole(plain())), 1)
	})
	if a, _, e := ask(t, p, simple(), false); e != nil || a.Text() != strings.Join(plain().Text, "") {
		t.Errorf("packed: %+v, %v", a, e)
	}
	_, p = b.start(t, func(w http.ResponseWriter, _ *http.Request) {
		packed(w, b.Speaker.StreamType(), strings.Join(b.Speaker.Stream(plain()), ""), 1)
	})
	if _, _, e := ask(t, p, simple(), true); e == nil || e.Kind != llm.Malformed {
		t.Errorf("a packed stream: %+v", e)
	}
}

// canceled: the server sees at once that the answer is not wanted any more.
func (b bed) canceled(t *testing.T) {
	events := b.Speaker.Stream(everything())
	stop := errors.New("it is enough")
	for name, c := range map[string]struct {
		begins, refuse bool
	}{"before the head": {}, "amid the answer": {begins: true}, "by whoever is told": {begins: true, refuse: true}} {
		t.Run(name, func(t *testing.T) {
			arrived, gone := make(chan struct{}), make(chan struct{})
			_, p := b.start(t, func(w http.ResponseWriter, q *http.Request) {
				defer close(gone)
				if c.begins {
					w.Header().Set("Content-Type", b.Speaker.StreamType())
					io.WriteString(w, strings.Join(events[:len(events)-1], ""))
					w.(http.Flusher).Flush()
				}
				close(arrived)
				<-q.Context().Done()
			})
			ctx, cancel := context.WithCancelCause(context.Background())
			if !c.begins {
				go func() {
					<-arrived
					cancel(stop)
				}()
			}
			deltas := 0
			_, err := p.Complete(ctx, simple(), llm.Watch{Delta: func(llm.Delta) error {
				if deltas++; c.refuse {
					return stop
				}
				cancel(stop)
				return nil
			}})
			<-gone
			e := isError(t, err)
			if e.Kind != llm.Canceled || !e.Sent || e.Began != c.begins || !errors.Is(err, stop) || e.Retry() {
				t.Errorf("%+v", e)
			}
			if c.refuse && deltas != 1 {
				t.Errorf("%d deltas after an error", deltas)
			}
			if c.begins && (e.Usage == nil || !e.Usage.Estimated) {
				t.Errorf("the usage is %+v", e.Usage)
			}
		})
	}
	t.Run("beforehand", func(t *testing.T) {
		s, p := b.start(t, b.replies(plain()))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, _, e := askIn(ctx, t, p, simple(), true)
		if n, _ := s.count(); e == nil || e.Kind != llm.Canceled || e.Sent || n != 0 || !errors.Is(e, context.Canceled) {
			t.Errorf("%+v, %d requests", e, n)
		}
	})
	for _, stream := range []bool{false, true} {
		t.Run("before it goes out", func(t *testing.T) {
			for _, size := range []int{10, 1 << 20} {
				bodies := make(chan int64, 10)
				_, p := b.start(t, func(w http.ResponseWriter, q *http.Request) {
					n, _ := io.Copy(io.Discard, q.Body) // it ends early
					bodies <- n
				})
				r := simple()
				r.Messages[0].Parts[0].Text = strings.Repeat("x", size)
				w := llm.Watch{Leaves: func() error { return stop }}
				if stream {
					w.Delta = func(llm.Delta) error { return nil }
				}
				_, err := p.Complete(t.Context(), r, w)
				if e := isError(t, err); e.Kind != llm.Canceled || e.Sent || !errors.Is(err, stop) || e.Retry() {
					t.Errorf("%+v", e)
				}
				select {
				case n := <-bodies:
					if n > 0 {
						t.Errorf("the server has %d bytes", n)
					}
				case <-time.After(10 * time.Millisecond):
				}
			}
		})
	}
	t.Run("by its deadline", func(t *testing.T) {
		_, p := b.start(t, func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		if _, _, e := askIn(ctx, t, p, simple(), true); e == nil || e.Kind != llm.Canceled || !errors.Is(e, context.DeadlineExceeded) {
			t.Errorf("%+v", e)
		}
	})
}

func (b bed) notReached(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	opts := b.Options
	opts.BaseURL = "http://" + closed.Addr().String() + b.Base
	p, err := b.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, h, e := ask(t, p, simple(), true); e == nil || e.Kind != llm.Network || e.Sent || e.Status != 0 || len(h.heads) != 0 || h.left != 0 || !e.Retry() {
		t.Errorf("nobody listens: %+v", e)
	}
	_, p = b.start(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if _, h, e := ask(t, p, simple(), true); e == nil || e.Kind != llm.Network || !e.Sent || e.Status != 0 || h.left == 0 {
		t.Errorf("it hangs up: %+v", e)
	}
	// A server that speaks something else.
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go func() {
		for {
			c, err := other.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 1<<10)) // one that speaks first is not heard
			io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n")
			c.Close()
		}
	}()
	opts.BaseURL = "http://" + other.Addr().String() + b.Base
	if p, err = b.New(opts); err != nil {
		t.Fatal(err)
	}
	if _, _, e := ask(t, p, simple(), true); e == nil || e.Kind != llm.Network {
		t.Errorf("something else: %+v", e)
	}
}

// reuse: a connection serves one request after the other, of whatever kind and end.
func (b bed) reuse(t *testing.T) {
	var mu sync.Mutex
	n := 0
	s, p := b.start(t, func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		n++
		fails := n%4 == 0
		mu.Unlock()
		if fails {
			http.Error(w, "{}", http.StatusTooManyRequests)
			return
		}
		b.answer(w, everything(), wantsStream(q))
		w.(http.Flusher).Flush() // the end of the body comes behind that of the answer
	})
	for i := range 24 {
		if _, _, e := ask(t, p, simple(), i%2 == 0); e != nil && e.Kind != llm.RateLimited {
			t.Fatal(e)
		}
	}
	// One is enough, but net/http gives one up where its own goroutines are late, as they may be on a machine that is busy.
	if requests, conns := s.count(); requests != 24 || conns > 4 {
		t.Errorf("%d requests over %d connections", requests, conns)
	}
}

// key: it is asked for each request, and what is wrong with it is said without it.
func (b bed) key(t *testing.T) {
	times := 0
	missing := errors.New("the keyring is locked")
	var give func(context.Context) (string, error)
	s, p := b.start(t, b.replies(plain()), func(o *llm.Options) {
		o.Key = func(ctx context.Context) (string, error) {
			times++
			return give(ctx)
		}
	})
	give = func(context.Context) (string, error) { return Key, nil }
	for range 3 {
		if _, _, e := ask(t, p, simple(), false); e != nil {
			t.Fatal(e)
		}
	}
	if times != 3 {
		t.Errorf("it was asked for %d times", times)
	}
	give = func(context.Context) (string, error) { return "", missing }
	if _, _, e := ask(t, p, simple(), false); e == nil || e.Kind != llm.Auth || e.Sent || !errors.Is(e, missing) {
		t.Errorf("without one: %+v", e)
	}
	for _, bad := range []string{Key + "\n", Key + "\r\nX-Other: 1", "ключ", Key + "\x00"} {
		give = func(context.Context) (string, error) { return bad, nil }
		if _, _, e := ask(t, p, simple(), false); e == nil || e.Kind != llm.Auth || e.Sent {
			t.Errorf("%q: %+v", bad, e)
		}
	}
	if n, _ := s.count(); n != 3 {
		t.Errorf("%d requests", n)
	}
}

// many: a provider serves many at once, and mixes nothing up.
func (b bed) many(t *testing.T) {
	_, p := b.start(t, b.replies(everything()))
	var wait sync.WaitGroup
	for i := range 24 {
		wait.Go(func() {
			if a, _, e := ask(t, p, simple(), i%2 == 0); e != nil || object(a.Calls()) != object(everything().wantCalls()) {
				t.Errorf("%v, %v", a, e)
			}
		})
	}
	wait.Wait()
}
