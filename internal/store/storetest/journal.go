package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"agentkernel"
)

func pages(t *testing.T, open Opener) {
	f := start(t, open)
	pid := f.pid()
	var want []agentkernel.Entry
	for seq := int64(1); seq <= 20; seq++ {
		want = append(want, entry(pid, seq))
		pos := f.append(agentkernel.Batch{Entries: want[seq-1:]})
		if seq == 12 { // from here on some are durable and some may be not
			f.flush(pos)
		}
	}
	f.twice(func() {
		for from := int64(0); from <= 22; from++ {
			for limit := range 22 {
				got, err := f.Entries(t.Context(), pid, from, limit)
				if err != nil {
					t.Fatal(err)
				}
				low := min(max(from, 1)-1, 20)
				high := int64(20)
				if limit > 0 {
					high = min(low+int64(limit), 20)
				}
				f.same(want[low:high], got)
			}
		}
		f.same([]agentkernel.Entry(nil), f.entries(pid+1000))
	})
}

func dense(t *testing.T, open Opener) {
	f := start(t, open)
	pid, other := f.pid(), f.pid()
	f.append(agentkernel.Batch{Entries: []agentkernel.Entry{entry(pid, 1), entry(pid, 2)}})
	f.twice(func() {
		for _, wrong := range [][]agentkernel.Entry{
			{entry(pid, 1)}, {entry(pid, 2)}, {entry(pid, 4)}, {entry(pid, 0)}, // repetition, gap
			{entry(pid, 3), entry(pid, 5)}, {entry(pid, 3), entry(pid, 3)}, // the same within a batch
			{entry(other, 2)},                   // a journal begins with 1
			{entry(pid, 3), entry(other, 1)},    // two processes
			{entry(pid, 3), entry(other, 4)},    //
			{entry(other, 1), {PID: 0, Seq: 2}}, // no process
		} {
			_, err := f.Append(agentkernel.Batch{Entries: wrong})
			f.refused(err, agentkernel.CodeInvalid)
		}
	})
	f.flush(f.append(agentkernel.Batch{Entries: []agentkernel.Entry{entry(pid, 3)}})) // the store lives
	f.same([]agentkernel.Entry{entry(pid, 1), entry(pid, 2), entry(pid, 3)}, f.entries(pid))
	if got := f.entries(other); len(got) != 0 {
		t.Fatalf("a refused batch left %d entries", len(got))
	}

	ended := f.pid() // a store may forget a process that has ended, but not its journal
	last := entry(ended, 1)
	last.Kind = agentkernel.EntryTerminal
	f.flush(f.append(agentkernel.Batch{Entries: []agentkernel.Entry{last}}))
	_, err := f.Append(agentkernel.Batch{Entries: []agentkernel.Entry{entry(ended, 1)}})
	f.refused(err, agentkernel.CodeInvalid)
	f.flush(f.append(agentkernel.Batch{Entries: []agentkernel.Entry{entry(ended, 2)}}))
}

func pids(t *testing.T, open Opener) {
	f := start(t, open)
	if pid := f.pid(); pid != 1 {
		t.Fatalf("the first pid is %d", pid)
	}
	f.flush(f.append(agentkernel.Batch{Process: record(1)}))
	f.flush(f.append(agentkernel.Batch{Entries: []agentkernel.Entry{entry(41, 1)}}))
	if pid := f.pid(); pid != 42 {
		t.Fatalf("pid %d after 41 was used", pid)
	}
	f.reopen()
	if pid := f.pid(); pid != 42 {
		t.Fatalf("pid %d after reopening; 41 was the last one stored", pid)
	}
	f.flush(f.append(agentkernel.Batch{Process: record(100)}))
	f.reopen()
	seen := map[agentkernel.PID]bool{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				pid := f.pid()
				mu.Lock()
				if seen[pid] || pid <= 100 {
					t.Errorf("pid %d given out twice", pid)
				}
				seen[pid] = true
				mu.Unlock()
			}
		})
	}
	group.Wait()
}

func nameless(t *testing.T, open Opener) {
	f := start(t, open)
	for _, b := range []agentkernel.Batch{
		{},
		{State: map[string]json.RawMessage{"k": json.RawMessage(`1`)}},
		{Process: record(0)},
		{Image: &agentkernel.Image{Bytes: []byte("x")}},
		{Process: record(1), Image: &agentkernel.Image{PID: 2, Bytes: []byte("x")}},
		{Process: record(-1)},
	} {
		_, err := f.Append(b)
		f.refused(err, agentkernel.CodeInvalid)
	}
}

func flushes(t *testing.T, open Opener) {
	f := start(t, open)
	pid := f.pid()
	f.flush(0) // nothing was appended
	first := f.append(agentkernel.Batch{Entries: []agentkernel.Entry{entry(pid, 1)}})
	second := f.append(agentkernel.Batch{Entries: []agentkernel.Entry{entry(pid, 2)}})
	if second <= first {
		t.Fatalf("positions %d, %d are not in order", first, second)
	}
	f.flush(second)
	f.flush(first) // already durable
	f.refused(f.Flush(t.Context(), second+1), agentkernel.CodeInvalid)

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	pos := f.append(agentkernel.Batch{Entries: []agentkernel.Entry{entry(pid, 3)}})
	if err := f.Flush(canceled, pos); err != nil { // it may have been durable already
		f.refused(err, agentkernel.CodeCanceled)
	}
	f.flush(pos) // giving up waiting does not take the batch back
}

