package faulty_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"agentkernel"
	"agentkernel/internal/store/faulty"
	"agentkernel/internal/store/sqlite"
	"agentkernel/internal/store/storetest"
)

func openIn(t *testing.T, dir string) agentkernel.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "j.db"), Blobs: filepath.Join(dir, "blobs"),
		Key: bytes.Repeat([]byte("k"), 32)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// play is a little kernel: a row and four entries, every second one flushed. It stops at the first error.
// It gives how many entries were acknowledged and how many were appended.
func play(s *faulty.Store) (acknowledged, appended int64, err error) {
	ctx := context.Background()
	for seq := int64(1); seq <= 4; seq++ {
		pos, err := s.Append(batch(seq))
		if err != nil {
			return acknowledged, appended, err
		}
		appended = seq
		if seq%2 == 0 {
			if err := s.Flush(ctx, pos); err != nil {
				return acknowledged, appended, err
			}
			acknowledged = seq
		}
		if _, err := s.Process(ctx, 1); err != nil {
			return acknowledged, appended, err
		}
	}
	return acknowledged, appended, nil
}

func batch(seq int64) agentkernel.Batch {
	return agentkernel.Batch{
		Entries: []agentkernel.Entry{{PID: 1, Seq: seq, Kind: agentkernel.EntryCall, Op: "time.now"}},
		Process: &agentkernel.ProcessRecord{Process: agentkernel.Process{PID: 1, Namespace: "default", State: agentkernel.StateUnfinished}, Calls: seq},
		State:   map[string]json.RawMessage{"seq": fmt.Append(nil, seq)},
	}
}

func journalLength(t *testing.T, dir string) int64 {
	t.Helper()
	s := openIn(t, dir)
	defer s.Close()
	list, err := s.Entries(t.Context(), 1, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(list))
}

func TestEveryOperation(t *testing.T) {
	quiet := faulty.Wrap(openIn(t, t.TempDir()), faulty.Plan{})
	if n, _, err := play(quiet); n != 4 || err != nil {
		t.Fatalf("without a fault %d entries were acknowledged: %v", n, err)
	}
	total := quiet.Operations()
	if total != 4+2+4 || quiet.Close() != nil {
		t.Fatalf("%d operations counted, want 10", total)
	}
	one := func(n int) int { return min(n, 1) }
	for _, test := range []struct {
		name string
		plan faulty.Plan
		want func(acknowledged, appended int64) int64 // entries on the disk
	}{
		{"fail", faulty.Plan{Mode: faulty.Fail}, func(ack, _ int64) int64 { return ack }},
		{"crash before", faulty.Plan{Mode: faulty.CrashBefore}, func(ack, _ int64) int64 { return ack }},
		{"crash before, one batch kept", faulty.Plan{Mode: faulty.CrashBefore, Keep: one}, func(ack, app int64) int64 { return min(ack+1, app) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			for at := int64(1); at <= total; at++ {
				plan := test.plan
				plan.At = at
				dir := t.TempDir()
				s := faulty.Wrap(openIn(t, dir), plan)
				acknowledged, appended, err := play(s)
				checkDead(t, s, plan.Mode, err)
				if got, want := journalLength(t, dir), test.want(acknowledged, appended); got != want {
					t.Errorf("operation %d: %d entries are on the disk, want %d", at, got, want)
				}
			}
		})
	}
}

// checkDead checks what a store answers after its fault, and closes it.
func checkDead(t *testing.T, s *faulty.Store, mode faulty.Mode, err error) {
	t.Helper()
	select {
	case <-s.Tripped():
	default:
		t.Fatal("the fault did not come")
	}
	is := func(err error) bool { return errors.Is(err, faulty.ErrCrashed) }
	if mode == faulty.Fail {
		is = func(err error) bool { return agentkernel.CodeOf(err) == agentkernel.CodeStorage }
	}
	_, again := s.Append(batch(99))
	if flush := s.Flush(context.Background(), 1); !is(err) || !is(again) || !is(flush) {
		t.Fatalf("at the fault %v, later append %v, flush %v", err, again, flush)
	}
	_, read := s.Processes(context.Background(), agentkernel.Filter{})
	if mode == faulty.Fail && read != nil || mode != faulty.Fail && !is(read) {
		t.Fatalf("a read after the fault: %v", read)
	}
	if err := s.Settle(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); !is(err) {
		t.Fatalf("close after the fault: %v", err)
	}
}

func TestCrashAfterAFlushKeepsWhatWasFlushed(t *testing.T) {
	flushes := func(op faulty.Op) bool { return op == faulty.Flush }
	dir := t.TempDir()
	lost := errors.New("lost")
	s := faulty.Wrap(openIn(t, dir), faulty.Plan{At: 2, Mode: faulty.CrashAfter, Counts: flushes, Err: lost})
	acknowledged, _, err := play(s)
	if acknowledged != 2 || !errors.Is(err, lost) {
		t.Fatalf("%d acknowledged, error %v", acknowledged, err)
	}
	s.Close()
	if got := journalLength(t, dir); got != 4 {
		t.Fatalf("%d entries are on the disk, want 4: the flush happened though nobody heard of it", got)
	}
}

func TestHeldBatchesAreSeenAndNotDurable(t *testing.T) {
	dir := t.TempDir()
	inner := openIn(t, dir)
	s := faulty.Wrap(inner, faulty.Plan{})
	ctx := t.Context()
	if err := flushed(s, batch(1)); err != nil {
		t.Fatal(err)
	}
	b := batch(2)
	b.Process.Spec.IdempotencyKey = "k"
	b.Image = &agentkernel.Image{PID: 1, Seq: 2, Bytes: []byte("image")}
	if _, err := s.Append(b); err != nil {
		t.Fatal(err)
	}
	look := func(s agentkernel.StoreReader) string {
		p, _ := s.Process(ctx, 1)
		rows, _ := s.Processes(ctx, agentkernel.Filter{Unfinished: true, Namespace: "default"})
		key, _ := s.ByKey(ctx, "default", "k")
		list, _ := s.Entries(ctx, 1, 1, 0)
		im, _ := s.Image(ctx, 1)
		state, _ := s.State(ctx, 1)
		return fmt.Sprint(p.Calls, len(rows), rows[0].Calls, key, len(list), string(im.Bytes), string(state["seq"]))
	}
	if got, want := look(s), "2 1 2 1 2image2"; got != want {
		t.Errorf("through the wrapper: %q, want %q", got, want)
	}
	if got, want := look(inner), "1 1 1 0 11"; got != want {
		t.Errorf("beneath it: %q, want %q", got, want)
	}
	if err := s.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	if got, want := look(inner), "2 1 2 1 2image2"; got != want {
		t.Errorf("settled: %q, want %q", got, want)
	}
	if _, err := s.Append(batch(3)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := journalLength(t, dir); got != 3 {
		t.Fatalf("%d entries after Close, want 3", got)
	}
}

func flushed(s agentkernel.Store, b agentkernel.Batch) error {
	pos, err := s.Append(b)
	if err != nil {
		return err
	}
	return s.Flush(context.Background(), pos)
}

func TestAFencedTreeFailsAlone(t *testing.T) {
	storetest.ExerciseFencing(t, func(dir string) (agentkernel.Store, func(agentkernel.PID, int64), error) {
		s := faulty.Wrap(openIn(t, dir), faulty.Plan{})
		return s, s.Fence, nil
	})
}
