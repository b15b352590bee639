package sqlite

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
)

func testQueue(max int64) *queue { return newQueue(max, newImageCache(DefaultImageCache)) }

func put(t *testing.T, q *queue, pid agentkernel.PID, seq, size int64) agentkernel.Position {
	t.Helper()
	if seq == 1 {
		q.know(pid)
	}
	pos, err := q.append(pending{pid: pid, size: size, batch: agentkernel.Batch{Entries: []agentkernel.Entry{{PID: pid, Seq: seq}}}})
	if err != nil {
		t.Fatal(err)
	}
	return pos
}

// wakes says whether the writer has been told that there is something to take.
func wakes(q *queue) bool {
	select {
	case <-q.wake:
		return true
	default:
		return false
	}
}

func TestAppendingDoesNotStartACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(1 << 20)
		for seq := int64(1); seq <= 3; seq++ {
			put(t, q, 1, seq, 10)
		}
		if wakes(q) || q.take() != nil {
			t.Fatal("a commit was started though nobody asked")
		}
		go q.flush(t.Context(), 1)
		synctest.Wait()
		if !wakes(q) || len(q.take()) != 3 {
			t.Fatal("a flush takes everything that waits")
		}
		q.done(nil)
		if err := q.flush(t.Context(), 3); err != nil { // durable along with what was asked for
			t.Fatal(err)
		}
		if q.take() != nil {
			t.Fatal("there is nothing left to commit")
		}
	})
}

func TestABatchNobodyAsksForIsTakenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(1 << 20)
		begin := time.Now()
		put(t, q, 1, 1, 10)
		<-q.wake
		if waited := time.Since(begin); waited != flushAfter || len(q.take()) != 1 {
			t.Fatalf("taken after %v, want %v", waited, flushAfter)
		}
		q.done(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		if wakes(q) {
			t.Fatal("an idle queue woke the writer")
		}
	})
}

func TestTheTimerOfAnOlderBatchDoesNotCutAYoungerRunInTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(1 << 20)
		put(t, q, 1, 1, 10) // arms the timer
		go q.flush(t.Context(), 1)
		<-q.wake
		q.take()
		q.done(nil)
		time.Sleep(flushAfter - time.Millisecond)
		begin := time.Now()
		put(t, q, 1, 2, 10)
		time.Sleep(2 * time.Millisecond) // the first timer fires meanwhile
		synctest.Wait()
		if wakes(q) {
			t.Fatal("the batch was not given its time")
		}
		<-q.wake
		if waited := time.Since(begin); waited != flushAfter {
			t.Fatalf("taken after %v, want %v", waited, flushAfter)
		}
	})
}

func TestFlushesDuringACommitShareTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(1 << 20)
		answers := make(chan error, 10)
		flush := func(pos agentkernel.Position) { go func() { answers <- q.flush(t.Context(), pos) }() }
		flush(put(t, q, 1, 1, 10))
		synctest.Wait()
		first := q.take()
		for pid := agentkernel.PID(2); pid <= 5; pid++ {
			flush(put(t, q, pid, 1, 10))
		}
		synctest.Wait()
		q.done(nil)
		synctest.Wait()
		if len(first) != 1 || len(answers) != 1 {
			t.Fatalf("the first commit had %d batches and answered %d", len(first), len(answers))
		}
		if second := q.take(); len(second) != 4 {
			t.Fatalf("the second commit has %d batches, want 4", len(second))
		}
		q.done(nil)
		synctest.Wait()
		if len(answers) != 5 {
			t.Fatalf("%d of 5 flushes were answered", len(answers))
		}
	})
}

