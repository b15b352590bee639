// Package storetest is the suite that every [agentkernel.Store] must pass. A new store calls [Main] from its
// TestMain and [Exercise] from one test.
//
// It must never look behind the interface: what it checks is what the kernel relies on.
package storetest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentkernel"
)

// Opener opens the store that lives in a directory, or makes it there. Opening a directory again after
// Close, or after the process that had it open was killed, gives the same store.
type Opener func(dir string) (agentkernel.Store, error)

// Exercise runs the suite. Main must have been called from TestMain, or the crash test cannot run.
func Exercise(t *testing.T, open Opener) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Opener)
	}{
		{"round trip of entries", entriesRoundTrip},
		{"round trip of processes", processesRoundTrip},
		{"round trip of walls", wallsRoundTrip},
		{"programs that come again", programsAgain},
		{"large payloads", largePayloads},
		{"conversations", conversations},
		{"pages of entries", pages},
		{"journals stay dense", dense},
		{"short lives", shortLives},
		{"what notes say", notes},
		{"pids are never reused", pids},
		{"batches without a process are refused", nameless},
		{"a row is replaced", replace},
		{"filters", filters},
		{"parked processes", parked},
		{"inboxes", inboxes},
		{"idempotency keys", keys},
		{"keys given later", givenKeys},
		{"working sets", workingSets},
		{"images", images},
		{"flush", flushes},
		{"lazy batches become durable", lazy},
		{"concurrent appenders", concurrent},
		{"epochs", epochs},
		{"close", closes},
		{"crash", crash},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open)
		})
	}
}

// fixture is one store in a directory of its own.
type fixture struct {
	*testing.T
	agentkernel.Store
	dir  string
	open Opener
}

func start(t *testing.T, open Opener) *fixture {
	f := &fixture{T: t, dir: t.TempDir(), open: open}
	f.start()
	t.Cleanup(func() { _ = f.Store.Close() }) // again, when the test has closed it
	return f
}

func (f *fixture) start() {
	f.Helper()
	s, err := f.open(f.dir)
	if err != nil {
		f.Fatalf("open: %v", err)
	}
	f.Store = s
}

// reopen closes the store and opens it again, so that what is read next was durable.
func (f *fixture) reopen() {
	f.Helper()
	if err := f.Store.Close(); err != nil {
		f.Fatalf("close: %v", err)
	}
	f.start()
}

func (f *fixture) pid() agentkernel.PID {
	f.Helper()
	pid, err := f.NewPID(f.Context())
	if err != nil {
		f.Errorf("a new pid: %v", err) // not Fatal: some tests ask for it on goroutines of their own
	}
	return pid
}

func (f *fixture) append(b agentkernel.Batch) agentkernel.Position {
	f.Helper()
	pos, err := f.Append(b)
	if err != nil {
		f.Fatalf("append: %v", err)
	}
	return pos
}

func (f *fixture) flush(pos agentkernel.Position) {
	f.Helper()
	if err := f.Flush(f.Context(), pos); err != nil {
		f.Fatalf("flush: %v", err)
	}
}

func (f *fixture) entries(pid agentkernel.PID) []agentkernel.Entry {
	f.Helper()
	got, err := f.Entries(f.Context(), pid, 1, 0)
	if err != nil {
		f.Fatalf("entries: %v", err)
	}
	return got
}

// refused fails the test unless err has the code.
func (f *fixture) refused(err error, code agentkernel.Code) {
	f.Helper()
	if agentkernel.CodeOf(err) != code {
		f.Fatalf("error %v has code %q, want %q", err, agentkernel.CodeOf(err), code)
	}
}

// twice runs check on what was appended a moment ago and again on what is durable.
func (f *fixture) twice(check func()) {
	f.Helper()
	check()
	f.reopen()
	check()
}

// same compares what was stored with what came back. An error is the same if it says the same.
func (f *fixture) same(want, got any) {
	f.Helper()
	if w, g := f.text(want), f.text(got); w != g { // cmp is slow on megabytes, so only to explain
		f.Fatalf("not what was stored (-want +got):\n%.4000s", cmp.Diff(w, g))
	}
}

// text is a value as indented JSON, which all types of the contract have.
func (f *fixture) text(v any) string {
	f.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		f.Fatal(err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "null"), "[]") // nil and empty are alike
}

// at is a time with microseconds, as journals keep it.
func at(n int64) time.Time { return time.UnixMicro(1_790_000_000_000_001 + n).UTC() }

func entry(pid agentkernel.PID, seq int64) agentkernel.Entry {
	return agentkernel.Entry{PID: pid, Seq: seq, Kind: agentkernel.EntryCall, At: at(seq), Call: seq, Op: "time.now",
		Effect: agentkernel.EffectPure, Args: json.RawMessage(`{}`), Done: true, Data: json.RawMessage(`1.5`)}
}

// record is a row with nothing special about it.
func record(pid agentkernel.PID) *agentkernel.ProcessRecord {
	return &agentkernel.ProcessRecord{
		Process: agentkernel.Process{PID: pid, Namespace: "default", Name: "report.py", Backend: "monty", Priority: 10,
			State: agentkernel.StateUnfinished, Created: at(0)},
		Spec: agentkernel.Spec{Program: agentkernel.Program{Name: "report.py", Language: agentkernel.Python,
			Source: "print(6*7)\n"}, Backend: "monty", Namespace: "default", Priority: 10},
	}
}
