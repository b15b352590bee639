package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/userland/agent"
)

// Programs and turns are dim, what the model says and all of a stream without colours is as it was. Text that may become a line of the task waits until
// that is known, and is shown at the end, whatever it is.
func TestLook(t *testing.T) {
	const text = "I add.\nturn 1 · $0.0012\n  program 1, 1 line: print(1)\n\nturning it around\n  ended well · 1 line: \x1b[31m1\nturn 2 · Done. · $0.0026\ntur"
	const shown = "I add.\n\x1b[2mturn 1 · $0.0012\x1b[0m\n\x1b[2m  program 1, 1 line: print(1)\x1b[0m\n\nturning it around\n" +
		"\x1b[2m  ended well · 1 line: \x1b[31m1\x1b[0m\n\x1b[2mturn 2 · Done. · $0.0026\x1b[0m\ntur"
	for _, size := range []int{1, 2, 3, 7, len(text)} {
		for _, color := range []bool{true, false} {
			l := &look{err: color}
			var b strings.Builder
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				b.WriteString(l.stderr(rest[:n]))
				rest = rest[n:]
			}
			b.WriteString(l.rest())
			want := text
			if color {
				want = shown
			}
			if b.String() != want {
				t.Errorf("in pieces of %d, color %v:\n%q, want\n%q", size, color, b.String(), want)
			}
			if got := l.status("waiting for fast"); got != "turn 2 · $0.0026 · waiting for fast" {
				t.Errorf("the status is %q", got)
			}
		}
	}
	l := &look{err: true}
	if got := l.stderr("Word"); got != "Word" {
		t.Errorf("a word waits: %q", got)
	}
	if got := (&look{out: true}).stdout("one\n\ntwo"); got != "\x1b[1mone\x1b[0m\n\n\x1b[1mtwo\x1b[0m" {
		t.Errorf("a result is %q", got)
	}
}

// costing is a kernel whose journal has so much of what a task has cost.
type costing struct {
	*fakeKernel
	usd agentkernel.NanoUSD
}

func (k costing) ModelUsage(context.Context, agentkernel.UsageQuery) (agentkernel.ModelUsage, error) {
	return agentkernel.ModelUsage{Total: agentkernel.UsageRow{USD: k.usd}}, nil
}

// A task may say what it has cost before the journal has its last call, and knows nothing of others below it; a rerun has paid nothing.
func TestWhatATaskHasCost(t *testing.T) {
	for _, c := range []struct {
		journal agentkernel.NanoUSD
		past    *agentkernel.Past
		want    string
	}{
		{0, nil, "turn 2 · $0.0026\n"},
		{1_200_000, nil, "turn 2 · $0.0026\n"},
		{5_000_000, nil, "turn 2 · $0.0050\n"},
		{0, &agentkernel.Past{PID: 1}, "turn 2 · $0.0000\n"},
	} {
		w := &watch{a: &app{ctx: t.Context()}, k: &session{Kernel: costing{usd: c.journal}}, pid: 3, look: &look{}, rerun: c.past != nil}
		w.costs()
		if got := w.look.stderr("turn 2 · $0.0026\n"); got != c.want {
			t.Errorf("with %s in the journal: %q, want %q", c.journal, got, c.want)
		}
		said := 0.0026
		s := &steps{}
		if err := s.take(w, agentkernel.Event{Kind: agentkernel.EventLog, PID: 3, Text: `debug: {"kind":"turn","turn":2,"cost_usd":0.0026}`}); err != nil {
			t.Fatal(err)
		}
		if want := max(float64(c.journal)/1e9, said); c.past == nil && s.cost != want {
			t.Errorf("with %s in the journal a line has %v, want %v", c.journal, s.cost, want)
		}
	}
}

// followedTask is a task that says a turn and ends.
type followedTask struct {
	*fakeKernel
	past *agentkernel.Past
}

func (k *followedTask) Spec(context.Context, agentkernel.PID) (spec agentkernel.Spec, err error) {
	spec.Past = k.past
	spec.Program, err = agent.Program(agent.Task{Text: "a task", Model: "fast"})
	return spec, err
}

