package router

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/llm"
	"agentkernel/internal/llm/control"
	"agentkernel/internal/llm/models"
)

// plan is a query on its way.
type plan struct {
	r      *Router
	q      *llm.Query
	alias  string
	size   size
	tokens int64 // at most
	most   int64 // the largest cap of an answer
	usd    agentkernel.NanoUSD
	schema *schema // of the program's; nil: the answer is text
	wraps  bool    // the request asks for an object that has the answer

	tell func(llm.Delta) error // is told each bit of the answer; nil: nobody is
	told int                   // characters of text so far
	by   *deployment           // that was asked last; nil: none was

	leftOut int // messages, since the conversation was too long

	reuse    bool // an answer may be given again
	question question

	mu     sync.Mutex
	ticket *control.Ticket // of Wait, for Ask
	sent   *control.Ticket // of the request that was sent last
	held   *llm.Result     // is given again; nil: the model is asked
	used   spent           // by the requests before
	tries  *control.Tries  // of the query, since the first; nil: it was not sent
	kept   bool            // they are for the next plan of the query
	out    bool            // one is on its way, and what it uses nobody knows
	left   bool            // nobody waits for an answer: nothing more goes out
	halted bool            // the query is held back: nothing more goes out in this Ask
}

// Alias is the model that programs know.
func (p *plan) Alias() string { return p.alias }

// Reserve is what the query may use up at most, with the model that is asked if nothing comes in between. Of one whose price nobody
// knows no money is reserved; of an answer that is given again nothing is, and the model alone is named.
func (p *plan) Reserve() agentkernel.Amounts {
	first := p.r.of[p.alias][0]
	if p.recalled() != nil {
		return agentkernel.Amounts{agentkernel.AmountModel(first.model.ID()): 1}
	}
	a := agentkernel.Amounts{agentkernel.AmountTokens: p.tokens, agentkernel.AmountModel(first.model.ID()): 1}
	if first.price == nil {
		a[agentkernel.AmountUnpriced] = 1
	}
	if p.q.Embed == nil {
		a[agentkernel.AmountTurns] = 1
	}
	if p.usd > 0 {
		a[agentkernel.AmountUSD] = int64(p.usd)
	}
	return a
}

// call is the query as the controller knows it.
func (p *plan) call() control.Call {
	return control.Call{ID: p.q.ID, Alias: p.alias, Namespace: p.q.Namespace, Tree: p.q.Tree.String(), Priority: p.q.Priority,
		Conversation: p.q.PID.String(), Content: p.size.content, MaxTokens: p.most, Restartable: !p.q.Streams, Once: p.q.Capped, Requeues: p.q.Requeues && p.q.ID != ""}
}

// Wait returns when it is the query's turn. An answer that has come to the same question meanwhile saves asking it.
func (p *plan) Wait(ctx context.Context) error {
	if p.recalled() != nil {
		return nil
	}
	tries := p.before()
	if tries == nil {
		t, err := p.r.control.Acquire(ctx, p.call())
		if err != nil {
			return p.failure(ctx, err)
		}
		p.got(t)
		return nil
	}
	t, err := tries.Acquire(ctx)
	if err != nil {
		return p.failure(ctx, err)
	}
	p.got(t)
	return nil
}

// before are the tries of the query that have failed; nil: there are none.
func (p *plan) before() *control.Tries {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tries
}

// Ready says that it is the query's turn at once.
func (p *plan) Ready() bool {
	if p.recalled() != nil {
		return true
	}
	if p.before() != nil { // it has to wait before the next
		return false
	}
	t := p.r.control.AcquireNow(p.call())
	if t != nil {
		p.got(t)
	}
	return t != nil
}

