package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"agentkernel"
)

// Bounds of a call where its arguments say nothing, and of what they may say.
const (
	defaultTimeout = 120 * time.Second
	maxTimeout     = 24 * time.Hour
	largeCode      = 1 << 20 // bytes from which on a limit may be the code's own doing
)

func (h *server) executeTools() []*definition {
	return []*definition{
		handle(&definition{name: "execute_code", minimal: true, shown: true, destroys: true, runs: true,
			say: "Run Python in a sandbox; returns what it prints and the value of its last expression. Tools are importable functions " +
				"(from tools.github import search_issues); results stay inside the program. Variables last."}, executeCode),
		handle(&definition{name: "execute_task", destroys: true, needsPlan: true, runs: true,
			say: "Do a task in words: by a model, a recipe (totals of CSV) or MCP sampling."}, executeTask),
	}
}

type executeInput struct {
	Code     string  `json:"code"`
	Session  string  `json:"session,omitempty" say:"\"new\", \"none\" or an id"`
	Timeout  float64 `json:"timeout,omitempty" say:"seconds, default 120"`
	Language string  `json:"language,omitempty"`
	Backend  string  `json:"backend,omitempty"`
	Key      string  `json:"idempotency_key,omitempty" where:"hosts"`
	// Packages are requirements as pip writes them. An error says how they are written.
	Packages []string `json:"packages,omitempty" where:"packages"`
}

type executeOutput struct {
	Result   json.RawMessage `json:"result,omitempty"`
	Stdout   string          `json:"stdout"`
	Stderr   string          `json:"stderr,omitempty"`
	Error    *programError   `json:"error,omitempty"`
	State    string          `json:"state"`
	PID      int64           `json:"pid"`
	Session  string          `json:"session,omitempty"`
	ExitCode int             `json:"exit_code,omitempty"`
	Note     string          `json:"note,omitempty"`
	// Artifacts are the files that the program made or changed, where it has a folder.
	Artifacts []artifact `json:"artifacts,omitempty"`
	images    []image
	links     []link
	preview   string
	ran       bool // something of it was seen: a call, output
	kept      bool // the folder does not have the artifacts yet
	open      bool // they are a session's, that may change them still
}

// programError is an error that a model can act on.
type programError struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Traceback string `json:"traceback,omitempty"`
	Try       string `json:"try,omitempty"`
}

// executeCode runs a cell of the client's session, or a program of its own.
func executeCode(ctx context.Context, c *call, in executeInput) (*executeOutput, error) {
	in.Code = unwrapped(in.Code)
	in.speakPlainly()
	if strings.TrimSpace(in.Code) == "" {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "execute_code", "code is empty")
	}
	timeout, err := seconds(in.Timeout, defaultTimeout)
	if err != nil {
		return nil, err
	}
	host, err := c.packages(ctx, &in)
	if err != nil {
		return nil, err
	}
	if in.Key, err = c.ownKey(in.Key); err != nil {
		return nil, err
	}
	for tries := 1; ; tries++ {
		out, err := c.execute(ctx, in, host, timeout)
		if !keyTaken(err) || tries == keyTries {
			return out, err
		}
	}
}

