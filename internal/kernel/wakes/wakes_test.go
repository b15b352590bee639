package wakes

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/timers"
)

func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
}

// shelf is a store of parked processes: those of this kernel and of another.
type shelf struct {
	mu         sync.Mutex
	own, other map[agentkernel.PID]time.Time
	woken      map[agentkernel.PID]time.Time
	reads      int
	fails      int // so many times
	most       int // processes that one read gave
	slow       func()
}

func (s *shelf) due(_ context.Context, own bool, limit int) (list []agentkernel.Due, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.fails > 0 {
		s.fails--
		return nil, errors.New("the disk is slow today")
	}
	for pid, at := range s.own {
		list = append(list, agentkernel.Due{PID: pid, At: at})
	}
	for pid, at := range s.other {
		if !own {
			list = append(list, agentkernel.Due{PID: pid, At: at})
		}
	}
	slices.SortFunc(list, func(a, b agentkernel.Due) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return int(a.PID - b.PID)
	})
	if slow := s.slow; slow != nil {
		s.slow = nil
		s.mu.Unlock()
		slow()
		s.mu.Lock()
	}
	list = list[:min(limit, len(list))]
	s.most = max(s.most, len(list))
	return list, nil
}

func (s *shelf) wake(_ context.Context, pid agentkernel.PID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails > 0 {
		s.fails--
		return errors.New("it cannot be read")
	}
	if _, twice := s.woken[pid]; twice {
		panic("woken twice")
	}
	s.woken[pid] = time.Now()
	delete(s.own, pid)
	delete(s.other, pid)
	return nil
}

func newShelf(t *testing.T) (*shelf, *List, func(pid agentkernel.PID, at time.Time)) {
	s := &shelf{own: map[agentkernel.PID]time.Time{}, other: map[agentkernel.PID]time.Time{}, woken: map[agentkernel.PID]time.Time{}}
	ts := timers.New(time.Now)
	t.Cleanup(ts.Close)
	l := New(t.Context(), Config{Due: s.due, Wake: s.wake, Timers: ts, Go: func(fn func()) bool { go fn(); return true }, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	return s, l, func(pid agentkernel.PID, at time.Time) {
		s.mu.Lock()
		s.own[pid] = at
		s.mu.Unlock()
		l.Add(agentkernel.Due{PID: pid, At: at})
	}
}

// Thirty thousand processes that are parked in no order wake at their times, with a few pages of them in memory.
func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 30_000
		s, l, park := newShelf(t)
		begin := time.Now()
		at := func(pid agentkernel.PID) time.Time {
			return begin.Add(time.Minute + time.Duration(pid*7919%n)*time.Millisecond)
		}
		for pid := range agentkernel.PID(n) {
			park(pid, at(pid))
			l.mu.Lock()
			held := len(l.due)
			l.mu.Unlock()
			if held > 2*page {
				t.Fatalf("%d are in memory", held)
			}
		}
		pass(3 * time.Minute)
		if len(s.woken) != n || s.most > page || s.reads > 4*n/page {
			t.Fatalf("%d are woken, with %d reads of up to %d", len(s.woken), s.reads, s.most)
		}
		for pid, when := range s.woken {
			if late := when.Sub(at(pid)); late < 0 || late > 2*pause {
				t.Fatalf("%d woke %v late", pid, late)
			}
		}
	})
}

// What another kernel has parked is left alone until the list is told to take all.
func TestTakeAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, park := newShelf(t)
		s.other[1], s.other[2] = time.Now().Add(time.Second), time.Now().Add(time.Hour)
		park(3, time.Now().Add(time.Minute))
		pass(2 * time.Minute)
		if len(s.woken) != 1 || s.woken[3].IsZero() {
			t.Errorf("woken: %v", s.woken)
		}
		park(5, time.Now().Add(time.Hour)) // the list is not empty
		l.TakeAll()
		pass(time.Second)
		if len(s.woken) != 2 || s.woken[1].IsZero() {
			t.Errorf("woken: %v", s.woken)
		}
		park(4, time.Now().Add(time.Minute))
		pass(2 * time.Hour)
		if len(s.woken) != 5 {
			t.Errorf("woken: %v", s.woken)
		}
	})
}

// What is parked while the store is read is not forgotten, nor is that all are to be taken from then on.
func TestParkedWhileTheStoreIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, park := newShelf(t)
		s.mu.Lock()
		s.other[7] = time.Now().Add(time.Second)
		s.slow = func() { // once, when it has looked
			park(1, time.Now().Add(time.Minute))
			l.TakeAll()
		}
		s.mu.Unlock()
		l.mu.Lock()
		l.more = true // as after many were parked
		l.arm(time.Now())
		l.mu.Unlock()
		pass(2 * time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.woken) != 2 {
			t.Errorf("woken: %v", s.woken)
		}
	})
}

// An error is no reason to forget anybody, or to ask without a pause.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, park := newShelf(t)
		s.fails = 5
		l.TakeAll()
		for pid := range agentkernel.PID(10) {
			park(pid, time.Now().Add(time.Second))
		}
		pass(10 * time.Second)
		if len(s.woken) != 10 || s.reads > 10 {
			t.Errorf("%d are woken, after %d reads", len(s.woken), s.reads)
		}
	})
}
