package devllm

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// step is one event of a stream.
type step struct {
	name   string // of the event; "": it has none
	data   any    // JSON
	raw    string // instead of data: as it is
	tokens int64  // that were made for it
	silent bool   // it is made, and not sent
}

// sse is a step as a server-sent event.
func sse(s step) []byte {
	var b []byte
	if s.name != "" {
		b = append(b, "event: "+s.name+"\n"...)
	}
	b = append(b, "data: "...)
	if s.raw != "" {
		b = append(b, s.raw...)
	} else {
		b = append(b, compact(s.data)...)
	}
	return append(b, "\n\n"...)
}

// pieces yields a text in pieces of a few tokens, each with its number of tokens.
func (x *exchange) pieces(text string, yield func(piece string, n int64) bool) bool {
	at, n := 0, int64(0)
	from := 0
	for token := range x.s.tokens.split(text) {
		at += len(token)
		if n++; n == int64(x.s.opts.Chunk) {
			if !yield(text[from:at], n) {
				return false
			}
			from, n = at, 0
		}
	}
	return n == 0 || yield(text[from:], n)
}

// deliver sends the answer at the pace of the options.
func (s *Server) deliver(w http.ResponseWriter, r *http.Request, x *exchange) {
	ctx := r.Context()
	if x.is("stall") && (!x.req.stream || x.fault.AfterEvents == 0) && !x.stall(ctx) {
		x.abandon()
		return
	}
	if x.req.stream {
		s.deliverStream(w, r, x)
		return
	}
	made := s.opts.Clock.Now()
	answer := x.tokens.Answer()
	if x.req.inputs == nil {
		if s.pause(ctx, s.opts.FirstToken) != nil {
			x.abandon()
			return
		}
		s.cache.write(x.key+" "+x.model.Name, x.marks, s.opts.Clock.Now())
		if s.pause(ctx, time.Duration(max(answer-1, 0))*s.opts.PerToken) != nil {
			if s.opts.PerToken > 0 {
				x.sent = min(answer, 1+int64((s.opts.Clock.Now().Sub(made)-s.opts.FirstToken)/s.opts.PerToken))
			}
			x.abandon()
			return
		}
	}
	x.sent = answer
	x.entry.Status = http.StatusOK
	x.settle() // so that the headers say what is left behind it
	s.tellLimits(w.Header(), x, nil)
	x.write(w)
}

// write writes a whole answer, or what a fault makes of it.
func (x *exchange) write(w http.ResponseWriter) {
	body := []byte(compact(x.d.whole(x)))
	w.Header().Set("Content-Type", "application/json")
	switch {
	case x.is("malformed"), x.is("error-event"):
		_, _ = w.Write(body[:len(body)/2])
	case x.is("cut"):
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler) // net/http ends the connection for this, and says nothing
	default:
		_, _ = w.Write(body)
	}
}

func (x *exchange) is(kind string) bool { return x.fault != nil && x.fault.Kind == kind }

// stall says nothing for a while, or until the client has gone: then it is false.
func (x *exchange) stall(ctx context.Context) bool {
	if x.fault.For > 0 {
		return x.s.pause(ctx, time.Duration(x.fault.For)) == nil
	}
	<-ctx.Done()
	return false
}

// abandon notes that nobody reads any more.
func (x *exchange) abandon() {
	x.entry.Status, x.entry.Aborted = 499, true
}

// deliverStream sends the answer step by step.
func (s *Server) deliverStream(w http.ResponseWriter, r *http.Request, x *exchange) {
	ctx := r.Context()
	flush := http.NewResponseController(w)
	begun := false
	begin := func() {
		if begun {
			return
		}
		begun = true
		x.entry.Status = http.StatusOK
		s.tellLimits(w.Header(), x, nil)
		w.Header().Set("Content-Type", x.d.mediaType())
		w.Header().Set("Cache-Control", "no-cache")
		w.WriteHeader(http.StatusOK)
	}
	if !s.awaitFirst(ctx, x, func(alive []byte) { begin(); _, _ = w.Write(alive); _ = flush.Flush() }) {
		x.abandon()
		return
	}
	s.cache.write(x.key+" "+x.model.Name, x.marks, s.opts.Clock.Now())
	begin()
	events, first := 0, true
	var pieces *rand.Rand
	if s.opts.Fragment > 0 {
		pieces = rand.New(rand.NewPCG(s.opts.Fragment, uint64(x.id))) //nolint:gosec // a test repeats it
	}
	x.d.steps(x, func(st step) bool {
		if x.fault != nil && events == x.fault.AfterEvents && !x.disturb(ctx, st.name, w, flush) {
			return false
		}
		if st.tokens > 0 {
			pace := time.Duration(st.tokens) * s.opts.PerToken
			if first {
				pace, first = pace-s.opts.PerToken, false
			}
			if s.pause(ctx, pace) != nil {
				x.abandon()
				return false
			}
		}
		x.sent += st.tokens
		if st.silent {
			return true
		}
		if err := send(w, x.d.frame(st), flush, pieces); err != nil || ctx.Err() != nil {
			x.abandon()
			return false
		}
		events++
		if flush.Flush() != nil {
			x.abandon()
			return false
		}
		return true
	})
}

// send writes an event, in pieces of random length where that is wanted.
func send(w http.ResponseWriter, frame []byte, flush *http.ResponseController, pieces *rand.Rand) error {
	for pieces != nil && len(frame) > 1 {
		n := 1 + pieces.IntN(min(len(frame)-1, 40))
		if _, err := w.Write(frame[:n]); err != nil {
			return err
		}
		if err := flush.Flush(); err != nil {
			return err
		}
		frame = frame[n:]
	}
	_, err := w.Write(frame)
	return err
}

// padding hides how long the texts of a stream's events are, as OpenAI's does: its length says nothing.
func padding(n int) string { return "devllmpadding"[:1+n*7%13] }

// awaitFirst waits for the first token; meanwhile the streams of some providers say that they live.
func (s *Server) awaitFirst(ctx context.Context, x *exchange, alive func([]byte)) bool {
	rest := s.opts.FirstToken
	var ping []byte
	switch s.opts.Profile.Name {
	case "anthropic":
		ping = sse(pingStep())
	case "openrouter":
		ping = []byte(": OPENROUTER PROCESSING\n\n")
	}
	for ping != nil && rest > s.opts.PingAfter {
		if s.pause(ctx, s.opts.PingAfter) != nil {
			return false
		}
		rest -= s.opts.PingAfter
		alive(ping)
	}
	return s.pause(ctx, rest) == nil
}

// disturb does what the fault says in the middle of a stream, before the event of that name; false: nothing comes behind it.
func (x *exchange) disturb(ctx context.Context, name string, w http.ResponseWriter, flush *http.ResponseController) bool {
	switch x.fault.Kind {
	case "stall":
		if x.fault.AfterEvents > 0 && !x.stall(ctx) {
			x.abandon()
			return false
		}
	case "cut":
		x.entry.Aborted = true
		_ = flush.Flush()
		panic(http.ErrAbortHandler)
	case "malformed":
		_, _ = w.Write(x.d.frame(step{name: name, raw: `{"id": "dev", "choices": [{"delta": {"content": "half an eve`}))
		x.entry.Aborted = true
		return false
	case "error-event":
		_, _ = w.Write(x.d.frame(x.d.midError(&failure{cause: overloaded, message: "Overloaded"})))
		x.entry.Aborted = true
		return false
	}
	return true
}

// raw is JSON that was made before.
func raw(v any) json.RawMessage { return json.RawMessage(compact(v)) }
