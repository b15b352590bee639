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

// Run sends a call by send as often as it takes: it waits for the call's turn each time, sends again what may be sent again after a
// random pause, and goes to another deployment when one fails. Nothing is sent again after a bit of its answer has come. The error
// is that of the last attempt, or that of [Control.Acquire] if none is possible any more.
//
// t is a ticket of Acquire for the first attempt of a call whose turn it is; nil: it has none. send returns what was used. It must pass
// the heads of answers on to the ticket, and must not end it.
func (c *Control) Run(ctx context.Context, t *Ticket, call Call, send func(context.Context, *Ticket) (*llm.Usage, error)) error {
	a := attempts{c: c, call: call, not: map[*deployment]bool{}, rather: map[*deployment]bool{}, since: c.cfg.Clock.Now()}
	defer c.begun(&a)()
	for {
		var err error
		if t == nil {
			t, err = c.acquire(ctx, call, a.since, a.not, a.rather)
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
		t = nil
		if pause > 0 {
			c.mu.Lock()
			a.until = c.cfg.Clock.Now().Add(pause)
			canceled := c.sleep(ctx, a.until, false)
			a.until = time.Time{}
			c.mu.Unlock()
			if canceled != nil {
				return a.ended(ctx, canceled)
			}
		}
	}
}

// attempts are those of one call.
type attempts struct {
	c           *Control
	call        Call
	not, rather map[*deployment]bool // which deployments are out of the question, or have failed already
	since       time.Time            // when it was queued first
	first       time.Time            // when it was sent first
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

// begun lets Explain find the attempts of a call, until the function that it returns is called.
func (c *Control) begun(a *attempts) (ended func()) {
	if a.call.ID == "" {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sending[a.call.ID] = a
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.sending[a.call.ID] == a {
			delete(c.sending, a.call.ID)
		}
	}
}

// explain says why there is no answer yet, where a try has failed: "no answer yet, connection refused, tried 2 times, again in 4.1 s"; "": none
// has. c.mu is held.
func (a *attempts) explain(now time.Time) string {
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

func (a *attempts) send(ctx context.Context, t *Ticket, send func(context.Context, *Ticket) (*llm.Usage, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.c.mu.Lock()
	if t.cancel = cancel; t.preempted {
		cancel(errPreempted)
	}
	a.asked = a.c.cfg.Clock.Now()
	a.c.mu.Unlock()
	defer t.Drop() // in case of a panic: else the call would be under way for ever
	if a.first.IsZero() {
		a.first = t.sent
	}
	used, err := send(ctx, t)
	a.c.mu.Lock()
	a.asked = time.Time{}
	if a.failed = asError(err); a.failed != nil {
		a.tries++
	}
	a.c.mu.Unlock()
	t.Done(used, err)
	return err
}

// ended is the error of a call that is not sent again, because that is not possible any more.
func (a *attempts) ended(ctx context.Context, why error) error {
	switch last := asError(a.last); {
	case last == nil:
		return why
	case ctx.Err() != nil: // what the attempts before have cost is not forgotten
		return &llm.Error{Kind: llm.Canceled, Message: "it was cancelled before it was sent again", Sent: last.Sent, Usage: last.Usage, Err: context.Cause(ctx)}
	case errors.Is(why, ErrClosed):
		return why
	}
	return a.last
}

// again says whether a call is sent again after a failure, and after which pause.
func (a *attempts) again(ctx context.Context, t *Ticket, err error) (pause time.Duration, again bool) {
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
	if a.sent >= a.c.cfg.Retry.Attempts || a.refused >= MostRefusals || a.c.cfg.Clock.Now().Sub(a.first) >= a.c.cfg.Retry.Time {
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
