package traffic

import (
	"fmt"
	"time"
)

// Wait says why a call waits.
type Wait struct {
	Since time.Time // when it was queued
	Now   time.Time
	// What it, or the first of those that are ahead of it, waits for: "tokens/min", "requests in 10 s", "calls at one moment",
	// "Retry-After", "a pause after refusals", "a share of the limits"; "": nothing, it is about to be sent.
	What   string
	Lasted time.Duration // for how long calls have been waiting for that
	Until  time.Time     // when there will be enough for the first; zero: when some other call ends
	Key    string
	Family string
	Ahead  int // calls that go before it, as it looks now
}

// String is the sentence for users: "queued 2.1 s: tokens/min of key a, 31 ahead".
func (w Wait) String() string {
	text := fmt.Sprintf("queued %.1f s", w.Now.Sub(w.Since).Seconds())
	if w.What != "" {
		text += fmt.Sprintf(": %s of key %s", w.What, w.Key)
	}
	if w.Ahead > 0 {
		text += fmt.Sprintf(", %d ahead", w.Ahead)
	}
	return text
}

// Explain says why a call waits; ok is false when it does not. It looks at all calls that wait.
func (c *Controller) Explain(call *Call, now time.Time) (w Wait, ok bool) {
	if call.state != queued {
		return w, false
	}
	c.advance(now)
	first := c.queue.first()
	c.weigh(first)
	kind, why, until := c.room(first)
	w = Wait{Since: c.time(call.since), Now: c.time(c.now), Key: c.cfg.Key, Family: c.cfg.Family, What: c.what(kind, why)}
	if why != waitNothing && c.blocked.why == why && c.blocked.kind == kind {
		w.Lasted = time.Duration(c.now - c.blocked.since)
	}
	if why != waitNothing && until != never {
		w.Until = c.time(until)
	}
	for _, b := range c.queue.open {
		for other := b.calls.head; other != nil && other != call; other = other.links[1].after {
			if other.before(call) {
				w.Ahead++
			}
		}
	}
	return w, true
}

// before says whether a call is ahead of another if namespaces had no shares; of two with the same priority, c was queued first.
func (c *Call) before(other *Call) bool {
	switch {
	case c.due+int64(Patience) <= other.due:
		return true
	case other.due+int64(Patience) <= c.due:
		return false
	}
	return c.Priority <= other.Priority
}

// what says what a call waits for.
func (c *Controller) what(kind int, why waiting) string {
	name := [kinds]string{"requests", "input tokens", "output tokens", "tokens"}[kind]
	switch why {
	case waitLevel:
		switch c.buckets[kind].period {
		case 1:
			return name + "/s"
		case 60:
			return name + "/min"
		case 3600:
			return name + "/h"
		case 86400:
			return name + "/day"
		}
		return fmt.Sprintf("%s in %s", name, time.Duration(c.buckets[kind].period*1e9))
	case waitShort:
		return name + " in 1 s"
	case waitLong:
		return name + " in 10 s"
	case waitConcurrency:
		return "calls at one moment"
	case waitAsked:
		return "Retry-After"
	case waitBackoff:
		return "a pause after refusals"
	case waitLease:
		return "a share of the limits"
	}
	return ""
}

// LimitState is what is known of one limit.
type LimitState struct {
	What   string // "requests", "input", "output", "tokens"
	Source Source
	Amount float64       // for each period; 0: not known
	Period time.Duration // of Amount
	Pace   float64       // for each second: what the server was seen to let pass, if that is less; 0: not known
	Left   float64       // of it, after all that is under way
	Margin float64       // what is left for strangers
	Second bool          // it binds in each second, too
	Ten    bool          // and in each ten seconds
}

// Rate is how much of it goes out for each second at most; 0: that is not known.
func (l LimitState) Rate() float64 {
	rate := l.Pace
	if l.Amount > 0 && l.Period > 0 {
		if said := l.Amount / l.Period.Seconds(); rate == 0 || said < rate {
			rate = said
		}
	}
	return rate
}

// QueuedAt is how many calls of a priority wait.
type QueuedAt struct{ Priority, Calls int }

// State is what a controller knows, and what it has.
type State struct {
	Key, Family     string
	Limits          []LimitState
	Share           float64 // of the limits, that this controller has
	Concurrency     float64 // calls that may be under way
	Learned         bool    // Concurrency is not configured
	Running, Queued int
	Queue           []QueuedAt // Queued by priority, the most urgent first
	Waiting         string     // what the first call waits for; "": none waits
	PausedUntil     time.Time  // zero: the server has not asked for a pause
}

// State returns what the controller knows.
func (c *Controller) State(now time.Time) State {
	c.advance(now)
	s := State{Key: c.cfg.Key, Family: c.cfg.Family, Share: c.share, Concurrency: c.bound, Learned: c.cfg.Limits.Concurrency == 0, Running: c.running, Queued: c.queue.count}
	for i := range c.buckets {
		b := &c.buckets[i]
		if !b.known() {
			continue
		}
		s.Limits = append(s.Limits, LimitState{What: names[i], Source: b.source, Amount: b.amount, Period: time.Duration(b.period * 1e9), Pace: b.pace,
			Left: max(0, b.level-b.held), Margin: b.margin, Second: b.tight, Ten: b.loose})
	}
	for _, b := range c.queue.open {
		s.Queue = append(s.Queue, QueuedAt{b.priority, b.count})
	}
	if c.pausedUntil > c.now {
		s.PausedUntil = c.time(c.pausedUntil)
	}
	if first := c.queue.first(); first != nil {
		c.weigh(first)
		kind, why, _ := c.room(first)
		s.Waiting = c.what(kind, why)
	}
	return s
}
