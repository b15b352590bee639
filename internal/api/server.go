// Package api serves an agentkernel.Kernel over HTTP: JSON for answers, Server-Sent Events for what a
// process does (docs/api.md). On the kernel's own unix socket today, on the network later, with the same
// handlers. It must never decide anything about processes: it decodes, calls the Kernel and encodes, and
// whatever a hostile client sends it answers with an error.
package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/api/wire"
	"agentkernel/internal/deadline"
)

// DefaultIdleAfter is how long a background kernel waits for a caller before it ends.
const DefaultIdleAfter = time.Minute

// The bounds of what a connection may cost before it has said anything, and of an orderly end.
const (
	headerPatience = 10 * time.Second
	bodyPatience   = 10 * time.Minute // a recording may be large
	maxHeader      = wire.MaxTarget + 64<<10
	endPatience    = 3 * time.Second
)

// Config says what to serve.
type Config struct {
	Kernel  agentkernel.Kernel // required
	Version string             // of this binary; compared with the caller's
	OSPID   int                // reported by /shutdown
	Logger  *slog.Logger       // nil: silent
	// IdleAfter ends the server when no process is carried on and nobody has called for so long. 0 means
	// DefaultIdleAfter, a negative value never.
	IdleAfter time.Duration
	// Principal says who sends a request, or refuses it. Nil: everybody who reaches the server is the owner, as on a socket that
	// the owner alone can connect to.
	Principal func(*http.Request) (agentkernel.Principal, error)
	// Task writes the program of a task in plain language, for a process of the kernel that the caller sees. CodeUnsupported: no model
	// is configured, and the task brings none. Nil: no task is done.
	Task func(context.Context, agentkernel.Kernel, *wire.TaskRequest) (wire.TaskProgram, error)
}

// Server answers requests. It may serve several listeners; they end together.
type Server struct {
	whole     agentkernel.Kernel // what the owner sees; see kernel
	principal func(*http.Request) (agentkernel.Principal, error)
	task      func(context.Context, agentkernel.Kernel, *wire.TaskRequest) (wire.TaskProgram, error)
	version   wire.Version
	osPID     int
	log       *slog.Logger
	idle      *idle
	handler   http.Handler

	stop     chan struct{} // closed when serving is to end
	entry    sync.Mutex    // before serving and stop
	stopOnce sync.Once
	serving  sync.WaitGroup
	hosting  sync.WaitGroup // connections that were upgraded
}

// New makes a server; nothing runs yet.
func New(cfg Config) (*Server, error) {
	if cfg.Kernel == nil {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "api", "there is no kernel to serve")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.IdleAfter == 0 {
		cfg.IdleAfter = DefaultIdleAfter
	}
	s := &Server{
		whole: cfg.Kernel, principal: cfg.Principal, task: cfg.Task, version: wire.Version{Version: cfg.Version, API: agentkernel.APIVersion}, osPID: cfg.OSPID,
		log: cfg.Logger, stop: make(chan struct{}),
	}
	s.idle = newIdle(cfg.IdleAfter, s.busy)
	s.handler = deadline.Bodies(bodyPatience, s.guard(s.mux()))
	return s, nil
}

// busy asks the kernel whether it carries processes. A kernel that cannot say is taken for busy.
func (s *Server) busy(ctx context.Context) bool {
	info, err := s.whole.Info(ctx)
	return err != nil || info.Processes > 0
}

// Handler answers requests; for other transports than Serve. Idleness is counted, not acted upon.
func (s *Server) Handler() http.Handler { return s.handler }

// Idle is closed when the server has found itself idle; Serve ends by itself then.
func (s *Server) Idle() <-chan struct{} { return s.idle.ended }

// Serve answers on a listener until ctx ends, the server is idle, POST /shutdown or Shutdown; then nil,
// once all requests have ended. Streams are told that the kernel ends. It closes the listener.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if !s.enter() {
		return errors.Join(agentkernel.Errorf(agentkernel.CodeUnavailable, "serve", "the server has been shut down"), ln.Close())
	}
	defer s.serving.Done()
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	srv := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: headerPatience,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnState:         s.idle.connection,
	}
	watch, endWatch := context.WithCancel(base)
	var watching sync.WaitGroup
	watching.Go(func() { s.idle.watch(watch) })
	defer watching.Wait()
	defer endWatch()

	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	var err error
	select {
	case err = <-failed:
		s.end()
		cancel()
		return errors.Join(agentkernel.AsError(err, agentkernel.CodeUnavailable, "serve"), srv.Close())
	case <-ctx.Done():
	case <-s.idle.ended:
	case <-s.stop:
	}
	s.end()
	_ = ln.Close() // no new callers; they find nobody and start a kernel of their own
	cancel()       // running streams and waits end
	bounded, done := context.WithTimeout(context.Background(), endPatience)
	defer done()
	if err := srv.Shutdown(bounded); err != nil {
		_ = srv.Close()
	}
	s.hosting.Wait()                                                                              // each ends with its context
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) { // closed above
		s.log.Warn("the socket ended badly", "err", err)
	}
	return nil
}

