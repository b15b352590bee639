package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/internal/places"
)

// IdempotencyMeta is the member of a call's _meta that carries agentkernel.ToolCall.Key. A server that
// remembers the keys it has seen can make its writes happen once whatever crashes.
const IdempotencyMeta = "agentkernel/idempotency_key"

const opCall = "tool.call"

// Call implements agentkernel.ToolSource.
func (s *set) Call(ctx context.Context, c agentkernel.ToolCall) (agentkernel.ToolResult, error) {
	unsent := agentkernel.ToolResult{NotSent: true}
	srv, v, err := s.find(c.Server)
	if err != nil {
		return unsent, err
	}
	ctx = context.WithValue(ctx, calledAt{}, time.Now())
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = limited(ctx, c.Timeout)
		defer cancel()
	}
	forgotten := false
	for {
		if c.HasTurn && !forgotten && !srv.ready() { // it has died since
			return agentkernel.ToolResult{NotSent: true, Waits: true}, agentkernel.Errorf(agentkernel.CodeUnavailable, opCall, "server %q has to start first", srv.entry.name)
		}
		inst, err := srv.running(ctx)
		if err != nil {
			return unsent, err
		}
		result, again, err := srv.callOn(ctx, inst, v.python[srv], c)
		if again == never || again == forgot && forgotten || ctx.Err() != nil || s.hub.ctx.Err() != nil {
			return s.hub.redact(result, err)
		}
		// The server had died unnoticed before anything was sent: the call belongs to its successor. The
		// breaker ends this if the successors die, too. A new session that is forgotten at once was not what was missing.
		forgotten = forgotten || again == forgot
	}
}

// retry says whether a call that failed on one instance belongs to the next.
type retry int

const (
	never  retry = iota
	died         // the instance was dead before anything was sent
	forgot       // an HTTP server answered that it does not know the session
)

func limited(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, &places.TimeUp{After: d})
}

// timeout is how long a call that says nothing may take once the server runs.
func (s *server) timeout() time.Duration {
	return positive(s.entry.timeout, s.hub.cfg.CallTimeout)
}

// Turn implements agentkernel.ToolSource. That of a server which is not there is for Call to say.
func (s *set) Turn(server, namespace string, made time.Time) agentkernel.ToolTurn {
	srv, v, err := s.find(server)
	if err != nil {
		return nil
	}
	return &turn{Turn: srv.slots.Turn(namespace, made, srv.timeout(), srv.waitedInVain), srv: srv, python: v.python[srv]}
}

// turn is that of a call whose server may have to start first, and to say what its tools are: nothing of the call may have been sent before.
type turn struct {
	*places.Turn
	srv    *server
	python string
	starts atomic.Pointer[time.Time] // since when its server does; nil: it runs, or nobody waits for it
	took   atomic.Int64              // nanoseconds that it did
}

// ready says that a server runs, and has said what its tools are.
func (s *server) ready() bool {
	inst := s.current.Load()
	return inst != nil && inst.alive() && inst.tools.Load() != nil
}

func (t *turn) Ready() bool {
	if t.took.Store(0); t.srv.ready() {
		return t.Turn.Ready()
	}
	t.Join() // so that none that was made later goes before it when the server runs
	return false
}

func (t *turn) Wait(ctx context.Context) error {
	now := time.Now()
	t.starts.Store(&now)
	err := t.start(ctx)
	t.took.Store(int64(time.Since(now)))
	if t.starts.Store(nil); err != nil {
		return err
	}
	return t.Turn.Wait(ctx)
}

