// Package sched is the scheduling policy, as pure functions of what is queued and of the time: no
// goroutines, no locks, no clock, no I/O. The kernel uses it for sandbox slots.
//
// It must never import anything of this module, so that it can be tested and reasoned about alone.
package sched

import (
	"container/heap"
	"time"
)

// Step is what one level of priority is worth in waiting time.
const Step = 20 * time.Millisecond

// Bound is how much longer than a more urgent newcomer something may have to wait: an item of priority p,
// queued at t, is popped before any item of priority q that is queued later than t + Bound(p, q). Together
// with finite service times this excludes starvation.
func Bound(p, q int) time.Duration { return time.Duration(max(0, p-q)) * Step }

// Queue orders items by the moment at which they were queued plus Step for each level of priority, lower
// numbers first; equal ones in the order of their coming. The zero value is an empty queue.
type Queue[T any] struct {
	items  items[T]
	serial int64
	levels map[int]int // how many items of each priority there are
}

// Push queues v with a priority (lower is more urgent) at the moment now.
func (q *Queue[T]) Push(v T, priority int, now time.Time) {
	q.serial++
	if q.levels == nil {
		q.levels = map[int]int{}
	}
	q.levels[priority]++
	heap.Push(&q.items, item[T]{value: v, due: now.Add(time.Duration(priority) * Step), serial: q.serial, priority: priority})
}

// Pop takes the most urgent item; ok is false when the queue is empty.
func (q *Queue[T]) Pop() (v T, ok bool) {
	if len(q.items) == 0 {
		return v, false
	}
	return q.remove(0), true
}

// Highest is the priority of the items that are most urgent if waiting counts for nothing; ok is false when the queue is empty.
func (q *Queue[T]) Highest() (priority int, ok bool) {
	for p := range q.levels {
		if !ok || p < priority {
			priority, ok = p, true
		}
	}
	return priority, ok
}

// PopHighest takes the first of the items that Highest is about. It looks at all items.
func (q *Queue[T]) PopHighest() (v T, ok bool) {
	priority, ok := q.Highest()
	if !ok {
		return v, false
	}
	first := -1
	for i := range q.items {
		if q.items[i].priority == priority && (first < 0 || q.items.Less(i, first)) {
			first = i
		}
	}
	return q.remove(first), true
}

func (q *Queue[T]) remove(i int) T {
	it := heap.Remove(&q.items, i).(item[T])
	if q.levels[it.priority]--; q.levels[it.priority] == 0 {
		delete(q.levels, it.priority)
	}
	return it.value
}

// Len is how many items are queued.
func (q *Queue[T]) Len() int { return len(q.items) }

type item[T any] struct {
	value    T
	due      time.Time
	serial   int64
	priority int
}

type items[T any] []item[T]

func (s items[T]) Len() int { return len(s) }

func (s items[T]) Less(i, j int) bool {
	if !s[i].due.Equal(s[j].due) {
		return s[i].due.Before(s[j].due)
	}
	return s[i].serial < s[j].serial
}

func (s items[T]) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

func (s *items[T]) Push(x any) { *s = append(*s, x.(item[T])) }

func (s *items[T]) Pop() any {
	old := *s
	last := old[len(old)-1]
	old[len(old)-1] = item[T]{}
	*s = old[:len(old)-1]
	return last
}
