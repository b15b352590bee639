package sqlite

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/store/blob"
)

func TestOneAtATimeCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(1 << 20)
		defer q.close() // stops the timer
		first := put(t, q, 1, 1, 10)
		if q.claim(first+1) || !q.claim(first) {
			t.Fatal("who waits for what was appended commits it, nobody else")
		}
		second := put(t, q, 1, 2, 10)
		if q.claim(second) || q.claimAny() {
			t.Fatal("two commit at once")
		}
		if len(q.take()) != 2 {
			t.Fatal("the commit takes everything that waits")
		}
		third := put(t, q, 1, 3, 10)
		q.done(nil)
		if !q.release(second, false) || wakes(q) {
			t.Fatal("both are durable, and nobody waits for the third")
		}
		if q.claim(second) {
			t.Fatal("what is durable is committed again")
		}
		if !q.claim(third) || len(q.take()) != 1 {
			t.Fatal("the third is not to be had")
		}
		fourth := put(t, q, 1, 4, 10)
		go q.flush(t.Context(), fourth)
		synctest.Wait()
		wakes(q) // the one who waits has told the writer's goroutine, which found that somebody commits
		q.done(nil)
		if !q.release(third, false) || !wakes(q) {
			t.Fatal("the one who waits is left to nobody")
		}
		q.take()
		q.done(nil)
	})
}

func TestAClosedQueueIsLeftToTheWritersGoroutine(t *testing.T) {
	q := testQueue(1 << 20)
	pos := put(t, q, 1, 1, 10)
	if !q.claimAny() {
		t.Fatal("nobody commits")
	}
	q.close()
	wakes(q) // in vain: somebody commits
	if q.release(pos, false) || !wakes(q) {
		t.Fatal("nobody will commit what is left")
	}
	if q.claim(pos) || !q.claimAny() {
		t.Fatal("the connection is closed after the writer's goroutine, so only that may still use it")
	}
}

func TestALoneCallerCommitsByItself(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	pid := newPID(s)
	if err := appendFlush(s, note(pid, 1, 10)); err != nil {
		t.Fatal(err)
	}
	awaitSweep(t, s) // the first commit of a store looks for unused blobs
	if !s.queue.claimAny() {
		t.Fatal("the claim was not given back")
	}
	flushed := make(chan error, 1)
	pos, err := s.Append(note(pid, 2, 10))
	if err != nil {
		t.Fatal(err)
	}
	go func() { flushed <- s.Flush(context.Background(), pos) }()
	begun := s.Commits()
	if s.queue.release(pos, false) || s.Commits() != begun {
		t.Fatal("a commit happened beside the claim")
	}
	if err := <-flushed; err != nil { // whether it came before or after the claim was given back
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if pos, err = s.Append(note(pid, 3, 10)); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(canceled, pos); err != nil && agentkernel.CodeOf(err) != agentkernel.CodeCanceled {
		t.Fatalf("a caller who has given up was told %v", err)
	}
}

// broken panics, as a bug in the middle of a commit would.
type broken struct{ blob.Store }

func (broken) Put(context.Context, []byte) (blob.Sum, error) { panic("put") }

// A caller who recovers from a panic must not leave a store behind that waits for ever.
func TestAPanicFailsTheStore(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	s.writer.blobs = broken{s.writer.blobs} // nobody uses it before something is appended
	s.queue.armed = true                    // no timer may come first: its goroutine has nobody who recovers
	pid := newPID(s)
	pos, err := s.Append(note(pid, 1, BlobThreshold))
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not reach its caller")
			}
		}()
		_ = s.Flush(t.Context(), pos)
	}()
	_, err = s.Append(note(pid, 2, 1))
	checkError(t, err, agentkernel.CodeStorage, "broken off")
	checkError(t, s.Flush(t.Context(), pos), agentkernel.CodeStorage, "broken off")
	checkError(t, s.Close(), agentkernel.CodeStorage, "broken off")
}

// What is staged is neither durable nor seen by others before it is committed; it is committed when somebody waits for
// it, when its time has come, or when other work needs the connection, and only once.
func TestStaging(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	pid := newPID(s)
	if err := appendFlush(s, note(pid, 1, 10)); err != nil {
		t.Fatal(err)
	}
	awaitSweep(t, s)
	seq := int64(1)
	staged := func() agentkernel.Position {
		t.Helper()
		for { // the timer may commit before
			seq++
			pos, err := s.Append(note(pid, seq, 10))
			if err != nil {
				t.Fatal(err)
			}
			s.Stage()
			if s.queue.claimAny() {
				open := s.writer.open
				s.queue.release(0, false)
				if open {
					return pos
				}
			}
			if err := s.Flush(t.Context(), pos); err != nil {
				t.Fatal(err)
			}
		}
	}
	rows := func() int64 {
		return count(t, cfg.Path, fmt.Sprintf("SELECT count(*) FROM entries WHERE pid = %d", pid))
	}

	pos := staged()
	if n := rows(); n >= seq && s.Commits() < 2 {
		t.Errorf("%d rows are there and nothing was committed", n)
	}
	s.Stage() // nothing new
	if err := s.Flush(t.Context(), pos); err != nil || rows() != seq {
		t.Errorf("flushed: %d rows of %d, %v", rows(), seq, err)
	}

	staged()
	for !s.queue.settled(pid) { // by the timer alone
		time.Sleep(time.Millisecond)
	}
	if rows() != seq {
		t.Errorf("after its time: %d rows of %d", rows(), seq)
	}

	staged()
	if _, err := s.Forget(t.Context(), []agentkernel.PID{pid + 1}, prunedAt); err != nil {
		t.Error(err)
	}
	staged()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	checkLength(t, mustOpen(t, cfg), pid, int(seq))
}
