package traffic_test

import (
	"fmt"
	"testing"
	"time"

	"agentkernel/internal/sched/traffic"
)

// limitOf is what is known of a limit.
func limitOf(c *traffic.Controller, what string, now time.Time) traffic.LimitState {
	for _, l := range c.State(now).Limits {
		if l.What == what {
			return l
		}
	}
	return traffic.LimitState{}
}

// send pushes a call and sends it at once.
func send(t *testing.T, c *traffic.Controller, cost traffic.Cost, now time.Time) *traffic.Call {
	t.Helper()
	call := &traffic.Call{Namespace: "n", Priority: 10, Cost: cost}
	c.Push(call, now)
	if got := c.Pop(now); got != call {
		t.Fatalf("it is not sent: %+v", c.State(now))
	}
	return call
}

// TestHead: limits are what servers say they are, also when they change; what they say is left counts where it contradicts what is
// believed.
func TestHead(t *testing.T) {
	c := traffic.New(traffic.Config{}, start)
	now := start
	say := func(limit, remaining int64) string {
		call := send(t, c, traffic.Cost{Input: 100, Output: 50}, now)
		now = now.Add(100 * time.Millisecond)
		c.Head(call, []traffic.Level{{What: "tokens", Limit: limit, Remaining: remaining, Reset: -1}, {What: "wishes", Limit: 3, Remaining: 0}}, now)
		c.Settle(call, traffic.Usage{Input: 100, Output: 50}, now)
		l := limitOf(c, "tokens", now)
		return fmt.Sprintf("%s %.0f %s, left %.0f", l.Source, l.Amount, l.Period, l.Left)
	}
	for _, test := range []struct {
		limit, remaining int64
		want             string
	}{
		{60_000, 59_900, "headers 60000 1m0s, left 59850"}, // its output is charged afterwards
		{60_000, 59_700, "headers 60000 1m0s, left 59750"}, // what has come in meanwhile may be in it, or not
		{60_000, 30_000, "headers 60000 1m0s, left 30050"}, // somebody else uses it
		{30_000, 14_990, "headers 30000 1m0s, left 14940"},
		{90_000, -1, "headers 90000 1m0s, left 14840"},
	} {
		if got := say(test.limit, test.remaining); got != test.want {
			t.Errorf("%d of %d: %s, want %s", test.remaining, test.limit, got, test.want)
		}
	}
	if n := len(c.State(now).Limits); n != 1 {
		t.Errorf("%d limits are known", n)
	}
}

// TestDay: a limit for a day is known by how long it takes until it is whole.
func TestDay(t *testing.T) {
	c := traffic.New(traffic.Config{}, start)
	now := start
	for used := int64(1); used <= 60; used++ {
		call := send(t, c, traffic.Cost{Input: 1}, now)
		reset := time.Duration(used) * 24 * time.Hour / 200
		c.Head(call, []traffic.Level{{What: "requests", Limit: 200, Remaining: 200 - used, Reset: reset}}, now)
		c.Settle(call, traffic.Usage{Input: 1}, now)
		now = now.Add(10 * time.Millisecond)
	}
	if l := limitOf(c, "requests", now); l.Period != 24*time.Hour || l.Left > 140.1 {
		t.Errorf("%+v", l)
	}
	for c.Running() < 8 { // until nothing is left of today
		call := &traffic.Call{Namespace: "n"}
		c.Push(call, now)
		if c.Pop(now) == nil {
			w, _ := c.Explain(call, now)
			if w.What != "requests/day" || !w.Until.After(now) {
				t.Errorf("it waits for %q until %s", w.What, w.Until.Sub(now))
			}
			return
		}
		c.Settle(call, traffic.Usage{}, now)
	}
}

// TestRefused: a refusal costs nothing, empties what the server says is empty, and makes everybody wait for as long as it says.
func TestRefused(t *testing.T) {
	c := traffic.New(traffic.Config{Key: "a", Limits: traffic.Limits{Requests: perMinute(60), Tokens: perMinute(60_000)}}, start)
	now := start.Add(time.Second)
	call := send(t, c, traffic.Cost{Input: 1000}, now)
	c.Refused(call, []traffic.Level{{What: "tokens", Limit: 60_000, Remaining: 0, Reset: -1}}, 3*time.Second, now)
	if l := limitOf(c, "requests", now); l.Left < 59.9 {
		t.Errorf("requests left: %.2f", l.Left)
	}
	if l := limitOf(c, "tokens", now); l.Left != 0 || l.Margin < 600 {
		t.Errorf("%+v", l)
	}
	c.Push(&traffic.Call{Namespace: "n", Cost: traffic.Cost{Input: 10}}, now)
	if c.Pop(now.Add(2999*time.Millisecond)) != nil {
		t.Error("one is sent too early")
	}
	if at, ok := c.Next(now.Add(2999 * time.Millisecond)); !ok || !at.Equal(now.Add(3*time.Second)) {
		t.Errorf("it waits until %s", at.Sub(now))
	}
	if c.Pop(now.Add(3*time.Second)) == nil {
		t.Errorf("it still waits: %+v", c.State(now.Add(3*time.Second)))
	}
}

// TestConcurrency: where nothing is known, each answer allows for one call more; what a server cannot take shrinks that once.
func TestConcurrency(t *testing.T) {
	c := traffic.New(traffic.Config{}, start)
	for range 500 {
		c.Push(&traffic.Call{Namespace: "n"}, start)
	}
	now := start
	under := drain(c, now)
	if len(under) != traffic.FirstBound {
		t.Fatalf("%d are under way", len(under))
	}
	for want := 2 * traffic.FirstBound; want <= 64; want *= 2 {
		now = now.Add(time.Second)
		for _, call := range under {
			c.Settle(call, traffic.Usage{}, now)
		}
		if under = drain(c, now); len(under) != want {
			t.Fatalf("%d are under way, want %d", len(under), want)
		}
	}
	now = now.Add(time.Second)
	for _, call := range under {
		c.Overloaded(call, 0, now)
	}
	if under = drain(c, now); len(under) < 40 || len(under) > 45 {
		t.Errorf("%d are under way after 64 were too many", len(under))
	}
}

