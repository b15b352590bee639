package sqlite

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"agentkernel"
)

// shortLife stores a process that prints and ends, in two batches and one commit.
func shortLife(t *testing.T, s *Store, prints string) agentkernel.PID {
	t.Helper()
	p := exampleRow(newPID(s))
	data, _ := json.Marshal(prints)
	if _, err := s.Append(agentkernel.Batch{Process: p, Entries: []agentkernel.Entry{
		{PID: p.PID, Seq: 1, Kind: agentkernel.EntryCreated, At: microTime(1e15), Data: json.RawMessage(`{"a":1}`)},
		{PID: p.PID, Seq: 2, Kind: agentkernel.EntryOutput, At: microTime(1e15 + 1), Data: data, Stream: "stdout"}}}); err != nil {
		t.Fatal(err)
	}
	if err := appendFlush(s, endedBatch(*p, 3)); err != nil {
		t.Fatal(err)
	}
	return p.PID
}

// A process that makes no call and ends at once is one row, which shows the same in the views, and goes when it is pruned.
func TestShortJournals(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	short, long := shortLife(t, s, "42\n"), shortLife(t, s, strings.Repeat("x", maxShortBytes))
	if n := count(t, cfg.Path, "SELECT count(*) FROM entries"); n != 3 {
		t.Errorf("%d rows of entries, want those of the long journal", n)
	}
	checkLength(t, s, short, 3)
	checkLength(t, s, long, 3)
	if n := count(t, cfg.Path, `SELECT count(*) FROM journal a JOIN journal b USING (seq, kind, at)
WHERE a.pid = 1 AND b.pid = 2 AND (seq = 2) = (a.data IS NOT b.data) AND a.stream IS b.stream AND a.op IS NULL AND b.op IS NULL`); n != 3 {
		t.Errorf("the view journal shows %d entries that are alike", n)
	}
	q := mustQuery(t, cfg)
	if got, want := text(t, q, "select pid, seq, at, stream, text from output where pid = 1"), "pid | seq | at | stream | text\n1 | 2 | 2001-09-09 | 01:46:40.000 | stdout | 42\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if n := count(t, cfg.Path, "SELECT count(*) FROM journal"); n != 6 {
		t.Errorf("%d entries", n)
	}
	planned, _, err := s.Measure(t.Context(), []agentkernel.PID{short, long})
	if err != nil {
		t.Fatal(err)
	}
	removed, err := s.Forget(t.Context(), []agentkernel.PID{short, long}, prunedAt)
	if err != nil {
		t.Fatal(err)
	}
	removed.Add(sweepAll(t, s))
	if planned != removed || removed.Entries != 6 {
		t.Errorf("planned %+v, removed %+v", planned, removed)
	}
	checkHouse(t, s)
}

func TestABrokenShortJournalIsSaidToBe(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	pid := shortLife(t, s, "x")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rawSQL(t, cfg.Path, `UPDATE processes SET journal = '[{"kind":'`)
	_, err := mustOpen(t, cfg).Entries(t.Context(), pid, 1, 0)
	checkError(t, err, agentkernel.CodeCorrupt, "the journal in the row of process 1 cannot be read")
}

// One broken journal is no reason to keep all others for ever.
func TestABrokenShortJournalCanBePruned(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	pids := []agentkernel.PID{shortLife(t, s, "x"), shortLife(t, s, "y")}
	rawSQL(t, cfg.Path, `UPDATE processes SET journal = '[{"kind":' WHERE pid = 1`)
	planned, _, err := s.Measure(t.Context(), pids)
	if err != nil || planned.Processes != 2 || planned.Entries != 3 {
		t.Errorf("planned %+v, %v", planned, err)
	}
	if got, want := text(t, mustQuery(t, cfg), "select pid, text from output"), "pid | text\n2 | y\n"; got != want { // nor does it hide others
		t.Errorf("%q, want %q", got, want)
	}
	if n := count(t, cfg.Path, "SELECT count(*) FROM journal"); n != 3 {
		t.Errorf("%d entries, want those of process 2", n)
	}
	if removed, err := s.Forget(t.Context(), pids, prunedAt); err != nil || removed.Processes != 2 {
		t.Errorf("removed %+v, %v", removed, err)
	}
}

// A reader sees no journal without its beginning, also if the process begins, ends and goes on between two of its looks.
func TestAShortJournalIsReadAsItGrows(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	r := mustRead(t, cfg)
	next := make(chan agentkernel.PID, 1)
	var group sync.WaitGroup
	defer group.Wait()
	defer close(next)
	group.Go(func() {
		for pid := range next {
			p := exampleRow(pid)
			_, err := s.Append(agentkernel.Batch{Process: p, Entries: note(pid, 1, 1).Entries})
			if err == nil {
				err = appendFlush(s, endedBatch(*p, 2))
			}
			if err == nil {
				err = appendFlush(s, note(pid, 3, 1))
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	for range 300 {
		pid := newPID(s)
		next <- pid
		for n := 0; n < 3; {
			list, err := r.Entries(t.Context(), pid, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			if n = len(list); n > 0 && list[0].Seq != 1 {
				t.Fatalf("the journal of process %d begins with entry %d", pid, list[0].Seq)
			}
		}
	}
}

// Two processes may not have one key, whichever way the second gets there.
func TestAnotherProcessHasTheKey(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	first, second := exampleRow(newPID(s)), exampleRow(newPID(s))
	first.Spec.IdempotencyKey, second.Spec.IdempotencyKey = "k", "k"
	if err := appendFlush(s, agentkernel.Batch{Process: first}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*agentkernel.ProcessRecord{first, second} { // the queue would refuse it
		b := note(p.PID, 1, 1)
		b.Process = p
		err := s.work(func(w *writer) error { return w.commit([]pending{{batch: b, pid: p.PID}}) })
		if taken := err != nil; taken != (p == second) {
			t.Errorf("process %d: %v", p.PID, err)
		}
	}
}
