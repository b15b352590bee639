package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/fastpath"
)

// anError has every field set.
func anError(pid agentkernel.PID) *agentkernel.Error {
	return &agentkernel.Error{Code: agentkernel.CodeTool, Op: "tool.call", PID: pid, Err: errors.New("no such file: <x> & 'y'"),
		Hint: "look again", Traceback: "Traceback:\n  line 1\n", Exception: "ToolError"}
}

// fullEntries is a journal in which each field of Entry has values of every shape.
func fullEntries(pid agentkernel.PID) []agentkernel.Entry {
	awkward := json.RawMessage(`{"text":"tab\t quote\" backslash\\ nul\u0000 line\u2028 ünï 🙂","big":170141183460469231731687303715884105728,"f":1e+22}`)
	list := []agentkernel.Entry{
		{Kind: agentkernel.EntryCreated, Data: json.RawMessage(`{"namespace":"default"}`)},
		{Kind: agentkernel.EntryCall, Call: 1, Op: "time.now", Effect: agentkernel.EffectPure, Args: json.RawMessage(`{}`), Done: true, Data: json.RawMessage(`1790000000.5`)},
		{Kind: agentkernel.EntryCall, Call: 2, Op: "tool.call", Effect: agentkernel.EffectWrite, Async: true, Args: awkward, Note: "filesystem#3"},
		{Kind: agentkernel.EntryOutput, Stream: "stderr", Data: json.RawMessage(`"line\n"`)},
		{Kind: agentkernel.EntryResult, Call: 2, Err: anError(pid)},
		{Kind: agentkernel.EntryCall, Call: 3, Op: "state.get", Effect: agentkernel.EffectPure, Args: json.RawMessage(`{"key":"k"}`), Done: true, Data: json.RawMessage(`null`)},
		{Kind: agentkernel.EntryCall, Call: 4, Op: "state.set", Effect: agentkernel.EffectPure, Args: json.RawMessage(`{}`), Done: true, Err: anError(0)},
		{Kind: agentkernel.EntryPaused, Data: json.RawMessage(`{"note":"a question"}`)},
		{Kind: agentkernel.EntryResumed},
		{Kind: agentkernel.EntryRecover, Data: json.RawMessage(`{"from":7,"by":"x"}`)},
		{Kind: agentkernel.EntrySignal, Data: json.RawMessage(`{"signal":"kill"}`)},
		{Kind: agentkernel.EntryResult, Call: 9_007_199_254_740_993, Data: awkward},
		{Kind: agentkernel.EntryTerminal, Data: json.RawMessage(`{"state":"exited","exit_code":0}`)},
	}
	for i := range list {
		list[i].PID, list[i].Seq, list[i].At = pid, int64(i+1), at(int64(i))
	}
	return list
}

func entriesRoundTrip(t *testing.T, open Opener) {
	f := start(t, open)
	pid := f.pid()
	want := fullEntries(pid)
	f.append(agentkernel.Batch{Entries: want[:5]})
	f.append(agentkernel.Batch{Entries: want[5:6]})
	f.append(agentkernel.Batch{Entries: want[6:]})
	f.twice(func() { f.same(want, f.entries(pid)) })

	// What a program reads must not depend on whether the disk has it: finer times are cut on both ways.
	fine := entry(f.pid(), 1)
	fine.At = at(7).Add(321 * time.Nanosecond).In(time.FixedZone("far away", 3600))
	f.append(agentkernel.Batch{Entries: []agentkernel.Entry{fine}})
	f.twice(func() {
		if got := f.entries(fine.PID)[0].At; got != at(7) {
			t.Fatalf("time %v, want %v", got, at(7))
		}
	})
}

