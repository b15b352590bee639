package control

import (
	"context"
	"slices"
	"time"
)

// alarm is the one timer, and who waits for a time or for a change. c.mu is held in all of its methods.
type alarm struct {
	stop     func() bool
	set      time.Time // what it is set for; zero: it is not set
	serial   int       // of its setting: one that was replaced does nothing
	sleepers []*sleeper
}

// sleeper waits until a time, or for a deployment to be up again.
type sleeper struct {
	until  time.Time // zero: only for a change
	change bool
	woken  chan struct{}
}

// sleep waits until a time (zero: for ever), or, if change is set, until something has changed for deployments. c.mu is held, but not
// while it waits.
func (c *Control) sleep(ctx context.Context, until time.Time, change bool) error {
	if c.closed {
		return ErrClosed
	}
	s := &sleeper{until: until, change: change, woken: make(chan struct{})}
	c.alarm.sleepers = append(c.alarm.sleepers, s)
	c.rearm(c.cfg.Clock.Now())
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-s.woken:
		return nil
	case <-ctx.Done():
		c.mu.Lock()
		if i := slices.Index(c.alarm.sleepers, s); i >= 0 {
			c.alarm.sleepers = slices.Delete(c.alarm.sleepers, i, i+1)
		}
		c.mu.Unlock()
		return canceled(ctx)
	}
}

// changed wakes those who wait for a deployment.
func (a *alarm) changed() { a.wake(func(s *sleeper) bool { return s.change }) }

func (a *alarm) wakeAll() { a.wake(func(*sleeper) bool { return true }) }

func (a *alarm) wake(whom func(*sleeper) bool) {
	a.sleepers = slices.DeleteFunc(a.sleepers, func(s *sleeper) bool {
		if whom(s) {
			close(s.woken)
			return true
		}
		return false
	})
}

// ring is called when the timer has run out.
func (c *Control) ring(serial int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if serial != c.alarm.serial || c.closed {
		return
	}
	c.alarm.set = time.Time{}
	now := c.cfg.Clock.Now()
	c.alarm.wake(func(s *sleeper) bool { return !s.until.IsZero() && !s.until.After(now) })
	for _, g := range c.groups {
		if !g.next.IsZero() && !g.next.After(now) {
			c.pump(g, now)
		}
	}
	c.rearm(now)
}

// pump gives their tickets to those of a group whose turn has come.
func (c *Control) pump(g *group, now time.Time) {
	for call := g.Pop(now); call != nil; call = g.Pop(now) {
		t := call.Owner.(*Ticket)
		c.dequeued(t)
		t.sent = now
		close(t.ready)
	}
	if victim := g.Victim(now); victim != nil {
		victim.Owner.(*Ticket).preempt()
	}
	g.next = time.Time{}
	if at, ok := g.Next(now); ok {
		g.next = at
	}
}

// rearm sets the timer for what is due first.
func (c *Control) rearm(now time.Time) {
	var first time.Time
	sooner := func(at time.Time) {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	for _, g := range c.groups {
		sooner(g.next)
	}
	for _, s := range c.alarm.sleepers {
		sooner(s.until)
	}
	if c.closed || first.Equal(c.alarm.set) {
		return
	}
	if c.alarm.stop != nil {
		c.alarm.stop()
		c.alarm.stop = nil
	}
	c.alarm.serial++
	c.alarm.set = first
	if first.IsZero() {
		return
	}
	serial := c.alarm.serial
	c.alarm.stop = c.cfg.Clock.After(max(0, first.Sub(now)), func() { c.ring(serial) })
}
