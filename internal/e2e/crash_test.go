package e2e_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/store/faulty"
)

// book is the far end: a tool that writes lines, neither read-only nor idempotent, and one that reads.
type book struct {
	mu    sync.Mutex
	lines map[string]int
}

func (b *book) Servers(context.Context) ([]agentkernel.ToolServer, error) {
	return []agentkernel.ToolServer{{Name: "book", PythonName: "book", Transport: "local", Trusted: true}}, nil
}

func (b *book) Tools(context.Context, string) ([]agentkernel.Tool, error) {
	line := []agentkernel.ToolParam{{Name: "line", Python: "line", Type: "str", Required: true}}
	return []agentkernel.Tool{
		{Server: "book", PythonServer: "book", Name: "write", PythonName: "write", Effect: agentkernel.EffectWrite, Signature: "write(line: str)", Params: line},
		{Server: "book", PythonServer: "book", Name: "count", PythonName: "count", Effect: agentkernel.EffectRead, Signature: "count(line: str)", Params: line},
	}, nil
}

func (b *book) Turn(string, string, time.Time) agentkernel.ToolTurn { return nil }

func (b *book) Call(_ context.Context, c agentkernel.ToolCall) (agentkernel.ToolResult, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.Tool == "write" {
		b.lines[string(c.Arguments)]++
	}
	return agentkernel.ToolResult{Value: []byte(`"ok"`), Incarnation: "1"}, nil
}

const thirtyCalls = `
import asyncio
from kernel import state, sleep, now, random_bytes, spawn, wait
from tools.book import write, count
from tools.book.aio import write as write_later

def careful(line):
    try:
        write(line=line)
    except OSError:
        print("unknown", line)

async def later(line):
    try:
        await write_later(line=line)
    except OSError:
        print("unknown", line)

async def both(i):
    await asyncio.gather(later("a" + str(i)), later("b" + str(i)))

for i in range(4):
    state.set("at", now())
    careful("s" + str(i))
    asyncio.run(both(i))
    count(line="x")
    random_bytes(4)
    print("round", i, state.get("at"))
sleep(0.03)
child = spawn("from tools.book import write\ntry:\n    write(line='child')\nexcept OSError:\n    print('unknown child')")
print(wait(child)["stdout"])
print("end")
`

// TestCrashAtEveryJournalOperation cuts the power at each operation of the store of a 30-call program, in
// the real engine and on real SQLite, and recovers. The suite takes a part of the operations in turn;
// AGENTKERNEL_SOAK takes all.
func TestCrashAtEveryJournalOperation(t *testing.T) {
	total := crashAt(t, 0, faulty.CrashBefore)
	if total < 60 {
		t.Fatalf("only %d operations: the program is not what the test thinks", total)
	}
	step := int64(4)
	if os.Getenv("AGENTKERNEL_SOAK") != "" {
		step = 1
	}
	modes := []faulty.Mode{faulty.Fail, faulty.CrashBefore, faulty.CrashAfter}
	for at := int64(1); at <= total; at += step {
		for i, mode := range modes {
			if step == 1 || (at/step)%int64(len(modes)) == int64(i) {
				crashAt(t, at, mode)
			}
		}
	}
}

// sample gives of the places at which a test kills one of so many; AGENTKERNEL_SOAK takes all.
func sample(places []int64, one int) (part []int64) {
	if os.Getenv("AGENTKERNEL_SOAK") != "" {
		return places
	}
	for i := 0; i < len(places); i += one {
		part = append(part, places[i])
	}
	return part
}

// crashAt runs the program on a store that dies at an operation, recovers and checks. It gives the number
// of operations of an undisturbed run.
func crashAt(t *testing.T, at int64, mode faulty.Mode) int64 {
	t.Helper()
	dir := home(t)
	far := &book{lines: map[string]int{}}
	tools := func([]string) (agentkernel.ToolSource, error) { return far, nil }
	s := program(thirtyCalls)
	s.Tools, s.Allow = []string{"/book.json"}, []string{"book"}

	var store *faulty.Store
	k, err := embedded.Open(t.Context(), embedded.Config{Home: dir, Engine: engine(t), Tools: tools, ParkAfter: 5 * time.Millisecond,
		WrapStore: func(inner agentkernel.Store) agentkernel.Store {
			store = faulty.Wrap(inner, faulty.Plan{At: at, Mode: mode})
			return store
		}})
	if err != nil {
		if at != 0 {
			return 0 // the fault came before the kernel was up
		}
		t.Fatal(err)
	}
	first, err := tryRun(t.Context(), k, s)
	if at == 0 && err != nil {
		t.Fatal(err)
	}
	total := store.Operations()
	_ = k.Close() // the store may have failed: that is the test

	k = openEmbedded(t, dir, func(c *embedded.Config) { c.Tools, c.ParkAfter = tools, 5*time.Millisecond })
	if _, err := k.Recover(t.Context(), 0); err != nil {
		t.Fatalf("crash at %d: recover: %v", at, err)
	}
	checkBook(t, k, far, fmt.Sprintf("crash at %d (%v)", at, mode), first.stdout)
	if err := k.Close(); err != nil {
		t.Errorf("crash at %d: close: %v", at, err)
	}
	return total
}

func checkBook(t *testing.T, k agentkernel.Kernel, far *book, where, seen string) {
	t.Helper()
	rows, err := k.List(t.Context(), agentkernel.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var parent, all strings.Builder
	for _, row := range rows {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		p, err := k.Wait(ctx, row.PID)
		cancel()
		if err != nil || p.State != agentkernel.StateExited {
			p, _ := k.Process(t.Context(), row.PID)
			t.Fatalf("%s: pid %d: %+v: %v %v\n%s\n%s", where, row.PID, p, p.Error, err, tracebackOf(p.Error), dump(t, k, row.PID))
		}
		_ = k.Events(t.Context(), row.PID, 1, false, func(ev agentkernel.Event) error {
			all.WriteString(ev.Text)
			if row.Parent == 0 {
				parent.WriteString(ev.Text)
			}
			return nil
		})
	}
	if !strings.HasPrefix(parent.String(), seen) {
		t.Errorf("%s: shown before the crash: %q, now: %q", where, seen, parent.String())
	}
	if len(rows) > 2 || len(rows) == 0 && len(far.lines) > 0 {
		t.Errorf("%s: %d processes, %d lines", where, len(rows), len(far.lines))
	}
	if len(rows) == 0 {
		return
	}
	lines := []string{"child"}
	for i := range 4 {
		lines = append(lines, fmt.Sprintf("s%d", i), fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i))
	}
	for _, line := range lines {
		n := far.lines[fmt.Sprintf(`{"line":%q}`, line)]
		told := strings.Contains(all.String(), "unknown "+line)
		if n > 1 || n == 0 && !told {
			t.Errorf("%s: %q was written %d times, reported as unknown: %v", where, line, n, told)
		}
	}
}

// dump is the journal of a process, for a failure's message.
func dump(t *testing.T, k agentkernel.Kernel, pid agentkernel.PID) string {
	t.Helper()
	entries, err := k.Journal(t.Context(), pid, 1, 0)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%d %s call=%d %s async=%v done=%v %s %s %v %s\n", e.Seq, e.Kind, e.Call, e.Op, e.Async, e.Done, e.Args, e.Data, e.Err, e.Note)
	}
	return b.String()
}