// start returns when the server runs and has said what its tools are.
func (t *turn) start(ctx context.Context) error {
	for {
		inst, err := t.srv.running(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		_, err = inst.toolset(ctx, t.python)
		if err == nil {
			return nil
		}
		if again, err := t.srv.unlisted(ctx, inst, began, err); again == never || ctx.Err() != nil {
			return err
		}
	}
}

func (t *turn) Waited() time.Duration { return max(t.Turn.Waited(), time.Duration(t.took.Load())) }

func (t *turn) Waiting() string {
	if since := t.starts.Load(); since != nil {
		return fmt.Sprintf("queued %.1f s: its server %q starts", time.Since(*since).Seconds(), t.srv.entry.name)
	}
	return t.Turn.Waiting()
}

// waitedInVain is the error of a call that had no turn.
func (s *server) waitedInVain(ctx context.Context) error {
	return s.gaveUp(ctx, "waiting for one of the slots of")
}

// callOn runs a call on one instance.
func (s *server) callOn(ctx context.Context, inst *instance, python string, c agentkernel.ToolCall) (r agentkernel.ToolResult, again retry, err error) {
	unsent := agentkernel.ToolResult{Incarnation: inst.id, NotSent: true}
	if s.entry.kept && c.Expect != "" && c.Expect != inst.id {
		return unsent, never, agentkernel.Errorf(agentkernel.CodeSessionLost, opCall,
			"server %q was restarted: what it remembered of this process's session is gone", s.entry.name).
			WithHint("set the session up again, then call again")
	}
	if c.Timeout <= 0 {
		var cancel context.CancelFunc
		ctx, cancel = limited(ctx, s.timeout())
		defer cancel()
	}
	began := time.Now()
	ts, err := inst.toolset(ctx, python)
	if err != nil {
		again, err = s.unlisted(ctx, inst, began, err)
		return unsent, again, err
	}
	t := ts.find(c.Tool)
	if t == nil {
		return unsent, never, agentkernel.Errorf(agentkernel.CodeNotFound, opCall, "server %q has no tool %q", s.entry.name, c.Tool).
			WithHint("%s", didYouMean(c.Tool, ts.names(), "its tools"))
	}
	args, err := t.arguments(c.Arguments)
	if err == nil && c.Admit != nil {
		err = c.Admit(t.Tool)
	}
	if err != nil {
		return unsent, never, err
	}
	if !c.HasTurn {
		turn := s.slots.Turn("", time.Now(), 0, s.waitedInVain)
		defer turn.Drop()
		if err := turn.Wait(ctx); err != nil {
			return unsent, never, err
		}
	}
	return s.send(ctx, inst, t, args, c.Key)
}

// unlisted is the error of a call whose server has not said what its tools are, and says whether the next incarnation may.
func (s *server) unlisted(ctx context.Context, inst *instance, began time.Time, why error) (again retry, err error) {
	if overdue(ctx) {
		s.late(inst, listMethod, began)
	}
	if ctx.Err() != nil {
		why = s.gaveUp(ctx, "listing the tools of")
	}
	// One that was given up because it did not list its tools did not die unnoticed: the next would keep the caller as long.
	if !inst.alive() && agentkernel.CodeOf(why) != agentkernel.CodeTimeout {
		again = died
	}
	return again, agentkernel.AsError(why, agentkernel.CodeUnavailable, opCall)
}

// send puts the call on the wire and reads the answer.
func (s *server) send(ctx context.Context, inst *instance, t *boundTool, args json.RawMessage, key string) (r agentkernel.ToolResult, again retry, err error) {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(inst.halt, cancel)()
	params := &mcp.CallToolParams{Name: t.Name, Arguments: args}
	if key != "" {
		params.Meta = mcp.Meta{IdempotencyMeta: key}
	}
	tracked, track := withTrack(running)
	began := time.Now()
	_, err = inst.session.CallTool(tracked, params)
	o := track.outcome()
	if o.result == nil && o.failed == nil && inst.conn != nil {
		inst.conn.forget(track)
	}
	r.Incarnation = inst.id
	if o.result != nil {
		s.answeredBy(inst)
		if r.Value, err = t.result(o.result, &s.entry.secrets); err != nil {
			o.held.Release()
		} else if o.held != nil {
			r.Done = o.held.Release
		}
		return r, never, err
	}
	o.held.Release() // of an answer that is none
	if o.failed != nil {
		s.answeredBy(inst)
	}
	r.NotSent = !o.sent || o.refused()
	if o.failed == nil && !o.tooBig && !o.noRoom && overdue(ctx) {
		s.late(inst, t.Name, began)
	}
	failure := inst.callError(ctx, t.Name, o, err)
	// HTTP: 404 is how a server says that it forgot the session, and the SDK uses a session no more after an error.
	switch {
	case o.status == http.StatusNotFound && o.failed == nil:
		inst.drop()
		s.failedWith(inst, failure)
		return r, forgot, failure
	case inst.conn == nil && errors.Is(err, mcp.ErrConnectionClosed): // after an error that was told: no failure to start
		inst.drop()
	}
	if !inst.alive() && !o.sent {
		again = died
	}
	return r, again, failure
}

// refused says that an HTTP server turned the request away before it looked at the call.
func (o *outcome) refused() bool {
	switch o.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusTooManyRequests:
		return o.failed == nil
	}
	return false
}

