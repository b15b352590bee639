package api

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

const (
	// streamBuffer bounds what a slow client leaves unsent in memory; beyond it the source has to wait.
	streamBuffer = 1 << 20
	// silence is how long a stream may say nothing before it says that it is alive, so that proxies keep it.
	silence = 15 * time.Second
	// firstSilence is how long the answer's status waits for the first event: an error before it is an
	// ordinary error answer.
	firstSilence = 20 * time.Millisecond
	// aliveFrame is a comment, which readers pass over.
	aliveFrame = ":\n\n"
)

// stream answers with the events that source reports, then its result. After an event of the kind last, source
// returns at once.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, last agentkernel.EventKind, source func(ctx context.Context, fn func(agentkernel.Event) error) (wire.Done, error)) error {
	out := newStream(w)
	out.lastKind = last
	// A client that reads nothing must not hold up the end of the kernel.
	release := context.AfterFunc(r.Context(), out.hurry)
	defer release()
	var done wire.Done
	err := s.safely(r, func() (err error) {
		done, err = source(r.Context(), func(ev agentkernel.Event) error { return out.event(r.Context(), &ev) })
		return err
	})
	started := out.stop()
	switch {
	case err != nil && !started:
		return err
	case err != nil:
		out.last(wire.FrameFailure, s.explainOf(r, out.process(), err))
	default:
		out.last(wire.FrameDone, done)
	}
	return nil
}

// eventStream writes frames from a goroutine of its own: while one write is under way the next frames
// gather, so that a burst costs few writes and a single event no delay. What is all said at once needs no such goroutine:
// it begins with the first event that must not wait for the last, or when there is none for too long.
type eventStream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
	// lastKind is the kind of the event after which the stream ends.
	lastKind agentkernel.EventKind

	mu      sync.Mutex
	pid     agentkernel.PID // that events were of; 0: there was none
	pending bytes.Buffer
	scratch bytes.Buffer
	failed  error
	running bool // the goroutine was started
	stopped bool // none may start any more
	quiet   *time.Timer

	started bool // the status is sent or about to be; written by run, read after stop
	wake    chan struct{}
	room    chan struct{}
	quit    chan struct{}
	gone    chan struct{}
}

func newStream(w http.ResponseWriter) *eventStream {
	st := &eventStream{
		w: w, rc: http.NewResponseController(w),
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1),
		quit: make(chan struct{}), gone: make(chan struct{}),
	}
	st.quiet = time.AfterFunc(firstSilence, st.breakSilence)
	return st
}

// breakSilence begins a stream that has nothing to say yet.
func (st *eventStream) breakSilence() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.running || st.stopped {
		return
	}
	st.pending.WriteString(aliveFrame)
	st.send()
}

// send has what is pending written; mu is held.
func (st *eventStream) send() {
	if !st.running {
		st.running = true
		go st.run()
	}
	poke(st.wake)
}

// event queues an event; it waits while the client is far behind.
func (st *eventStream) event(ctx context.Context, ev *agentkernel.Event) error {
	for {
		st.mu.Lock()
		switch {
		case st.failed != nil:
			defer st.mu.Unlock()
			return st.failed
		case st.pending.Len() < streamBuffer:
			defer st.mu.Unlock()
			seq := ev.Seq
			if seq == 0 { // a question of a process below, or shown once more: nobody begins there again
				seq = -1
			} else {
				st.pid = ev.PID
			}
			if err := st.append(string(ev.Kind), seq, ev); err != nil {
				return err
			}
			if ev.Kind != st.lastKind { // else it leaves with the last frame, in one write
				st.send()
			}
			return nil
		}
		st.mu.Unlock()
		select {
		case <-st.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// process is whose events are streamed; 0: not known.
func (st *eventStream) process() agentkernel.PID {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.pid
}

// append adds a frame to what is pending; mu is held. seq below 0: no id.
func (st *eventStream) append(name string, seq int64, v any) error {
	st.scratch.Reset()
	if err := encodeTo(&st.scratch, v); err != nil {
		return err
	}
	if seq >= 0 {
		st.pending.WriteString("id: ")
		st.pending.Write(strconv.AppendInt(st.pending.AvailableBuffer(), seq, 10))
		st.pending.WriteByte('\n')
	}
	st.pending.WriteString("event: ")
	st.pending.WriteString(name)
	st.pending.WriteString("\ndata: ")
	st.pending.Write(st.scratch.Bytes()) // ends with a newline
	st.pending.WriteByte('\n')
	return nil
}

func (st *eventStream) run() {
	defer close(st.gone)
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	var sending bytes.Buffer
	for {
		select {
		case <-st.quit:
			return
		case <-st.wake:
			select {
			case <-st.quit: // what is pending leaves with the last frame
				return
			default:
			}
		case <-quiet.C:
			st.mu.Lock()
			st.pending.WriteString(aliveFrame)
			st.mu.Unlock()
		}
		st.mu.Lock()
		sending, st.pending = st.pending, sending
		st.mu.Unlock()
		poke(st.room)
		if sending.Len() > 0 {
			if err := st.write(sending.Bytes()); err != nil {
				st.mu.Lock()
				st.failed = agentkernel.Errorf(agentkernel.CodeCanceled, "stream", "the client is gone: %w", err)
				st.mu.Unlock()
				poke(st.room)
				return
			}
		}
		sending.Reset()
		quiet.Reset(silence)
	}
}

func (st *eventStream) write(b []byte) error {
	st.start()
	if _, err := st.w.Write(b); err != nil {
		return err
	}
	return st.rc.Flush()
}

func (st *eventStream) start() {
	if st.started {
		return
	}
	st.started = true
	h := st.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	st.w.WriteHeader(http.StatusOK)
}

// stop ends the writing goroutine. It says whether the stream has begun, sent or pending.
func (st *eventStream) stop() (started bool) {
	st.quiet.Stop()
	st.mu.Lock()
	st.stopped = true
	running := st.running
	st.mu.Unlock()
	if running {
		close(st.quit)
		<-st.gone
	}
	return st.started || st.pending.Len() > 0
}

// last writes what is pending and a final frame; after stop. No flush: the end of the handler sends it
// together with the end of the answer.
func (st *eventStream) last(name string, v any) {
	if st.failed != nil {
		return
	}
	if err := st.append(name, -1, v); err != nil {
		// Cut the stream: its reader asks again and is told in an ordinary answer.
		panic(http.ErrAbortHandler)
	}
	st.start()
	_, _ = st.w.Write(st.pending.Bytes())
}

// hurryPatience is how long a stream's last frames may take once the kernel ends.
const hurryPatience = time.Second

func (st *eventStream) hurry() { _ = st.rc.SetWriteDeadline(time.Now().Add(hurryPatience)) }

func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
