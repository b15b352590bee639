package control

import (
	"context"
	"fmt"
	"time"

	"agentkernel/internal/llm"
	"agentkernel/internal/sched/traffic"
)

// Call is what is known of a call before it is sent.
type Call struct {
	ID              string // under which Explain finds it; "": it does not
	Alias           string
	Namespace, Tree string
	Priority        int    // lower is more urgent
	Conversation    string // calls of one are sent to one deployment if possible: its cache has what they begin with
	Content         traffic.Content
	Input           int64 // tokens, where they were counted; 0: they are estimated by Content
	Cached          int64 // tokens of the input that the cache of the deployment which has the conversation probably has
	MaxTokens       int64 // of the answer; 0: there is no bound
	// Restartable says that nobody sees the answer before it is whole. Where cancelling is free, Do and Run may cancel such a call for a
	// more urgent one, and send it again later.
	Restartable bool
	// Requeues says that whoever sends the call queues it anew after a failure that has cost nothing: Run then ends with ErrAgain.
	Requeues bool
	// Once says that a call is not sent again when its server charges for the attempt that has failed, or may.
	Once bool
}

// Ticket allows for sending one request to its deployment. It is ended by Done or Drop; what is called after that does nothing.
type Ticket struct {
	c      *Control
	d      *deployment
	call   Call
	number int64 // by the order of queueing
	entry  traffic.Call
	ready  chan struct{}
	again  bool // its deployment has gone down, or the controller was closed, while it waited

	stays        bool // its conversation was at its deployment before
	queued, sent time.Time
	levels       []traffic.Level // as the head of the answer said
	ended        bool
	preempted    bool
	cancel       context.CancelCauseFunc
}

// Acquire waits until a call may be sent. What is known by then of the traffic is charged with what the call will probably use. The
// error is an [*llm.Error] of the kind [llm.Canceled] when ctx has ended, of the kind [llm.NoModel] when there is no such alias,
// or [ErrClosed].
func (c *Control) Acquire(ctx context.Context, call Call) (*Ticket, error) {
	return c.acquire(ctx, call, &Tries{c: c, since: c.cfg.Clock.Now()})
}

// AcquireNow is Acquire for a call whose turn it is at once, so that nobody has to wait for it; nil: it is not. Nothing is queued then, and no
// other call gives way.
func (c *Control) AcquireNow(call Call) *Ticket {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.aliases[call.Alias]; !ok || c.closed {
		return nil
	}
	now := c.cfg.Clock.Now()
	d, _, _ := c.choose(&call, nil, nil, now)
	if d == nil || !d.until.IsZero() || d.group.Queued() > 0 {
		return nil
	}
	t := c.newTicket(d, call, now)
	d.group.Push(&t.entry, now)
	if d.group.Pop(now) == nil {
		d.group.Remove(&t.entry, now)
		c.pump(d.group, now) // the queue is empty again, and nothing is blocked
		return nil
	}
	t.sent = now
	close(t.ready)
	return t
}

// acquire is Acquire for the next of the tries of a call.
func (c *Control) acquire(ctx context.Context, call Call, a *Tries) (*Ticket, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.aliases[call.Alias]; !ok {
		return nil, &llm.Error{Kind: llm.NoModel, Message: fmt.Sprintf("there is no model %.100q in the configuration", call.Alias)}
	}
	for {
		if c.closed {
			return nil, ErrClosed
		}
		if ctx.Err() != nil {
			return nil, canceled(ctx)
		}
		now := c.cfg.Clock.Now()
		d, until, some := c.choose(&call, a.not, a.rather, now)
		if !some {
			return nil, errNoneLeft
		}
		if d == nil {
			if err := a.downtime(ctx, call, until); err != nil {
				return nil, err
			}
			continue
		}
		t := c.enqueue(d, call, a.since, now)
		if err := c.wait(ctx, t); err != nil {
			return nil, err
		}
		if !t.again {
			return t, nil
		}
	}
}

var errNoneLeft = &llm.Error{Kind: llm.NoModel, Message: "no deployment of the model is left to try"}

