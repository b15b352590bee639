package trace

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentkernel"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// journal is a journal in the making: a clock and a sequence number.
type journal struct {
	pid     agentkernel.PID
	now     time.Time
	entries []agentkernel.Entry
}

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func newJournal(pid agentkernel.PID) *journal { return &journal{pid: pid, now: start} }

func (j *journal) after(d time.Duration) *journal { j.now = j.now.Add(d); return j }

func (j *journal) put(e agentkernel.Entry) *journal {
	e.PID, e.Seq, e.At = j.pid, int64(len(j.entries)+1), j.now
	e.ReadNote()
	j.entries = append(j.entries, e)
	return j
}

func (j *journal) call(id int64, op string, effect agentkernel.Effect, args string) *journal {
	return j.put(agentkernel.Entry{Kind: agentkernel.EntryCall, Call: id, Op: op, Effect: effect, Args: json.RawMessage(args)})
}

func (j *journal) async(id int64, op string, effect agentkernel.Effect, args string) *journal {
	return j.put(agentkernel.Entry{Kind: agentkernel.EntryCall, Call: id, Op: op, Effect: effect, Args: json.RawMessage(args), Async: true})
}

func (j *journal) done(id int64, op, args, result string) *journal {
	return j.put(agentkernel.Entry{Kind: agentkernel.EntryCall, Call: id, Op: op, Effect: agentkernel.EffectPure,
		Args: json.RawMessage(args), Done: true, Data: json.RawMessage(result)})
}

func (j *journal) result(id int64, data string) *journal {
	return j.put(agentkernel.Entry{Kind: agentkernel.EntryResult, Call: id, Data: json.RawMessage(data)})
}

func (j *journal) fails(id int64, code agentkernel.Code, msg string) *journal {
	return j.put(agentkernel.Entry{Kind: agentkernel.EntryResult, Call: id, Err: &agentkernel.Error{Code: code, Err: errors.New(msg)}})
}

func (j *journal) prints(stream, text string) *journal {
	data, _ := json.Marshal(text)
	return j.put(agentkernel.Entry{Kind: agentkernel.EntryOutput, Stream: stream, Data: data})
}

func (j *journal) kind(k agentkernel.EntryKind, data string) *journal {
	return j.put(agentkernel.Entry{Kind: k, Data: json.RawMessage(data)})
}

func (j *journal) tree(p agentkernel.Process) *Tree {
	p.PID, p.Created = j.pid, start
	if p.State.Terminal() {
		p.Ended = j.now
	}
	return &Tree{Process: p, Entries: j.entries, Children: map[agentkernel.PID]*Tree{}}
}

const toolArgs = `{"arguments":{"path":"/data/%"},"server":"filesystem","tool":"read_text_file"}`

func file(name string) string { return strings.Replace(toolArgs, "%", name, 1) }

