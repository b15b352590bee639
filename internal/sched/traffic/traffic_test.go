package traffic_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"agentkernel/internal/sched/traffic"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// drain sends all that may be sent.
func drain(c *traffic.Controller, now time.Time) (sent []*traffic.Call) {
	for call := c.Pop(now); call != nil; call = c.Pop(now) {
		sent = append(sent, call)
	}
	return sent
}

func perMinute(n int64) traffic.Limit { return traffic.Limit{Amount: n} }

// TestOrder: the more urgent goes first, whoever it belongs to and however full the queue is; what is cancelled leaves at once.
func TestOrder(t *testing.T) {
	c := traffic.New(traffic.Config{Key: "a", Family: "f", Limits: traffic.Limits{Concurrency: 1}}, start)
	running := &traffic.Call{Namespace: "n", Priority: 10}
	c.Push(running, start)
	drain(c, start)
	var calls []*traffic.Call
	for i := range 10_000 {
		call := &traffic.Call{Namespace: fmt.Sprint(i % 7), Tree: fmt.Sprint(i % 100), Priority: 10}
		calls = append(calls, call)
		c.Push(call, start.Add(time.Duration(i)*time.Millisecond))
	}
	now := start.Add(time.Minute)
	urgent, cancelled := &traffic.Call{Namespace: "u", Priority: 1}, &traffic.Call{Namespace: "u", Priority: 0}
	c.Push(urgent, now)
	c.Push(cancelled, now)
	if w, ok := c.Explain(urgent, now); !ok || w.Ahead != 1 || w.String() != "queued 0.0 s: calls at one moment of key a, 1 ahead" {
		t.Errorf("%v: %q", ok, w)
	}
	if !c.Remove(cancelled, now) || c.Remove(cancelled, now) || c.Queued() != 10_001 {
		t.Error("a cancelled call stays in the queue")
	}
	c.Settle(running, traffic.Usage{}, now)
	if got := c.Pop(now); got != urgent {
		t.Errorf("got %+v", got)
	}
	for range calls {
		c.Settle(urgent, traffic.Usage{}, now)
		if urgent = c.Pop(now); urgent == nil {
			t.Fatal("nothing is next")
		}
	}
}

// TestNoStarvation: nothing that comes later than the published bound overtakes what waits already (invariant 7).
func TestNoStarvation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := map[string]int{"a": 1, "b": rapid.IntRange(1, 1000).Draw(t, "weight"), "c": 3}
		c := traffic.New(traffic.Config{Limits: traffic.Limits{Concurrency: 1}, Weight: func(ns string) int { return weights[ns] },
			Reserved: map[string]float64{"c": rapid.Float64Range(0, 0.9).Draw(t, "reserved")}}, start)
		at := map[*traffic.Call]time.Time{}
		now := start
		var running *traffic.Call
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1, 2:
				now = now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "seconds")) * time.Second)
				call := &traffic.Call{Namespace: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace"), Tree: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "tree"),
					Priority: rapid.SampledFrom([]int{0, 1, 9, 10, 11, 1000}).Draw(t, "priority"), Cost: traffic.Cost{Input: rapid.Int64Range(0, 5000).Draw(t, "input")}}
				c.Push(call, now)
				at[call] = now
			case 3:
				for call := range at {
					if c.Remove(call, now) {
						delete(at, call)
						break
					}
				}
			case 4:
				if running != nil {
					c.Settle(running, traffic.Usage{Input: rapid.Int64Range(0, 5000).Draw(t, "used")}, now)
				}
				running = c.Pop(now)
				if running == nil {
					if len(at) > 0 {
						t.Fatal("nothing is sent, and there is room")
					}
					continue
				}
				came := at[running]
				delete(at, running)
				for other, since := range at {
					if came.Sub(since) > traffic.Bound(other.Priority, running.Priority) {
						t.Fatalf("priority %d overtook priority %d, which had come %s earlier", running.Priority, other.Priority, came.Sub(since))
					}
				}
			}
			if c.Queued() != len(at) {
				t.Fatalf("%d wait, want %d", c.Queued(), len(at))
			}
		}
	})
}

