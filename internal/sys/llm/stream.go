package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/llm"
	"agentkernel/internal/sys"
)

const (
	// most is how many bytes of an answer wait for their program. Behind them the provider waits, too.
	most = 64 << 10
	// unread is how long the provider waits for a program that does not read, and scarce where others wait for the place of its request.
	unread = 5 * time.Minute
	scarce = 30 * time.Second
	// closing is how long it takes at most to learn what a stream has used up that is closed.
	closing = time.Second
)

var (
	errUnread = errors.New("the program has read nothing of it for 5 minutes")
	errWanted = errors.New("the program has read nothing of it for 30 seconds, and others wait for its place")
	errClosed = errors.New("the stream is closed")
)

// open asks, and answers a stream when the first bit of the answer is there: until then a failure is the call's.
func (f family) open(ctx context.Context, c *sys.Call) (sys.Outcome, error) {
	s := begin(ctx, c)
	select {
	case <-s.began:
	case <-s.ended:
	case <-ctx.Done(): // nobody waits for it any more
		s.cancel(context.Cause(ctx))
		<-s.ended
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil && (!s.told || ctx.Err() != nil) {
		return sys.Outcome{Settle: s.used}, s.err
	}
	return sys.Outcome{Stream: s, Keeps: true}, nil
}

// stream is an answer that comes bit by bit. A goroutine of its own asks for it, which waits while more is there than is read.
type stream struct {
	call   *sys.Call
	plan   llm.Plan
	ctx    context.Context
	cancel context.CancelCauseFunc
	began  chan struct{} // closed when the first bit has come
	known  chan struct{} // closed when it is known what was used
	ended  chan struct{} // closed when nothing comes any more

	mu    sync.Mutex
	told  bool                      // the first bit has come
	bits  []bit                     // that nobody has read yet
	size  int                       // of bits, in bytes
	chars int                       // of text that has come, in all
	last  time.Time                 // when something came
	more  chan struct{}             // closed when something comes
	room  chan struct{}             // closed when something is read
	onEnd func(agentkernel.Amounts) // nil: nobody is told

	// Since known is closed.
	answer json.RawMessage     // that nobody has read yet
	used   agentkernel.Amounts // nil: nobody knows
	err    error
}

// bit is what has come of an answer: text, a thought, or a part of a call.
type bit struct {
	call *llm.ToolCallDelta // without Args
	kind string             // text, reasoning or call
	text []byte             // of a call: of its arguments
}

// begin asks. ctx says until when the first bit has to be there.
func begin(ctx context.Context, c *sys.Call) *stream {
	s := &stream{call: c, plan: c.Admitted.(llm.Plan), last: time.Now(),
		began: make(chan struct{}), known: make(chan struct{}), ended: make(chan struct{}), more: make(chan struct{}), room: make(chan struct{})}
	own := context.Background()
	if at, bounded := ctx.Deadline(); bounded {
		own = llm.WithEnd(own, at)
	}
	s.ctx, s.cancel = context.WithCancelCause(own)
	go s.ask()
	return s
}

// ask asks, and keeps what has become of it.
func (s *stream) ask() {
	defer s.cancel(nil)
	a, used, err := s.plan.Ask(s.ctx, s.tell)
	var answer json.RawMessage
	if err == nil {
		answer, err = completion(a)
	}
	defer close(s.ended)
	s.mu.Lock()
	if why := context.Cause(s.ctx); err != nil && (errors.Is(why, errUnread) || errors.Is(why, errWanted)) {
		err = s.call.Errorf(agentkernel.CodeUnavailable, "the stream was ended after %d characters: %v", s.chars, why)
	}
	s.answer, s.used, s.err = answer, used, named(s.call, err)
	close(s.known)
	tell := s.onEnd
	s.mu.Unlock()
	s.tellEnd(tell)
}

// tellEnd tells what was used, unless whoever has closed the stream asks for it himself.
func (s *stream) tellEnd(tell func(agentkernel.Amounts)) {
	if tell != nil && !errors.Is(context.Cause(s.ctx), errClosed) {
		tell(s.used)
	}
}

// OnEnd has fn called when the request is over.
func (s *stream) OnEnd(fn func(used agentkernel.Amounts)) {
	s.mu.Lock()
	select {
	case <-s.known:
		s.mu.Unlock()
		s.tellEnd(fn)
	default:
		s.onEnd = fn
		s.mu.Unlock()
	}
}

// tell takes a bit, if there is room; else it waits.
func (s *stream) tell(d llm.Delta) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.size >= most {
		if err := s.wait(); err != nil {
			return err
		}
	}
	s.add(d)
	s.last = time.Now()
	if !s.told {
		s.told = true
		close(s.began)
	}
	close(s.more)
	s.more = make(chan struct{})
	return nil
}

