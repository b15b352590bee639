package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentkernel"
)

var prunedAt = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// ended gives the last batch of a process.
func endedBatch(p agentkernel.ProcessRecord, seq int64) agentkernel.Batch {
	p.State, p.Ended = agentkernel.StateExited, microTime(1e15)
	return agentkernel.Batch{Process: &p, Entries: []agentkernel.Entry{{PID: p.PID, Seq: seq, Kind: agentkernel.EntryTerminal}}}
}

// finishedProcess stores a process with a large entry that has ended.
func finishedProcess(t *testing.T, s *Store, source string) agentkernel.PID {
	t.Helper()
	pid := newPID(s)
	p := exampleRow(pid)
	p.Spec.Program.Source = source
	p.Result = json.RawMessage(`"` + strings.Repeat("r", BlobThreshold) + `"`)
	b := note(pid, 1, BlobThreshold+int(pid))
	b.Process, b.State = p, map[string]json.RawMessage{"k": json.RawMessage(`1`)}
	if err := appendFlush(s, b); err != nil {
		t.Fatal(err)
	}
	if err := appendFlush(s, endedBatch(*p, 2)); err != nil {
		t.Fatal(err)
	}
	return pid
}

func sweepAll(t *testing.T, s *Store) (all agentkernel.Removed) {
	t.Helper()
	for more := true; more; {
		var r agentkernel.Removed
		var err error
		if r, more, err = s.Sweep(context.Background()); err != nil {
			t.Fatal(err)
		}
		all.Add(r)
	}
	r, err := s.SweepPrograms(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	all.Add(r)
	return all
}

// TestSharedToolLists holds what a process of a program with many tools weighs: the list that all of them note
// is kept once, and goes with the last of them.
func TestSharedToolLists(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	list := json.RawMessage(`["` + strings.Repeat("t", sharedThreshold) + `"]`)
	var pids []agentkernel.PID
	for range 3 {
		pid := newPID(s)
		p := exampleRow(pid)
		b := agentkernel.Batch{Process: p, Entries: []agentkernel.Entry{{PID: pid, Seq: 1, Kind: agentkernel.EntryTools, Data: list}}}
		if err := appendFlush(s, b); err != nil {
			t.Fatal(err)
		}
		if err := appendFlush(s, endedBatch(*p, 2)); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	for i, pid := range pids {
		if u, err := s.Storage(t.Context()); err != nil || u.BlobFiles != 1 || u.Blobs != int64(len(list)) {
			t.Fatalf("%d processes note one list of %d bytes: %d files with %d bytes, %v", len(pids)-i, len(list), u.BlobFiles, u.Blobs, err)
		}
		entries, err := s.Entries(t.Context(), pid, 1, 1)
		if err != nil || len(entries) != 1 || !bytes.Equal(entries[0].Data, list) {
			t.Fatalf("%d entries, not the list that was noted; %v", len(entries), err)
		}
		if _, err := s.Forget(t.Context(), []agentkernel.PID{pid}, prunedAt); err != nil {
			t.Fatal(err)
		}
		sweepAll(t, s)
	}
	if u, err := s.Storage(t.Context()); err != nil || u.BlobFiles != 0 {
		t.Errorf("nobody notes the list, but there are %d files; %v", u.BlobFiles, err)
	}
}

func TestForgettingAProcess(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	common := "print('" + strings.Repeat("a", BlobThreshold) + "')"
	gone, stays := finishedProcess(t, s, common), finishedProcess(t, s, common)
	lone := finishedProcess(t, s, "print('"+strings.Repeat("b", BlobThreshold)+"')")
	pids := []agentkernel.PID{gone, lone}
	planned, rows, err := s.Measure(t.Context(), pids)
	if err != nil || rows < 100 {
		t.Fatalf("%d bytes of rows, %v", rows, err)
	}
	forgotten, err := s.Forget(t.Context(), pids, prunedAt)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Process(t.Context(), gone)
	checkError(t, err, agentkernel.CodeNotFound, fmt.Sprintf("process %d was pruned on 2026-03-04 at 05:06:07 UTC", gone), "agentkernel ps --all")
	if e := agentkernel.AsError(err, "", ""); e.Op != agentkernel.OpPruned || e.PID != gone {
		t.Errorf("op %q, pid %d", e.Op, e.PID)
	}
	_, err = s.Process(t.Context(), 99)
	checkError(t, err, agentkernel.CodeNotFound, "there is no process 99")

	done := sweepAll(t, s)
	done.Add(forgotten)
	// Two results, three programs of which two are one, three notes: what gone and lone had alone are two notes and a program.
	want := agentkernel.Removed{Processes: 2, Entries: 4, Blobs: 3, BlobBytes: done.BlobBytes}
	if done != want || planned != done || done.BlobBytes < 3*BlobThreshold {
		t.Errorf("removed %+v, planned %+v, want %+v", done, planned, want)
	}
	for _, pid := range pids {
		checkLength(t, s, pid, 0)
		if state, err := s.State(t.Context(), pid); err != nil || len(state) != 0 {
			t.Errorf("the working set of a pruned process is %v, %v", state, err)
		}
	}
	p, err := s.Process(t.Context(), stays)
	if err != nil || p.Spec.Program.Source != common || len(p.Result) < BlobThreshold {
		t.Errorf("the process that stays: %d bytes of source, %d of result, %v", len(p.Spec.Program.Source), len(p.Result), err)
	}
	checkLength(t, s, stays, 2)
	checkHouse(t, s)
}

// A PID is part of the idempotency key that tool servers receive: never again, whatever is pruned.
func TestPIDsOfPrunedProcessesAreNotUsedAgain(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	pids := []agentkernel.PID{finishedProcess(t, s, "1"), finishedProcess(t, s, "2")}
	if _, err := s.Forget(t.Context(), pids, prunedAt); err != nil {
		t.Fatal(err)
	}
	sweepAll(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if next := newPID(mustOpen(t, cfg)); next != pids[1]+1 {
		t.Fatalf("after %d comes %d", pids[1], next)
	}
}

func TestWhatIsNeverForgotten(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	unfinished, parent, child := newPID(s), finishedProcess(t, s, "1"), newPID(s)
	below := exampleRow(child)
	below.Parent = parent
	for _, p := range []*agentkernel.ProcessRecord{exampleRow(unfinished), below} {
		if err := appendFlush(s, agentkernel.Batch{Process: p}); err != nil {
			t.Fatal(err)
		}
	}
	ending := exampleRow(newPID(s)) // its end is on its way to the disk
	if err := appendFlush(s, agentkernel.Batch{Process: ending}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(endedBatch(*ending, 1)); err != nil {
		t.Fatal(err)
	}
	r, err := s.Forget(t.Context(), []agentkernel.PID{unfinished, parent, child, 77}, prunedAt)
	if err != nil || r.Processes != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, pid := range []agentkernel.PID{unfinished, parent, child, ending.PID} {
		if _, err := s.Process(t.Context(), pid); err != nil {
			t.Errorf("process %d: %v", pid, err)
		}
	}
}

// The key of a pruned process is free again, also where the store has just told somebody that it is taken.
func TestKeysOfPrunedProcessesAreFree(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	row := func() *agentkernel.ProcessRecord {
		p := exampleRow(newPID(s))
		p.Spec.IdempotencyKey = "nightly"
		return p
	}
	first := row()
	if err := appendFlush(s, agentkernel.Batch{Process: first}); err != nil {
		t.Fatal(err)
	}
	cell := note(first.PID, 1, 1)
	cell.Key = &agentkernel.Key{Namespace: "default", Name: "of a cell"}
	if err := appendFlush(s, cell); err != nil {
		t.Fatal(err)
	}
	if err := appendFlush(s, endedBatch(*first, 2)); err != nil {
		t.Fatal(err)
	}
	checkError(t, appendFlush(s, agentkernel.Batch{Process: row()}), agentkernel.CodeConflict, "nightly")
	if _, err := s.Forget(t.Context(), []agentkernel.PID{first.PID}, prunedAt); err != nil {
		t.Fatal(err)
	}
	second := row()
	if _, err := s.ByKey(t.Context(), "default", "of a cell"); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("the key of a cell: %v", err)
	}
	if err := appendFlush(s, agentkernel.Batch{Process: second}); err != nil {
		t.Fatal(err)
	}
	if pid, err := s.ByKey(t.Context(), "default", "nightly"); pid != second.PID {
		t.Fatalf("the key names %d, %v", pid, err)
	}
}

func TestPrunedPIDsAreKeptAsRanges(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	for range 8 {
		finishedProcess(t, s, "1")
	}
	later := prunedAt.Add(time.Hour)
	for _, f := range []struct {
		at   time.Time
		pids []agentkernel.PID
	}{{prunedAt, []agentkernel.PID{2, 1}}, {prunedAt, []agentkernel.PID{3, 5}}, {later, []agentkernel.PID{4, 6, 7}}} {
		if _, err := s.Forget(t.Context(), f.pids, f.at); err != nil {
			t.Fatal(err)
		}
	}
	c, err := dial(cfg.Path, map[string][]string{"mode": {"ro"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	var got []string
	err = c.query(func(r row) error {
		got = append(got, fmt.Sprintf("%d-%d %v", r.int(0), r.int(1), r.int(2) == later.UnixMicro()))
		return nil
	}, "SELECT first, last, at FROM pruned ORDER BY first")
	want := "1-3 false, 4-4 true, 5-5 false, 6-7 true"
	if strings.Join(got, ", ") != want || err != nil {
		t.Errorf("%v, %v; want %s", got, err, want)
	}
	for pid, words := range map[agentkernel.PID]string{3: "05:06:07", 4: "06:06:07", 7: "06:06:07"} {
		_, err := s.Process(t.Context(), pid)
		checkError(t, err, agentkernel.CodeNotFound, words)
	}
	if _, err := s.Process(t.Context(), 8); err != nil {
		t.Error(err)
	}
}

// Rows and files that a crash between two steps has left are removed by the next sweep.
func TestStraysAndLeftovers(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	pid := finishedProcess(t, s, "1")
	stays := finishedProcess(t, s, "2")
	if _, err := s.Forget(t.Context(), []agentkernel.PID{pid}, prunedAt); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, cfg)
	stray, err := s.writer.blobs.Put(t.Context(), []byte("of a commit that never came"))
	if err != nil {
		t.Fatal(err)
	}
	partial := filepath.Join(cfg.Blobs, stray.String()[:2], stray.String()[2:4], "tmp-123")
	foreign := filepath.Join(cfg.Blobs, "README")
	for _, path := range []string{partial, foreign} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r := sweepAll(t, s); r.Entries != 2 {
		t.Errorf("swept %+v", r)
	}
	r, err := s.SweepStrays(t.Context())
	if err != nil || r.Blobs != 2 {
		t.Errorf("strays: %+v, %v", r, err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("a file that is not the store's is gone: %v", err)
	}
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	checkLength(t, s, stays, 2)
	checkHouse(t, s)
}

func TestShrinkingGivesRoomBack(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	pid := newPID(s)
	p := exampleRow(pid)
	if err := appendFlush(s, agentkernel.Batch{Process: p}); err != nil {
		t.Fatal(err)
	}
	for seq := int64(1); seq <= 200; seq++ {
		if _, err := s.Append(note(pid, seq, 30_000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := appendFlush(s, endedBatch(*p, 201)); err != nil {
		t.Fatal(err)
	}
	full, err := s.Storage(t.Context())
	if err != nil || full.Used() < 6_000_000 {
		t.Fatalf("%+v, %v", full, err)
	}
	if _, err := s.Forget(t.Context(), []agentkernel.PID{pid}, prunedAt); err != nil {
		t.Fatal(err)
	}
	sweepAll(t, s)
	for more, steps := true, 0; more; steps++ {
		if more, err = s.Shrink(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	after, err := s.Storage(t.Context())
	if err != nil || after.Database > full.Database/10 || after.Unused != 0 {
		t.Errorf("%+v, %v; before %+v", after, err, full)
	}
	if info, err := os.Stat(cfg.Path); err != nil || info.Size() != after.Database {
		t.Errorf("the file has %d bytes, %v; the database %d", info.Size(), err, after.Database)
	}
}

func TestBlobTotals(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	a, b := newPID(s), newPID(s)
	for _, pid := range []agentkernel.PID{a, b} { // the same content twice is one file
		if err := appendFlush(s, note(pid, 1, BlobThreshold)); err != nil {
			t.Fatal(err)
		}
	}
	u, err := s.Storage(t.Context())
	if err != nil || u.BlobFiles != 1 || u.Blobs != BlobThreshold+2 {
		t.Errorf("%+v, %v", u, err)
	}
}

// Whoever waits for a step when the store is closed, or has failed, is told.
func TestStepsEndWithTheStore(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	begun, goOn := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		if err := s.work(func(*writer) error { close(begun); <-goOn; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-begun
	waiting := make(chan error, 1)
	j := &job{func(*writer) error { t.Error("it was done"); return nil }, waiting}
	if err := s.queue.give(j); err != nil {
		t.Fatal(err)
	}
	late, err := s.Append(note(newPID(s), 1, 10)) // is durable all the same
	if err != nil {
		t.Fatal(err)
	}
	s.queue.mu.Lock() // the timer may look at this moment
	s.queue.fail(failed(s.writer.path, errBrokenOff))
	s.queue.mu.Unlock()
	close(goOn)
	group.Wait()
	checkError(t, <-waiting, agentkernel.CodeStorage, "broken off")
	_, _, err = s.Sweep(t.Context())
	checkError(t, err, agentkernel.CodeStorage, "broken off")
	checkError(t, s.Flush(t.Context(), late), agentkernel.CodeStorage)
}

// A store that is closed while a step runs writes what was appended meanwhile.
func TestCloseDuringAStep(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	begun, goOn := make(chan struct{}), make(chan struct{})
	go func() { _ = s.work(func(*writer) error { close(begun); <-goOn; return nil }) }()
	<-begun
	pid := newPID(s)
	if _, err := s.Append(note(pid, 1, 10)); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	close(goOn)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	checkLength(t, mustOpen(t, cfg), pid, 1)
}

// An old database is brought forward with what it holds, and can be pruned.
func TestADatabaseOfVersionOneIsBroughtForward(t *testing.T) {
	cfg := testConfig(t.TempDir())
	old := mustOpen(t, cfg)
	pid, blobs := finishedProcess(t, old, "1"), int64(2)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	makeOlder(t, cfg.Path, 1)
	s := mustOpen(t, cfg)
	if u, err := s.Storage(t.Context()); err != nil || u.BlobFiles != blobs || u.Blobs < blobs*BlobThreshold || s.Info().Schema != len(steps()) {
		t.Errorf("%+v, %v, schema %d", u, err, s.Info().Schema)
	}
	checkLength(t, s, pid, 2)
	if _, err := s.Forget(t.Context(), []agentkernel.PID{pid}, prunedAt); err != nil {
		t.Fatal(err)
	}
	if r := sweepAll(t, s); r.Entries != 2 || r.Blobs != blobs {
		t.Errorf("swept %+v", r)
	}
	checkHouse(t, s)
}

// schemaOf is everything that a database consists of, in words.
func schemaText(t *testing.T, path string) string {
	t.Helper()
	c, err := dial(path, map[string][]string{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	var b strings.Builder
	if err := c.query(func(r row) error {
		fmt.Fprintln(&b, r.text(0), r.text(1))
		return nil
	}, "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