// downtime waits for a deployment to be up again.
func (a *Tries) downtime(ctx context.Context, call Call, until time.Time) error {
	if call.ID != "" {
		a.c.tickets[call.ID] = &Ticket{c: a.c, call: call, queued: a.since}
		defer delete(a.c.tickets, call.ID)
	}
	return a.sleep(ctx, until, true)
}

// newTicket makes the ticket of a call that is to be queued. c.mu is held.
func (c *Control) newTicket(d *deployment, call Call, since time.Time) *Ticket {
	c.numbered++
	t := &Ticket{c: c, d: d, call: call, number: c.numbered, ready: make(chan struct{}), queued: since}
	t.stays = call.Conversation != "" && c.affinity.get(call.Conversation) == d
	t.entry = traffic.Call{Namespace: call.Namespace, Tree: call.Tree, Priority: call.Priority, Since: since, Owner: t,
		Restartable: call.Restartable && d.Traits.CancelFree}
	return t
}

// enqueue queues a call for a deployment. c.mu is held.
func (c *Control) enqueue(d *deployment, call Call, since, now time.Time) *Ticket {
	t := c.newTicket(d, call, since)
	if !d.until.IsZero() {
		d.probe = t
	}
	d.waiting[t] = struct{}{}
	if call.ID != "" {
		c.tickets[call.ID] = t
	}
	d.group.Push(&t.entry, now)
	c.pump(d.group, now)
	c.rearm(now)
	return t
}

// cost is what the call of a ticket will probably use.
func cost(entry *traffic.Call) traffic.Cost {
	t := entry.Owner.(*Ticket)
	x := traffic.Cost{Input: t.call.Input, Output: t.d.estimator.Output(t.call.MaxTokens), Most: t.call.MaxTokens}
	if x.Input == 0 {
		x.Input = t.d.estimator.Input(t.call.Content)
	}
	if t.stays && t.d.Traits.CachedInputFree {
		x.Input = max(1, x.Input-t.call.Cached)
	}
	return x
}

// dequeued notes that a call is in no queue any more. c.mu is held.
func (c *Control) dequeued(t *Ticket) {
	delete(t.d.waiting, t)
	if c.tickets[t.call.ID] == t {
		delete(c.tickets, t.call.ID)
	}
	if t.again {
		c.neutral(t.d, t)
	}
}

// sendBack takes a call that waits out of its queue, so that it looks for another deployment. c.mu is held.
func (c *Control) sendBack(t *Ticket, now time.Time) {
	t.d.group.Remove(&t.entry, now)
	t.again = true
	c.dequeued(t)
	close(t.ready)
}

// wait waits for a ticket. c.mu is held, but not while it waits.
func (c *Control) wait(ctx context.Context, t *Ticket) error {
	c.mu.Unlock()
	select {
	case <-t.ready:
		c.mu.Lock()
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	now := c.cfg.Clock.Now()
	if t.d.group.Remove(&t.entry, now) {
		c.dequeued(t)
	} else if !t.again { // it was its turn in the same moment
		t.d.group.Drop(&t.entry, now)
	}
	t.ended = true
	c.neutral(t.d, t)
	c.pump(t.d.group, now)
	c.rearm(now)
	return canceled(ctx)
}

func canceled(ctx context.Context) error {
	return &llm.Error{Kind: llm.Canceled, Message: "it was cancelled before it was sent", Err: context.Cause(ctx)}
}

// Deployment is where the call is to be sent.
func (t *Ticket) Deployment() Deployment { return t.d.Deployment }

// Expected is what the call was charged with.
func (t *Ticket) Expected() traffic.Cost { return t.entry.Cost }

// Wanted says that others wait for the place which the call has: as many are under way with its key as may be.
func (t *Ticket) Wanted() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	return !t.ended && t.d.group.Crowded()
}

// Head takes over what the head of the answer says of limits; see llm.Watch.
func (t *Ticket) Head(h llm.Head) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if t.ended {
		return
	}
	t.levels = t.levels[:0]
	for _, l := range h.Limits {
		t.levels = append(t.levels, traffic.Level{What: l.What, Limit: l.Limit, Remaining: l.Remaining, Reset: l.Reset})
	}
	if h.Status == 429 { // Done says the same once more, and that nothing was used
		return
	}
	now := t.c.cfg.Clock.Now()
	if t.d.probe == t && h.Status < 400 { // it is up, however long the answer takes
		t.c.healthy(t.d, now)
	}
	t.d.group.Head(&t.entry, t.levels, now)
	t.c.pump(t.d.group, now)
	t.c.rearm(now)
}