// TestShares: namespaces share by their weights, however many trees they have; trees of one namespace share equally.
func TestShares(t *testing.T) {
	c := traffic.New(traffic.Config{Limits: traffic.Limits{Tokens: perMinute(60_000)}, Weight: func(ns string) int { return map[string]int{"many": 1, "heavy": 3}[ns] }}, start)
	push := func(ns, tree string, now time.Time) {
		c.Push(&traffic.Call{Namespace: ns, Tree: tree, Priority: 10, Cost: traffic.Cost{Input: 200 + int64(len(tree))*100}}, now)
	}
	for range 1000 {
		for i := range 10 {
			push("many", fmt.Sprint(i), start)
		}
		push("heavy", "long name", start)
		push("one", "x", start)
	}
	had, trees := map[string]int64{}, map[string]int64{}
	for now := start; now.Before(start.Add(4 * time.Minute)); now = now.Add(100 * time.Millisecond) {
		for _, call := range drain(c, now) {
			c.Settle(call, traffic.Usage{Input: call.Cost.Input}, now)
			had[call.Namespace] += call.Cost.Input
			trees[call.Tree] += call.Cost.Input
		}
	}
	if r := float64(had["heavy"]) / float64(had["many"]); r < 2.9 || r > 3.1 {
		t.Errorf("three times the weight had %.2f times as much: %v", r, had)
	}
	if r := float64(had["one"]) / float64(had["many"]); r < 0.95 || r > 1.05 {
		t.Errorf("one tree had %.2f of what ten had: %v", r, had)
	}
	if r := float64(trees["0"]) / float64(trees["9"]); r < 0.9 || r > 1.1 {
		t.Errorf("trees of one namespace had %v", trees)
	}
}

// TestReserved: a reserved share is there when it is asked for, and goes to others when it is not.
func TestReserved(t *testing.T) {
	c := traffic.New(traffic.Config{Limits: traffic.Limits{Requests: perMinute(600)}, Weight: func(ns string) int { return map[string]int{"big": 100}[ns] },
		Reserved: map[string]float64{"kept": 0.3}}, start)
	for range 6000 {
		c.Push(&traffic.Call{Namespace: "big", Priority: 10}, start)
	}
	had := map[string]int{}
	run := func(from, to time.Duration) {
		clear(had)
		for now := start.Add(from); now.Before(start.Add(to)); now = now.Add(100 * time.Millisecond) {
			for _, call := range drain(c, now) {
				c.Settle(call, traffic.Usage{}, now)
				had[call.Namespace]++
			}
		}
	}
	run(0, 2*time.Minute)
	if had["big"] < 1780 {
		t.Errorf("what nobody asks for is not lent: %v", had)
	}
	for range 1000 {
		c.Push(&traffic.Call{Namespace: "kept", Priority: 10}, start.Add(2*time.Minute))
	}
	run(2*time.Minute, 4*time.Minute)
	if n := had["kept"]; n < 350 || n > 375 {
		t.Errorf("of 1,200 calls %d were of who has 30 %% of them", n)
	}
}

// server is a server that has the limits in earnest. It counts a request when it arrives, and its output at some moment before the answer
// is there.
type server struct {
	limits  [4]traffic.Limit
	level   [4]float64
	at      time.Time
	windows [4][2]map[int64]float64
	shift   time.Duration // where its windows begin
}

func newServer(l traffic.Limits, shift time.Duration) *server {
	s := &server{limits: [4]traffic.Limit{l.Requests, l.Input, l.Output, l.Tokens}, at: start, shift: shift}
	for i, l := range s.limits {
		s.level[i] = float64(l.Amount)
		s.windows[i] = [2]map[int64]float64{{}, {}}
	}
	return s
}

// charge takes amounts; it says which limit is exceeded.
func (s *server) charge(now time.Time, amounts [4]float64) error {
	passed := now.Sub(s.at).Seconds()
	if passed < 0 {
		return fmt.Errorf("time goes back")
	}
	s.at = now
	for i, l := range s.limits {
		if l.Amount == 0 {
			continue
		}
		s.level[i] = min(float64(l.Amount), s.level[i]+passed*float64(l.Amount)/60)
		s.level[i] -= amounts[i]
		if s.level[i] = min(s.level[i], float64(l.Amount)); s.level[i] < -1e-3 {
			return fmt.Errorf("limit %d of %d/min is exceeded by %.3f", i, l.Amount, -s.level[i])
		}
		for j, span := range []time.Duration{time.Second, 10 * time.Second} {
			if (j == 0 && !l.Second) || (j == 1 && !l.Ten) || amounts[i] == 0 {
				continue
			}
			w := int64(now.Add(s.shift).Sub(start) / span)
			most := float64(l.Amount) * span.Seconds() / 60
			before := s.windows[i][j][w]
			if s.windows[i][j][w] += amounts[i]; before > 0 && before+amounts[i] > most+1e-3 {
				return fmt.Errorf("limit %d: %.1f in %s, at most %.1f", i, before+amounts[i], span, most)
			}
		}
	}
	return nil
}