// enter counts a Serve that begins, unless all are to end: Shutdown's wait must not meet a late beginner.
func (s *Server) enter() bool {
	s.entry.Lock()
	defer s.entry.Unlock()
	if s.stopping() {
		return false
	}
	s.serving.Add(1)
	return true
}

// end makes every Serve return.
func (s *Server) end() {
	s.entry.Lock()
	defer s.entry.Unlock()
	s.stopOnce.Do(func() { close(s.stop) })
}

// Shutdown ends all Serve calls and waits for them, as long as ctx lasts.
func (s *Server) Shutdown(ctx context.Context) error {
	s.end()
	gone := make(chan struct{})
	go func() { s.serving.Wait(); close(gone) }()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Server) stopping() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// guard stands before every handler: versions, idleness, who calls.
func (s *Server) guard(next http.Handler) http.Handler {
	apiVersion := []string{strconv.Itoa(s.version.API)}
	version := []string{s.version.Version}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h[wire.HeaderVersion], h[wire.HeaderAPI] = version, apiVersion
		open := s.idle.begin()
		defer s.idle.end()
		if !open || s.stopping() {
			s.fail(w, r, s.refused(r))
			return
		}
		if err := s.checkVersion(r); err != nil {
			s.fail(w, r, err)
			return
		}
		r, err := s.known(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// failure is why the kernel's store has failed; nil: it has not. A new kernel would fail as well.
func (s *Server) failure() *agentkernel.Error {
	if k, ok := s.whole.(interface{ Failure() error }); ok {
		if err := k.Failure(); err != nil {
			return agentkernel.AsError(err, agentkernel.CodeStorage, "store")
		}
	}
	return nil
}

// refused is the error of a request that comes when the kernel ends: nothing of it was done.
func (s *Server) refused(r *http.Request) *agentkernel.Error {
	if e := s.failure(); e != nil {
		return e
	}
	e := agentkernel.Errorf(agentkernel.CodeUnavailable, "attach", "the kernel is ending")
	if pid, ok := strings.CutPrefix(r.URL.Path, wire.Prefix+"/processes/"); ok { // the mux has not looked at it yet
		pid, _, _ = strings.Cut(pid, "/")
		if n, err := agentkernel.ParsePID(pid); err == nil {
			return e.WithRecover(n)
		}
	}
	return e.WithHint("nothing of this request was done: run the command again, which starts a new kernel; `agentkernel recover` continues unfinished processes")
}

// cutOff is the error of a request that was under way when the kernel ended. pid is the process that it follows or asks about;
// 0: it names none, or has not come to know it.
func (s *Server) cutOff(r *http.Request, pid agentkernel.PID) *agentkernel.Error {
	e := s.failure()
	switch {
	case e != nil && pid != 0:
		return e.WithPID(pid)
	case e != nil:
		return e
	}
	e = agentkernel.Errorf(agentkernel.CodeUnavailable, agentkernel.OpKernel, "the kernel is ending")
	if pid != 0 {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, agentkernel.OpKernel, "the kernel is ending; process %d stands where its journal says", pid).WithRecover(pid)
	}
	if r.Method != http.MethodGet {
		return e.WithRecover(0)
	}
	return e.WithHint("run the command again: it starts a new kernel; `agentkernel recover` continues unfinished processes")
}

// checkVersion refuses callers of another version, except from asking for the version and from ending
// this kernel, which is how the mismatch is solved.
func (s *Server) checkVersion(r *http.Request) error {
	if r.URL.Path == wire.Prefix+"/version" || r.URL.Path == wire.Prefix+"/shutdown" {
		return nil
	}
	caller := s.version
	if v := r.Header.Get(wire.HeaderVersion); v != "" {
		caller.Version = v
	}
	if v := r.Header.Get(wire.HeaderAPI); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			return agentkernel.Errorf(agentkernel.CodeInvalid, "attach", "header %s: %q is not a number", wire.HeaderAPI, v)
		}
		if n != caller.API && r.Header.Get(wire.HeaderVersion) == "" {
			caller.Version = "of an unknown version"
		}
		caller.API = n
	}
	if caller != s.version {
		return wire.VersionError(s.version, caller)
	}
	return nil
}

// isAbort recognises the panic by which a handler gives up its connection.
func isAbort(p any) bool {
	err, ok := p.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// safely turns a panic of what it calls into an error, so that one request costs itself only.
func (s *Server) safely(r *http.Request, f func() error) (err error) {
	defer func() {
		if p := recover(); isAbort(p) {
			panic(p) // meant for net/http
		} else if p != nil {
			s.log.Error("panic in a request", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = agentkernel.Errorf(agentkernel.CodeInternal, r.URL.Path, "a defect in the kernel: %v", p).
				WithHint("kernel.log has the details; please report it")
		}
	}()
	return f()
}