// execute runs code where it belongs: where code with the same key has run, else in the session or by itself.
func (c *call) execute(ctx context.Context, in executeInput, host string, timeout time.Duration) (*executeOutput, error) {
	switch p, err := c.holder(ctx, in.Key); {
	case err != nil:
		return nil, err
	case p != nil && p.Name == sessionName:
		return c.runInSession(ctx, in, timeout, c.sessionOf(p))
	case p != nil:
		return c.runAlone(ctx, in, host, timeout)
	}
	if why := c.alone(&in, host); why != "" || in.Session == "none" {
		if in.Session != "" && in.Session != "none" {
			return nil, agentkernel.Errorf(agentkernel.CodeUnsupported, "execute_code", "no session keeps the variables of this: %s", why).
				WithHint(`leave session out, or use "none"`)
		}
		out, err := c.runAlone(ctx, in, host, timeout)
		if err == nil && in.Session == "" {
			c.noteOnce(out, "ran by itself; variables do not last: "+why)
		}
		return out, err
	}
	out, err := c.runInSession(ctx, in, timeout, nil)
	if err == nil && out.Error != nil && out.Error.Code == string(agentkernel.CodeLimit) && len(in.Code) > largeCode {
		out.Error.Try = fmt.Sprintf("the code has %d bytes: let it read data from a tool or a state file instead of holding it", len(in.Code))
	}
	if agentkernel.CodeOf(err) == agentkernel.CodeUnsupported && in.Session == "" && in.Backend == "" {
		// Nothing ran. Another backend may be able to, without the session's variables.
		other, otherErr := c.runAlone(ctx, in, "", timeout)
		if agentkernel.CodeOf(otherErr) == agentkernel.CodeUnsupported {
			return nil, otherErr // why neither can
		}
		if otherErr == nil {
			other.addNote("ran outside the session, whose variables it did not see: " + agentkernel.AsError(err, "", "").Message())
			return other, nil
		}
	}
	return out, err
}

// packages gives the environment that a program needs, if this server was allowed to build one; "": none.
func (c *call) packages(ctx context.Context, in *executeInput) (host string, err error) {
	python := in.Language == "" || in.Language == string(agentkernel.Python)
	switch {
	case len(in.Packages) > 0 && c.h.cfg.Packages == nil:
		return "", agentkernel.Errorf(agentkernel.CodeDenied, "execute_code", "this server installs no packages").
			WithHint("use what is there; agentkernel mcp --allow-packages allows it")
	case len(in.Packages) > 0 && !python:
		return "", agentkernel.Errorf(agentkernel.CodeInvalid, "execute_code", "packages are for programs in Python")
	case c.h.cfg.Packages == nil || !python:
		return "", nil
	}
	return c.h.cfg.Packages(ctx, in.Code, in.Packages)
}

// alone says why a program cannot be a cell of a session; "": it can, as far as one can tell before it is read.
func (c *call) alone(in *executeInput, host string) string {
	language := in.Language
	switch {
	case language != "" && language != string(agentkernel.Python):
		return "sessions are Python"
	case host != "":
		return "a program with packages has an environment of its own"
	case c.h.cfg.Spec.Publishes():
		return "what a program writes is published when it ends, so each has its end"
	}
	return ""
}

// noteOnce adds what a client need not hear with each answer.
func (c *call) noteOnce(out *executeOutput, text string) {
	if _, said := c.client.said.LoadOrStore(text, true); !said {
		out.addNote(text)
	}
}

// seconds reads a timeout.
func seconds(s float64, otherwise time.Duration) (time.Duration, error) {
	switch {
	case s == 0:
		return otherwise, nil
	case s < 0 || s > maxTimeout.Seconds() || s != s:
		return 0, agentkernel.Errorf(agentkernel.CodeInvalid, "timeout", "a timeout of %v s is out of range: more than 0, at most %v", s, maxTimeout.Seconds())
	}
	return time.Duration(s * float64(time.Second)), nil
}

// spec is the template with a program in it.
func (c *call) spec(code string, in *executeInput, timeout time.Duration) agentkernel.Spec {
	spec := c.h.cfg.Spec
	spec.Namespace = c.namespace()
	spec.Program = agentkernel.Program{Name: "program.py", Language: agentkernel.Python, Source: code, Modules: spec.Program.Modules}
	if in.Language != "" {
		spec.Program.Language = agentkernel.Language(in.Language)
	}
	if in.Backend != "" {
		spec.Backend = in.Backend
	}
	spec.Limits.Wall = agentkernel.Duration(timeout)
	return spec
}

// runAlone runs a program of its own.
func (c *call) runAlone(ctx context.Context, in executeInput, host string, timeout time.Duration) (*executeOutput, error) {
	spec := c.spec(in.Code, &in, timeout)
	spec.Program.Host = host
	a := c.attempt(in.Key, "alone", in.Code, in.Language, in.Backend, host)
	return c.runOnce(ctx, a, spec, timeout)
}

