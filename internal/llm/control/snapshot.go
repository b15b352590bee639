package control

import (
	"fmt"
	"time"

	"agentkernel/internal/sched/traffic"
)

// Snapshot is what is known of all traffic at one moment.
type Snapshot struct {
	Keys        []traffic.State // one for each key and family, in the order of the configuration
	Deployments []DeploymentState
	Unplaced    int // calls that wait until some deployment is up
}

// DeploymentState is what is known of a deployment.
type DeploymentState struct {
	Name, Key, Family, Model string
	Queued                   int
	Lacks                    bool      // Deployment.Lacks is not there
	Failures                 int       // in a row
	DownUntil                time.Time // when one call may try it again; zero: it is up
	Tried                    bool      // that call is under way
	AvoidUntil               time.Time // until when others are preferred; zero: it is as good as they
	Since                    time.Time // since when it is down or avoided, or else up again; zero: it always was
	Reason                   string    // the last failure; "": it has answered since
}

// Snapshot returns what is known.
func (c *Control) Snapshot() (s Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Clock.Now()
	for _, g := range c.groups {
		s.Keys = append(s.Keys, g.State(now))
	}
	for _, d := range c.deployments {
		x := DeploymentState{Name: d.Name, Key: d.Key, Family: d.Family, Model: d.Model, Queued: len(d.waiting), Lacks: d.lacks, Failures: d.failures, DownUntil: d.until, Tried: d.probe != nil,
			Since: d.since, Reason: d.reason}
		switch {
		case d.avoid.After(now):
			x.AvoidUntil = d.avoid
		case d.until.IsZero() && !d.avoid.IsZero(): // that has passed
			x.Since = d.avoid
		}
		s.Deployments = append(s.Deployments, x)
	}
	for _, t := range c.tickets {
		if t.d == nil {
			s.Unplaced++
		}
	}
	return s
}

// Explain says why the call with an ID waits: "queued 2.1 s: tokens/min of key a, 31 ahead", and, where it was sent, why there is no
// answer yet. ok is false when none with it waits.
func (c *Control) Explain(id string) (text string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, a := c.cfg.Clock.Now(), c.sending[id]
	if a != nil {
		text = a.explain(now)
	}
	t := c.tickets[id]
	if t == nil {
		return text, text != ""
	}
	queued, ok := c.queued(t, now)
	switch where := c.aliases[t.call.Alias].Deployments; {
	case text != "" && t.d != nil: // else that says it, too
		return text + ", " + queued, ok
	case text != "" && len(where) == 1: // of several, each has its reason
		if d := c.byName[where[0]]; a.asked.IsZero() && a.until.IsZero() && d.until.After(now) {
			text += fmt.Sprintf(", again in %.1f s", d.until.Sub(now).Seconds())
		}
		return text, true
	}
	return queued, ok
}

// queued says why a ticket waits. c.mu is held.
func (c *Control) queued(t *Ticket, now time.Time) (text string, ok bool) {
	if t.d != nil {
		w, ok := t.d.group.Explain(&t.entry, now)
		return w.String(), ok
	}
	text = fmt.Sprintf("queued %.1f s: no deployment of model %s is up", now.Sub(t.queued).Seconds(), t.call.Alias)
	lacks := "" // what it waits for alone
	for i, name := range c.aliases[t.call.Alias].Deployments {
		switch d := c.byName[name]; {
		case d.lacks:
			text += fmt.Sprintf("; %s: it waits for %s", d.Name, d.Lacks)
			if i == 0 {
				lacks = d.Lacks
			}
		case !d.until.IsZero():
			lacks = ""
			text += fmt.Sprintf("; %s: %s", d.Name, d.reason)
			if d.until.After(now) {
				text += fmt.Sprintf(", tried again in %.1f s", d.until.Sub(now).Seconds())
			}
		}
	}
	if lacks != "" {
		return "waits for " + lacks, true
	}
	return text, true
}
