package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/datadir"
	"agentkernel/internal/store/sqlite"
)

// A store with a million journal entries in it: a thousand processes of a thousand entries. What is asked about one
// of them must not depend on how many others there are.
const (
	manyProcesses = 1000
	callsOfEach   = 400 // two entries each, output and ends besides: a thousand
)

// fillStore writes the journals of n processes with the real store, as a kernel does.
func fillStore(tb testing.TB, home string, n, calls int) {
	tb.Helper()
	dir, err := datadir.Open(home)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := sqlite.Open(tb.Context(), sqlite.Config{Path: dir.Database(), Blobs: dir.Blobs(), Key: make([]byte, 32)})
	if err != nil {
		tb.Fatal(err)
	}
	start := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for i := range n {
		pid, err := s.NewPID(tb.Context())
		if err != nil {
			tb.Fatal(err)
		}
		j := newBigJournal(pid, start.Add(time.Duration(i)*time.Minute))
		j.run(calls, i)
		j.write(tb, s)
	}
	if err := s.Close(); err != nil {
		tb.Fatal(err)
	}
}

// bigJournal is a run in the making.
type bigJournal struct {
	row     agentkernel.ProcessRecord
	now     time.Time
	entries []agentkernel.Entry
}

func newBigJournal(pid agentkernel.PID, at time.Time) *bigJournal {
	return &bigJournal{now: at, row: agentkernel.ProcessRecord{
		Process: agentkernel.Process{PID: pid, Namespace: "default", Name: "big.py", Backend: "monty", Priority: 10, Created: at},
		Spec:    agentkernel.Spec{Program: agentkernel.Program{Name: "big.py", Language: agentkernel.Python, Source: "work()\n"}}}}
}

func (j *bigJournal) add(e agentkernel.Entry) {
	j.now = j.now.Add(time.Millisecond)
	e.PID, e.Seq, e.At = j.row.PID, int64(len(j.entries)+1), j.now
	j.entries = append(j.entries, e)
}

// run makes calls of which every hundredth differs from run to run, and fails in the end.
func (j *bigJournal) run(calls, variant int) {
	j.add(agentkernel.Entry{Kind: agentkernel.EntryCreated, Data: json.RawMessage(`{"program":{"name":"big.py"}}`)})
	for i := range calls {
		id, page := int64(i+1), i
		if i%100 == 50 {
			page += variant * 1_000_000
		}
		args := fmt.Sprintf(`{"arguments":{"page":%d,"query":"open issues of the project"},"server":"github","tool":"search"}`, page)
		j.add(agentkernel.Entry{Kind: agentkernel.EntryCall, Call: id, Op: "tool.call", Effect: agentkernel.EffectRead, Args: json.RawMessage(args)})
		if i == calls-1 {
			j.add(agentkernel.Entry{Kind: agentkernel.EntryResult, Call: id, Err: agentkernel.Errorf(agentkernel.CodeTool, "tool.call", "no more pages")})
			break
		}
		j.add(agentkernel.Entry{Kind: agentkernel.EntryResult, Call: id, Data: json.RawMessage(fmt.Sprintf(`{"page":%d,"items":["a","b","c"]}`, i)), Note: "i1"})
		if i%2 == 0 {
			j.add(agentkernel.Entry{Kind: agentkernel.EntryOutput, Stream: "stdout", Data: json.RawMessage(`"a line of output\n"`)})
		}
	}
	text := "RuntimeError: tool_error: no more pages"
	failure := &agentkernel.Error{Code: agentkernel.CodeProgram, Op: "run", Err: errors.New(text), Exception: "RuntimeError",
		Traceback: "Traceback (most recent call last):\n  File \"big.py\", line 1, in <module>\n    work()\n" + text + "\n"}
	j.add(agentkernel.Entry{Kind: agentkernel.EntryTerminal, Err: failure})
	j.row.State, j.row.ExitCode, j.row.Error, j.row.Ended = agentkernel.StateFailed, 1, failure, j.now
	j.row.Usage.Syscalls, j.row.Calls = int64(calls), int64(calls)
}

func (j *bigJournal) write(tb testing.TB, s *sqlite.Store) {
	tb.Helper()
	row := &j.row
	for part := range slices.Chunk(j.entries, 1000) {
		if _, err := s.Append(agentkernel.Batch{Entries: part, Process: row}); err != nil {
			tb.Fatal(err)
		}
		row = nil
	}
}