// runOnce runs a program to its end, unless the same request has: then it is answered with what came of that.
func (c *call) runOnce(ctx context.Context, a *attempt, spec agentkernel.Spec, timeout time.Duration) (*executeOutput, error) {
	spec.IdempotencyKey = a.key
	out, err := c.run(ctx, spec, timeout)
	if err == nil && out.State == string(agentkernel.StateUnfinished) { // its kernel died
		if _, err = c.recovered(ctx, agentkernel.Process{PID: agentkernel.PID(out.PID)}); err == nil {
			out, err = c.run(ctx, spec, timeout)
		}
	}
	c.settle(ctx, a, out, err)
	what := "the program may have run"
	if e, ok := errors.AsType[*agentkernel.Error](err); ok && e.PID != 0 {
		what += fmt.Sprintf(" as process %d", e.PID)
	}
	return out, c.lost(err, what)
}

// recovered continues a process whose kernel died, for a client that asks for it again.
func (c *call) recovered(ctx context.Context, p agentkernel.Process) (agentkernel.Process, error) {
	_, err := c.kernel().Recover(ctx, p.PID)
	if err == nil || agentkernel.CodeOf(err) == agentkernel.CodeConflict { // it has ended meanwhile
		p, err = c.kernel().Process(ctx, p.PID)
	}
	if noKernel(err) { // also where the question was refused: the process is begun
		err = diedAgain(err)
	}
	return p, err
}

// run runs a program to its end. If the client goes or gives up, the program is ended.
func (c *call) run(ctx context.Context, spec agentkernel.Spec, timeout time.Duration) (*executeOutput, error) {
	limit := 2 * maxTimeout // the kernel ends it in time
	if c.asks != asksNot {  // but its clock does not stand still while somebody is asked
		limit, spec.Limits.Wall = timeout, agentkernel.Duration(maxTimeout)
	}
	running, clock, stop := bounded(ctx, limit)
	defer stop()
	watch := c.watch(ctx, clock)
	defer watch.stop()
	traced, known, untrace := untilKnown(running)
	defer untrace()
	p, err := c.kernel().Run(traced, c.interactive(spec), func(ev agentkernel.Event) error {
		err := watch.event(ev)
		known()
		return err
	})
	if err == nil {
		out := watch.output(p, p.Result, p.Error)
		c.addArtifacts(ctx, out, new(sync.Map))
		return out, nil
	}
	c.kill(running, watch.pid)
	if ctx.Err() == nil && running.Err() != nil {
		out := watch.timedOut(c.stopped(ctx, watch.pid), timeout, false)
		c.addArtifacts(ctx, out, new(sync.Map))
		return out, nil
	}
	if c.ending() && watch.pid != 0 {
		return nil, agentkernel.AsError(c.cutShort(err), agentkernel.CodeInternal, "").WithPID(watch.pid)
	}
	return nil, err
}

// kill ends the work of a client that has gone or cancelled; if the server ends, it goes on.
func (c *call) kill(ctx context.Context, pid agentkernel.PID) {
	if ctx.Err() == nil || pid == 0 || c.ending() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	if err := c.kernel().Signal(ctx, pid, agentkernel.SignalKill); err != nil && agentkernel.CodeOf(err) != agentkernel.CodeConflict {
		c.h.cfg.Logger.Warn("a cancelled program could not be ended", "pid", pid, "err", err)
	}
}

var errTimeout = errors.New("timeout")