// Drop ends a ticket for a call that is not sent after all: all is given back.
func (t *Ticket) Drop() {
	t.end(func(now time.Time) {
		t.d.group.Drop(&t.entry, now)
		t.c.neutral(t.d, t)
	})
}

// Done ends a ticket with what the call has used (nil: it is not known) and its failure.
func (t *Ticket) Done(usage *llm.Usage, err error) {
	t.end(func(now time.Time) {
		e := asError(err)
		if usage == nil && e != nil {
			usage = e.Usage
		}
		t.settle(usage, e, now)
		switch {
		case err == nil:
			t.c.healthy(t.d, now)
			t.c.affinity.set(t.call.Conversation, t.d)
			t.learn(usage)
		case e == nil:
			t.c.neutral(t.d, t)
		default:
			t.judge(e, now)
		}
	})
}

func (t *Ticket) end(how func(now time.Time)) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if t.ended {
		return
	}
	t.ended = true
	now := t.c.cfg.Clock.Now()
	how(now)
	t.c.pump(t.d.group, now)
	t.c.rearm(now)
}

// settle charges what was used.
func (t *Ticket) settle(usage *llm.Usage, e *llm.Error, now time.Time) {
	g := t.d.group
	if e != nil && e.Retry() && e.RetryAfter > 0 { // whatever has failed: it is asked again then, and by others not before
		g.Pause(e.RetryAfter, now)
	}
	switch {
	case e != nil && e.Kind == llm.RateLimited:
		g.Refused(&t.entry, t.levels, e.RetryAfter, now)
	case usage != nil:
		g.Settle(&t.entry, t.possible(usage), now)
	case e == nil:
		g.SettleUnknown(&t.entry, now)
	case e.Kind == llm.Overloaded:
		g.Overloaded(&t.entry, e.RetryAfter, now)
	case !e.Sent && e.Status == 0:
		g.Drop(&t.entry, now)
	case e.Status >= 400 && !e.Began: // it was counted, and no model has seen it
		g.Settle(&t.entry, traffic.Usage{}, now)
	default:
		g.SettleUnknown(&t.entry, now)
	}
}

// judge draws conclusions for the deployment from a failure.
func (t *Ticket) judge(e *llm.Error, now time.Time) {
	switch e.Kind {
	case llm.Overloaded, llm.Server, llm.Network, llm.Timeout, llm.Malformed:
		t.c.failed(t.d, t, e, now)
	case llm.Auth, llm.NoModel, llm.Quota:
		if t.d.until.IsZero() && !t.d.avoid.After(now) {
			t.d.since = now
		}
		t.d.reason, t.d.avoid = e.Error(), now.Add(avoidFor)
		t.c.neutral(t.d, t)
	case llm.Invalid, llm.TooLong, llm.Filtered: // it has answered
		t.c.healthy(t.d, now)
	default:
		t.c.neutral(t.d, t)
	}
}

// learn notes what the call has used for the next estimates.
func (t *Ticket) learn(usage *llm.Usage) {
	if usage != nil && !usage.Estimated {
		u := t.possible(usage)
		t.d.estimator.Learn(t.call.Content, t.call.MaxTokens, u.Input+u.Cached, u.Output)
	}
}

// possible is what the call can have used of what its server says. What that has made up is not what limits are found out by: others share them.
func (t *Ticket) possible(usage *llm.Usage) traffic.Usage {
	u := usage.Possible()
	most := max(t.call.Content.Most(), t.call.Input)
	in, cached := min(u.Inputs(), most), min(u.CacheRead, most)
	return traffic.Usage{Input: max(0, in-cached), Cached: cached, Output: min(u.Outputs(), traffic.MostOutput)}
}

// preempt cancels the call for a more urgent one. c.mu is held.
func (t *Ticket) preempt() {
	t.preempted = true
	if t.cancel != nil {
		t.cancel(errPreempted)
	}
}