// story has one of everything.
func story() *Tree {
	ms := time.Millisecond
	j := newJournal(12).kind(agentkernel.EntryCreated, `{}`)
	j.after(2*ms).done(1, "time.now", `{}`, `1795251600.5`)
	j.call(2, "tool.call", agentkernel.EffectRead, `{"arguments":{"path":"/data"},"server":"filesystem","tool":"list_directory"}`)
	j.after(3200*time.Microsecond).result(2, `"[FILE] january.csv\n[FILE] february.csv\n[FILE] march.csv\n[FILE] april.csv\n[FILE] may.csv"`)
	j.prints("stdout", "reading\n").prints("stdout", "3 files\n")
	j.async(3, "tool.call", agentkernel.EffectRead, file("a.csv"))
	j.async(4, "tool.call", agentkernel.EffectRead, file("b.csv"))
	j.async(5, "tool.call", agentkernel.EffectRead, file("c.csv"))
	j.after(10*ms).result(4, `"1,2"`)
	j.after(2*ms).result(3, `{"rows":[1,2,3],"more":true,"next":null}`)
	j.after(4*ms).fails(5, agentkernel.CodeTool, "ENOENT: no such file\x1b[2J\nmore")
	j.async(6, "tool.call", agentkernel.EffectRead, file("d.csv"))
	j.after(ms).result(6, `{"$bytes":"AAECAw=="}`)
	j.call(7, "time.sleep", agentkernel.EffectPure, `{"seconds":5.0}`)
	j.after(5*time.Second).result(7, `null`)
	j.call(8, "tool.call", agentkernel.EffectWrite, `{"arguments":{"content":"`+strings.Repeat("long ", 40)+`","path":"/data/out.txt"},"server":"filesystem","tool":"write_file"}`)
	j.after(3400 * ms)
	j.put(agentkernel.Entry{Kind: agentkernel.EntryRecover, Data: json.RawMessage(`{"kernel":4711,"from_image":true}`)})
	j.fails(8, agentkernel.CodeOutcomeUnknown, "the kernel stopped while filesystem.write_file ran")
	j.done(9, "state.set", `{"key":"totals","value":{"$dict":[[1,2.5]]}}`, `null`)
	j.done(10, "proc.spawn", `{"source":"print(1)"}`, `13`)
	j.call(11, "proc.wait", agentkernel.EffectPure, `{"pid":13}`)
	j.after(20*ms).result(11, `{"exit_code":0,"pid":13,"state":"exited"}`)
	j.put(agentkernel.Entry{Kind: agentkernel.EntrySignal, Note: "pause"}).put(agentkernel.Entry{Kind: agentkernel.EntryPaused, Note: "asked from the terminal"})
	j.after(90*time.Second).kind(agentkernel.EntryResumed, ``)
	j.prints("stderr", "one\ntwo \x1b[31m\nthree\n")
	j.after(ms).kind(agentkernel.EntryTerminal, `{"state":"exited","exit_code":0,"result":{"$tuple":[42,true]}}`)
	t := j.tree(agentkernel.Process{Name: "report.py", Backend: "monty", State: agentkernel.StateExited})

	c := newJournal(13).after(ms).prints("stdout", "1\n").after(ms).kind(agentkernel.EntryTerminal,
		`{"state":"failed","exit_code":1,"error":{"code":"program_error","message":"ValueError: no","traceback":"Traceback (most recent call last):\n  File \"x\", line 1\nValueError: no"}}`)
	t.Children[13] = c.tree(agentkernel.Process{Name: "<string>", Backend: "monty", State: agentkernel.StateFailed})
	return t
}

func unfinished() *Tree {
	j := newJournal(7).kind(agentkernel.EntryCreated, `{}`)
	j.async(1, "tool.call", agentkernel.EffectWrite, file("a"))
	j.async(2, "tool.call", agentkernel.EffectRead, file("b"))
	j.after(time.Millisecond).result(2, `[1,2]`)
	j.after(time.Second).result(99, `1`)
	return j.tree(agentkernel.Process{Name: "<stdin>", State: agentkernel.StateUnfinished, Paused: true})
}

