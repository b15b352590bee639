package tool

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"agentkernel"
	"agentkernel/internal/places"
)

// server is one configured server: at most one incarnation of it runs at a time.
type server struct {
	hub   *Hub
	entry *entry
	slots *places.Places

	current atomic.Pointer[instance] // the newest incarnation, dead or alive
	used    atomic.Bool              // it was started at least once

	mu      sync.Mutex
	start   *startup // under way
	breaker breaker
	closed  bool
}

// startup is a start under way, shared by all who need the server.
type startup struct {
	done chan struct{}
	inst *instance
	err  error
}

func newServer(h *Hub, e *entry) *server {
	n := e.concurrency
	if n == 0 {
		n = h.cfg.Concurrency
	}
	return &server{hub: h, entry: e, slots: places.New(n, strconv.Quote(e.name))}
}

// running gives the living instance, starting one if there is none. Nothing has been sent for the caller
// when it fails. A start goes on when the caller gives up: the next one finds the server running.
func (s *server) running(ctx context.Context) (*instance, error) {
	if inst := s.current.Load(); inst != nil && inst.alive() {
		return inst, nil
	}
	st, err := s.starting()
	if err != nil {
		return nil, err
	}
	if st == nil {
		return s.current.Load(), nil
	}
	select {
	case <-st.done:
		return st.inst, st.err
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, agentkernel.Errorf(agentkernel.CodeTimeout, "tool.start",
			"server %q is still starting; the call was not sent", s.entry.name)
	}
	return nil, agentkernel.AsError(ctx.Err(), agentkernel.CodeCanceled, "tool.start")
}

// starting joins a start under way or begins one; (nil, nil) if the server runs by now.
func (s *server) starting() (*startup, error) {
	if err := s.entry.refuses(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "tool.start", "server %q: the kernel is stopping", s.entry.name)
	case s.start != nil:
		return s.start, nil
	}
	if inst := s.current.Load(); inst != nil && inst.alive() {
		return nil, nil
	}
	pause, open := s.breaker.wait(s.hub.cfg.Clock())
	if open && s.entry.program != 0 { // it does not come back, and to be told so costs nothing
		return nil, s.breaker.cause
	}
	if open {
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "tool.start",
			"server %q failed %d times in a row and is left alone for %s; the last time: %w", s.entry.name,
			s.breaker.failures, pause.Round(time.Second), s.breaker.cause).WithHint("mend it, then call again")
	}
	st := &startup{done: make(chan struct{})}
	s.start = st
	s.used.Store(true)
	s.hub.work.Go(func() { s.begin(st, pause) })
	return st, nil
}

// begin runs one start to its end.
func (s *server) begin(st *startup, pause time.Duration) {
	inst, err := s.launch(pause)
	s.mu.Lock()
	s.start = nil
	switch {
	case err != nil && !s.closed:
		s.breaker.fail(s.hub.cfg.Clock(), err)
	case err == nil && s.closed:
		s.mu.Unlock()
		inst.stop()
		s.mu.Lock()
		err = agentkernel.Errorf(agentkernel.CodeUnavailable, "tool.start", "server %q: the kernel is stopping", s.entry.name)
	case err == nil:
		s.current.Store(inst)
		s.hub.work.Go(func() { s.watch(inst) })
	}
	s.mu.Unlock()
	if err != nil {
		inst = nil
		s.hub.cfg.Logger.Warn("tool server did not start", "server", s.entry.name, "error", s.entry.secrets.text(err.Error()))
	} else {
		s.hub.cfg.Logger.Info("tool server started", "server", s.entry.name, "incarnation", inst.id)
	}
	st.inst, st.err = inst, err
	close(st.done)
}

func (s *server) launch(pause time.Duration) (*instance, error) {
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.hub.ctx.Done():
			return nil, s.hub.ctx.Err()
		}
	}
	return startInstance(s.hub.ctx, s.entry, s.hub.instances)
}

// watch waits for the end of an instance and clears up behind it.
func (s *server) watch(inst *instance) {
	select {
	case <-inst.gone:
	case <-inst.dropped:
	case <-s.hub.ctx.Done():
		inst.close()
		return
	}
	if !inst.closing.Load() && !inst.lost.Load() {
		why := inst.death()
		s.hub.cfg.Logger.Warn("tool server ended", "server", s.entry.name, "incarnation", inst.id,
			"why", s.entry.secrets.text(why))
		s.failedWith(inst, errors.New(s.entry.secrets.text(why+inst.lastWords())))
	}
	inst.stop()
}

// failedWith notes that an instance ended before it answered any call.
func (s *server) failedWith(inst *instance, why error) {
	if inst.answered.Load() || inst.failed.Swap(true) {
		return
	}
	s.mu.Lock()
	s.breaker.fail(s.hub.cfg.Clock(), why)
	s.mu.Unlock()
}

// answeredBy notes that an instance works.
func (s *server) answeredBy(inst *instance) {
	if inst.answered.Swap(true) {
		return
	}
	s.mu.Lock()
	s.breaker.ok()
	s.mu.Unlock()
}

// close stops the server for good.
func (s *server) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	if inst := s.current.Load(); inst != nil {
		inst.close()
	}
}

// isRunning says whether a living instance exists now.
func (s *server) isRunning() bool {
	inst := s.current.Load()
	return inst != nil && inst.alive()
}

// refuses says why an entry cannot be started at all.
func (e *entry) refuses() error {
	switch {
	case e.problem != nil:
		return e.problem
	case e.disabled:
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "tool.start", "server %q is disabled", e.name).
			WithHint("take \"disabled\" out of %s, %s", e.file, e.where)
	}
	return nil
}

// describe is the server for listings.
func (s *server) describe(python string) agentkernel.ToolServer {
	e := s.entry
	d := agentkernel.ToolServer{Name: e.name, PythonName: python, Transport: e.transport, Trusted: e.trusted,
		Running: s.isRunning(), Source: e.file}
	if err := e.refuses(); err != nil {
		d.Problem = e.secrets.text(agentkernel.AsError(err, agentkernel.CodeUnavailable, "").Message())
		return d
	}
	if inst := s.current.Load(); inst != nil && inst.conn != nil {
		d.Printed = e.secrets.text(inst.conn.words.String())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.breaker.failures; n > 0 && s.breaker.cause != nil {
		d.Problem = fmt.Sprintf("failed %s: %v", times(n), s.breaker.cause)
	}
	return d
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times in a row", n)
}