func TestGroupsAreBounded(t *testing.T) {
	q := testQueue(1 << 30)
	const n = 2*maxGroupBatches + 10
	for seq := int64(1); seq <= n; seq++ {
		put(t, q, 1, seq, 1)
	}
	put(t, q, 2, 1, maxGroupBytes+1) // larger than a group: goes alone, after what was before it
	q.wanted = q.appended
	var sizes []int
	last := agentkernel.Position(0)
	for group := q.take(); group != nil; group = q.take() {
		for _, p := range group {
			if p.pos != last+1 {
				t.Fatalf("position %d follows %d", p.pos, last)
			}
			last = p.pos
		}
		sizes = append(sizes, len(group))
		q.done(nil)
	}
	if len(sizes) != 4 || sizes[0] != maxGroupBatches || sizes[3] != 1 || q.bytes != 0 {
		t.Fatalf("groups of %v batches; %d bytes are left", sizes, q.bytes)
	}
}

func TestAppendWaitsWhileTooMuchWaitsForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(100)
		put(t, q, 1, 1, 1000) // one alone may be larger
		appended := make(chan agentkernel.Position)
		go func() { appended <- put(t, q, 2, 1, 60) }()
		synctest.Wait()
		if !wakes(q) {
			t.Fatal("an append that waits must ask for a commit, or nobody will")
		}
		select {
		case <-appended:
			t.Fatal("the queue took more than it may hold")
		default:
		}
		q.take()
		q.done(nil)
		if pos := <-appended; pos != 2 {
			t.Fatalf("position %d", pos)
		}
		for _, end := range []struct {
			code agentkernel.Code
			do   func(*queue)
		}{
			{agentkernel.CodeStorage, func(q *queue) { q.done(agentkernel.Errorf(agentkernel.CodeStorage, "store", "broken")) }},
			{agentkernel.CodeUnavailable, (*queue).close},
		} {
			q := testQueue(100)
			put(t, q, 1, 1, 100)
			refused := make(chan error)
			go func() {
				q.know(2)
				_, err := q.append(pending{pid: 2, size: 1})
				refused <- err
			}()
			synctest.Wait()
			end.do(q)
			if err := <-refused; agentkernel.CodeOf(err) != end.code {
				t.Errorf("a waiting append ended with %v, want %s", err, end.code)
			}
			q.close() // stops the timer
		}
	})
}

func TestFailureIsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(1 << 20)
		broken := agentkernel.Errorf(agentkernel.CodeStorage, "store", "broken")
		pos := put(t, q, 1, 1, 10)
		answer := make(chan error, 1)
		go func() { answer <- q.flush(context.Background(), pos) }()
		synctest.Wait()
		q.take()
		put(t, q, 1, 2, 10)
		q.done(broken)
		_, again := q.append(pending{pid: 1, batch: agentkernel.Batch{Entries: []agentkernel.Entry{{PID: 1, Seq: 3}}}})
		for _, err := range []error{<-answer, again, q.flush(context.Background(), pos), q.failure()} {
			if !errors.Is(err, broken) {
				t.Errorf("%v, want %v", err, broken)
			}
		}
		if got := q.pendingOf(1); got != nil || q.take() != nil {
			t.Errorf("%d lost batches are still shown", len(got))
		}
	})
}

func TestWhatIsDurableIsForgotten(t *testing.T) {
	q := testQueue(1 << 20)
	k := agentkernel.Key{Namespace: "default", Name: "k"}
	row := &agentkernel.ProcessRecord{Process: agentkernel.Process{PID: 1, Namespace: k.Namespace}, Spec: agentkernel.Spec{IdempotencyKey: k.Name}}
	q.know(1)
	q.learn(1, 1, k, 0, q.forgotten())
	_, err := q.append(pending{pid: 1, batch: agentkernel.Batch{Process: row,
		Entries: []agentkernel.Entry{{PID: 1, Seq: 1, Kind: agentkernel.EntryTerminal}}}})
	if err != nil {
		t.Fatal(err)
	}
	stale := q.forgotten() // somebody begins to read the database now
	q.wanted = 1
	q.take()
	q.done(nil)
	if len(q.tails) != 0 || len(q.keys) != 0 {
		t.Fatalf("%d tails and %d keys stay in memory for a process that ended", len(q.tails), len(q.keys))
	}
	q.learn(1, 1, k, 0, stale)
	if len(q.tails) != 0 || len(q.keys) != 0 {
		t.Fatal("a reading from before the commit was believed")
	}
}
