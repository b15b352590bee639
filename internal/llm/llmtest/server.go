package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"agentkernel/internal/llm"
)

// What no message may have.
const (
	Key     = "sk-test-0123456789abcdefghij"
	Content = "the patient in room 12 is allergic to nuts"
)

// Subject is a provider to be tested.
type Subject struct {
	New     func(llm.Options) (llm.Provider, error)
	Speaker Speaker
	Base    string      // what comes behind the address of the server in the base URL
	Options llm.Options // that it is made with besides
	Model   string      // that a server is asked for, whatever a request says; "": that of the request
	// Brief leaves out what does not depend on where a request goes: another subject of the same code has it.
	Brief bool
}

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	for name, h2 := range map[string]bool{"http1": false, "http2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bed{s, h2}
			tests := map[string]func(*testing.T){
				"text": b.text, "request": b.request, "sent back": b.sentBack, "faults": b.faults, "bodies grow": b.grow, "embeddings": b.embeddings,
				"choices": b.choices, "usage": b.usage, "key": b.key, "redirect": b.redirect,
			}
			if !s.Brief {
				maps.Copy(tests, map[string]func(*testing.T){
					"cut anywhere": b.pieces, "tools": b.tools, "schema": b.schema, "stops": b.stops, "limits": b.limits, "fault amid a stream": b.faultAmid,
					"stream ends early": b.early, "silence": b.silence, "malformed": b.malformed, "too large": b.tooLarge, "compressed": b.compressed,
					"canceled": b.canceled, "not reached": b.notReached, "reuse": b.reuse, "many at once": b.many,
				})
			}
			for name, test := range tests {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t)
				})
			}
		})
	}
}

// bed is where the tests of one subject run.
type bed struct {
	Subject
	h2 bool
}

// server is a server of a dialect, which keeps what it was asked.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	bodies [][]byte
	asked  []*Asked
	conns  int
}

func (s *server) last() (*Asked, []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) == 0 {
		return nil, nil
	}
	return s.asked[len(s.asked)-1], s.bodies[len(s.bodies)-1]
}

func (s *server) count() (requests, conns int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked), s.conns
}

// start starts a server, and makes a provider for it. A request that the dialect does not have fails the test.
func (b bed) start(t *testing.T, handle http.HandlerFunc, change ...func(*llm.Options)) (*server, llm.Provider) {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		asked, err := b.Speaker.Asked(r, body)
		if err == nil && (r.ProtoMajor == 2) != b.h2 {
			err = errors.New("the protocol is " + r.Proto)
		}
		if err == nil && asked.Key != Key {
			err = errors.New("the key is missing")
		}
		if err != nil {
			t.Errorf("%v: %s", err, body)
			http.Error(w, err.Error(), http.StatusTeapot)
			return
		}
		s.mu.Lock()
		s.bodies, s.asked = append(s.bodies, body), append(s.asked, asked)
		s.mu.Unlock()
		if b.Speaker.Can(RequestIDs) {
			w.Header().Set("Request-Id", "req-1")
			w.Header().Set("X-Request-Id", "req-1")
		}
		handle(w, r)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // connections that break are what is tested
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.mu.Lock()
			s.conns++
			s.mu.Unlock()
		}
	}
	s.EnableHTTP2 = b.h2
	if b.h2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	opts := b.Options
	opts.BaseURL = s.URL + b.Base
	opts.Client = s.Client()
	opts.Key = func(context.Context) (string, error) { return Key, nil }
	for _, f := range change {
		f(&opts)
	}
	p, err := b.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Client().CloseIdleConnections)
	return s, p
}

// answer answers a request as it was asked: in one piece, or in bits.
func (b bed) answer(w http.ResponseWriter, r Reply, stream bool) {
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		w.Write(b.Speaker.Whole(r))
		return
	}
	w.Header().Set("Content-Type", b.Speaker.StreamType())
	for _, e := range b.Speaker.Stream(r) {
		io.WriteString(w, e)
	}
}

// replies is a handler that always answers the same.
func (b bed) replies(r Reply) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		b.answer(w, r, wantsStream(q))
	}
}

func wantsStream(q *http.Request) bool {
	return strings.Contains(q.Header.Get("Accept"), "event-stream")
}

// inPieces writes a stream in pieces of a random size, of which some are one byte. Each is on its way before the next begins.
func inPieces(w http.ResponseWriter, text string, r *rand.Rand) {
	most := 1 << r.IntN(9)
	for len(text) > 0 {
		n := min(len(text), 1+r.IntN(most))
		io.WriteString(w, text[:n])
		w.(http.Flusher).Flush()
		text = text[n:]
	}
}

// told is what a provider tells of a request.
type told struct {
	heads           []llm.Head
	text, reasoning string
	calls           []Call
	left            int // how often it went out
	deltas          int
	headFirst       bool
	wrong           string
}

func (h *told) watch(stream bool) llm.Watch {
	w := llm.Watch{Leaves: func() error {
		h.left++
		return nil
	}, Head: func(head llm.Head) {
		if h.headFirst = h.deltas == 0; h.left == 0 {
			h.wrong = "an answer has come, and nothing went out"
		}
		h.heads = append(h.heads, head)
	}}
	if stream {
		w.Delta = h.delta
	}
	return w
}

