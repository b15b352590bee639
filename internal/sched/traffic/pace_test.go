package traffic_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"agentkernel/internal/sched/traffic"
)

// silent is a server that says nothing of its limit of requests, and refuses what is beyond it.
type silent struct {
	perMinute float64
	window    time.Duration // it counts in windows of this length, each with its part of the minute; 0: a bucket that holds a minute's and fills all the time

	level float64
	at    time.Time
	slot  int64
	count float64
}

func (s *silent) takes(now time.Time) bool {
	if s.window == 0 {
		if s.at.IsZero() {
			s.at, s.level = now, s.perMinute
		}
		s.level = min(s.perMinute, s.level+now.Sub(s.at).Seconds()*s.perMinute/60)
		s.at = now
		if s.level < 1 {
			return false
		}
		s.level--
		return true
	}
	if slot := now.UnixNano() / int64(s.window); slot != s.slot {
		s.slot, s.count = slot, 0
	}
	if s.count+1 > s.perMinute*s.window.Minutes()+1e-9 {
		return false
	}
	s.count++
	return true
}

// hour is what has come of an hour in which there was always something to send.
type hour struct {
	found   time.Duration // until 80 % of the limit passed in a minute
	refused int
	early   int     // of these in the first ten minutes
	used    float64 // of the limit, in the last half hour
}

// simulate sends to a server that refuses so many calls at first, whatever its limit is.
func simulate(s *silent, faults int) (h hour) {
	c := traffic.New(traffic.Config{Key: "a", Family: "f"}, start)
	rnd := rand.New(rand.NewPCG(1, 1))
	type end struct {
		call    *traffic.Call
		at      time.Time
		refused bool
	}
	var under []end
	queued := 0
	var passed [60 * 60]int // by second
	now := start
	found := -1
	for now.Sub(start) < time.Hour {
		for queued < 300 {
			c.Push(&traffic.Call{Namespace: "n", Priority: 10, Cost: traffic.Cost{Input: 100, Output: 20}}, now)
			queued++
		}
		for _, call := range drain(c, now) {
			queued--
			if faults > 0 || !s.takes(now) {
				faults--
				h.refused++
				if now.Sub(start) < 10*time.Minute {
					h.early++
				}
				under = append(under, end{call, now.Add(50 * time.Millisecond), true})
				continue
			}
			passed[int(now.Sub(start).Seconds())]++
			under = append(under, end{call, now.Add(time.Duration(500+rnd.IntN(1500)) * time.Millisecond), false})
		}
		kept := under[:0]
		for _, e := range under {
			switch {
			case now.Before(e.at):
				kept = append(kept, e)
			case e.refused:
				c.Refused(e.call, nil, 0, now)
				c.Push(e.call, now)
				queued++
			default:
				c.Settle(e.call, traffic.Usage{Input: 100, Output: 20}, now)
			}
		}
		under = kept
		now = now.Add(10 * time.Millisecond)
	}
	sum := 0
	for i, n := range passed {
		if sum += n; i >= 60 {
			sum -= passed[i-60]
		}
		if found < 0 && i >= 90 && float64(sum) >= 0.8*s.perMinute { // what is full at the beginning says nothing
			found = i
		}
		if i >= 1800 {
			h.used += float64(n) / (30 * s.perMinute)
		}
	}
	h.found = time.Duration(found) * time.Second
	return h
}

// TestAPaceThatNobodySays: the limit of a server that only refuses is found within minutes and used from then on, whatever its windows are, also
// where the first refusals said nothing of it; and little is asked in vain.
func TestAPaceThatNobodySays(t *testing.T) {
	for _, c := range []struct {
		perMinute float64
		window    time.Duration
		refused   float64 // of all that passes in the hour, at most
	}{
		{10, 0, 0.12}, {10, time.Minute, 0.12},
		{600, 0, 0.005}, {600, time.Second, 0.005}, {600, 10 * time.Second, 0.005}, {600, time.Minute, 0.02},
		{6000, 0, 0.005}, {6000, time.Second, 0.01}, {6000, 10 * time.Second, 0.03}, {6000, time.Minute, 0.1},
	} {
		for _, faults := range []int{0, 3} {
			t.Run(fmt.Sprintf("%.0f in windows of %s, %d faults", c.perMinute, c.window, faults), func(t *testing.T) {
				t.Parallel()
				h := simulate(&silent{perMinute: c.perMinute, window: c.window}, faults)
				within := 200 * time.Second
				if faults > 0 { // it begins at a call a minute, or little more
					within = 330 * time.Second
				}
				if h.found < 0 || h.found > within {
					t.Errorf("80 %% of it passed after %s", h.found)
				}
				if h.used < 0.9 {
					t.Errorf("%.3f of it were used", h.used)
				}
				if part := float64(h.refused) / (60 * c.perMinute); part > c.refused {
					t.Errorf("%d were refused, which is %.3f", h.refused, part)
				}
				t.Logf("80 %% after %s, %d refused (%d of them in ten minutes), %.3f used", h.found, h.refused, h.early, h.used)
			})
		}
	}
}

// TestRefusalsLeaveAPace: however often a server refuses, a call for each period still goes out, by which more may be found out.
func TestRefusalsLeaveAPace(t *testing.T) {
	c := traffic.New(traffic.Config{}, start)
	now := start
	c.Settle(send(t, c, traffic.Cost{Input: 100}, now), traffic.Usage{Input: 100}, now.Add(time.Second))
	for range 20 {
		call := &traffic.Call{Namespace: "n", Cost: traffic.Cost{Input: 100}}
		c.Push(call, now)
		for waited := time.Duration(0); c.Pop(now) == nil; waited += time.Second {
			if now = now.Add(time.Second); waited > 2*time.Minute {
				t.Fatalf("nothing goes out any more: %+v", c.State(now))
			}
		}
		now = now.Add(time.Second)
		c.Refused(call, nil, 0, now)
		now = now.Add(time.Minute)
	}
	if l := limitOf(c, "requests", now); l.Pace*60 < 0.99 {
		t.Errorf("%.2f a minute", l.Pace*60)
	}
}

// TestLargeCallsAfterAPace: what small calls have shown of a server does not hold large ones, sent one after the other, for hours.
func TestLargeCallsAfterAPace(t *testing.T) {
	for _, tokens := range []int64{300, 3000, 30_000} {
		c := traffic.New(traffic.Config{Key: "a", Family: "f"}, start)
		now := start
		var refused []*traffic.Call
		for range 3 {
			refused = append(refused, send(t, c, traffic.Cost{Input: 100, Output: 100}, now))
		}
		now = now.Add(time.Second)
		for _, call := range refused {
			c.Refused(call, nil, 0, now)
		}
		began := now
		for range 10 {
			call := &traffic.Call{Cost: traffic.Cost{Input: tokens, Output: 100}}
			c.Push(call, now)
			for c.Pop(now) == nil {
				at, ok := c.Next(now)
				if !ok {
					t.Fatalf("%d tokens: it is never sent", tokens)
				}
				now = at
			}
			now = now.Add(time.Second)
			c.Settle(call, traffic.Usage{Input: tokens, Output: 100}, now)
		}
		if took := now.Sub(began); took > 8*time.Minute {
			t.Errorf("ten calls of %d tokens took %s", tokens, took)
		}
	}
}
