package sched_test

import (
	"slices"
	"testing"
	"time"

	"agentkernel/internal/sched"

	"pgregory.net/rapid"
)

func TestOrder(t *testing.T) {
	var q sched.Queue[string]
	start := time.Unix(0, 0)
	q.Push("normal", 10, start)
	q.Push("normal, same moment", 10, start)
	q.Push("urgent, a little later", 1, start.Add(50*time.Millisecond))
	q.Push("urgent, much later", 1, start.Add(time.Second))
	q.Push("idle", 1000, start)
	for _, want := range []string{"urgent, a little later", "normal", "normal, same moment", "urgent, much later", "idle"} {
		if got, ok := q.Pop(); !ok || got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if _, ok := q.Pop(); ok || q.Len() != 0 {
		t.Error("an empty queue gave something")
	}
}

type job struct {
	priority int
	at       time.Time
}

// Nothing that comes later than the published bound overtakes what waits already (invariant 7).
func TestNoStarvation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q sched.Queue[job]
		waiting := map[job]int{}
		now := time.Unix(0, 0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "push") || q.Len() == 0 {
				now = now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "ms")) * time.Millisecond)
				j := job{rapid.IntRange(1, 50).Draw(t, "priority"), now}
				q.Push(j, j.priority, now)
				waiting[j]++
				continue
			}
			got, _ := q.Pop()
			if waiting[got]--; waiting[got] == 0 {
				delete(waiting, got)
			}
			for w := range waiting {
				if got.at.Sub(w.at) > sched.Bound(w.priority, got.priority) {
					t.Fatalf("%+v overtook %+v, which was beyond its bound", got, w)
				}
			}
		}
	})
}

// PopHighest goes by priority alone, and takes nothing else along.
func TestPopHighest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q sched.Queue[job]
		var waiting []job
		now := time.Unix(0, 0)
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			var got job
			var ok bool
			best := -1
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				now = now.Add(time.Millisecond)
				j := job{rapid.IntRange(1, 5).Draw(t, "priority"), now}
				q.Push(j, j.priority, now)
				waiting = append(waiting, j)
				continue
			case 2:
				got, ok = q.PopHighest()
				for i, w := range waiting {
					if best < 0 || w.priority < waiting[best].priority {
						best = i
					}
				}
			case 3:
				got, ok = q.Pop()
				best = slices.Index(waiting, got)
			}
			if ok != (best >= 0) || ok && got != waiting[best] {
				t.Fatalf("got %+v %v of %+v", got, ok, waiting)
			}
			if ok {
				waiting = slices.Delete(waiting, best, best+1)
			}
			priority, ok := q.Highest()
			if q.Len() != len(waiting) || ok != (len(waiting) > 0) || ok && !slices.ContainsFunc(waiting, func(j job) bool { return j.priority == priority }) {
				t.Fatalf("%d left, the highest is %d; want %+v", q.Len(), priority, waiting)
			}
		}
	})
}
