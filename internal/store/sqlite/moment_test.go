package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"

	"agentkernel"
	"agentkernel/internal/store/sqlite/wal"
)

// seen reads a process in all ways that a moment answers.
func seen(t *testing.T, s *Store, ctx context.Context, pid agentkernel.PID) string { //nolint:revive // as in the store's methods that are told whose it is
	t.Helper()
	rec, lost, err := s.ProcessLeft(ctx, pid)
	again, second := s.Process(ctx, pid)
	list, gone, third := s.EntriesLeft(ctx, pid, 1, 0)
	plain, fourth := s.Entries(ctx, pid, 1, 0)
	im, fifth := s.Image(ctx, pid)
	for _, err := range []error{err, lost, second, third, gone, fourth, fifth} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintln(rec.Calls, again.Calls, len(list), list[len(list)-1].Seq, len(plain), im.Seq, string(im.Bytes))
}

// lap appends an entry, a row and an image that all have the same number.
func lap(t *testing.T, s *Store, pid agentkernel.PID, n int64) {
	t.Helper()
	b := note(pid, n, 10)
	b.Process = &agentkernel.ProcessRecord{Process: agentkernel.Process{PID: pid, Namespace: "default", Backend: "monty", State: agentkernel.StateUnfinished},
		Calls: n, Spec: agentkernel.Spec{Program: agentkernel.Program{Language: agentkernel.Python, Source: "pass"}}}
	b.Image = &agentkernel.Image{PID: pid, Seq: n, Fingerprint: "f", Bytes: fmt.Appendf(nil, "image %d", n)}
	if _, err := s.Append(b); err != nil {
		t.Fatal(err)
	}
}

func flushed(t *testing.T, s *Store) {
	t.Helper()
	if err := s.flushAll(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func lapped(n int64) string { return fmt.Sprintln(n, n, n, n, n, n, fmt.Sprintf("image %d", n)) }

// What a moment answers is what is there, also of processes that are written to meanwhile.
func TestMoment(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.ImageCache = -1
	s := mustOpen(t, cfg)
	for pid := agentkernel.PID(1); pid <= 3; pid++ {
		lap(t, s, pid, 1)
	}
	flushed(t, s)
	ctx, done := s.Moment(t.Context())
	if ctx == t.Context() {
		t.Fatal("there is no moment")
	}
	begun := s.moments.now
	asked := func(pid agentkernel.PID, n int64, want int) { // how many reads the transaction answers
		t.Helper()
		before := begun.left
		if got := seen(t, s, ctx, pid); got != lapped(n) || before-begun.left != want {
			t.Errorf("%d answers from the moment: %s", before-begun.left, got)
		}
	}
	begun.left = momentReads // as after its first answer
	asked(1, 1, 5)
	lap(t, s, 1, 2)
	if got := seen(t, s, ctx, 1); got != lapped(2) { // it becomes durable at any time now
		t.Errorf("what is not durable yet: %s", got)
	}
	flushed(t, s)
	asked(2, 1, 5)
	if got := seen(t, s, ctx, 1); got != lapped(2) {
		t.Errorf("what has become durable: %s", got)
	}
	asked(1, 2, 5)
	ended := note(3, 2, 10)
	ended.Entries[0].Kind = agentkernel.EntryTerminal // and the queue forgets it
	if _, err := s.Append(ended); err != nil {
		t.Fatal(err)
	}
	flushed(t, s)
	if list, _, err := s.EntriesLeft(ctx, 3, 1, 0); err != nil || len(list) != 2 {
		t.Errorf("what the queue has forgotten: %v, %v", list, err)
	}
	if other, end := s.Moment(t.Context()); other != t.Context() {
		t.Error("there are two")
	} else {
		end()
	}
	done()
	if got := seen(t, s, ctx, 1); got != lapped(2) {
		t.Errorf("after its end: %s", got)
	}
	if ctx, done = s.Moment(t.Context()); ctx == t.Context() {
		t.Error("there is none after the first")
	}
	seen(t, s, ctx, 1)
	if err := s.Close(); err != nil { // it does not keep the log from being moved
		t.Error(err)
	}
	if _, err := os.Stat(wal.Path(cfg.Path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the log is still there: %v", err)
	}
	if _, err := s.Process(ctx, 1); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
		t.Errorf("of a store that is closed: %v", err)
	}
	done()
	if after, _ := s.Moment(t.Context()); after != t.Context() {
		t.Error("a store that is closed has one")
	}
}

// A moment that many use at once, while everything changes.
func TestMomentOfMany(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.ImageCache = -1
	s := mustOpen(t, cfg)
	ctx, done := s.Moment(t.Context())
	var all sync.WaitGroup
	for pid := agentkernel.PID(1); pid <= 4; pid++ {
		all.Go(func() {
			for n := int64(1); n <= 200; n++ {
				lap(t, s, pid, n)
				if n%3 == 0 {
					flushed(t, s)
				}
				if got := seen(t, s, ctx, pid); got != lapped(n) {
					t.Errorf("process %d after %d: %s", pid, n, got)
					return
				}
			}
		})
	}
	all.Wait()
	done()
}

// Who has read a journal to its end appends to it without another look; one that has grown meanwhile is not taken for that.
func TestGuess(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	lap(t, s, 1, 1)
	lap(t, s, 1, 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, cfg)
	if _, err := s.Entries(t.Context(), 1, 1, 0); err != nil {
		t.Fatal(err)
	}
	if end := s.queue.ends[1]; end != 3 {
		t.Errorf("it is taken to end before %d", end)
	}
	forgotten := s.queue.forgotten()
	lap(t, s, 1, 3)
	if len(s.queue.ends) != 0 {
		t.Error("the guess outlives what it was for")
	}
	s.queue.guess(1, 3, forgotten) // of a reading that began before
	if len(s.queue.ends) != 0 {
		t.Error("a guess of what is known")
	}
	ended := note(1, 4, 10)
	ended.Entries[0].Kind = agentkernel.EntryTerminal
	if err := appendFlush(s, ended); err != nil {
		t.Fatal(err)
	}
	s.queue.guess(1, 3, forgotten)
	if len(s.queue.ends) != 0 {
		t.Error("a guess that is out of date")
	}
	if _, err := s.Append(note(1, 4, 10)); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
		t.Errorf("a repetition: %v", err)
	}
	for pid := agentkernel.PID(2); pid < maxGuesses+10; pid++ {
		s.queue.guess(pid, 2, s.queue.forgotten())
	}
	if n := len(s.queue.ends); n > maxGuesses {
		t.Errorf("%d guesses", n)
	}
}