// runInSession feeds the code to a session: had, if that is where its key is, or the one that the call means.
func (c *call) runInSession(ctx context.Context, in executeInput, timeout time.Duration, had *session) (out *executeOutput, err error) {
	c.client.mu.Lock()
	defer c.client.mu.Unlock()
	a, note := c.attempt(in.Key, "session", in.Session, in.Code, in.Backend), ""
	if had != nil {
		a.session = had
	}
	if a.session == nil {
		if a.session, note, err = c.sessionFor(ctx, a, in, timeout); err != nil {
			return nil, err
		}
	}
	if a.cell.Source == "" {
		a.cell = agentkernel.Cell{Name: fmt.Sprintf("cell %d", a.session.cells.Add(1)), Source: in.Code, Modules: c.h.cfg.Spec.Program.Modules, Backend: in.Backend, Key: a.key, Shared: a.given}
	}
	out, err = c.feed(ctx, a, timeout)
	if untold(err) {
		a.session.unsettled.Store(a) // not while it runs: whoever else uses the session would take it for one whose answer was lost
	} else {
		if before := a.session.unsettled.Load(); a.is(before, a.cell.Source) { // it is told now, be it of an earlier attempt
			a.session.unsettled.CompareAndSwap(before, nil)
		}
		if err != nil {
			a.session.cells.Add(-1)
		}
	}
	c.settle(ctx, a, out, err)
	if err != nil {
		return nil, c.lost(err, fmt.Sprintf("the code may have run in session %d", a.session.pid))
	}
	if note != "" {
		out.addNote(note)
	}
	return out, nil
}

// feed hands a session a cell, or follows it if it was handed over before, until it has run.
func (c *call) feed(ctx context.Context, a *attempt, timeout time.Duration) (*executeOutput, error) {
	s := a.session
	defer c.h.clients.feeding(s)()
	running, clock, stop := bounded(ctx, timeout)
	defer stop()
	watch := c.watch(ctx, clock)
	defer func() { watch.stop() }()
	watch.session = true
	end, err := c.kernel().Feed(running, s.pid, a.cell, watch.event)
	for agentkernel.CodeOf(err) == agentkernel.CodeConflict && c.left(ctx, s) { // nothing of a new cell has run
		if err = c.takeUp(running, s, watch); err != nil {
			break
		}
		watch.stop()
		watch = c.watch(ctx, clock)
		watch.session = true
		end, err = c.kernel().Feed(running, s.pid, a.cell, watch.event)
	}
	switch {
	case err != nil && c.ending(): // the cell goes on
		return nil, c.cutShort(err)
	case running.Err() != nil && err != nil:
		kept := c.stopCell(ctx, s)
		if ctx.Err() != nil {
			return nil, agentkernel.AsError(ctx.Err(), agentkernel.CodeCanceled, "execute_code")
		}
		out := watch.timedOut(c.stopped(ctx, s.pid), timeout, kept)
		if kept {
			c.tellStop(ctx, out, s.pid, watch.seen())
		}
		return out, nil
	case agentkernel.CodeOf(err) == agentkernel.CodeConflict && c.gone(ctx, s):
		c.h.clients.forget(c.client, s)
		return nil, agentkernel.AsError(err, agentkernel.CodeConflict, "execute_code").WithHint("call again: a new session begins, without the old variables")
	case agentkernel.CodeOf(err) == agentkernel.CodeConflict && c.unfinished(ctx, s):
		return nil, diedAgain(err)
	case err != nil:
		return nil, err
	}
	return c.fed(ctx, s, end, watch), nil
}

// fed is the answer about a cell that has run.
func (c *call) fed(ctx context.Context, s *session, end agentkernel.CellEnd, watch *watch) *executeOutput {
	if !end.Ended {
		end.Process.ExitCode = 0 // of a session that has ended since: this cell had run before
	}
	out := watch.output(end.Process, end.Result, end.Error)
	c.addArtifacts(ctx, out, &s.shown)
	if end.Ended {
		c.h.clients.forget(c.client, s)
		out.Note = "the session ended with this; the next call begins a new one"
		return out
	}
	if _, known := s.ran.LoadOrStore(end.Process.Backend, true); !known && end.Process.Moved != nil {
		out.addNote("the session runs in " + runtimeOf(end.Process.Backend) + " from here on, with its variables: " + end.Process.Moved.Why)
		if strings.Contains(end.Process.Moved.Why, agentkernel.NoFiles) && c.h.cfg.Spec.Workspace == nil {
			out.addNote(agentkernel.FilesOfSession)
		}
	}
	out.State = "idle"
	if end.Error != nil {
		out.State = "failed"
	}
	if !end.Process.State.Terminal() {
		out.Session = s.pid.String()
	}
	return out
}