// says is what the server says of its limits.
func (s *server) says() (levels []traffic.Level) {
	for i, l := range s.limits {
		if l.Amount > 0 {
			levels = append(levels, traffic.Level{What: []string{"requests", "input", "output", "tokens"}[i], Limit: l.Amount, Remaining: int64(max(0, s.level[i])), Reset: -1})
		}
	}
	return levels
}

// charge is something that happens at a server, or comes from it.
type charge struct {
	at      time.Time
	amounts [4]float64
	asks    *traffic.Call // it is told what is left
	head    *traffic.Call // the head of its answer comes
	levels  []traffic.Level
	ends    *traffic.Call // its answer comes
}

// TestNeverAboveALimit: where estimates are exact, or too high, no limit is ever exceeded, whatever is sent when, however long answers
// take and wherever the server's windows begin. And what waits is sent as soon as there is room.
func TestNeverAboveALimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := func(name string, most int64) (l traffic.Limit) {
			if rapid.Bool().Draw(t, name) {
				l.Amount = rapid.Int64Range(most/100, most).Draw(t, name+" limit")
			}
			return l
		}
		limits := traffic.Limits{Requests: limit("requests", 1000), Input: limit("input", 100_000), Output: limit("output", 50_000), Tokens: limit("tokens", 200_000)}
		limits.Requests.Second, limits.Requests.Ten = rapid.Bool().Draw(t, "1 s"), rapid.Bool().Draw(t, "10 s")
		limits.Input.Ten = rapid.Bool().Draw(t, "input 10 s")
		cfg := traffic.Config{Limits: limits, OutputPrecharged: rapid.Bool().Draw(t, "precharged")}
		c := traffic.New(cfg, start)
		estimated := rapid.Bool().Draw(t, "estimated")
		s := newServer(limits, time.Duration(rapid.IntRange(0, 9999).Draw(t, "shift"))*time.Millisecond)
		least := func(l traffic.Limit, most int64) int64 {
			if l.Amount > 0 {
				most = min(most, l.Amount/2)
			}
			return max(1, most)
		}
		in, out := least(limits.Input, least(limits.Tokens, 3000)), least(limits.Output, least(limits.Tokens, 1000))
		if limits.Input.Ten && limits.Input.Amount > 0 {
			in = max(1, min(in, limits.Input.Amount/6))
		}
		headers := rapid.Bool().Draw(t, "headers")
		ends := map[*traffic.Call]time.Time{}
		var due []charge
		add := func(x charge) {
			i := len(due)
			for i > 0 && due[i-1].at.After(x.at) {
				i--
			}
			due = append(due, charge{})
			copy(due[i+1:], due[i:])
			due[i] = x
		}
		now := start
		run := func(to time.Time) { // what happens until then
			for len(due) > 0 && !due[0].at.After(to) {
				x := due[0]
				due = due[1:]
				if err := s.charge(x.at, x.amounts); err != nil {
					t.Fatal(err)
				}
				if x.asks != nil && headers {
					add(charge{at: x.at.Add(time.Duration(rapid.Float64Range(0, 1).Draw(t, "head") * float64(ends[x.asks].Sub(x.at)))), head: x.asks, levels: s.says()})
				}
				if x.head != nil {
					c.Head(x.head, x.levels, x.at)
				}
				if x.ends != nil {
					c.Settle(x.ends, x.ends.Owner.(traffic.Usage), x.at)
				}
			}
			now = to
		}
		send := func() {
			for _, call := range drain(c, now) {
				used := traffic.Usage{Input: call.Cost.Input, Output: call.Cost.Output}
				if exact := rapid.Float64Range(0.2, 1).Draw(t, "exact"); estimated {
					used.Input, used.Output = int64(float64(used.Input)*exact), int64(float64(used.Output)*exact)
				}
				call.Owner = used
				i, o := float64(used.Input), float64(used.Output)
				most := float64(call.Cost.Most)
				arrives := now.Add(time.Duration(rapid.IntRange(0, 49).Draw(t, "latency")) * time.Millisecond)
				end := arrives.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "takes")) * time.Millisecond)
				if cfg.OutputPrecharged {
					add(charge{at: arrives, amounts: [4]float64{1, i, most, i + most}, asks: call})
					add(charge{at: end, amounts: [4]float64{0, 0, o - most, o - most}})
				} else {
					add(charge{at: arrives, amounts: [4]float64{1, i, 0, i}, asks: call})
					add(charge{at: arrives.Add(time.Duration(rapid.Float64Range(0, 1).Draw(t, "when") * float64(end.Sub(arrives)))), amounts: [4]float64{0, 0, o, o}})
				}
				add(charge{at: end, ends: call})
				ends[call] = end
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			for range rapid.IntRange(0, 5).Draw(t, "calls") {
				o := rapid.Int64Range(0, out).Draw(t, "output")
				c.Push(&traffic.Call{Namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"), Priority: 10,
					Cost: traffic.Cost{Input: rapid.Int64Range(0, in).Draw(t, "input"), Output: o, Most: o}}, now)
			}
			send()
			run(now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond))
			send()
		}
		for steps := 0; c.Queued() > 0; steps++ { // all of it is sent
			if steps > 100_000 {
				t.Fatal("it does not end")
			}
			next, ok := c.Next(now)
			if len(due) > 0 && (!ok || due[0].at.Before(next)) {
				run(due[0].at)
				send()
				continue
			}
			if !ok {
				t.Fatalf("%d calls wait for nothing: %+v", c.Queued(), c.State(now))
			}
			if before := next.Add(-time.Millisecond); before.After(now) && c.Pop(before) != nil {
				t.Fatalf("a call could be sent at %s, long before %s", before.Sub(start), next.Sub(start))
			}
			run(next)
			if sent := c.Queued(); sent > 0 {
				if send(); c.Queued() == sent {
					t.Fatalf("nothing can be sent at %s, when it was to be: %+v", now.Sub(start), c.State(now))
				}
			}
		}
	})
}

