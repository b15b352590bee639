package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"agentkernel"
)

// life is a process that makes no call: what it prints, and how it ends.
func life(pid agentkernel.PID, prints ...string) []agentkernel.Entry {
	list := []agentkernel.Entry{{Kind: agentkernel.EntryCreated, Data: json.RawMessage(`{"namespace" : "<default>", "n":1e2}`)}}
	for _, text := range prints {
		list = append(list, agentkernel.Entry{Kind: agentkernel.EntryOutput, Stream: "stderr", Data: json.RawMessage(text), Note: "a \"note\" <&>"})
	}
	list = append(list, agentkernel.Entry{Kind: agentkernel.EntryTerminal, Err: anError(pid), Data: json.RawMessage(`null`)})
	for i := range list {
		list[i].PID, list[i].Seq, list[i].At = pid, int64(i+1), at(int64(i))
	}
	return list
}

// shortLives: a process may end in the commit that it began in, and a store may write that in a way of its own. Nothing of
// it may be seen, whatever is printed, wherever the commits lie, and whatever comes after the end.
func shortLives(t *testing.T, open Opener) {
	f := start(t, open)
	want := map[agentkernel.PID][]agentkernel.Entry{}
	rows := map[agentkernel.PID]*agentkernel.ProcessRecord{}
	live := func(batches int, flushed bool, prints ...string) agentkernel.PID {
		pid := f.pid()
		list := life(pid, prints...)
		want[pid] = list
		for i := range batches {
			b := agentkernel.Batch{Entries: list[len(list)*i/batches : len(list)*(i+1)/batches]}
			if i == 0 {
				b.Process = record(pid)
			}
			if i == batches-1 {
				rows[pid] = record(pid)
				rows[pid].State, rows[pid].Ended, rows[pid].Walls = agentkernel.StateFailed, at(9), []agentkernel.Wall{{Name: "own root"}}
				b.Process = rows[pid]
			}
			pos := f.append(b)
			if flushed {
				f.flush(pos)
			}
		}
		return pid
	}
	check := func() {
		f.Helper()
		for pid, list := range want {
			row, err := f.Process(t.Context(), pid)
			if err != nil {
				t.Fatal(err)
			}
			f.same(rows[pid], &row)
			for from := range int64(len(list)) + 2 {
				for limit := range len(list) + 2 {
					got, err := f.Entries(t.Context(), pid, from, limit)
					if err != nil {
						t.Fatal(err)
					}
					part := list[min(max(from-1, 0), int64(len(list))):]
					if limit > 0 {
						part = part[:min(limit, len(part))]
					}
					f.same(part, got)
				}
			}
		}
	}

	var ended []agentkernel.PID
	line := `"line\n"`
	for _, flushed := range []bool{false, true} {
		for _, batches := range []int{1, 2, 3} {
			for _, prints := range [][]string{nil, {line}, {line, `"\u003c <&> \u0000 ünï \u2028"`}, {`"` + strings.Repeat("x", 5000) + `"`}, strings.Split(strings.Repeat(line+"|", 11)+line, "|")} {
				ended = append(ended, live(min(batches, len(prints)+2), flushed, prints...))
			}
		}
	}
	f.twice(check)

	// What comes later is appended to all of them alike.
	for i, pid := range ended {
		next := int64(len(want[pid]) + 1)
		_, err := f.Append(agentkernel.Batch{Entries: []agentkernel.Entry{entry(pid, next-1)}})
		f.refused(err, agentkernel.CodeInvalid)
		later := entry(pid, next)
		if i%2 == 0 {
			later.Kind, later.Call, later.Op, later.Effect, later.Args, later.Done = agentkernel.EntryPublish, 0, "", "", nil, false
		}
		rows[pid].ExitCode = i
		f.append(agentkernel.Batch{Entries: []agentkernel.Entry{later}, Process: rows[pid]})
		want[pid] = append(want[pid], later)
	}
	f.twice(check)

	// A row that was there before its journal is kept, too.
	pid := f.pid()
	f.flush(f.append(agentkernel.Batch{Process: record(pid)}))
	want[pid], rows[pid] = life(pid, line), record(pid)
	rows[pid].State, rows[pid].Ended = agentkernel.StateExited, at(3)
	f.flush(f.append(agentkernel.Batch{Entries: want[pid], Process: rows[pid]}))
	f.twice(check)

	// Byte for byte, whatever the bytes are.
	odd := map[agentkernel.PID][]agentkernel.Entry{}
	for _, e := range []agentkernel.Entry{
		{Data: json.RawMessage(" \"around\"")}, {Data: json.RawMessage("{ \"a\" : 1.50, \"a\":\n1 }\n")}, {Data: json.RawMessage("\"\xff\"")},
		{Data: json.RawMessage("null")}, {Note: "\xff\xfe"}, {Note: "\x01\u2028"}, {Stream: "\xc3"},
	} {
		pid := f.pid()
		odd[pid] = life(pid, `""`)
		o := &odd[pid][1]
		o.Data, o.Note, o.Stream = e.Data, e.Note, e.Stream
		row := record(pid)
		row.State, row.Ended = agentkernel.StateExited, at(3)
		f.append(agentkernel.Batch{Entries: odd[pid], Process: row})
	}
	f.twice(func() {
		for pid, list := range odd {
			got := f.entries(pid)
			if len(got) != len(list) {
				t.Fatalf("%d entries, want %d", len(got), len(list))
			}
			for i, w := range list {
				if e := got[i]; string(e.Data) != string(w.Data) || e.Note != w.Note || e.Stream != w.Stream {
					t.Errorf("entry %d: %q %q %q, want %q %q %q", e.Seq, e.Data, e.Note, e.Stream, w.Data, w.Note, w.Stream)
				}
			}
		}
	})

	all, err := f.Processes(t.Context(), agentkernel.Filter{})
	if err != nil || len(all) != len(want)+len(odd) {
		t.Fatal(fmt.Sprint(len(all), " processes"), err)
	}
}