// wait waits until something is read. s.mu is held, but not while it waits.
func (s *stream) wait() error {
	room := s.room
	s.mu.Unlock()
	defer s.mu.Lock()
	look := time.NewTicker(scarce)
	defer look.Stop()
	for waited := scarce; ; waited += scarce {
		select {
		case <-room:
			return context.Cause(s.ctx)
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-look.C:
		}
		switch {
		case waited >= unread:
			s.cancel(errUnread)
		case s.plan.Wanted():
			s.cancel(errWanted)
		}
	}
}

// add joins a bit to the last one, if that is of its kind.
func (s *stream) add(d llm.Delta) {
	next := bit{kind: "text", text: []byte(d.Text)}
	switch {
	case d.Call != nil:
		next = bit{kind: "call", text: []byte(d.Call.Args), call: d.Call}
	case d.Reasoning != "":
		next = bit{kind: "reasoning", text: []byte(d.Reasoning)}
	}
	s.chars += utf8.RuneCountInString(d.Text)
	s.size += len(next.text)
	if n := len(s.bits); n > 0 && s.bits[n-1].continues(&next) {
		s.bits[n-1].text = append(s.bits[n-1].text, next.text...)
		return
	}
	s.size += bitCost
	s.bits = append(s.bits, next)
}

// bitCost is what a bit costs beside its text, in bytes.
const bitCost = 128

// continues says whether next only adds to the text of b.
func (b *bit) continues(next *bit) bool {
	if b.kind != next.kind {
		return false
	}
	return next.call == nil || next.call.Index == b.call.Index && next.call.ID == "" && next.call.Name == ""
}

// item is a bit as programs read it.
func (b *bit) item() json.RawMessage {
	if b.call == nil {
		return wrap(b.kind, journal.String(string(b.text)))
	}
	out := append([]byte(`{"arguments":`), journal.String(string(b.text))...)
	if b.call.ID != "" {
		out = append(append(out, `,"id":`...), journal.String(b.call.ID)...)
	}
	out = strconv.AppendInt(append(out, `,"index":`...), int64(b.call.Index), 10)
	if b.call.Name != "" {
		out = append(append(out, `,"name":`...), journal.String(b.call.Name)...)
	}
	return wrap(b.kind, append(out, '}'))
}

func wrap(name string, value json.RawMessage) json.RawMessage {
	return append(append(append([]byte(`{"`), name...), `":`...), append(value, '}')...)
}

// Next gives all that has come. The answer is the last item; an error comes behind what had come before it.
func (s *stream) Next(ctx context.Context) (sys.Items, error) {
	for {
		s.mu.Lock()
		items, ready, err := s.take()
		more := s.more
		s.mu.Unlock()
		if ready {
			return items, err
		}
		select {
		case <-more:
		case <-s.ended:
		case <-ctx.Done():
			return sys.Items{}, ctx.Err()
		}
	}
}

// take takes what there is. s.mu is held.
func (s *stream) take() (items sys.Items, ready bool, err error) {
	for i := range s.bits {
		items.List = append(items.List, s.bits[i].item())
	}
	over := s.over()
	if over && s.err == nil && s.answer != nil {
		items.List = append(items.List, wrap("answer", s.answer))
		s.answer = nil
	}
	if len(s.bits) > 0 {
		s.bits, s.size = nil, 0
		close(s.room)
		s.room = make(chan struct{})
	}
	if items.Ended = over && (s.err == nil || len(items.List) == 0); items.Ended {
		items.Total = s.used
	}
	if len(items.List) > 0 {
		return items, true, nil
	}
	return items, over, s.err
}

// over says that nothing comes any more. s.mu is held.
func (s *stream) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// Waiting says what there is so far.
func (s *stream) Waiting() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over() {
		return ""
	}
	return fmt.Sprintf("model %s: %d characters so far, the last %.1f s ago", s.plan.Alias(), s.chars, time.Since(s.last).Seconds())
}

// Close ends the request.
func (s *stream) Close() { s.cancel(errClosed) }

// Settle ends the request, and says what it has used up.
func (s *stream) Settle() agentkernel.Amounts {
	s.Close()
	patience := time.NewTimer(closing)
	defer patience.Stop()
	select {
	case <-s.known:
	case <-patience.C:
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}