// sessionFor is the session that new code is for. A cell of it that nobody was told the outcome of comes first: the note says
// what became of it. If the code is that cell, made again with its key, it is handed over again as it was.
func (c *call) sessionFor(ctx context.Context, a *attempt, in executeInput, timeout time.Duration) (s *session, note string, err error) {
	if s, err = c.session(ctx, in.Session, in.Backend); err != nil {
		return nil, "", err
	}
	before := s.unsettled.Load()
	if before == nil {
		return s, "", nil
	}
	if a.is(before, in.Code) {
		a.cell = before.cell
		return s, "", nil
	}
	out, err := c.feed(ctx, before, timeout)
	if untold(err) {
		return nil, "", c.lost(err, fmt.Sprintf("the code may have run in session %d", s.pid))
	}
	s.unsettled.Store(nil)
	if c.inDoubt(ctx, before, out) {
		out.addNote(notAgain)
	} else {
		c.client.attempts.drop(before)
	}
	if err != nil {
		note = agentkernel.AsError(err, "", "").TextFor(agentkernel.OverMCP)
	} else {
		note = strings.ToValidUTF8(out.text()[:min(len(out.text()), maxPreview)], "")
	}
	note = "the code before this, whose answer was lost, has run: " + note
	if c.client.session == nil { // it ended with that
		if s, err = c.session(ctx, "", in.Backend); err != nil {
			return nil, "", err
		}
		note += "; its session ended, and this is a new one"
	}
	return s, note, nil
}

// unfinished says whether a session's kernel died.
func (c *call) unfinished(ctx context.Context, s *session) bool {
	p, err := c.kernel().Process(ctx, s.pid)
	return err == nil && p.State == agentkernel.StateUnfinished
}

// left says whether a session's kernel died, and what that left has not been waited for since.
func (c *call) left(ctx context.Context, s *session) bool {
	p, err := c.kernel().Process(ctx, s.pid)
	return err == nil && (p.State == agentkernel.StateUnfinished || !p.State.Terminal() && (!p.Paused || p.Asks() != "") && int64(p.Recoveries) > s.taken.Load())
}

// diedAgain is the error of code whose kernel died, as did the one that continued it.
func diedAgain(err error) error {
	if err == nil {
		err = errors.New("the process is unfinished")
	}
	return agentkernel.Errorf(agentkernel.CodeUnavailable, agentkernel.OpKernel, "the kernel that continued it went away, too: %w", err)
}

// takeUp continues a session whose kernel died, until it can have its next cell. What the cell before it asks, the human of this
// call is asked.
func (c *call) takeUp(ctx context.Context, s *session, watch *watch) error {
	if _, err := c.recovered(ctx, agentkernel.Process{PID: s.pid}); err != nil {
		return err
	}
	listening, stop := context.WithCancel(ctx)
	var listener sync.WaitGroup
	listener.Go(func() {
		_ = c.kernel().Events(listening, s.pid, 1, true, func(ev agentkernel.Event) error { // what goes wrong there, the next cell meets
			if ev.Kind == agentkernel.EventAsk {
				watch.asked(ev.PID, ev.Ask)
			}
			return nil
		})
	})
	c.awaitIdle(ctx, s.pid, maxTimeout)
	stop()
	listener.Wait()
	p, err := c.kernel().Process(ctx, s.pid)
	switch {
	case err != nil:
		return err
	case p.State == agentkernel.StateUnfinished:
		return diedAgain(nil)
	}
	s.taken.Store(int64(p.Recoveries))
	return ctx.Err()
}

// runtimeOf is what users call what a backend runs Python with.
func runtimeOf(backend string) string {
	if backend == "process" {
		return "CPython"
	}
	return "the " + backend + " backend"
}

// stopped is a session that was stopped, as it stands.
func (c *call) stopped(ctx context.Context, pid agentkernel.PID) agentkernel.Process {
	p, err := c.kernel().Process(ctx, pid)
	if err != nil {
		return agentkernel.Process{PID: pid}
	}
	return p
}