// TestWorkConservation: what waits long enough for a limit has used all of it.
func TestWorkConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64Range(1000, 1_000_000).Draw(t, "limit")
		c := traffic.New(traffic.Config{Limits: traffic.Limits{Tokens: perMinute(amount)}}, start)
		used, now := int64(0), start
		for used < 5*amount {
			cost := rapid.Int64Range(1, amount/4).Draw(t, "cost")
			c.Push(&traffic.Call{Namespace: "n", Priority: 10, Cost: traffic.Cost{Input: cost}}, start)
			next, ok := c.Next(now)
			if !ok {
				t.Fatal("it waits for nothing")
			}
			now = next
			call := c.Pop(now)
			if call == nil {
				t.Fatalf("nothing was sent at %s", now)
			}
			c.Settle(call, traffic.Usage{Input: cost}, now)
			used += cost
		}
		ideal := float64(used-amount) / float64(amount) * 60
		if took := now.Sub(start).Seconds(); math.Abs(took-ideal) > 0.1 {
			t.Fatalf("%d of %d/min took %.2f s, want %.2f", used, amount, took, ideal)
		}
	})
}

// TestDrop: a call that is not sent after all has cost nothing.
func TestDrop(t *testing.T) {
	c := traffic.New(traffic.Config{Limits: traffic.Limits{Requests: perMinute(60), Tokens: perMinute(1000), Concurrency: 5}}, start)
	left := func() string {
		s := c.State(start)
		return fmt.Sprintf("%.6f %.6f, %d under way", s.Limits[0].Left, s.Limits[1].Left, s.Running)
	}
	before := left()
	for range 100 {
		call := &traffic.Call{Namespace: "n", Cost: traffic.Cost{Input: 500, Output: 400}}
		c.Push(call, start)
		if c.Pop(start) != call {
			t.Fatal("it is not sent")
		}
		c.Drop(call, start)
		c.Drop(call, start)
	}
	if after := left(); after != before {
		t.Errorf("%s\nbefore: %s", after, before)
	}
}

