package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentkernel/internal/llm"
)

// errPreempted is why a call was cancelled that gives way.
var errPreempted = errors.New("a more urgent call needs its place")

// ErrAgain is the error of [Tries.Run] for a call that has cost nothing so far and is to be sent again: see Call.Requeues.
var ErrAgain = errors.New("the call is to be sent again")

// ErrTime is why a call has ended whose time is over: see [Tries.Left].
var ErrTime = fmt.Errorf("the time of the call is over: %w", context.DeadlineExceeded)

// Run is [Tries.Run] for a call whose tries are its own.
func (c *Control) Run(ctx context.Context, t *Ticket, call Call, send func(context.Context, *Ticket) (*llm.Usage, error)) error {
	a := c.Tries(call)
	defer a.End()
	return a.Run(ctx, t, send)
}

// Tries are those of one call. They belong to one goroutine at a time, and must be ended.
type Tries struct {
	c           *Control
	call        Call
	not, rather map[*deployment]bool // which deployments are out of the question, or have failed already
	since       time.Time            // when it was queued first
	took        time.Duration        // what of the time since then counts
	most        time.Duration        // that it may take; 0: there is no bound, or it was not sent yet
	sent        int                  // how often it has failed otherwise
	refused     int                  // by a limit
	absent      int                  // as nothing listens at the address
	paid        int                  // how often its server may have charged for a failure
	last        error

	// For Explain, under the controller's mutex.
	tries  int        // that have failed
	asked  time.Time  // when the one was sent that is under way; zero: none is
	until  time.Time  // of the pause before the next; zero: there is none
	failed *llm.Error // that of the last try; nil: none has failed
}

// Tries begins the tries of a call.
func (c *Control) Tries(call Call) *Tries {
	a := &Tries{c: c, call: call, not: map[*deployment]bool{}, rather: map[*deployment]bool{}, since: c.cfg.Clock.Now()}
	if call.ID != "" { // Explain finds it
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sending[call.ID] = a
	}
	return a
}

// End ends the tries of a call.
func (a *Tries) End() {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	if a.c.sending[a.call.ID] == a {
		delete(a.c.sending, a.call.ID)
	}
}

// Failed is how often the call has failed, and how the last time; nil: it has not.
func (a *Tries) Failed() (times int, last *llm.Error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	return a.tries, a.failed
}

// Took is how long the call has taken, without what it has waited for its turn.
func (a *Tries) Took() time.Duration { return a.took }

// Left is how much time the call has left; false: it is not bounded. How much it has in all says the end of the first ctx ([llm.End]). What it
// waits in the queue is not of that time: it waits there for others.
func (a *Tries) Left(ctx context.Context) (left time.Duration, bounded bool) {
	if at, ends := llm.End(ctx); ends && a.most == 0 {
		a.most = max(at.Sub(a.c.cfg.Clock.Now()), 1)
	}
	return a.most - a.took, a.most > 0
}

// Within bounds a context to the time that the call has left; its cause is then [ErrTime].
func (a *Tries) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	if left, bounded := a.Left(ctx); bounded {
		return context.WithTimeoutCause(ctx, left, ErrTime)
	}
	return ctx, func() {}
}

// counts counts the time until the function is called that it returns.
func (a *Tries) counts() func() {
	since := a.c.cfg.Clock.Now()
	return func() { a.took += a.c.cfg.Clock.Now().Sub(since) }
}

// Run sends a call by send as often as it takes: it waits for the call's turn each time, sends again what may be sent again after a
// random pause, and goes to another deployment when one fails. Nothing is sent again after a bit of its answer has come. The error
// is that of the last attempt, or that of [Control.Acquire] if none is possible any more, or [ErrAgain].
//
// t is a ticket of Acquire for the first attempt of a call whose turn it is; nil: it has none. send returns what was used. It must pass
// the heads of answers on to the ticket, and must not end it.
func (a *Tries) Run(ctx context.Context, t *Ticket, send func(context.Context, *Ticket) (*llm.Usage, error)) error {
	if t != nil && t.queued.Before(a.since) { // for its first try
		a.since = t.queued
	}
	for {
		var err error
		if t == nil {
			t, err = a.Acquire(ctx)
		}
		if err != nil {
			return a.ended(ctx, err)
		}
		if a.last = a.send(ctx, t, send); a.last == nil {
			return nil
		}
		pause, again := a.again(ctx, t, a.last)
		if !again {
			return a.last
		}
		if pause > 0 {
			a.c.mu.Lock()
			a.until = a.c.cfg.Clock.Now().Add(pause)
			a.c.mu.Unlock()
		}
		if e := asError(a.last); a.call.Requeues && a.paid == 0 && (e.Retry() || e.Kind == llm.Canceled && !e.Began && e.Usage == nil) { // others are of a deployment, and there may be no other
			return ErrAgain
		}
		t = nil
	}
}

