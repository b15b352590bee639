package mcpserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/internal/asktext"
)

// A program that calls what may change things waits until the human behind the client has been asked (MCP
// elicitation). Where the client offers no such thing, the call is refused and the flag named.
//
// Until protocol 2025-11-25 the server sends a request of its own. Since 2026-07-28 it may not: the call returns
// what is to be asked, and the client makes it once more with the answer. The program runs on meanwhile, so
// both are one mechanism here: what runs, and questions that come out of it.

// Bounds of a question.
const (
	askPatience = 10 * time.Minute // for a client that was handed a question and does not come back
	askedWidth  = 600              // runes of a call's arguments that are shown, about
	questionID  = "permission"
)

// asking says how a client is asked.
type asking int

const (
	asksNot     asking = iota
	asksDirect         // by a request
	asksReturns        // by the answer of a call
)

func howToAsk(ss *mcp.ServerSession) asking {
	init := ss.InitializeParams()
	switch {
	case init == nil || init.Capabilities == nil || init.Capabilities.Elicitation == nil:
		return asksNot
	case init.Capabilities.Elicitation.Form == nil && init.Capabilities.Elicitation.URL != nil:
		return asksNot // it opens pages, and asks nothing
	case !speaks(ss, richerSince):
		return asksNot // its protocol has no questions, whatever it offers
	case speaks(ss, returnsSince):
		return asksReturns
	}
	return asksDirect
}

// elicit are the parameters of a question.
func elicit(a *agentkernel.Ask) *mcp.ElicitParams {
	return &mcp.ElicitParams{
		Message: fmt.Sprintf("A program wants to call %s, which may change things (%s). Arguments: %s", strconv.Quote(a.Call), a.Effect, asktext.Arguments(a.Args, askedWidth)),
		RequestedSchema: map[string]any{"type": "object", "required": []string{"answer"}, "properties": map[string]any{"answer": map[string]any{
			"type": "string", "title": "Allow it?", "enum": []any{"once", "session", "no"}, "enumNames": []any{"Once", "For this session", "No"}}}},
	}
}

// answerOf reads what the human said. Anything but a clear yes is a no.
func answerOf(r *mcp.ElicitResult) agentkernel.Answer {
	if r == nil || r.Action != "accept" {
		return agentkernel.AnswerNo
	}
	switch r.Content["answer"] {
	case "once":
		return agentkernel.AnswerYes
	case "session":
		return agentkernel.AnswerAlways
	}
	return agentkernel.AnswerNo
}

// question waits for the client to come back with an answer.
type question struct {
	ask    *agentkernel.Ask
	answer chan agentkernel.Answer // holds one
}

// running is a call that may return questions before it returns its answer.
type running struct {
	questions chan *question
	done      chan *mcp.CallToolResult // holds one
	cancel    context.CancelFunc
	open      *question // the one that the client was handed
	late      *time.Timer
}

// start begins a call of which each round trip sees a part.
func (c *call) start(ctx context.Context, d *definition) *running {
	r := &running{questions: make(chan *question), done: make(chan *mcp.CallToolResult, 1)}
	ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.running = r
	go func() {
		defer r.cancel()
		defer context.AfterFunc(c.client.here, r.cancel)()
		r.done <- d.answer(ctx, c)
	}()
	return r
}

// resume takes up a call whose question was answered; nil: there is none.
func (c *client) resume(state string, responses mcp.InputResponseMap) *running {
	c.askingMu.Lock()
	r := c.parked[state]
	delete(c.parked, state)
	c.askingMu.Unlock()
	if r == nil || !r.late.Stop() {
		return nil
	}
	said, _ := responses[questionID].(*mcp.ElicitResult)
	r.open.answer <- answerOf(said)
	r.open = nil
	return r
}

// next waits for the call's answer or its next question.
func (c *client) next(ctx context.Context, r *running) *mcp.CallToolResult {
	select {
	case res := <-r.done:
		return res
	case <-ctx.Done():
		r.cancel()
		return <-r.done
	case r.open = <-r.questions:
	}
	state := rand.Text()
	c.askingMu.Lock()
	defer c.askingMu.Unlock()
	if c.parked == nil {
		c.parked = map[string]*running{}
	}
	c.parked[state] = r
	r.late = time.AfterFunc(askPatience, func() {
		c.askingMu.Lock()
		delete(c.parked, state)
		c.askingMu.Unlock()
		r.cancel()
	})
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{questionID: elicit(r.open.ask)}, RequestState: state}
}

