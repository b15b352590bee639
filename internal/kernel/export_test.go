package kernel

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"agentkernel"
)

// Transitions lists the state machine of the code, one "a -> b c" a line.
func Transitions() []string {
	var out []string
	for _, from := range []agentkernel.State{stateCreated, agentkernel.StateReady, agentkernel.StateRunning, agentkernel.StateWaiting} {
		var to []string
		for _, s := range transitions[from] {
			to = append(to, string(s))
		}
		slices.Sort(to)
		out = append(out, fmt.Sprintf("%s -> %s", from, strings.Join(to, " ")))
	}
	return out
}

// DocumentedTransitions reads the same from the package comment.
func DocumentedTransitions(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		from, to, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "//")), " -> ")
		if !ok || strings.Contains(from, " limits") || strings.Contains(to, "->") {
			continue
		}
		names := strings.Fields(to)
		slices.Sort(names)
		out = append(out, strings.TrimSpace(from)+" -> "+strings.Join(names, " "))
	}
	return strings.Join(out, "\n")
}

// Trees is how many trees of processes are known.
func (k *Kernel) Trees() (n int) {
	k.forest.trees.Range(func(any, any) bool { n++; return true })
	return n
}

// TextsOfSpecs gives what a kernel remembers of Specs, beside what it would write.
func TextsOfSpecs() func(*agentkernel.Spec) (remembered, written string) {
	in := newInterner(agentkernel.DefaultLimits())
	return func(s *agentkernel.Spec) (string, string) { return string(in.data(s)), string(specData(s)) }
}

// RunAfter is the beginning of Run with something in between: the program has begun, and its process is there.
func (k *Kernel) RunAfter(ctx context.Context, s agentkernel.Spec, between func(agentkernel.PID)) (agentkernel.PID, error) {
	h := &here{w: newWatcher(false)}
	h.w.hold()
	p, _, err := k.create(ctx, s, h)
	if err != nil {
		return 0, err
	}
	defer k.unwatch(p, h.w)
	between(p.pid)
	k.launchHere(p, h)
	return p.pid, nil
}

// IdleEvents counts the events that say that a session waits, also those behind its end, until stop is called.
func IdleEvents(k *Kernel, pid agentkernel.PID) (count func() int, stop func()) {
	p := k.lookup(pid)
	p.mu.Lock()
	w := p.watch(false)
	p.mu.Unlock()
	return func() (n int) {
		events, _, _, _ := w.take()
		for _, ev := range events {
			if ev.Kind == agentkernel.EventIdle {
				n++
			}
		}
		return n
	}, func() { k.unwatch(p, w) }
}

// Fed is how many sessions there are whose sources are in memory.
func (k *Kernel) Fed() int {
	k.sessions.mu.Lock()
	defer k.sessions.mu.Unlock()
	return len(k.sessions.sources)
}