// lazy waits until a batch is durable that nobody asked for: it opens the directory in a second store,
// which sees what is on the disk.
func lazy(t *testing.T, open Opener) {
	f := start(t, open)
	pid := f.pid()
	f.flush(f.append(agentkernel.Batch{Entries: []agentkernel.Entry{entry(pid, 1)}}))
	other, err := open(f.dir)
	if err != nil {
		t.Skipf("a second store cannot be opened beside the first: %v", err)
	}
	defer other.Close()
	f.append(agentkernel.Batch{Entries: []agentkernel.Entry{entry(pid, 2)}})
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		got, err := other.Entries(t.Context(), pid, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 2 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("a batch that nobody flushed never became durable")
		}
	}
}

// concurrent has many processes append, flush and read at once.
func concurrent(t *testing.T, open Opener) {
	f := start(t, open)
	const processes, rounds = 16, 30
	var group sync.WaitGroup
	for range processes {
		pid := f.pid()
		group.Go(func() {
			if err := appendAndRead(f, pid, rounds); err != nil {
				t.Error(err)
			}
		})
	}
	group.Go(func() {
		for range rounds {
			if _, err := f.Processes(t.Context(), agentkernel.Filter{}); err != nil {
				t.Error(err)
			}
		}
	})
	group.Wait()
	f.reopen()
	rows, err := f.Processes(t.Context(), agentkernel.Filter{})
	if err != nil || len(rows) != processes {
		t.Fatalf("%d rows, error %v", len(rows), err)
	}
	for _, p := range rows {
		if got := f.entries(p.PID); len(got) != 2*rounds || got[len(got)-1].Seq != 2*rounds {
			t.Fatalf("process %d has %d entries, want %d", p.PID, len(got), 2*rounds)
		}
		if p.Calls != rounds {
			t.Fatalf("process %d: the row says %d calls, want %d", p.PID, p.Calls, rounds)
		}
	}
}

func appendAndRead(f *fixture, pid agentkernel.PID, rounds int64) error {
	ctx := f.Context()
	for i := range rounds {
		pos, err := f.Append(agentkernel.Batch{Entries: []agentkernel.Entry{entry(pid, 2*i+1)}})
		if err == nil {
			err = f.Flush(ctx, pos)
		}
		if err != nil {
			return err
		}
		row := record(pid)
		row.Calls = i + 1
		_, err = f.Append(agentkernel.Batch{
			Entries: []agentkernel.Entry{entry(pid, 2*i+2)}, Process: row,
			State: map[string]json.RawMessage{"round": fmt.Append(nil, i)},
			Image: &agentkernel.Image{PID: pid, Seq: 2*i + 2, Fingerprint: "f", Bytes: fmt.Appendf(nil, "image %d of %d", i, pid)},
		})
		if err != nil {
			return err
		}
		if err := readBack(f, pid, i); err != nil {
			return err
		}
	}
	return nil
}

func readBack(f *fixture, pid agentkernel.PID, i int64) error {
	ctx := f.Context()
	p, err := f.Process(ctx, pid)
	if err != nil || p.Calls != i+1 {
		return fmt.Errorf("process %d: %d calls, want %d: %w", pid, p.Calls, i+1, err)
	}
	im, err := f.Image(ctx, pid)
	if err != nil || im.Seq != 2*i+2 {
		return fmt.Errorf("process %d: image at %d, want %d: %w", pid, im.Seq, 2*i+2, err)
	}
	got, err := f.Entries(ctx, pid, 2*i+1, 0)
	if err != nil || len(got) != 2 || got[0].Seq != 2*i+1 {
		return fmt.Errorf("process %d: %d entries from %d on: %w", pid, len(got), 2*i+1, err)
	}
	if i%8 != 0 {
		return nil
	}
	state, err := f.State(ctx, pid)
	if err != nil || string(state["round"]) != fmt.Sprint(i) {
		return fmt.Errorf("process %d: state %s, want %d: %w", pid, state["round"], i, err)
	}
	return nil
}

func closes(t *testing.T, open Opener) {
	f := start(t, open)
	pid := f.pid()
	p := record(pid)
	pos := f.append(agentkernel.Batch{Entries: []agentkernel.Entry{entry(pid, 1)}, Process: p})
	info := f.Info()
	f.reopen() // without Flush
	f.same([]agentkernel.Entry{entry(pid, 1)}, f.entries(pid))
	if again := f.Info(); again.UUID != info.UUID || again.UUID == "" || again.Schema < 1 {
		t.Fatalf("the store was %+v and is %+v", info, again)
	}
	if err := f.Store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Store.Close(); err != nil {
		t.Fatalf("closed twice: %v", err)
	}
	_, err := f.Append(agentkernel.Batch{Process: p})
	f.refused(err, agentkernel.CodeUnavailable)
	f.refused(f.Flush(t.Context(), pos), agentkernel.CodeUnavailable)
	_, err = f.Process(t.Context(), pid)
	f.refused(err, agentkernel.CodeUnavailable)
	_, err = f.Processes(t.Context(), agentkernel.Filter{})
	f.refused(err, agentkernel.CodeUnavailable)
}