// got keeps a ticket for Ask, unless there is an answer by now.
func (p *plan) got(t *control.Ticket) {
	if p.recall() != nil {
		t.Drop()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ticket = t
}

// Waiting says why Wait has not returned.
func (p *plan) Waiting() string {
	why, _ := p.r.control.Explain(p.q.ID)
	return why
}

// take takes what Wait got; nil: it got nothing, or that was given back.
func (p *plan) take() *control.Ticket {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.ticket
	p.ticket = nil
	return t
}

// Wanted says that others wait for the place of a request which is under way.
func (p *plan) Wanted() bool {
	p.mu.Lock()
	t := p.sent
	p.mu.Unlock()
	return t != nil && t.Wanted()
}

// Drop gives back what Wait got. What has been tried is forgotten, unless the query was planned anew meanwhile.
func (p *plan) Drop() {
	if t := p.take(); t != nil {
		t.Drop()
	}
	p.mu.Lock()
	tries, kept := p.tries, p.kept
	p.mu.Unlock()
	if tries != nil && (!kept || p.r.forget(p.q.ID, tries)) {
		tries.End()
	}
}

// Ask asks, as often as it takes.
func (p *plan) Ask(ctx context.Context, tell func(llm.Delta) error) (*llm.Result, agentkernel.Amounts, error) {
	if held := p.recalled(); held != nil {
		return held, agentkernel.Amounts{}, nil
	}
	tries := p.begin()
	ctx, cancel := p.bound(ctx, tries, tell)
	defer cancel()
	out := llm.Result{Answer: &llm.Answer{}}
	var unfit error    // of an answer that does not fit its schema
	var expected int64 // tokens that it has, as far as is known
	send := func(ctx context.Context, t *control.Ticket) (*llm.Usage, error) {
		p.mu.Lock()
		p.sent = t
		p.mu.Unlock()
		d := p.r.deployments[t.Deployment().Name]
		usage, err := p.send(ctx, d, t, &out)
		p.back(d, usage, err)
		p.by, expected = d, t.Expected().Input
		if err == nil && p.reuse { // before whoever waits for the same answer has its turn
			unfit = p.complete(&out)
		}
		return usage, err
	}
	err := tries.Run(ctx, p.take(), send)
	e, failed := errors.AsType[*llm.Error](err)
	if failed && e.Kind == llm.TooLong && !e.Began && !(p.q.Capped && e.Charged()) && p.by != nil && p.shrink(p.by, expected) { // what is reserved pays for one
		err = tries.Run(ctx, nil, send)
	}
	if errors.Is(err, control.ErrAgain) {
		if !p.keep() {
			tries.End()
		}
		return nil, p.usage(), llm.ErrWaits
	}
	defer tries.End()
	if err != nil {
		if p.isHalted() && ctx.Err() == nil {
			return nil, p.usage(), llm.ErrWaits
		}
		return nil, p.usage(), p.failure(ctx, err)
	}
	if !p.reuse { // else it was
		unfit = p.complete(&out)
	}
	if unfit != nil {
		return nil, p.usage(), unfit
	}
	if p.used.priced {
		out.Cost = &p.used.usd
	}
	return &out, p.usage(), nil
}

// begin begins the tries of the query, or goes on with them.
func (p *plan) begin() *control.Tries {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tries == nil {
		p.tries = p.r.control.Tries(p.call())
	}
	return p.tries
}

// keep keeps the tries for the next plan of the query. False: the router is closed.
func (p *plan) keep() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = p.r.keep(p.q.ID, p.tries)
	return p.kept
}

// bound bounds Ask to the time that the query has left: until the first bit of an answer of which somebody is told.
func (p *plan) bound(ctx context.Context, tries *control.Tries, tell func(llm.Delta) error) (context.Context, context.CancelFunc) {
	if p.tell = tell; tell == nil {
		return tries.Within(ctx)
	}
	ctx, end := context.WithCancelCause(ctx)
	left, bounded := tries.Left(ctx)
	if !bounded {
		return ctx, func() { end(nil) }
	}
	timer := time.AfterFunc(left, func() { end(control.ErrTime) })
	p.tell = func(bit llm.Delta) error {
		timer.Stop()
		return tell(bit)
	}
	return ctx, func() { timer.Stop(); end(nil) }
}

// errLeft keeps a request back.
var errLeft = errors.New("nobody waits for the answer any more")

// leaves notes that a request goes out, unless nobody waits for its answer, or the query is held back.
func (p *plan) leaves() error {
	held := p.q.Held != nil && p.q.Held() // not under the mutex: whoever holds a query back may ask what it has used
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.halted = held; p.left || held {
		return errLeft
	}
	p.out = true
	return nil
}

// isHalted says that the last request did not go out because the query is held back.
func (p *plan) isHalted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.halted
}

// back notes what has become of a request.
func (p *plan) back(d *deployment, usage *llm.Usage, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used.add(d, usage, err)
	p.out = false
}

