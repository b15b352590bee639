package kernel

import (
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
)

// slots is a queue whose programs compute for a given time and do nothing else.
type slots struct {
	*readyQueue
	zero  time.Time
	takes map[*process]time.Duration
	began map[*process]time.Duration
}

func newSlots(n int) *slots {
	s := &slots{zero: time.Now(), takes: map[*process]time.Duration{}, began: map[*process]time.Duration{}}
	s.readyQueue = newReadyQueue(n, time.Now, func(p *process) {
		s.mu.Lock()
		s.began[p] = time.Since(s.zero)
		d := s.takes[p]
		s.mu.Unlock()
		time.Sleep(d)
	})
	return s
}

// add queues a program and lets it come as far as it can.
func (s *slots) add(priority int, takes time.Duration) *process {
	p := &process{spec: &sharedSpec{Spec: agentkernel.Spec{Priority: priority}}}
	s.mu.Lock()
	s.takes[p] = takes
	s.mu.Unlock()
	s.push(p)
	synctest.Wait()
	return p
}

// ends closes the queue after five minutes, in which p should have begun at a moment.
func (s *slots) ends(t *testing.T, p *process, at time.Duration) {
	t.Helper()
	time.Sleep(5 * time.Minute)
	s.mu.Lock()
	if began, ok := s.began[p]; !ok || began != at {
		t.Errorf("began: %v, at %s instead of %s; %d have slots, %d go on without, %d wait", ok, began, at, s.running, s.lent, s.waiting.Len())
	}
	s.mu.Unlock()
	s.close()
	s.drain()
}

// A slot for which somebody more urgent than its lender waits is for that one, not for who has waited longest.
func TestALentSlotIsNotForTheLessUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		s.add(5, 10*time.Minute)
		time.Sleep(2 * time.Second)
		s.add(1, 3*time.Second) // borrows, until 5 s
		s.add(9, 9*time.Minute)
		time.Sleep(time.Second)
		s.ends(t, s.add(1, time.Second), 5*time.Second)
	})
}

// When a slot is given back, it may be that another can be lent.
func TestASlotGivenBackLetsAnotherBeLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(2)
		s.add(9, 10*time.Minute)
		s.add(5, 10*time.Minute)
		time.Sleep(2 * time.Second)
		s.add(8, 10*time.Minute) // borrows of the 9
		s.add(1, 3*time.Second)  // borrows of the 5, until 5 s; more may not be lent
		s.ends(t, s.add(7, time.Second), 5*time.Second)
	})
}

// A more urgent one can borrow of more programs, and so earlier.
func TestTheMostUrgentBorrowsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(2)
		s.add(4, 10*time.Minute)
		time.Sleep(900 * time.Millisecond)
		s.add(5, 10*time.Minute)
		s.add(4, time.Second) // can borrow of the 5, at 1.9 s
		s.ends(t, s.add(1, time.Second), time.Second)
	})
}
