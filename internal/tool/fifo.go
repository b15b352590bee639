package tool

import (
	"container/list"
	"context"
	"sync"
)

// slots lets at most a fixed number of calls run at once, in the order in which they asked.
type slots struct {
	mu      sync.Mutex
	free    int
	waiting list.List // of chan struct{}, closed when the slot is handed over
}

func newSlots(n int) *slots { return &slots{free: n} }

// take waits for a slot or for the end of ctx.
func (s *slots) take(ctx context.Context) error {
	s.mu.Lock()
	if s.free > 0 && s.waiting.Len() == 0 {
		s.free--
		s.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	at := s.waiting.PushBack(turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	select {
	case <-turn: // handed over in the same moment: pass it on
		s.mu.Unlock()
		s.give()
	default:
		s.waiting.Remove(at)
		s.mu.Unlock()
	}
	return ctx.Err()
}

// give hands the slot to the one that waits longest.
func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.waiting.Front(); first != nil {
		close(s.waiting.Remove(first).(chan struct{}))
		return
	}
	s.free++
}
