package slots

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

type program struct {
	priority int
	flow     string
}

func (p *program) Priority() int { return p.priority }
func (p *program) Flow() string  { return p.flow }

// slots is a queue whose programs compute for a given time and do nothing else.
type slots struct {
	*Queue[*program]
	zero  time.Time
	takes map[*program]time.Duration
	began map[*program]time.Duration
}

func newSlots(n int) *slots {
	s := &slots{zero: time.Now(), takes: map[*program]time.Duration{}, began: map[*program]time.Duration{}}
	s.Queue = New(n, time.Now, nil, func(p *program) {
		s.mu.Lock()
		s.began[p] = time.Since(s.zero)
		d := s.takes[p]
		s.mu.Unlock()
		time.Sleep(d)
	})
	return s
}

// add queues a program and lets it come as far as it can.
func (s *slots) add(priority int, takes time.Duration) *program {
	p := &program{priority: priority}
	s.mu.Lock()
	s.takes[p] = takes
	s.mu.Unlock()
	s.Push(p)
	synctest.Wait()
	return p
}

// ends closes the queue after five minutes, in which p should have begun at a moment.
func (s *slots) ends(t *testing.T, p *program, at time.Duration) {
	t.Helper()
	time.Sleep(5 * time.Minute)
	s.mu.Lock()
	if began, ok := s.began[p]; !ok || began != at {
		t.Errorf("began: %v, at %s instead of %s; %d have slots, %d go on without, %d wait", ok, began, at, s.running, s.preempted, s.waiting.Len())
	}
	s.mu.Unlock()
	s.Close()
	s.Drain()
}

// A slot for which somebody more urgent than the one that was preempted waits is for that one, not for who has waited longest.
func TestALentSlotIsNotForTheLessUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		s.add(5, 10*time.Minute)
		time.Sleep(2 * time.Second)
		s.add(1, 3*time.Second) // preempts, until 5 s
		s.add(9, 9*time.Minute)
		time.Sleep(time.Second)
		s.ends(t, s.add(1, time.Second), 5*time.Second)
	})
}

// When a slot is given back, another may be taken.
func TestASlotGivenBackLetsAnotherBeLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(2)
		s.add(9, 10*time.Minute)
		s.add(5, 10*time.Minute)
		time.Sleep(2 * time.Second)
		s.add(8, 10*time.Minute) // preempts the 9
		s.add(1, 3*time.Second)  // preempts the 5, until 5 s; no more may be preempted
		s.ends(t, s.add(7, time.Second), 5*time.Second)
	})
}

// A more urgent one can preempt more programs, and so earlier.
func TestTheMostUrgentBorrowsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(2)
		s.add(4, 10*time.Minute)
		time.Sleep(900 * time.Millisecond)
		s.add(5, 10*time.Minute)
		s.add(4, time.Second) // can preempt the 5, at 1.9 s
		s.ends(t, s.add(1, time.Second), time.Second)
	})
}

// Who makes many items waits while a crowd waits for slots, until it is none any more, or for as long as he has patience.
func TestACrowdIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		ease := func(patience time.Duration) time.Duration {
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			s.Ease(ctx)
			return time.Since(begin)
		}
		if took := ease(time.Hour); took != 0 {
			t.Errorf("an empty queue was waited for, %s", took)
		}
		for range crowd + 3 { // one of them has the slot
			p := &program{priority: 10}
			s.mu.Lock()
			s.takes[p] = time.Second
			s.mu.Unlock()
			s.Push(p)
		}
		synctest.Wait()
		if took := ease(300 * time.Millisecond); took != 300*time.Millisecond {
			t.Errorf("a crowd was waited for %s", took)
		}
		if took := ease(time.Hour); took != 1700*time.Millisecond { // the second of those that are too many begins then
			t.Errorf("a crowd that went was waited for %s", took)
		}
		if took := ease(time.Hour); took != 0 {
			t.Errorf("no crowd was waited for, %s", took)
		}
		s.Push(&program{priority: 10})
		waits := make(chan time.Duration)
		go func() { waits <- ease(time.Hour) }()
		synctest.Wait()
		s.Close()
		if took := <-waits; took != 0 {
			t.Errorf("a closed queue was waited for, %s", took)
		}
		s.Drain()
	})
}

// Two tenants share the slots by their weights, however many programs each has.
func TestTenantsShareSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := map[string]int{}
		var q *Queue[*program]
		q = New(2, time.Now, func(flow string) int { return map[string]int{"crowd": 1, "team": 3}[flow] }, func(p *program) {
			time.Sleep(time.Millisecond)
			q.mu.Lock()
			served[p.flow]++
			q.mu.Unlock()
			q.Push(p)
		})
		for range 1000 {
			q.Push(&program{priority: 10, flow: "crowd"})
		}
		time.Sleep(time.Second)
		for range 6 {
			q.Push(&program{priority: 10, flow: "team"})
		}
		q.mu.Lock()
		before := served["crowd"]
		q.mu.Unlock()
		time.Sleep(10 * time.Second)
		q.Close()
		q.Drain()
		crowd, team := served["crowd"]-before, served["team"]
		if share := float64(team) / float64(crowd); share < 2.9 || share > 3.1 {
			t.Errorf("the team has had %d turns, and the crowd %d", team, crowd)
		}
	})
}

// An item that is queued while it waits has one place, its first, and is driven once for it.
func TestWhoWaitsHasOnePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		busy, first, second := &program{}, &program{priority: 1}, &program{priority: 1}
		names := map[*program]string{busy: "busy", first: "first", second: "second"}
		q := New(1, time.Now, nil, func(p *program) {
			order = append(order, names[p])
			time.Sleep(time.Second)
		})
		for _, p := range []*program{busy, first, second, first, first} {
			q.Push(p)
		}
		time.Sleep(time.Minute)
		q.Push(first) // again, now that it has had its turn
		time.Sleep(time.Minute)
		q.Close()
		q.Drain()
		if want := []string{"busy", "first", "second", "first"}; !slices.Equal(order, want) {
			t.Errorf("driven: %v", order)
		}
	})
}