// answerOf runs a command in this process and gives its output and how long it took.
func answerOf(tb testing.TB, home string, wantCode int, args ...string) (string, time.Duration) {
	tb.Helper()
	out, _, took := answered(tb, home, wantCode, args...)
	return out, took
}

// outputOf runs a command that ends well, and gives what it writes to standard output and to standard error.
func outputOf(tb testing.TB, home string, args ...string) (stdout, stderr string) {
	tb.Helper()
	stdout, stderr, _ = answered(tb, home, 0, args...)
	return stdout, stderr
}

func answered(tb testing.TB, home string, wantCode int, args ...string) (stdout, stderr string, took time.Duration) {
	tb.Helper()
	var out, notes screen
	dir := tb.TempDir()
	h := host{args: args, env: []string{"AGENTKERNEL_HOME=" + home}, in: strings.NewReader(""), out: &out, err: &notes,
		width: func() int { return 80 }, workingDir: func() (string, error) { return dir, nil }}
	p := systemParts()
	p.dial = func(context.Context, string) (agentkernel.Kernel, error) {
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "dial", "no kernel in this test")
	}
	begin := time.Now()
	code := run(tb.Context(), h, p)
	took = time.Since(begin)
	if code != wantCode {
		tb.Fatalf("agentkernel %s ended with %d: %s", strings.Join(args, " "), code, out.String())
	}
	return out.String(), notes.String(), took
}

// questions are what is asked, with the exit code and a text that the answer has.
var questions = []struct {
	args []string
	code int
	has  string
}{
	{[]string{"why", "5"}, 0, "github.search answered with an error: no more pages (call 400 of 400"},
	{[]string{"trace", "5"}, 0, "github.search(page=398"},
	{[]string{"diff", "5", "6"}, 1, "396 calls the same, 4 with other arguments"},
	{[]string{"diff", "5", "5"}, 0, "equal: 400 calls"},
	{[]string{"trace", "5", "--open-waits"}, 0, "WAITED"},
	{[]string{"trace", "5", "--format", "chrome"}, 0, "traceEvents"},
	{[]string{"inspect", "5"}, 0, "failed"},
	{[]string{"sql", "select name, outcome, count(*) from calls where pid = 5 group by 1, 2"}, 0, "github.search  error           1"},
}

// The answers are right whatever the size; few of the processes are built here. BenchmarkQuestions has all of it.
func TestQuestionsAboutOneOfManyProcesses(t *testing.T) {
	home := t.TempDir()
	fillStore(t, home, 8, callsOfEach)
	for _, q := range questions {
		out, took := answerOf(t, home, q.code, q.args...)
		if !strings.Contains(out, q.has) {
			t.Errorf("agentkernel %s lacks %q:\n%.2000s", strings.Join(q.args, " "), q.has, out)
		}
		t.Logf("%-60s %v", strings.Join(q.args, " "), took)
	}
}

// BenchmarkQuestions measures the commands, from their arguments to their last byte of output, on a store with a
// million entries: go test -bench Questions -run none ./cmd/agentkernel. The file system has the store in memory when
// it was just written; AGENTKERNEL_BENCH_HOME keeps a store for a second, colder run.
func BenchmarkQuestions(b *testing.B) {
	home := os.Getenv("AGENTKERNEL_BENCH_HOME")
	if home == "" {
		home = b.TempDir()
	}
	if _, err := os.Stat(datadir.At(home).Database()); err != nil {
		begin := time.Now()
		fillStore(b, home, manyProcesses, callsOfEach)
		b.Logf("%d processes written in %v", manyProcesses, time.Since(begin))
	}
	out, _ := answerOf(b, home, 0, "sql", "--timeout", "1m", "select count(*) n, max(seq) m from main.entries")
	b.Logf("entries in the store, and the longest journal:\n%s", out)
	for _, q := range questions {
		b.Run(strings.Trim(strings.Join(q.args, "_"), "-"), func(b *testing.B) {
			var worst time.Duration
			for b.Loop() {
				_, took := answerOf(b, home, q.code, q.args...)
				worst = max(worst, took)
			}
			b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
		})
	}
}