// TestRefusedAlone: a refusal of the only call under way says nothing of how many may be at one moment.
func TestRefusedAlone(t *testing.T) {
	c := traffic.New(traffic.Config{}, start)
	now := start
	for range 3 {
		now = now.Add(time.Minute)
		c.Refused(send(t, c, traffic.Cost{Input: 100}, now), nil, 0, now.Add(time.Second))
	}
	if n := c.State(now).Concurrency; n != traffic.FirstBound {
		t.Errorf("%.1f may be under way", n)
	}
}

// TestVictim: the least urgent call that may be cancelled gives way, one for each that waits, and only if that helps.
func TestVictim(t *testing.T) {
	c := traffic.New(traffic.Config{Limits: traffic.Limits{Concurrency: 3}}, start)
	calls := []*traffic.Call{{Priority: 20, Restartable: true}, {Priority: 30, Restartable: true}, {Priority: 40}}
	for _, call := range calls {
		c.Push(call, start)
	}
	drain(c, start)
	if v := c.Victim(start); v != nil {
		t.Errorf("%+v gives way to nobody", v)
	}
	c.Push(&traffic.Call{Priority: 30}, start)
	if v := c.Victim(start); v != nil {
		t.Errorf("%+v gives way to one that is no more urgent", v)
	}
	c.Push(&traffic.Call{Priority: 10}, start)
	if v := c.Victim(start); v != calls[1] {
		t.Errorf("%+v gives way", v)
	}
	if v := c.Victim(start); v != nil {
		t.Errorf("%+v gives way, too", v)
	}
	c.SettleUnknown(calls[1], start)
	if call := c.Pop(start); call == nil || call.Priority != 10 {
		t.Errorf("%+v is next", call)
	}
}

// TestLongAnswers: answers that take minutes use all of a limit of output, too.
func TestLongAnswers(t *testing.T) {
	c := traffic.New(traffic.Config{Limits: traffic.Limits{Output: perMinute(60_000), Concurrency: 1000}}, start)
	s := newServer(traffic.Limits{Output: perMinute(60_000)}, 0)
	type end struct {
		call *traffic.Call
		at   time.Time
	}
	var under []end
	for range 3000 {
		c.Push(&traffic.Call{Namespace: "n", Cost: traffic.Cost{Output: 1000}}, start)
	}
	used := 0
	const warm, lasts = 10 * time.Minute, 30 * time.Minute
	for now := start; now.Before(start.Add(lasts)); now = now.Add(50 * time.Millisecond) {
		for len(under) > 0 && !now.Before(under[0].at) {
			if err := s.charge(now, [4]float64{0, 0, 1000, 0}); err != nil {
				t.Fatalf("after %s: %v", now.Sub(start), err)
			}
			c.Settle(under[0].call, traffic.Usage{Output: 1000}, now)
			if under = under[1:]; now.Sub(start) > warm {
				used += 1000
			}
		}
		for _, call := range drain(c, now) {
			under = append(under, end{call, now.Add(3 * time.Minute)})
		}
	}
	if use := float64(used) / (60_000 * (lasts - warm).Minutes()); use < 0.97 {
		t.Errorf("%.3f of the limit were used", use)
	}
}

// TestAbsurdUsage: a server that says that one answer has taken a thousand million times what was sent keeps nobody waiting for years.
func TestAbsurdUsage(t *testing.T) {
	c := traffic.New(traffic.Config{Limits: traffic.Limits{Tokens: perMinute(6000)}}, start)
	first := send(t, c, traffic.Cost{Input: 300}, start)
	c.Settle(first, traffic.Usage{Input: 1_000_000_000_000}, start)
	c.Push(&traffic.Call{Cost: traffic.Cost{Input: 1000}}, start)
	if at, ok := c.Next(start); !ok || at.Sub(start) < 5*time.Minute || at.Sub(start) > 11*time.Minute {
		t.Errorf("the next one waits for %s", at.Sub(start))
	}
}

// TestTooLarge: a call that is expected to use more than there can ever be is sent when there is most: the server may think otherwise
// of it. What it has used in truth counts.
func TestTooLarge(t *testing.T) {
	c := traffic.New(traffic.Config{Limits: traffic.Limits{Tokens: perMinute(6000)}}, start)
	first := send(t, c, traffic.Cost{Input: 3000}, start)
	large, next := &traffic.Call{Cost: traffic.Cost{Input: 50_000}}, &traffic.Call{Cost: traffic.Cost{Input: 1000}}
	c.Push(large, start)
	c.Push(next, start)
	c.Settle(first, traffic.Usage{Input: 3000}, start)
	at, ok := c.Next(start)
	if wait := at.Sub(start); !ok || wait < 30*time.Second || wait > 31*time.Second {
		t.Fatalf("it waits for %s", wait)
	}
	if c.Pop(at) != large {
		t.Fatalf("it is not sent: %+v", c.State(at))
	}
	if again, _ := c.Next(at); again.Sub(at) < 7*time.Minute {
		t.Errorf("the next one waits for %s", again.Sub(at))
	}
	c.Settle(large, traffic.Usage{Input: 5500}, at)
	if again, _ := c.Next(at); again.Sub(at) > 10*time.Second {
		t.Errorf("the next one waits for %s", again.Sub(at))
	}
}