// half is a share of limits that somebody has until they die.
type half struct {
	share func(now time.Time) float64
	until time.Duration
}

func (h half) Lease(_, _ string, now time.Time) (float64, time.Time) {
	return h.share(now), now.Add(h.until)
}

// TestLease: two controllers share a key; one dies, and its share goes to the other when its lease has ended. No limit is exceeded
// at any time, and afterwards all of it is used.
func TestLease(t *testing.T) {
	limits := traffic.Limits{Requests: perMinute(600), Tokens: perMinute(120_000), Concurrency: 10}
	dies := start.Add(3 * time.Minute)
	after := dies.Add(20 * time.Second) // its lease, and the answers under way
	one := traffic.New(traffic.Config{Limits: limits, Capacity: half{func(now time.Time) float64 {
		if now.Before(after) {
			return 0.6
		}
		return 1
	}, time.Second}}, start)
	two := traffic.New(traffic.Config{Limits: limits, Capacity: half{func(now time.Time) float64 {
		if now.Before(dies) {
			return 0.4
		}
		return 0
	}, time.Second}}, start)
	s := newServer(limits, 0)
	type answer struct {
		call *traffic.Call
		of   *traffic.Controller
		at   time.Time
	}
	var under []answer
	sent := map[*traffic.Controller]int{}
	late := 0
	for _, c := range []*traffic.Controller{one, two} {
		for i := range 8000 {
			c.Push(&traffic.Call{Namespace: "n", Tree: fmt.Sprint(i % 10), Priority: 10, Cost: traffic.Cost{Input: int64(150 + i%100)}}, start)
		}
	}
	for now := start; now.Before(start.Add(8 * time.Minute)); now = now.Add(10 * time.Millisecond) {
		kept := under[:0]
		for _, a := range under {
			if !now.Before(a.at) {
				a.of.Settle(a.call, traffic.Usage{Input: a.call.Cost.Input}, now)
			} else {
				kept = append(kept, a)
			}
		}
		under = kept
		for _, c := range []*traffic.Controller{one, two} {
			if c == two && !now.Before(dies) {
				continue // it is dead
			}
			for _, call := range drain(c, now) {
				if err := s.charge(now, [4]float64{1, 0, 0, float64(call.Cost.Input)}); err != nil {
					t.Fatalf("after %s: %v", now.Sub(start), err)
				}
				under = append(under, answer{call, c, now.Add(500 * time.Millisecond)})
				sent[c]++
				if now.After(after.Add(time.Minute)) {
					late++
				}
			}
			if len(under) > 10 {
				t.Fatalf("%d calls are under way, at most 10", len(under))
			}
		}
	}
	seconds := start.Add(8 * time.Minute).Sub(after.Add(time.Minute)).Seconds()
	if used := float64(late) / (seconds * 10); used < 0.97 || used > 1.01 {
		t.Errorf("the other used %.3f of the limit afterwards", used)
	}
	t.Logf("sent %d and %d", sent[one], sent[two])
}

// TestMoreThanThereIs: whoever wants more of an answer than a limit lets pass in a minute, and is cut off, costs the others a few minutes at
// most.
func TestMoreThanThereIs(t *testing.T) {
	for _, precharged := range []bool{false, true} {
		for _, kept := range []bool{false, true} {
			c := traffic.New(traffic.Config{Limits: traffic.Limits{Tokens: perMinute(60_000)}, OutputPrecharged: precharged, OutputKept: precharged && kept}, start)
			greedy := &traffic.Call{Namespace: "a", Cost: traffic.Cost{Input: 10, Output: 10_000_000, Most: 10_000_000}}
			now := start
			sent := func(call *traffic.Call, within time.Duration) bool {
				for since := now; now.Sub(since) < within; now = now.Add(time.Second) {
					if got := c.Pop(now); got == call {
						return true
					}
				}
				return false
			}
			if c.Push(greedy, now); !sent(greedy, 5*time.Minute) {
				t.Fatalf("precharged %v: it is never sent", precharged)
			}
			c.SettleUnknown(greedy, now)
			other := &traffic.Call{Namespace: "b", Cost: traffic.Cost{Input: 10, Output: 100, Most: 100}}
			if c.Push(other, now); !sent(other, 5*time.Minute) {
				t.Errorf("precharged %v, kept %v: another one waits for more than 5 minutes", precharged, kept)
			}
		}
	}
}