// usage is what was used; nil: nobody knows.
func (p *plan) usage() agentkernel.Amounts {
	reserved := p.Reserve()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used.amounts(reserved)
}

// Leave keeps back what has not gone out yet, and says what the rest has used; nil: nobody knows, as where something is on its way.
func (p *plan) Leave() agentkernel.Amounts {
	p.mu.Lock()
	p.left = true
	out := p.out
	p.mu.Unlock()
	if out {
		return nil
	}
	return p.usage()
}

// complete checks an answer, and keeps it for the same question if it may.
func (p *plan) complete(out *llm.Result) (err error) {
	out.LeftOut = p.leftOut
	if p.schema != nil && (len(out.Calls()) == 0 || len(p.q.Request.Tools) == 0) { // a call of what nobody has offered is no answer
		if out.Data, err = p.checked(out.Answer); err != nil {
			return err
		}
	}
	if p.reuse && p.leftOut == 0 && slices.Contains(p.r.of[p.alias], p.by) { // what a fallback says is no answer of this model, nor what was said to less an answer to this
		p.r.answers.put(p.question, out, p.r.now())
	}
	return nil
}

// send sends the query to a deployment once.
func (p *plan) send(ctx context.Context, d *deployment, t *control.Ticket, out *llm.Result) (*llm.Usage, error) {
	watch := llm.Watch{Leaves: p.leaves, Head: t.Head}
	if p.q.Embed != nil {
		e := *p.q.Embed
		e.Model = d.model.Name
		v, err := d.provider.Embed(ctx, &e, watch)
		if err != nil {
			return nil, err
		}
		out.Embeddings, out.Model = v, v.Model
		return &v.Usage, nil
	}
	r := p.q.Request
	r.Model, r.Priority = d.model.Name, p.q.Priority
	if r.MaxTokens == 0 {
		r.MaxTokens = d.model.Cap()
	}
	if p.tell != nil {
		watch.Delta = func(bit llm.Delta) error {
			p.told += utf8.RuneCountInString(bit.Text)
			return p.tell(bit)
		}
	}
	a, err := d.provider.Complete(ctx, &r, watch)
	if err != nil {
		return nil, err
	}
	out.Answer = a
	return &a.Usage, nil
}

// spent is what the attempts of a query have used up.
type spent struct {
	usage    llm.Usage // all together
	requests int64
	refused  int64  // 1: another one was sent, and costs nothing
	unpriced int64  // of requests
	model    string // that was asked last
	usd      agentkernel.NanoUSD
	priced   bool
	unknown  int64 // more of them: nobody knows what they have used
}

func (s *spent) add(d *deployment, usage *llm.Usage, err error) {
	e, failed := errors.AsType[*llm.Error](err)
	switch {
	case err == nil:
	case failed && e.Usage != nil && !e.Usage.Estimated:
		usage = e.Usage
	case failed && e.Kind == llm.Canceled && d.provider.Traits().CancelFree && e.Began && e.Usage != nil: // what had come, as far as one can tell
		usage = e.Usage
	case failed && (!e.MayCharge() || e.Kind == llm.Canceled && d.provider.Traits().CancelFree):
		if e.Sent && s.model == "" { // it is a call all the same
			s.model, s.refused = d.model.ID(), 1
		}
		return
	default:
		s.unknown++
		return
	}
	s.model = d.model.ID()
	s.requests++
	u := usage.Possible()
	s.usage.Input += u.Input
	s.usage.CacheRead += u.CacheRead
	s.usage.CacheWrite += u.CacheWrite
	s.usage.CacheWrite1h += u.CacheWrite1h
	s.usage.Output += u.Output
	s.usage.Reasoning += u.Reasoning
	if s.priced = d.price != nil; s.priced {
		s.usd += min(d.price.Cost(u), math.MaxInt64-s.usd)
	} else {
		s.unpriced++
	}
}

