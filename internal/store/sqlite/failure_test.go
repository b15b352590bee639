package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

func note(pid agentkernel.PID, seq int64, size int) agentkernel.Batch {
	return agentkernel.Batch{Entries: []agentkernel.Entry{{PID: pid, Seq: seq, Kind: agentkernel.EntryOutput, Stream: "stdout",
		Data: json.RawMessage(`"` + strings.Repeat("x", size) + `"`)}}}
}

func appendFlush(s *Store, b agentkernel.Batch) error {
	pos, err := s.Append(b)
	if err != nil {
		return err
	}
	return s.Flush(context.Background(), pos)
}

// fill appends until the disk is full and gives the last seq that was acknowledged.
func fill(t *testing.T, s *Store, pid agentkernel.PID, size int) (int64, error) {
	t.Helper()
	for seq := int64(1); seq < 100_000; seq++ {
		if err := appendFlush(s, note(pid, seq, size)); err != nil {
			return seq - 1, err
		}
	}
	t.Fatal("the disk never became full")
	return 0, nil
}

// checkFailed checks what a store answers after a commit failed: no to every write, for ever; reads show
// what the disk holds.
func checkFailed(t *testing.T, s *Store, pid agentkernel.PID, acknowledged int64) {
	t.Helper()
	for range 2 {
		_, err := s.Append(note(pid, acknowledged+1, 1))
		checkError(t, err, agentkernel.CodeStorage, "full", "agentkernel recover")
		checkError(t, s.Flush(t.Context(), 1), agentkernel.CodeStorage, "full")
	}
	got, err := s.Entries(t.Context(), pid, 1, 0)
	if err != nil || int64(len(got)) != acknowledged {
		t.Fatalf("%d entries can be read, error %v; %d were acknowledged", len(got), err, acknowledged)
	}
	if _, err := s.Processes(t.Context(), agentkernel.Filter{}); err != nil {
		t.Fatalf("a failed store cannot be listed: %v", err)
	}
	checkError(t, s.Close(), agentkernel.CodeStorage, "full")
}

func TestAFullDatabaseFailsForEverAndKeepsAPrefix(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	pages, err := s.writer.c.int("PRAGMA page_count") // before anything is appended, nobody else uses the connection
	if err != nil {
		t.Fatal(err)
	}
	if err := s.writer.c.script(fmt.Sprintf("PRAGMA max_page_count = %d", pages+20)); err != nil {
		t.Fatal(err)
	}
	pid := newPID(s)
	acknowledged, err := fill(t, s, pid, 1000)
	checkError(t, err, agentkernel.CodeStorage, "full", cfg.Path[:len(cfg.Path)-len("/journal.db")], "free space, then: agentkernel recover")
	if strings.Contains(err.Error(), "(13)") {
		t.Errorf("SQLite's own words: %v", err)
	}
	im := &agentkernel.Image{PID: pid, Seq: 1, Bytes: []byte("lost")}
	if _, err := s.Append(agentkernel.Batch{Image: im}); err == nil {
		t.Fatal("an image was taken")
	}
	if _, err := s.Image(t.Context(), pid); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Fatalf("an image that was lost is shown: %v", err)
	}
	checkFailed(t, s, pid, acknowledged)

	again := mustOpen(t, cfg) // the limit was the connection's: there is space again
	if err := appendFlush(again, note(pid, acknowledged+1, 10)); err != nil {
		t.Fatalf("after space was freed: %v", err)
	}
}

func TestAWarmRunIsOneCommit(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	for n, tries := 0, 0; n < 20; tries++ {
		if tries == 1000 {
			t.Skip("this machine stalls at each run: its commits cannot be counted")
		}
		pid, before, begun := newPID(s), s.Commits(), time.Now()
		for seq := int64(1); seq <= 2; seq++ {
			if _, err := s.Append(note(pid, seq, 10)); err != nil {
				t.Fatal(err)
			}
		}
		pos, err := s.Append(note(pid, 3, 10))
		appended := time.Since(begun)
		if err == nil {
			err = s.Flush(t.Context(), pos)
		}
		if err != nil {
			t.Fatal(err)
		}
		if appended >= flushAfter { // the timer may have come between
			continue
		}
		if got := s.Commits() - before; got != 1 {
			t.Fatalf("%d commits in run %d", got, n+1)
		}
		n++
	}
}

func TestClosingWhileOthersAppend(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	const appenders = 8
	last := make(chan [2]int64, appenders)
	begun := make(chan struct{}, appenders)
	for range appenders {
		pid := newPID(s)
		go func() {
			seq := int64(0)
			for {
				if err := appendFlush(s, note(pid, seq+1, 10)); err != nil {
					last <- [2]int64{int64(pid), seq}
					return
				}
				if seq++; seq == 5 {
					begun <- struct{}{}
				}
			}
		}()
	}
	for range appenders {
		<-begun
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, cfg)
	for range appenders {
		l := <-last
		got, err := again.Entries(t.Context(), agentkernel.PID(l[0]), 1, 0)
		if err != nil || int64(len(got)) < l[1] {
			t.Fatalf("process %d: %d entries, error %v; %d were acknowledged", l[0], len(got), err, l[1])
		}
	}
}