// fullRecord has every field set that outlives a kernel.
func fullRecord(pid, parent agentkernel.PID) *agentkernel.ProcessRecord {
	return &agentkernel.ProcessRecord{
		Process: agentkernel.Process{PID: pid, Parent: parent, Namespace: "team a", Name: "report.py", Backend: "monty",
			Priority: 3, State: agentkernel.StateFailed, Paused: true, PauseNote: "outcome unknown", ExitCode: 7,
			Result: json.RawMessage(`{"$tuple":[1,"<&>"]}`), Error: anError(pid), Created: at(1), Ended: at(2),
			Usage:       agentkernel.Usage{Syscalls: 1, ToolCalls: 2, Waits: 3, Running: 4*time.Millisecond + 5, Output: 6, BytesIn: 7},
			Walls:       []agentkernel.Wall{{Name: "no network", On: true, How: "<&> 'ü'"}, {Name: "landlock", How: "this Linux has none"}},
			Fingerprint: "monty 0.0.23 guest 1", Recoveries: 8, Moved: &agentkernel.Move{From: "other", At: at(2), Why: "no <&> 'y'"}, UnderWay: []string{"tool.call <x>"}, Left: []string{"a <b>"}},
		Calls: 9,
		Spec: agentkernel.Spec{
			Program: agentkernel.Program{Name: "other.py", Language: agentkernel.Python, Source: "import tools.x\nprint('ü <&>')\n",
				Session: true, Args: []string{"--flag", "", "ü"}, Modules: map[string]string{"tools.report.monthly": "def f(): pass\n", "skills.x": ""}},
			Backend: "auto", Isolation: agentkernel.IsolationProcess, Namespace: "team a", Parent: parent, Ancestors: []agentkernel.PID{1, 2, parent}, Priority: 4,
			Limits: agentkernel.Limits{Time: agentkernel.Duration(time.Second), Wall: agentkernel.Duration(time.Hour), Memory: 1 << 20,
				Recursion: 50, Output: 1 << 10, Calls: 77, CallWait: agentkernel.Duration(90 * time.Second),
				InFlight: 8, Processes: 9, Journal: 1 << 40},
			Budget: agentkernel.Budget{Tokens: 5, USD: 250_000_000, Calls: 6},
			Tools:  []string{"/home/u/mcp.json"}, ToolDigests: map[string]string{"/home/u/mcp.json": "ab12"}, Allow: []string{"filesystem.write_*", "*"}, AllowHosts: []string{"*.example.com"}, Models: []string{"fast openai:gpt-5 key=given"},
			Workspace: &agentkernel.Workspace{Path: "/home/u/data", Publish: true}, Stdin: "/home/u/data.csv", Volumes: []agentkernel.Volume{{Name: "v", Path: "/v", ReadOnly: true, Size: 7}},
			Deny:      []string{"proc.spawn"},
			OnUnknown: agentkernel.UnknownPause, Durability: agentkernel.DurabilityRelaxed, IdempotencyKey: "key 1", Interactive: true,
			Past: &agentkernel.Past{PID: 3, From: 7, Again: []string{"a.*"}},
		},
	}
}

func processesRoundTrip(t *testing.T, open Opener) {
	f := start(t, open)
	parent := f.pid()
	full := fullRecord(f.pid(), parent)
	bare := &agentkernel.ProcessRecord{Process: agentkernel.Process{PID: parent, Namespace: "default", State: agentkernel.StateUnfinished, Created: at(3)}}
	for _, want := range []*agentkernel.ProcessRecord{bare, full} {
		f.append(agentkernel.Batch{Process: want})
		f.twice(func() {
			got, err := f.Process(t.Context(), want.PID)
			if err != nil {
				t.Fatal(err)
			}
			f.same(*want, got)
		})
	}

	inMemory := record(f.pid()) // a kernel's own view of a process ends with the kernel
	inMemory.Resident, inMemory.WaitsFor = true, []string{"tool.call x"}
	f.append(agentkernel.Batch{Process: inMemory})
	f.twice(func() {
		got, err := f.Process(t.Context(), inMemory.PID)
		if err != nil || got.Resident || got.WaitsFor != nil {
			t.Fatalf("resident %v, waits for %v, error %v", got.Resident, got.WaitsFor, err)
		}
	})
	_, err := f.Process(t.Context(), 1_000_000)
	f.refused(err, agentkernel.CodeNotFound)
}