// amounts are what was used up; nil: nobody knows, so that all that was reserved is. Of several requests, each of which nobody knows what
// it has used may have used that. Of several models that were asked the last one is named.
func (s *spent) amounts(reserved agentkernel.Amounts) agentkernel.Amounts {
	if s.unknown == 1 && s.requests == 0 {
		return nil
	}
	a, u := agentkernel.Amounts{}, &s.usage
	for name, n := range map[string]int64{
		agentkernel.AmountUSD: int64(s.usd), agentkernel.AmountTokens: u.Inputs() + u.Outputs(),
		agentkernel.AmountInput: u.Input, agentkernel.AmountCached: u.CacheRead, agentkernel.AmountCacheWrite: u.CacheWrite + u.CacheWrite1h,
		agentkernel.AmountOutput: u.Output, agentkernel.AmountReasoning: u.Reasoning,
		agentkernel.AmountUnpriced: s.unpriced, agentkernel.AmountModel(s.model): max(s.requests, s.refused),
	} {
		if n > 0 {
			a[name] = n
		}
	}
	if s.unknown > 0 {
		a[agentkernel.AmountUncertain] = s.unknown
		each := maps.Clone(reserved)
		delete(each, agentkernel.AmountTurns) // it is one turn, however often it was asked for
		for range s.unknown {
			a = a.Plus(each)
		}
	}
	return a
}

// wrapped is the name under which an answer is in its object.
const wrapped = "answer"

// wrap asks for an object that has the answer, where the schema is of something else: providers take schemas of objects alone.
func (p *plan) wrap() (err error) {
	asked := p.q.Request.Schema
	if asked == nil {
		return nil
	}
	if p.schema, err = compile(asked); err != nil {
		return err
	}
	if root, _ := p.schema.doc.(map[string]any); root["type"] == "object" {
		return nil
	}
	p.wraps = true
	request := append([]byte(`{"type":"object","properties":{"`+wrapped+`":`), asked...)
	p.q.Request.Schema = append(request, `},"required":["`+wrapped+`"],"additionalProperties":false}`...)
	return nil
}

// unwrap takes an answer out of its object. A model that was not held to the schema may have left the object out.
func (p *plan) unwrap(text string) string {
	var object map[string]json.RawMessage
	if p.wraps && json.Unmarshal([]byte(text), &object) == nil && len(object) == 1 && object[wrapped] != nil {
		return string(object[wrapped])
	}
	return text
}

// checked is the value that an answer has, which fits the schema.
func (p *plan) checked(a *llm.Answer) (json.RawMessage, error) {
	bad := func(format string, args ...any) error {
		e := agentkernel.Errorf(agentkernel.CodeTool, "llm", format, args...)
		if a.Stop == llm.StopLength {
			return e.WithHint("the answer was cut at max_tokens: allow more")
		}
		return e
	}
	text := strings.TrimSpace(a.Text())
	if rest, fenced := strings.CutPrefix(text, "```"); fenced { // models without a mode for it write it so
		_, rest, _ = strings.Cut(rest, "\n")
		text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "```"))
	}
	text = p.unwrap(text)
	var value any
	dec := json.NewDecoder(strings.NewReader(text))
	if err := dec.Decode(&value); err != nil || dec.More() {
		return nil, bad("the model's answer is no JSON: %s", clip.Short(text))
	}
	if !p.schema.affordable(value) {
		return nil, bad("the model's answer cannot be checked: with this schema that would take more than %d steps", maxChecks)
	}
	if err := p.schema.check.Validate(value); err != nil {
		return nil, bad("the model's answer does not fit the schema: %s", clip.Long(err.Error()))
	}
	var plain bytes.Buffer
	if err := json.Compact(&plain, []byte(text)); err != nil {
		return nil, bad("the model's answer is no JSON: %v", err)
	}
	return plain.Bytes(), nil
}

// tooLong says how long the conversation is, and what the model takes as far as its declaration says it: not every server has both numbers
// in its refusal.
func (p *plan) tooLong() string {
	takes := ""
	if most := p.r.of[p.alias][0].model.Context; most > 0 {
		takes = fmt.Sprintf(", %d tokens by its declaration", most)
	}
	advice := "send less of it, or let its oldest turns be left out (shrink=True)"
	switch {
	case p.leftOut > 0:
		advice = fmt.Sprintf("%d messages were left out already", p.leftOut)
	case p.q.Shrink:
		advice = "its last turn alone is as long: send less of that"
	case p.q.Embed != nil:
		advice = "send less of it"
	}
	return fmt.Sprintf("the conversation has %d bytes, which is more than the model takes%s: %s", p.size.bytes(), takes, advice)
}