// gone says whether a session's process has ended behind our back.
func (c *call) gone(ctx context.Context, s *session) bool {
	p, err := c.kernel().Process(ctx, s.pid)
	return err == nil && p.State.Terminal()
}

// session finds the session that is meant, or begins one; the client's lock is held.
func (c *call) session(ctx context.Context, id, backend string) (*session, error) {
	own := c.client.session
	switch id {
	case "":
		if own != nil {
			return own, nil
		}
	case "new":
	default:
		pid, err := agentkernel.ParsePID(id)
		if err == nil {
			if s := c.h.clients.find(c.client.principal, pid); s != nil {
				return s, nil
			}
		}
		return nil, agentkernel.Errorf(agentkernel.CodeNotFound, "execute_code", "there is no session %.80q", id).
			WithHint(`leave session out for your own, or "new" for a fresh one`)
	}
	s, err := c.h.clients.begin(ctx, c, backend)
	if err != nil {
		return nil, err
	}
	if own != nil { // only now: where none can be begun, the old one stays
		c.h.clients.end(own)
	}
	c.client.session = s
	return s, nil
}

// stopGraces are how long an interrupted cell has to come to its end, before it is interrupted once more, since it may
// compute again, and then before its session is killed.
var stopGraces = []time.Duration{100 * time.Millisecond, 3 * time.Second}

// interruptTries is how often a session is interrupted whose kernel goes away meanwhile.
const interruptTries = 3

// stopCell stops what a session runs: by interrupting the call that it waits for or what it computes, or else by killing
// it. It says whether the session is still there.
func (c *call) stopCell(ctx context.Context, s *session) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	for _, grace := range stopGraces {
		if c.interrupt(ctx, s) == nil && c.awaitIdle(ctx, s.pid, grace) {
			return true
		}
	}
	if c.unfinished(ctx, s) { // no kernel runs it: there is nothing to stop
		return true
	}
	if err := c.kernel().Signal(ctx, s.pid, agentkernel.SignalKill); err != nil && agentkernel.CodeOf(err) != agentkernel.CodeConflict {
		c.h.cfg.Logger.Warn("a cell could not be stopped", "pid", s.pid, "err", err)
	}
	c.h.clients.forget(c.client, s)
	return false
}

// interrupt interrupts a session. If its kernel died, it is continued first: what it was doing is not over yet.
func (c *call) interrupt(ctx context.Context, s *session) (err error) {
	for range interruptTries {
		err = c.kernel().Signal(ctx, s.pid, agentkernel.SignalInterrupt)
		switch {
		case agentkernel.KernelGone(err):
		case agentkernel.CodeOf(err) == agentkernel.CodeConflict && c.unfinished(ctx, s):
			if _, err := c.recovered(ctx, agentkernel.Process{PID: s.pid}); err != nil && !agentkernel.KernelGone(err) {
				return err
			}
		default:
			return err
		}
	}
	return err
}

// tellStop says what the client of a session has to know about its cell that was stopped: where it was in what call, so that a
// write that may have happened is not made again; or that the variables are those from before it. seen is the last that the client saw.
func (c *call) tellStop(ctx context.Context, out *executeOutput, pid agentkernel.PID, seen int64) {
	var last *agentkernel.Error
	err := c.kernel().Events(ctx, pid, seen+1, false, func(ev agentkernel.Event) error {
		if ev.Kind == agentkernel.EventIdle {
			last = ev.Idle.Error
		}
		return nil
	})
	switch {
	case err != nil || last == nil:
	case last.Op == agentkernel.OpCell:
		out.addNote(last.Message())
	default:
		out.Error.Traceback = last.Traceback
	}
}

// awaitIdle waits for a session to ask for its next cell.
func (c *call) awaitIdle(ctx context.Context, pid agentkernel.PID, grace time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		p, err := c.kernel().Process(ctx, pid)
		if err != nil || p.State.Terminal() || p.State == agentkernel.StateUnfinished || p.Paused && p.Asks() == "" {
			return false
		}
		if slices.Contains(p.WaitsFor, "proc.next") { // also while it is on its way back there
			return true
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
}