// Acquire waits for the next try: for the end of the pause before it, and for the call's turn.
func (a *Tries) Acquire(ctx context.Context) (*Ticket, error) {
	if err := a.rest(ctx); err != nil {
		return nil, err
	}
	return a.c.acquire(ctx, a.call, a)
}

// rest waits until the pause before the next try is over.
func (a *Tries) rest(ctx context.Context) error {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	if a.until.IsZero() {
		return nil
	}
	defer func() { a.until = time.Time{} }()
	if a.failed != nil && a.failed.Kind == llm.RateLimited { // a wait for the limit, as that in the queue
		return a.c.sleep(ctx, a.until, false)
	}
	return a.sleep(ctx, a.until, false)
}

// sleep is that of the controller, in the time that the call has. c.mu is held, but not while it waits.
func (a *Tries) sleep(ctx context.Context, until time.Time, change bool) error {
	defer a.counts()()
	ctx, cancel := a.Within(ctx)
	defer cancel()
	return a.c.sleep(ctx, until, change)
}

// explain says why there is no answer yet, where a try has failed: "no answer yet, connection refused, tried 2 times, again in 4.1 s"; "": none
// has. c.mu is held.
func (a *Tries) explain(now time.Time) string {
	if a.failed == nil {
		return ""
	}
	text := "no answer yet, " + a.failed.Brief() + ", tried " + times(a.tries)
	switch {
	case !a.asked.IsZero():
		text += fmt.Sprintf(", asked again %.1f s ago", now.Sub(a.asked).Seconds())
	case !a.until.IsZero():
		text += fmt.Sprintf(", again in %.1f s", max(a.until.Sub(now).Seconds(), 0))
	}
	return text
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func (a *Tries) send(ctx context.Context, t *Ticket, send func(context.Context, *Ticket) (*llm.Usage, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.c.mu.Lock()
	if t.cancel = cancel; t.preempted {
		cancel(errPreempted)
	}
	a.asked = a.c.cfg.Clock.Now()
	a.c.mu.Unlock()
	defer t.Drop() // in case of a panic: else the call would be under way for ever
	counted := a.counts()
	used, err := send(ctx, t)
	if e := asError(err); e == nil || e.Kind != llm.Canceled || !t.wasPreempted() { // else it was others who had the time
		counted()
	}
	a.c.mu.Lock()
	a.asked = time.Time{}
	if e := asError(err); e == nil {
		a.failed = nil
	} else if e.Kind != llm.Canceled { // which is no failure, and those before may be why
		a.failed = e
		a.tries++
	}
	a.c.mu.Unlock()
	t.Done(used, err)
	return err
}

// ended is the error of a call that is not sent again, because that is not possible any more.
func (a *Tries) ended(ctx context.Context, why error) error {
	switch last := asError(a.last); {
	case last == nil:
		return why
	case errors.Is(why, ErrTime), ctx.Err() != nil: // what the attempts before have cost is not forgotten
		cause := context.Cause(ctx)
		if errors.Is(why, ErrTime) {
			cause = ErrTime
		}
		return &llm.Error{Kind: llm.Canceled, Message: "it was cancelled before it was sent again", Sent: last.Sent, Usage: last.Usage, Err: cause}
	case errors.Is(why, ErrClosed):
		return why
	}
	return a.last
}

// again says whether a call is sent again after a failure, and after which pause.
func (a *Tries) again(ctx context.Context, t *Ticket, err error) (pause time.Duration, again bool) {
	e := asError(err)
	switch {
	case e == nil || ctx.Err() != nil:
		return 0, false
	case e.Kind == llm.Canceled: // what has come of its answer nobody has seen
		return 0, t.wasPreempted()
	case e.Began, a.call.Once && e.Charged():
		return 0, false
	}
	switch e.Kind {
	case llm.Auth, llm.NoModel, llm.Quota: // of this deployment
		a.not[t.d] = true
		return 0, true
	}
	if e.Charged() {
		a.paid++
	}
	if !e.Retry() || a.paid > MostPaid {
		return 0, false
	}
	most := a.c.cfg.Retry.Most
	count := &a.sent
	switch {
	case e.Kind == llm.RateLimited:
		count = &a.refused
	case e.Refused():
		count, most = &a.absent, refusedPause
	}
	n := *count
	if *count++; e.Kind != llm.RateLimited && (*count > 1 || len(a.c.aliases[a.call.Alias].Deployments) > 1) { // one alone gets two attempts
		a.rather[t.d] = true
	}
	if a.sent >= a.c.cfg.Retry.Attempts || a.refused >= MostRefusals || a.took >= a.c.cfg.Retry.Time {
		return 0, false
	}
	if e.Kind == llm.RateLimited && n == 0 { // the queue waits for what it lacks
		return 0, true
	}
	if n < 16 {
		most = min(most, a.c.cfg.Retry.Base<<n)
	}
	return time.Duration(a.c.cfg.Rand() * float64(most)), true
}

func (t *Ticket) wasPreempted() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	return t.preempted
}
