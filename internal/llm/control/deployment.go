package control

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"agentkernel/internal/llm"
	"agentkernel/internal/sched/traffic"
)

// deployment is a Deployment, and what is known of its health.
type deployment struct {
	Deployment
	group     *group
	estimator *traffic.Estimator
	waiting   map[*Ticket]struct{} // in the group's queue
	lacks     bool                 // what Lacks says

	failures int       // in a row
	trips    int       // how often it was left alone in a row
	until    time.Time // until when it is left alone; zero: it is not
	probe    *Ticket   // the one call that tries it after that
	avoid    time.Time // until when others are preferred, because it refuses the key, or has no such model
	since    time.Time // of until or avoid, or since when it is neither again
	reason   string    // the last failure
}

// Of a key that is wrong, or has no money, others are preferred for so long.
const avoidFor = time.Minute

// refusedPause is for how long a server is left alone at whose address nothing listens: it is tried again for nothing, and answers as soon as
// somebody has started it.
const refusedPause = 2 * time.Second

// tooPaused is for how long a server may want to be left alone without others being preferred.
const tooPaused = 10 * time.Second

// affinityWorth is how much longer a call waits for the deployment that has its conversation in its cache.
const affinityWorth = 5 * time.Second

// up says whether a call may be sent to the deployment; if not, until says when that should be asked again; zero: when something
// has changed.
func (d *deployment) up(now time.Time) (ok bool, until time.Time) {
	switch {
	case d.lacks:
		return false, until
	case d.until.IsZero():
		return true, until
	case d.until.After(now):
		return false, d.until
	}
	return d.probe == nil, until
}

// choose finds the deployment for a call: of those of its alias that are up the one where it waits least, unless another has its
// conversation; else one of the aliases behind it. nil: none is up; then until says when to ask again, zero: after a change.
func (c *Control) choose(call *Call, not, rather map[*deployment]bool, now time.Time) (best *deployment, until time.Time, some bool) {
	chain := append([]string{call.Alias}, c.aliases[call.Alias].Fallback...)
	for picky := 2; picky >= 0; picky-- {
		for _, alias := range chain {
			var least time.Duration
			for _, name := range c.aliases[alias].Deployments {
				d := c.byName[name]
				if not[d] {
					continue
				}
				some = true
				ok, at := d.up(now)
				if !ok && !at.IsZero() && (until.IsZero() || at.Before(until)) {
					until = at
				}
				wait := d.group.Backlog(now)
				switch {
				case !ok, picky >= 1 && (d.avoid.After(now) || rather[d]), picky == 2 && d.group.Paused(now) > tooPaused:
					continue
				}
				if call.Conversation != "" && c.affinity.get(call.Conversation) == d {
					wait -= affinityWorth
				}
				if best == nil || wait < least {
					best, least = d, wait
				}
			}
			if best != nil {
				return best, until, true
			}
		}
	}
	return nil, until, some
}

// healthy notes that a deployment has answered.
func (c *Control) healthy(d *deployment, now time.Time) {
	if !d.until.IsZero() || !d.avoid.IsZero() {
		d.since = now
	}
	d.failures, d.trips, d.avoid, d.reason = 0, 0, time.Time{}, ""
	if !d.until.IsZero() {
		d.until, d.probe = time.Time{}, nil
		c.alarm.changed()
	}
}

// Equip notes that a deployment has what it lacked, or another one in place of that: what it refused before does not count any more.
func (c *Control) Equip(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.byName[name]
	if d == nil {
		return
	}
	if !d.avoid.IsZero() {
		d.since, d.avoid, d.reason = c.cfg.Clock.Now(), time.Time{}, ""
	}
	d.lacks = false
	c.alarm.changed()
}

// failed notes that a deployment has failed; where that has happened too often in a row it is left alone, and what waits for it
// looks for another.
func (c *Control) failed(d *deployment, t *Ticket, err *llm.Error, now time.Time) {
	d.reason = err.Error()
	d.failures++
	probed := d.probe == t
	if probed {
		d.probe = nil
	}
	if d.failures < c.cfg.Breaker.Failures && !probed || d.until.After(now) {
		return
	}
	pause := c.cfg.Breaker.Most
	if d.trips < 16 {
		pause = min(pause, c.cfg.Breaker.Pause<<d.trips)
	}
	if err.Refused() {
		pause = min(pause, refusedPause)
	}
	d.trips++
	if d.until.IsZero() {
		d.since = now
	}
	d.until = now.Add(max(pause, err.RetryAfter))
	for _, waiting := range d.inOrder() {
		c.sendBack(waiting, now)
	}
	c.alarm.changed()
}

// inOrder are those that wait for the deployment, the first to come first.
func (d *deployment) inOrder() []*Ticket {
	return slices.SortedFunc(maps.Keys(d.waiting), func(a, b *Ticket) int { return cmp.Compare(a.number, b.number) })
}

// neutral notes that a call has ended which says nothing about the deployment.
func (c *Control) neutral(d *deployment, t *Ticket) {
	if d.probe == t {
		d.probe = nil
		c.alarm.changed()
	}
}

// asError finds the failure of a provider in an error.
func asError(err error) *llm.Error {
	var e *llm.Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// affinity remembers where conversations were: some of the last ones.
type affinity struct{ young, old map[string]*deployment }

const conversations = 10_000

func (a *affinity) get(conversation string) *deployment {
	if d := a.young[conversation]; d != nil {
		return d
	}
	return a.old[conversation]
}

func (a *affinity) set(conversation string, d *deployment) {
	if conversation == "" {
		return
	}
	if a.young == nil || len(a.young) >= conversations {
		a.young, a.old = map[string]*deployment{}, a.young
	}
	a.young[conversation] = d
}