func (h *told) delta(d llm.Delta) error {
	h.deltas++
	h.text += d.Text
	h.reasoning += d.Reasoning
	set := 0
	for _, is := range []bool{d.Text != "", d.Reasoning != "", d.Call != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		h.wrong = "a delta has not one thing"
	}
	if d.Call == nil {
		return nil
	}
	switch {
	case d.Call.Index == len(h.calls):
		h.calls = append(h.calls, Call{ID: d.Call.ID, Name: d.Call.Name})
		if d.Call.ID == "" || d.Call.Name == "" {
			h.wrong = "the first bit of a call has no id or no name"
		}
	case d.Call.Index < 0 || d.Call.Index > len(h.calls):
		h.wrong = "the index of a call is wrong"
		return nil
	case d.Call.ID != "" || d.Call.Name != "":
		h.wrong = "another bit of a call has an id or a name"
	}
	c := &h.calls[d.Call.Index]
	c.Args = []string{strings.Join(c.Args, "") + d.Call.Args}
	return nil
}

// check holds what was told against the answer.
func (h *told) check(t *testing.T, a *llm.Answer, stream bool) {
	t.Helper()
	if len(h.heads) != 1 || h.heads[0].Status != http.StatusOK || !h.headFirst {
		t.Errorf("heads: %+v", h.heads)
	}
	if h.wrong != "" {
		t.Error(h.wrong)
	}
	if !stream {
		if h.deltas != 0 {
			t.Errorf("%d deltas", h.deltas)
		}
		return
	}
	if h.text != a.Text() {
		t.Errorf("the deltas are %q, the answer %q", h.text, a.Text())
	}
	var calls []llm.ToolCall
	for _, c := range h.calls {
		calls = append(calls, llm.ToolCall{ID: c.ID, Name: c.Name, Args: json.RawMessage(strings.Join(c.Args, ""))})
	}
	if got, want := object(calls), object(a.Calls()); got != want {
		t.Errorf("the deltas are %s, the answer %s", got, want)
	}
}

// ask sends a request, and checks what any answer and any error has to be.
func ask(t *testing.T, p llm.Provider, r *llm.Request, stream bool) (*llm.Answer, *told, *llm.Error) {
	t.Helper()
	return askIn(context.Background(), t, p, r, stream)
}

func askIn(ctx context.Context, t *testing.T, p llm.Provider, r *llm.Request, stream bool) (*llm.Answer, *told, *llm.Error) {
	t.Helper()
	h := &told{}
	a, err := p.Complete(ctx, r, h.watch(stream))
	if err == nil {
		h.check(t, a, stream)
		return a, h, nil
	}
	e := isError(t, err)
	if a != nil {
		t.Error("an answer with an error")
	}
	if e.Began != (h.deltas > 0) {
		t.Errorf("%d deltas, and Began %v", h.deltas, e.Began)
	}
	if e.Began && (e.Usage == nil || e.Usage.Inputs() == 0) {
		t.Errorf("an answer that had begun has the usage %+v", e.Usage)
	}
	if e.Began && !e.Sent || e.Status != 0 && !e.Sent {
		t.Errorf("it was not sent: %+v", e)
	}
	if len(h.heads) > 1 || len(h.heads) == 1 && h.heads[0].Status != e.Status {
		t.Errorf("the heads %+v of %+v", h.heads, e)
	}
	return nil, h, e
}

func isError(t *testing.T, err error) *llm.Error {
	t.Helper()
	var e *llm.Error
	if !errors.As(err, &e) {
		t.Errorf("%v is a %T", err, err)
		return &llm.Error{Kind: "none", Message: "none"}
	}
	if e.Kind == "" || e.Error() == "" || len(e.Message) > 1<<10 {
		t.Errorf("%+v", e)
	}
	for text := error(e); text != nil; text = errors.Unwrap(text) {
		for _, secret := range []string{Key, Content, Content[:20], "127.0.0.1/"} {
			if strings.Contains(text.Error(), secret) {
				t.Errorf("%q has %q", text, secret)
			}
		}
	}
	return e
}

// simple is a request with a text.
func simple() *llm.Request {
	return &llm.Request{Model: "model-1", MaxTokens: 4000, Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: Content}}}}}
}

// plain is a reply with a text.
func plain() Reply {
	return Reply{Text: []string{"Hello", ", wörld €", " 😀\n", "\"end\" <&>\u2028"}, Stop: llm.StopEnd, Usage: &llm.Usage{Input: 1000, Output: 20}}
}

// Conversation is a request of about so many bytes, as agents have it: a long system prompt, tools, calls and their results.
func Conversation(size int) *llm.Request {
	const line = "The report says that \"sales\" have grown by 4 %, which is more than in the year before.\n"
	texts := func(n int) []llm.Part { return []llm.Part{{Text: strings.Repeat(line, max(1, n/len(line)))}} }
	r := &llm.Request{Model: "model-1", MaxTokens: 4000, Messages: []llm.Message{{Role: llm.System, Parts: texts(size / 8)}}}
	for _, name := range []string{"search", "fetch", "write"} {
		r.Tools = append(r.Tools, llm.Tool{Name: name, Description: line, Schema: json.RawMessage(`{"type":"object","properties":{"q":{"type":"string"}}}`)})
	}
	const each = 2000
	for turn := 0; turn*each < size*7/8; turn++ {
		id := "call_" + string(rune('a'+turn%26))
		r.Messages = append(r.Messages,
			llm.Message{Role: llm.User, Parts: texts(each / 4)},
			llm.Message{Role: llm.Assistant, Parts: append(texts(each/4), llm.Part{Call: &llm.ToolCall{ID: id, Name: "search", Args: json.RawMessage(`{"q":"sales of the year"}`)}})},
			llm.Message{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.ToolResult{ID: id, Parts: texts(each / 2)}}}})
	}
	return r
}