// largePayloads stores, in every place that may hold one, payloads around the size at which stores put
// them elsewhere, and well above it.
func largePayloads(t *testing.T, open Opener) {
	f := start(t, open)
	for _, size := range []int{32<<10 - 1, 32 << 10, 32<<10 + 1, 300_000} {
		text := func(fill string) json.RawMessage {
			return json.RawMessage(`"` + strings.Repeat(fill, size-2) + `"`)
		}
		pid := f.pid()
		call := entry(pid, 1)
		call.Args, call.Data = text("a"), text("b")
		again := entry(pid, 2) // the same content twice
		again.Args, again.Data = text("a"), text("a")
		p := record(pid)
		p.Result = text("c")
		p.Spec.Program.Source = strings.Repeat("#", size)
		p.Spec.Program.Modules = map[string]string{"tools.x": strings.Repeat("d", size)}
		im := &agentkernel.Image{PID: pid, Seq: 2, Fingerprint: "e", Kernel: []byte(`{}`), Bytes: noise(size)}
		state := map[string]json.RawMessage{"k": text("s")}
		f.append(agentkernel.Batch{Entries: []agentkernel.Entry{call, again}, Process: p, Image: im, State: state})
		f.twice(func() {
			f.same([]agentkernel.Entry{call, again}, f.entries(pid))
			gotP, err := f.Process(t.Context(), pid)
			if err != nil {
				t.Fatal(err)
			}
			f.same(*p, gotP)
			gotI, err := f.Image(t.Context(), pid)
			if err != nil || !bytes.Equal(gotI.Bytes, im.Bytes) {
				t.Fatalf("an image of %d bytes came back with %d, error %v", size, len(gotI.Bytes), err)
			}
			gotS, err := f.State(t.Context(), pid)
			if err != nil {
				t.Fatal(err)
			}
			f.same(state, gotS)
		})
		p.Result = text("x") // replaced, then gone
		f.append(agentkernel.Batch{Process: p})
		f.flush(f.append(agentkernel.Batch{Image: &agentkernel.Image{PID: pid}}))
		f.reopen()
		f.same([]agentkernel.Entry{call, again}, f.entries(pid))
		if got, err := f.Process(t.Context(), pid); err != nil || !bytes.Equal(got.Result, p.Result) {
			t.Fatalf("the replaced result: error %v", err)
		}
	}
}

func replace(t *testing.T, open Opener) {
	f := start(t, open)
	p := record(f.pid())
	f.append(agentkernel.Batch{Process: p})
	f.flush(f.append(agentkernel.Batch{Entries: []agentkernel.Entry{entry(p.PID, 1)}}))
	next := *p
	next.State, next.ExitCode, next.Ended, next.Result = agentkernel.StateExited, 3, at(9), json.RawMessage(`42`)
	next.Usage.Syscalls, next.Calls, next.Spec.Allow = 5, 5, []string{"x.y"}
	f.append(agentkernel.Batch{Process: &next})
	f.twice(func() {
		got, err := f.Process(t.Context(), p.PID)
		if err != nil {
			t.Fatal(err)
		}
		f.same(next, got)
	})
	f.same([]agentkernel.Entry{entry(p.PID, 1)}, f.entries(p.PID))
	back := *p // also values that were set may be unset
	f.append(agentkernel.Batch{Process: &back})
	f.twice(func() {
		got, err := f.Process(t.Context(), p.PID)
		if err != nil {
			t.Fatal(err)
		}
		f.same(back, got)
	})
}

// wallsRoundTrip: many processes stand behind the same walls, and a list that was changed is another one.
func wallsRoundTrip(t *testing.T, open Opener) {
	f := start(t, open)
	same := []agentkernel.Wall{{Name: "seccomp", On: true, How: "x"}}
	more := append(slices.Clone(same), agentkernel.Wall{Name: "landlock", On: true, How: "ABI 7"})
	want := map[agentkernel.PID][]agentkernel.Wall{}
	for _, list := range [][]agentkernel.Wall{same, more, nil, slices.Clone(same), more[:1], same} {
		p := record(f.pid())
		p.Walls, want[p.PID] = list, slices.Clone(list)
		f.append(agentkernel.Batch{Process: p})
	}
	f.twice(func() {
		for pid, list := range want {
			got, err := f.Process(t.Context(), pid)
			if err != nil {
				t.Fatal(err)
			}
			f.same(list, got.Walls)
		}
	})
}