// approves says whether the human has allowed all calls of a tool for this session.
func (c *client) approves(pattern string) bool {
	c.askingMu.Lock()
	defer c.askingMu.Unlock()
	return pattern != "" && slices.Contains(c.approved, pattern)
}

func (c *client) approve(pattern string) {
	if c.approves(pattern) {
		return
	}
	c.askingMu.Lock()
	defer c.askingMu.Unlock()
	c.approved = append(c.approved, pattern)
}

// interactive makes the programs of a Spec ask. What the human has allowed for the session is not in it, since it may outlive the client.
func (c *call) interactive(spec agentkernel.Spec) agentkernel.Spec {
	if c.asks == asksNot {
		return spec
	}
	spec.Interactive = true
	return spec
}

// asked answers the question whether a call may run; it does not hold the program's events up.
func (w *watch) asked(pid agentkernel.PID, ask *agentkernel.Ask) {
	w.clock.hold()
	w.asking.Go(func() {
		defer w.clock.release()
		answer := w.ask(ask)
		if w.ctx.Err() != nil && (w.given.Err() == nil || w.c.ending()) { // its kernel or its server has gone: it asks again under the next
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), endPatience)
		defer cancel()
		err := w.c.kernel().Answer(ctx, pid, ask.ID, answer)
		if err != nil && agentkernel.CodeOf(err) != agentkernel.CodeNotFound { // the program may have ended meanwhile
			w.c.h.cfg.Logger.Warn("an answer did not reach its program", "pid", pid, "err", err)
		}
	})
}

// ask asks the human, one question at a time. What he has allowed for the session is answered call by call: the kernel's "always" holds as long
// as the process lives, and it may live longer than the client.
func (w *watch) ask(ask *agentkernel.Ask) agentkernel.Answer {
	c := w.c
	if c.asks == asksNot {
		return agentkernel.AnswerNo
	}
	if c.client.approves(ask.Pattern) {
		return agentkernel.AnswerYes
	}
	select {
	case c.client.turn <- struct{}{}:
		defer func() { <-c.client.turn }()
	case <-w.ctx.Done():
		return agentkernel.AnswerNo
	}
	if c.client.approves(ask.Pattern) { // while it waited for its turn
		return agentkernel.AnswerYes
	}
	answer := agentkernel.AnswerNo
	if c.asks == asksDirect {
		said, err := c.req.Session.Elicit(w.ctx, elicit(ask))
		if err == nil {
			answer = answerOf(said)
		}
	} else {
		q := &question{ask: ask, answer: make(chan agentkernel.Answer, 1)}
		select {
		case c.running.questions <- q:
		case <-w.ctx.Done():
			return agentkernel.AnswerNo
		}
		select {
		case answer = <-q.answer:
		case <-w.ctx.Done():
		}
	}
	if w.ctx.Err() != nil { // the call was given up before the answer came, even if both are here now
		return agentkernel.AnswerNo
	}
	if answer == agentkernel.AnswerAlways {
		c.client.approve(ask.Pattern)
		return agentkernel.AnswerYes
	}
	return answer
}

// clock ends a context when a program has had its time. While a human is asked it stands still.
type clock struct {
	mu    sync.Mutex
	timer *time.Timer
	left  time.Duration
	since time.Time
	held  int
}

// bounded is a context with a clock; the cause of its end is errTimeout.
func bounded(ctx context.Context, d time.Duration) (context.Context, *clock, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	k := &clock{left: d, since: time.Now(), timer: time.AfterFunc(d, func() { cancel(errTimeout) })}
	return ctx, k, func() {
		k.timer.Stop()
		cancel(nil)
	}
}

func (k *clock) hold() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held++; k.held == 1 && k.timer.Stop() {
		k.left -= time.Since(k.since)
	}
}

func (k *clock) release() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held--; k.held == 0 {
		k.since = time.Now()
		k.timer.Reset(max(k.left, 0))
	}
}
