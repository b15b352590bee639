package traffic_test

import (
	"container/heap"
	"fmt"
	"testing"
	"time"

	"agentkernel/internal/sched/traffic"
)

// BenchmarkAdmission is what one call costs the controller, with 10,000 of 100 trees queued: it is queued, another is sent, the
// answer's head is read, and it is settled. "floor" is the least that any such thing could be: a heap of as many numbers.
func BenchmarkAdmission(b *testing.B) {
	for _, windows := range []bool{false, true} {
		name := "controller"
		if windows {
			name = "windows"
		}
		b.Run(name, func(b *testing.B) { admit(b, windows) })
	}
	b.Run("floor", func(b *testing.B) {
		var h numbers
		for i := range 10_000 {
			heap.Push(&h, i)
		}
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			h[0] += i * 7919 % 10_000
			heap.Fix(&h, 0)
		}
	})
}

func admit(b *testing.B, windows bool) {
	const queued = 10_000
	limits := traffic.Limits{Requests: traffic.Limit{Amount: 6_000_000, Second: windows, Ten: windows}, Input: perMinute(6e9), Output: perMinute(6e9), Tokens: perMinute(12e9), Concurrency: 1000}
	c := traffic.New(traffic.Config{Key: "a", Family: "f", Limits: limits, Weight: func(string) int { return 1 }, Reserved: map[string]float64{"tenant 3": 0.1}}, start)
	calls := make([]traffic.Call, queued)
	now := start
	for i := range calls {
		calls[i] = traffic.Call{Namespace: fmt.Sprint("tenant ", i%10), Tree: fmt.Sprint("tree ", i%100), Priority: 5 + i%3*5, Cost: traffic.Cost{Input: 1000, Output: 200, Most: 1000}}
		c.Push(&calls[i], now)
	}
	levels := []traffic.Level{{What: "requests", Limit: 6_000_000, Remaining: -1, Reset: -1}, {What: "tokens", Limit: 12e9, Remaining: 12e9, Reset: -1}}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		now = now.Add(11 * time.Microsecond)
		call := c.Pop(now)
		if call == nil {
			b.Fatalf("it waits: %+v", c.State(now))
		}
		c.Head(call, levels, now)
		c.Settle(call, traffic.Usage{Input: 900, Output: 150}, now)
		*call = traffic.Call{Namespace: call.Namespace, Tree: call.Tree, Priority: call.Priority, Cost: call.Cost} // another one
		c.Push(call, now)
	}
}

type numbers []int

func (h numbers) Len() int           { return len(h) }
func (h numbers) Less(i, j int) bool { return h[i] < h[j] }
func (h numbers) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *numbers) Push(x any)        { *h = append(*h, x.(int)) }
func (h *numbers) Pop() any          { x := (*h)[len(*h)-1]; *h = (*h)[:len(*h)-1]; return x }