func filters(t *testing.T, open Opener) {
	f := start(t, open)
	var all []agentkernel.PID
	for i := range 6 {
		p := record(f.pid())
		if i%2 == 1 {
			p.Namespace, p.Spec.Namespace = "other", "other"
		}
		if i >= 3 {
			p.Parent = all[0]
		}
		if i == 2 || i == 3 {
			p.State, p.Ended = agentkernel.StateExited, at(1)
		}
		all = append(all, p.PID)
		f.append(agentkernel.Batch{Process: p})
	}
	for _, test := range []struct {
		name   string
		filter agentkernel.Filter
		want   []int // indices into all
	}{
		{"all, newest first", agentkernel.Filter{}, []int{5, 4, 3, 2, 1, 0}},
		{"namespace", agentkernel.Filter{Namespace: "other"}, []int{5, 3, 1}},
		{"unknown namespace", agentkernel.Filter{Namespace: "none"}, nil},
		{"unfinished", agentkernel.Filter{Unfinished: true}, []int{5, 4, 1, 0}},
		{"parent", agentkernel.Filter{Parent: all[0]}, []int{5, 4, 3}},
		{"limit", agentkernel.Filter{Limit: 2}, []int{5, 4}},
		{"the next page", agentkernel.Filter{Limit: 2, Before: all[4]}, []int{3, 2}},
		{"everything at once", agentkernel.Filter{Namespace: "other", Unfinished: true, Parent: all[0], Limit: 1}, []int{5}},
	} {
		f.twice(func() {
			got, err := f.Processes(t.Context(), test.filter)
			if err != nil {
				t.Fatal(err)
			}
			var want, pids []agentkernel.PID
			for _, i := range test.want {
				want = append(want, all[i])
			}
			for _, p := range got {
				pids = append(pids, p.PID)
				if p.Spec.Program.Source != "" || p.Spec.Program.Modules != nil {
					t.Errorf("%s: a list carries program text", test.name)
				}
				if p.Name != "report.py" || p.Spec.Program.Language != agentkernel.Python || p.Created != at(0) {
					t.Errorf("%s: row %+v", test.name, p)
				}
			}
			f.same(want, pids)
			unlimited := test.filter
			unlimited.Limit = 0
			all, err := f.Processes(t.Context(), unlimited)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := f.Count(t.Context(), test.filter); err != nil || n != len(all) {
				t.Errorf("%s: counted %d, want %d; error %v", test.name, n, len(all), err)
			}
		})
	}
}