// callError says why a request to an instance has no result.
func (inst *instance) callError(ctx context.Context, what string, o outcome, err error) error {
	e := inst.entry
	say := func(code agentkernel.Code, format string, args ...any) *agentkernel.Error {
		return agentkernel.Errorf(code, opCall, "%s", failureText(fmt.Sprintf(format, args...), maxServerError, &e.secrets))
	}
	switch {
	case o.failed != nil:
		return say(agentkernel.CodeTool, "%s", orText(o.failed.Message, fmt.Sprintf("error %d", o.failed.Code)))
	case o.tooBig && o.status == 0:
		return say(agentkernel.CodeAnswerLost, "server %q answered %s with more than %s; the tool ran, its answer is lost", e.name, what,
			megabytes(inst.maxMessage)).WithHint("ask the tool for less at a time")
	case o.noRoom && o.status == 0:
		return say(agentkernel.CodeLimit, "too much is being received at the same time: there is no room for what server %q answered %s; the tool ran, its answer is lost",
			e.name, what).WithHint("ask for less, or fewer at once")
	case inst.closing.Load():
		return say(agentkernel.CodeUnavailable, "server %q was stopped while it worked on %s", e.name, what)
	case ctx.Err() != nil:
		return inst.gaveUp(ctx, what)
	case e.program != 0 && (o.refused() || !o.sent):
		return say(agentkernel.CodeUnavailable, "%s; %s was not called", e.programEnded(), what).WithHint("%s", runAgain)
	case o.status == http.StatusUnauthorized || o.status == http.StatusForbidden:
		return say(agentkernel.CodeUnavailable, "server %q refused access (HTTP %d)", e.name, o.status).
			WithHint("check \"headers\" in %s, %s", e.file, e.where)
	case o.status == http.StatusNotFound:
		return say(agentkernel.CodeUnavailable, "server %q answered %s with HTTP 404, in a new session, too", e.name, what).
			WithHint("check \"url\" in %s, %s", e.file, e.where)
	case e.program != 0:
		return say(agentkernel.CodeUnavailable, "server %q did not answer %s: %v", e.name, what, err).WithHint("if its program has ended: %s", runAgain)
	case e.transport == "http":
		return say(agentkernel.CodeUnavailable, "server %q did not answer %s: %v", e.name, what, err)
	}
	return say(agentkernel.CodeUnavailable, "server %q failed at %s: %s%s", e.name, what, inst.death(), inst.lastWords())
}

// gaveUp says that the time was over, or that the caller left.
func (inst *instance) gaveUp(ctx context.Context, what string) error {
	if up, ok := errors.AsType[*places.TimeUp](context.Cause(ctx)); ok {
		msg := fmt.Sprintf("server %q did not answer %s within %s%s", inst.entry.name, what, up.After, inst.lastWords())
		return agentkernel.Errorf(agentkernel.CodeTimeout, opCall, "%s", failureText(msg, maxServerError, &inst.entry.secrets)).
			WithHint("a longer limit: \"timeout\" in %s, or --call-timeout", inst.entry.file)
	}
	code := codeOfContext(ctx)
	if code == agentkernel.CodeTimeout {
		return agentkernel.Errorf(code, opCall, "server %q did not answer %s %s", inst.entry.name, what, within(ctx)).
			WithHint("a longer limit: --call-timeout")
	}
	return agentkernel.Errorf(code, opCall, "the caller did not wait for server %q to answer %s", inst.entry.name, what)
}

// calledAt is the key of a context under which the time is at which a call came.
type calledAt struct{}

// within says how long the caller of a call has waited for it at most.
func within(ctx context.Context) string {
	from, known := ctx.Value(calledAt{}).(time.Time)
	until, limited := ctx.Deadline()
	if !known || !limited {
		return "in time"
	}
	return "within " + until.Sub(from).Round(10*time.Millisecond).String()
}

// gaveUp is the same before anything was sent.
func (s *server) gaveUp(ctx context.Context, doing string) error {
	why := context.Cause(ctx)
	if errors.Is(why, context.DeadlineExceeded) { // of the caller
		return agentkernel.Errorf(codeOfContext(ctx), opCall, "%s server %q: the time of the call is over; it was not sent", doing, s.entry.name).
			WithHint("a longer limit: --call-timeout")
	}
	return &agentkernel.Error{Code: codeOfContext(ctx), Op: opCall,
		Err: fmt.Errorf("%s server %q: %w; the call was not sent", doing, s.entry.name, why)}
}

func codeOfContext(ctx context.Context) agentkernel.Code {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return agentkernel.CodeTimeout
	}
	return agentkernel.CodeCanceled
}