func TestRender(t *testing.T) {
	cases := []struct {
		golden string
		tree   *Tree
		o      Options
	}{
		{"story", story(), Options{}},
		{"story_full", story(), Options{Full: true}},
		{"story_color", story(), Options{Color: true}},
		{"unfinished", unfinished(), Options{Now: start.Add(time.Minute)}},
		{"rerun", rerun(), Options{}},
		{"madeagain", madeAgain(), Options{}},
		{"repaired", repaired(), Options{Now: start.Add(2 * time.Minute)}},
		{"empty", newJournal(3).tree(agentkernel.Process{Name: "x.py", State: agentkernel.StateReady}), Options{Now: start}},
	}
	for _, tc := range cases {
		t.Run(tc.golden, func(t *testing.T) {
			var b strings.Builder
			if err := Render(&b, tc.tree, tc.o); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", tc.golden+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What a watched task does over and over is one line, unless all is asked for.
func TestWhatIsDoneOverAndOverIsFolded(t *testing.T) {
	j := newJournal(1).kind(agentkernel.EntryCreated, `{}`).call(1, "llm.stream", agentkernel.EffectPaid, `{}`).result(1, `"1.1"`)
	for i := range 5 {
		j.call(int64(2+i), "stream.next", agentkernel.EffectRead, `{"handle":"1.1"}`).after(10*time.Millisecond).result(int64(2+i), `["word "]`).prints("stderr", "word ")
	}
	j.call(7, "signals.wait", agentkernel.EffectPure, `{"timeout":0}`).fails(7, agentkernel.CodeTimeout, "no signal came")
	j.call(8, "signals.wait", agentkernel.EffectPure, `{"timeout":5}`).fails(8, agentkernel.CodeTimeout, "no signal came")
	text := func(full bool) string {
		var b strings.Builder
		if err := Render(&b, &Tree{Process: agentkernel.Process{PID: 1, Created: start}, Entries: j.entries}, Options{Full: full, Now: j.now}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	short, full := text(false), text(true)
	for what, n := range map[string]int{"stream.next ×5  read · 50 ms\n": 1, "stream.next(": 0, `"word word word word word "`: 1, "signals.wait(timeout=": 1, "folded: stream.next 5 times, signals.wait once without a signal: agentkernel trace --full 1\n": 1} {
		if got := strings.Count(short, what); got != n {
			t.Errorf("%q is there %d times, want %d:\n%s", what, got, n, short)
		}
	}
	if strings.Count(full, "stream.next(") != 5 || strings.Count(full, "signals.wait(") != 2 || strings.Contains(full, "folded") {
		t.Error(full)
	}
}

// A stream that was settled when its answer was there is said to have ended then, and to be read when it is.
func TestAStreamThatIsSettledBeforeItIsRead(t *testing.T) {
	used := agentkernel.Amounts{agentkernel.AmountUSD: 1_000_000_000}
	tree := &Tree{Entries: []agentkernel.Entry{
		{Seq: 1, Kind: agentkernel.EntryCall, Call: 2},
		{Seq: 2, Kind: agentkernel.EntryResult, Call: 2},
		{Seq: 3, Kind: agentkernel.EntryCall, Call: 3, Done: true},
		{Seq: 4, Kind: agentkernel.EntryCall, Call: 4},
		{Seq: 5, Kind: agentkernel.EntrySettled, Call: 2, Settle: used},
		{Seq: 6, Kind: agentkernel.EntrySettled, Call: 3, Async: true, Settle: used},
		{Seq: 7, Kind: agentkernel.EntrySettled, Call: 3, Settle: agentkernel.Amounts{}},
		{Seq: 8, Kind: agentkernel.EntrySettled, Call: 4, Settle: agentkernel.Amounts{}, Reserve: agentkernel.Amounts{agentkernel.AmountUnsent: 1}},
		{Seq: 9, Kind: agentkernel.EntrySettled, Call: 4, Settle: agentkernel.Amounts{}},
	}}
	for i, want := range []string{"the stream of call 2 has ended: $1.00", "the stream of call 3 has ended: $1.00", "the stream of call 3 was read to its end",
		"call 4 waits for its turn again: nothing was used", "call 4 was left without an answer: nothing was used"} {
		if got := settledMark(tree, &tree.Entries[i+4]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A call that went back to waiting for its turn is sent for the first time after that, and not once more.
func TestACallThatWaitsAgain(t *testing.T) {
	j := newJournal(1)
	j.call(1, "llm.ask", agentkernel.EffectPaid, `{"prompt":"hi"}`)
	j.put(agentkernel.Entry{Kind: agentkernel.EntrySettled, Call: 1, Settle: agentkernel.Amounts{}, Reserve: agentkernel.Amounts{agentkernel.AmountUnsent: 1}})
	j.put(agentkernel.Entry{Kind: agentkernel.EntryRetry, Call: 1}).put(agentkernel.Entry{Kind: agentkernel.EntryRetry, Call: 1})
	var marks []string
	for _, s := range steps(j.tree(agentkernel.Process{State: agentkernel.StateRunning})) {
		if s.kind == stepMark {
			marks = append(marks, s.mark)
		}
	}
	want := []string{"call 1 waits for its turn again: nothing was used", "call 1 goes out: what it waited for is there", "call 1 is made once more"}
	if !slices.Equal(marks, want) {
		t.Errorf("%q, want %q", marks, want)
	}
}

// What a program prints in many pieces is put together once, not once for each piece.
func TestManyPiecesOfOutput(t *testing.T) {
	const pieces = 10_000
	j := newJournal(1)
	for range pieces {
		j.prints("stdout", strings.Repeat("x", 99)+"\n")
	}
	tree := j.tree(agentkernel.Process{State: agentkernel.StateRunning})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	list := steps(tree)
	runtime.ReadMemStats(&after)
	if len(list) != 1 || list[0].text.Len() != 100*pieces {
		t.Fatalf("%d steps", len(list))
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 100<<20 {
		t.Errorf("%d MiB of memory were taken to show 1 MB of output", took>>20)
	}
}

func TestNothingFromAProgramReachesTheTerminalRaw(t *testing.T) {
	for _, full := range []bool{false, true} {
		var b strings.Builder
		if err := Render(&b, story(), Options{Full: full}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "\x1b") {
			t.Errorf("full=%v: an escape sequence of the program is in the trace", full)
		}
	}
}

func TestValue(t *testing.T) {
	cases := []struct {
		in    string
		limit int
		want  string
	}{
		{`null`, 0, "None"}, {``, 0, "None"}, {`true`, 0, "True"}, {`-0.0`, 0, "-0.0"}, {`"a\"b"`, 0, `"a\"b"`},
		{`[1,[2],{}]`, 0, "[1, [2], {}]"}, {`{"a":null}`, 0, `{"a": None}`},
		{`{"$tuple":[1]}`, 0, "(1,)"}, {`{"$dict":[[1,"a"],[{"$tuple":[]},2]]}`, 0, `{1: "a", (): 2}`},
		{`{"$set":[1,2]}`, 0, "{1, 2}"}, {`{"$float":"nan"}`, 0, "nan"},
		{`{"$date":"2026-11-21"}`, 0, "2026-11-21"}, {`{"$timedelta":[1,2,3]}`, 0, "timedelta([1, 2, 3])"},
		{`{"$bytes":"AAEC"}`, 0, "<bytes, 3 B>"},
		{`"` + strings.Repeat("ä", 100) + `"`, 10, `"` + strings.Repeat("ä", 9) + `…"`},
		{`[` + strings.Repeat("1,", 99) + `1]`, 10, "[1, 1, 1, 1, … 100 items]"},
		{`{"a":1,"b":2,"c":3,"d":4,"e":5}`, 10, `{"a": 1, "b": 2, … 5 keys}`},
	}
	for _, tc := range cases {
		if got := Value(json.RawMessage(tc.in), tc.limit); got != tc.want {
			t.Errorf("Value(%s, %d) = %s, want %s", tc.in, tc.limit, got, tc.want)
		}
	}
}

// madeAgain is a rerun that made two calls in the place of those of its past: a write that somebody decided about, and an idempotent one.
func madeAgain() *Tree {
	j := newJournal(6).kind(agentkernel.EntryCreated, `{}`)
	cut := func(call int64, effect agentkernel.Effect, note string) {
		j.put(agentkernel.Entry{Kind: agentkernel.EntryCall, Call: call, Op: "tool.call", Effect: effect, Args: json.RawMessage(file("a")), Note: note})
	}
	cut(1, agentkernel.EffectWrite, "from pid 5 call 1")
	j.after(time.Millisecond).put(agentkernel.Entry{Kind: agentkernel.EntryRetry, Call: 1})
	j.after(time.Millisecond).result(1, `1`)
	cut(2, agentkernel.EffectIdempotent, `as pid 5 call 2 reserved {"calls":1}`)
	j.after(time.Millisecond).result(2, `2`)
	return j.kind(agentkernel.EntryTerminal, `{"state":"exited"}`).tree(agentkernel.Process{Name: "x.py", State: agentkernel.StateExited})
}