func (k *followedTask) Events(ctx context.Context, pid agentkernel.PID, _ int64, _ bool, fn func(agentkernel.Event) error) error {
	p := agentkernel.Process{PID: pid, State: agentkernel.StateExited, Result: json.RawMessage("1")}
	err := errors.Join(fn(agentkernel.Event{Kind: agentkernel.EventOutput, PID: pid, Stream: "stderr", Text: "turn 2 · $0.0026\n"}),
		fn(agentkernel.Event{Kind: agentkernel.EventEnd, PID: pid, Process: &p}))
	<-ctx.Done()
	return err
}

// Whoever follows a rerun of a task that somebody else has started sees what it has paid, too, and not what its past has.
func TestWhatAFollowedRerunHasCost(t *testing.T) {
	for past, want := range map[*agentkernel.Past]string{nil: "turn 2 · $0.0026\n", {PID: 1}: "turn 2 · $0.0000\n"} {
		r := newRig(t)
		r.any = &followedTask{r.kernel, past}
		r.kernel.process = func(pid agentkernel.PID) (agentkernel.Process, error) {
			return agentkernel.Process{PID: pid, State: agentkernel.StateWaiting}, nil
		}
		r.kernel.signal = func(agentkernel.PID, agentkernel.Signal) error { return nil }
		if code := r.run("resume", "-f", "12"); code != agentkernel.ExitOK {
			t.Errorf("exit code %d", code)
		}
		contains(t, "standard error", r.err.String(), want)
	}
}

// Whoever has no progress line is told after 3 seconds what a model is waited for, then each time twice as late; another call begins anew.
func TestPatient(t *testing.T) {
	var p patient
	var told []int
	for s := range 30 {
		if p.tells("a", time.Duration(s)*time.Second) {
			told = append(told, s)
		}
	}
	if len(told) != 4 || told[0] != 3 || told[1] != 6 || told[2] != 12 || told[3] != 24 {
		t.Errorf("told after %v s", told)
	}
	if p.tells("b", 2*time.Second) || !p.tells("b", 3*time.Second) {
		t.Error("another call is told of as the one before")
	}
}

func TestWaitingFor(t *testing.T) {
	for waits, want := range map[string]string{
		"tool.call fs.write": "waiting for fs.write",
		"llm.complete fast":  "waiting for fast, no answer yet",
		"llm.stream fast, no answer yet, connection refused, tried 2 times, again in 4.1 s": "waiting for fast, no answer yet, connection refused, tried 2 times, again in 4.1 s",
		"stream.next 12.3, model fast: 40 characters so far, the last 3.1 s ago":            "waiting for fast: 40 characters so far, the last 3.1 s ago",
		"proc.wait 3": "waiting for proc.wait 3",
	} {
		if got := waitingFor(&agentkernel.Process{WaitsFor: []string{waits}}); got != want {
			t.Errorf("%s: %q, want %q", waits, got, want)
		}
	}
}

// TestNotDone: of a task that is not done, what its user can do stands in a line of its own, whatever the pieces in which the text comes.
func TestNotDone(t *testing.T) {
	const text = "turn 1 · $0.0012\nthe task is not done: no key (it is not set; for whoever runs agentkernel: set it)\nno answer: no key (for whoever runs agentkernel: set it)\nthe task is not done: (for ever)\n"
	const shown = "turn 1 · $0.0012\nthe task is not done: no key\nhint: it is not set; set it\nno answer: no key\nhint: set it\nthe task is not done: (for ever)\n"
	a := &app{}
	for _, size := range []int{1, 7, len(text)} {
		l := &look{failed: a.notDoneText}
		var b strings.Builder
		for piece := range slices.Chunk([]byte(text), size) {
			b.WriteString(l.stderr(string(piece)))
		}
		if b.WriteString(l.rest()); b.String() != shown {
			t.Errorf("in pieces of %d:\n%s", size, b.String())
		}
	}
}