// parked checks what is known of processes that are in nobody's memory: how they wait, who is due first, and who is active.
func parked(t *testing.T, open Opener) {
	f := start(t, open)
	var pids []agentkernel.PID
	until := []time.Time{at(500), at(100), {}, at(100), at(300), at(200)}
	for i, u := range until {
		p := record(f.pid())
		p.Parked = &agentkernel.Parked{Until: u, Since: at(7), Kernel: int64(i) + 1, WaitsFor: []string{"time.sleep", "a <b>"}[:1+i%2]}
		if i == 4 {
			p.Parked = nil // it is in memory
		}
		pids = append(pids, p.PID)
		f.append(agentkernel.Batch{Process: p})
		if i == 5 { // and woken again
			woken := *p
			woken.Parked = nil
			f.append(agentkernel.Batch{Process: &woken, Entries: []agentkernel.Entry{entry(p.PID, 1)}})
		}
	}
	due := func(limit int) (got []agentkernel.Due) {
		t.Helper()
		got, err := f.Due(t.Context(), 0, limit)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	f.twice(func() {
		f.same([]agentkernel.Due{{PID: pids[1], At: at(100)}, {PID: pids[3], At: at(100)}, {PID: pids[0], At: at(500)}}, due(10))
		f.same([]agentkernel.Due{{PID: pids[1], At: at(100)}}, due(1))
		if own, err := f.Due(t.Context(), 4, 10); err != nil || len(own) != 1 || own[0].PID != pids[3] {
			t.Fatalf("of one kernel: %v, error %v", own, err)
		}
		active, err := f.Processes(t.Context(), agentkernel.Filter{Active: true})
		if err != nil || len(active) != 2 || active[0].PID != pids[5] || active[1].PID != pids[4] || active[0].Parked != nil {
			t.Fatalf("active %+v, error %v", active, err)
		}
		if quick, ok := f.Store.(fastpath.Actives); ok {
			got, err := quick.Active(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			f.same([]agentkernel.PID{pids[4], pids[5]}, got)
		}
		for i, pid := range pids[:4] {
			got, err := f.Process(t.Context(), pid)
			if err != nil {
				t.Fatal(err)
			}
			f.same(agentkernel.Parked{Until: until[i], Since: at(7), Kernel: int64(i) + 1, WaitsFor: []string{"time.sleep", "a <b>"}[:1+i%2]}, got.Parked)
		}
	})
	for i := range int64(3) { // its journal goes on where it was, also when nobody remembers where
		e := entry(pids[0], i+1)
		f.flush(f.append(agentkernel.Batch{Entries: []agentkernel.Entry{e}}))
		p := record(pids[0])
		p.Parked = &agentkernel.Parked{Until: at(i), Kernel: 1, WaitsFor: []string{}}
		f.flush(f.append(agentkernel.Batch{Process: p}))
		f.same([]agentkernel.Due{{PID: pids[0], At: at(i)}}, due(1))
	}
	_, err := f.Append(agentkernel.Batch{Entries: []agentkernel.Entry{entry(pids[0], 3)}})
	f.refused(err, agentkernel.CodeInvalid)
}

// inboxes checks what processes are sent: the order in which they find it, that it is taken once, and that it goes with them.
func inboxes(t *testing.T, open Opener) {
	f := start(t, open)
	sender, to, other := record(f.pid()), record(f.pid()), record(f.pid())
	seq := map[agentkernel.PID]int64{}
	add := func(p *agentkernel.ProcessRecord, b agentkernel.Batch) {
		t.Helper()
		seq[p.PID]++
		e := entry(p.PID, seq[p.PID])
		for i := range b.Posts {
			b.Posts[i].PostID = agentkernel.PostID{From: p.PID, Seq: e.Seq, N: i}
		}
		b.Entries = []agentkernel.Entry{e}
		f.append(b)
	}
	for _, p := range []*agentkernel.ProcessRecord{sender, to, other} {
		add(p, agentkernel.Batch{Process: p})
	}
	post := func(to *agentkernel.ProcessRecord, priority int, when int64, data string) agentkernel.Post {
		return agentkernel.Post{To: to.PID, Kind: "k", Priority: priority, At: at(when), Data: json.RawMessage(data)}
	}
	large := `"` + strings.Repeat("x", 40<<10) + `"`
	add(sender, agentkernel.Batch{Posts: []agentkernel.Post{post(to, 10, 2, `"second"`), post(to, 10, 1, `"first"`), post(other, 10, 1, large)}})
	add(sender, agentkernel.Batch{Posts: []agentkernel.Post{post(to, 1, 9, `"urgent"`)}})
	data := func(p *agentkernel.ProcessRecord) (out []string) {
		t.Helper()
		list, err := f.Inbox(t.Context(), p.PID)
		if err != nil {
			t.Fatal(err)
		}
		for _, post := range list {
			if post.To != p.PID || post.From != sender.PID || post.Kind != "k" {
				t.Errorf("%+v", post)
			}
			out = append(out, string(post.Data))
		}
		return out
	}
	posted := func() []agentkernel.PID {
		t.Helper()
		pids, err := f.Posted(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return pids
	}
	waiting := func(p *agentkernel.ProcessRecord, kind string, want int) {
		t.Helper()
		if n, err := f.Waiting(t.Context(), p.PID, kind); n != want || err != nil {
			t.Errorf("%d of kind %s wait for %d, %v; want %d", n, kind, p.PID, err, want)
		}
	}
	waiting(to, "k", 3) // also what is not durable yet
	waiting(to, "j", 0)
	waiting(other, "k", 1)
	f.twice(func() {
		waiting(to, "k", 3)
		f.same([]string{`"urgent"`, `"first"`, `"second"`}, data(to))
		f.same([]string{large}, data(other))
		f.same([]agentkernel.PID{to.PID, other.PID}, posted())
	})
	add(to, agentkernel.Batch{Took: []agentkernel.PostID{{From: sender.PID, Seq: 3, N: 0}, {From: sender.PID, Seq: 2, N: 0}}})
	waiting(to, "k", 1)
	f.twice(func() { f.same([]string{`"first"`}, data(to)) })
	ended := *other
	ended.State, ended.Ended = agentkernel.StateExited, at(20)
	add(other, agentkernel.Batch{Process: &ended})
	f.reopen()
	f.twice(func() {
		f.same([]string(nil), data(other))
		waiting(other, "k", 0)
		f.same([]agentkernel.PID{to.PID}, posted())
	})
	add(sender, agentkernel.Batch{Posts: []agentkernel.Post{post(other, 1, 30, `"too late"`)}}) // nobody is there
	f.twice(func() { f.same([]agentkernel.PID{to.PID}, posted()) })
	_, err := f.Append(agentkernel.Batch{Entries: []agentkernel.Entry{entry(sender.PID, seq[sender.PID]+1)}, Posts: []agentkernel.Post{{Kind: "k"}}})
	f.refused(err, agentkernel.CodeInvalid)
}

func keys(t *testing.T, open Opener) {
	f := start(t, open)
	first := record(f.pid())
	first.Spec.IdempotencyKey = "k"
	f.append(agentkernel.Batch{Process: first})
	elsewhere := record(f.pid())
	elsewhere.Namespace, elsewhere.Spec.IdempotencyKey = "other", "k"
	f.append(agentkernel.Batch{Process: elsewhere})
	f.append(agentkernel.Batch{Process: record(f.pid())}) // no key: as many as you like
	f.append(agentkernel.Batch{Process: record(f.pid())})
	f.twice(func() {
		for namespace, want := range map[string]agentkernel.PID{"default": first.PID, "other": elsewhere.PID} {
			if got, err := f.ByKey(t.Context(), namespace, "k"); err != nil || got != want {
				t.Fatalf("%s: pid %d, error %v; want %d", namespace, got, err, want)
			}
		}
		_, err := f.ByKey(t.Context(), "default", "unknown")
		f.refused(err, agentkernel.CodeNotFound)
		second := record(f.pid())
		second.Spec.IdempotencyKey = "k"
		_, err = f.Append(agentkernel.Batch{Process: second})
		f.refused(err, agentkernel.CodeConflict)
		f.flush(f.append(agentkernel.Batch{Process: first})) // the owner may be written again, and the store lives
	})
}

// givenKeys are those that a process gets later, for a cell of its session.
func givenKeys(t *testing.T, open Opener) {
	f := start(t, open)
	made, owner, other := record(f.pid()), record(f.pid()), record(f.pid())
	made.Spec.IdempotencyKey, other.Namespace = "of a Spec", "other"
	for _, p := range []*agentkernel.ProcessRecord{made, owner, other} {
		f.append(agentkernel.Batch{Process: p})
	}
	given := func(pid agentkernel.PID, seq int64, namespace, key string) agentkernel.Batch {
		return agentkernel.Batch{Key: &agentkernel.Key{Namespace: namespace, Name: key},
			Entries: []agentkernel.Entry{{PID: pid, Seq: seq, Kind: agentkernel.EntryResult, Call: 1, At: time.UnixMicro(1)}}}
	}
	f.append(given(owner.PID, 1, "default", "k"))
	f.append(given(other.PID, 1, "other", "k"))
	f.append(given(owner.PID, 2, "default", "second"))
	f.twice(func() {
		for key, want := range map[agentkernel.Key]agentkernel.PID{{Namespace: "default", Name: "k"}: owner.PID, {Namespace: "other", Name: "k"}: other.PID,
			{Namespace: "default", Name: "second"}: owner.PID, {Namespace: "default", Name: "of a Spec"}: made.PID} {
			if got, err := f.ByKey(t.Context(), key.Namespace, key.Name); err != nil || got != want {
				t.Errorf("%v: pid %d, error %v; want %d", key, got, err, want)
			}
			list, err := f.Processes(t.Context(), agentkernel.Filter{Namespace: key.Namespace, Key: key.Name})
			if err != nil || len(list) != 1 || list[0].PID != want {
				t.Errorf("%v: processes %v, error %v; want %d", key, list, err, want)
			}
		}
		if list, err := f.Processes(t.Context(), agentkernel.Filter{Namespace: "other", Key: "second"}); err != nil || len(list) != 0 {
			t.Errorf("a key of another namespace: %v %v", list, err)
		}
		for _, key := range []string{"k", "of a Spec"} {
			_, err := f.Append(given(other.PID, 2, "default", key))
			f.refused(err, agentkernel.CodeConflict)
		}
		second := record(f.pid())
		second.Spec.IdempotencyKey = "k"
		_, err := f.Append(agentkernel.Batch{Process: second})
		f.refused(err, agentkernel.CodeConflict)
	})
}