// failure is an error as programs are told it.
func (p *plan) failure(ctx context.Context, err error) error {
	e, ours := errors.AsType[*llm.Error](err)
	if !ours {
		if errors.Is(err, control.ErrClosed) {
			return agentkernel.Errorf(agentkernel.CodeUnavailable, "llm", "%w", err)
		}
		return err
	}
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) || errors.Is(err, control.ErrTime) {
		why := ""
		if _, last := p.failed(); last != nil {
			why = ": " + last.Error()
		}
		return agentkernel.Errorf(agentkernel.CodeTimeout, "llm", "the model %s did not answer in time%s", p.alias, why).WithHint("%s", p.patience())
	}
	code, hint := agentkernel.CodeUnavailable, ""
	switch e.Kind {
	case llm.RateLimited:
		hint = p.patience()
	case llm.Canceled:
		return agentkernel.Errorf(agentkernel.CodeCanceled, "llm", "nobody waits for the model %s any more", p.alias)
	case llm.Auth:
		hint = p.keyHint(e)
	case llm.Quota:
		hint = "the account at the provider has no money or no credit left: waiting does not help"
	case llm.NoModel:
		code, hint = agentkernel.CodeNotFound, p.nameHint()
	case llm.TooLong:
		code, hint = agentkernel.CodeLimit, p.tooLong()
	case llm.Invalid, llm.Unsupported:
		if code = agentkernel.CodeInvalid; e.Status == http.StatusNotFound && p.by != nil {
			hint = "the server has nothing at that address: url= in the declaration is " + models.AddressOf(p.by.model.Kind)
		}
	case llm.Filtered:
		code = agentkernel.CodeDenied
	case llm.Timeout:
		code = agentkernel.CodeTimeout
	}
	what := ""
	if p.tell != nil && e.Began {
		what = fmt.Sprintf("the stream broke after %d characters: ", p.told)
	}
	why := e.Error()
	if e.Kind == llm.Auth && e.Status == 0 && e.Err != nil { // nothing was sent: the key cannot be read, and why has nothing of it
		why += ": " + e.Err.Error()
	}
	out := agentkernel.Errorf(code, "llm", "the model %s: %s%s%s", p.alias, what, why, p.notAgain(e))
	if hint != "" {
		return out.WithHint("%s", hint)
	}
	return out
}

// failed is how often the query has failed, and how the last time.
func (p *plan) failed() (times int, last *llm.Error) {
	if tries := p.before(); tries != nil {
		return tries.Failed()
	}
	return 0, nil
}

// patience says what helps where the query was given up after the time that it has, or after many refusals.
func (p *plan) patience() string {
	n, last := p.failed()
	often := "once"
	if n > 1 {
		often = fmt.Sprintf("%d times", n)
	}
	switch {
	case last == nil, last.Kind == llm.Canceled:
		return "raise limits.call_wait, or ask for less"
	case last.Kind == llm.RateLimited:
		return fmt.Sprintf("it was sent and refused %s; %s: have fewer calls at a time, or a higher limit at the provider", often, p.rate())
	case last.Kind == llm.Network && !last.Sent:
		return "look whether the server runs, and at the address in the declaration: `agentkernel doctor` asks it"
	case last.Kind == llm.Timeout:
		return fmt.Sprintf("it was tried %s: raise limits.call_wait, or ask for less", often)
	}
	return fmt.Sprintf("it was tried %s: ask again later; another declaration of %s, or fallback=, is asked where one fails", often, p.alias)
}

// rate says how fast questions go to the model now, as far as that is known.
func (p *plan) rate() string {
	own := p.r.of[p.alias][0].traffic()
	for _, k := range p.r.control.Snapshot().Keys {
		for _, l := range k.Limits {
			if k.Key != own.Key || k.Family != own.Family || l.What != llm.LimitRequests {
				continue
			}
			if rate := l.Rate(); rate > 0 {
				return fmt.Sprintf("the kernel sends %s requests a minute with its key now", strconv.FormatFloat(rate*60, 'g', 3, 64))
			}
		}
	}
	return "`agentkernel llm limits` shows the limits of its key"
}

// notAgain says why a question was not sent again that would have been without a budget; "": it is not that.
func (p *plan) notAgain(e *llm.Error) string {
	if !p.q.Capped || !e.Charged() || !e.Retry() || e.Began {
		return ""
	}
	return "; what may have been charged for " + agentkernel.NotSentAgain
}
