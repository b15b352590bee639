// Package timers calls functions when their time has come: one timer of the operating system and at most one goroutine for
// all of them, so that a hundred thousand that are due in one second are called in order, one after the other.
package timers

import (
	"container/heap"
	"sync"
	"time"
)

// Timers are functions that wait for their time. The zero value is not usable; see New.
type Timers struct {
	now func() time.Time

	mu     sync.Mutex
	due    queue
	made   uint64      // how many there have been, so that equal times keep their order
	alarm  *time.Timer // for the first of due; nil: there has been none
	set    time.Time   // what alarm is set for; zero: it is not set
	busy   bool        // a goroutine calls what is due
	closed bool
	idle   sync.Cond // busy has become false
}

// Timer is one function that waits for its time.
type Timer struct {
	of    *Timers
	at    time.Time
	order uint64
	place int // in due; -1: it is not there any more
	fn    func()
}

// New returns timers that go by a clock. Where the clock has a monotonic reading, changes of the system's time move nothing.
func New(now func() time.Time) *Timers {
	t := &Timers{now: now}
	t.idle.L = &t.mu
	return t
}

// At calls fn at a time, or soon if that is past, unless the timer is stopped before. fn must not wait: others are due.
func (t *Timers) At(at time.Time, fn func()) *Timer {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made++
	x := &Timer{of: t, at: at, order: t.made, place: -1, fn: fn}
	if !t.closed {
		heap.Push(&t.due, x)
		t.arm()
	}
	return x
}

// After is At for a time from now on.
func (t *Timers) After(d time.Duration, fn func()) *Timer { return t.At(t.now().Add(d), fn) }

// Every calls fn each d, for the first time after d, until stop is called. fn must not wait.
func (t *Timers) Every(d time.Duration, fn func()) (stop func()) {
	var mu sync.Mutex
	var next *Timer
	var stopped bool
	var ring func()
	wait := func() {
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			next = t.After(d, ring)
		}
	}
	ring = func() {
		fn()
		wait()
	}
	wait()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		next.Stop()
	}
}

// Stop keeps the function from being called, unless that has begun. A nil Timer has nothing to stop.
func (x *Timer) Stop() {
	if x == nil {
		return
	}
	t := x.of
	t.mu.Lock()
	defer t.mu.Unlock()
	if x.place >= 0 {
		heap.Remove(&t.due, x.place)
	}
}

// Waits says whether the function is still to be called.
func (x *Timer) Waits() bool {
	if x == nil {
		return false
	}
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	return x.place >= 0
}

// When is when the function is to be called; zero: it was called, or never will be.
func (x *Timer) When() time.Time {
	if !x.Waits() {
		return time.Time{}
	}
	return x.at
}

// longest is how long the alarm is set for at most: a wall clock that is set forward meanwhile is noticed then.
const longest = 30 * time.Second

// arm sets the alarm for the first that is due; t.mu is held.
func (t *Timers) arm() {
	if t.busy || t.closed || len(t.due) == 0 {
		return
	}
	at := t.due[0].at
	if !t.set.IsZero() && !at.Before(t.set) {
		return // it is set for no later
	}
	wait := min(max(at.Sub(t.now()), 0), longest)
	t.set = t.now().Add(wait)
	if t.alarm == nil {
		t.alarm = time.AfterFunc(wait, t.ring)
		return
	}
	t.alarm.Reset(wait)
}

// ring calls what is due, one after the other.
func (t *Timers) ring() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy {
		return
	}
	t.busy, t.set = true, time.Time{}
	for !t.closed && len(t.due) > 0 && !t.due[0].at.After(t.now()) {
		x := heap.Pop(&t.due).(*Timer)
		t.mu.Unlock()
		x.fn()
		t.mu.Lock()
	}
	t.busy = false
	t.idle.Broadcast()
	t.arm()
}

// Close calls nothing more, and returns when nothing is being called.
func (t *Timers) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.alarm != nil {
		t.alarm.Stop()
	}
	for _, x := range t.due {
		x.place = -1
	}
	t.due = nil
	for t.busy {
		t.idle.Wait()
	}
}

// queue is a heap of timers, the first that is due at its top.
type queue []*Timer

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if c := q[i].at.Compare(q[j].at); c != 0 {
		return c < 0
	}
	return q[i].order < q[j].order
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *queue) Push(x any) {
	timer := x.(*Timer)
	timer.place = len(*q)
	*q = append(*q, timer)
}

func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	x.place = -1
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return x
}

// Sooner is the one of two times that comes first; zero: never.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
