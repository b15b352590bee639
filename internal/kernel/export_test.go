package kernel

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/room"
	"agentkernel/internal/kernel/watch"
)

// Steps lists the run-state machine of the code, one step a line.
func Steps() []string {
	var out []string
	for _, s := range []*step{&stepBegin, &stepWake, &stepHold, &stepDrive, &stepReserve, &stepProceed, &stepWait, &stepRewind, &stepRelease,
		&stepExit, &stepFail, &stepKill} {
		line := s.name
		for _, from := range s.from {
			line += " " + string(from)
		}
		line += " ->"
		if s.to != "" {
			line += " " + string(s.to)
		}
		out = append(out, line+" "+string(s.owner))
	}
	return out
}

// DocumentedSteps reads the same from the package comment.
func DocumentedSteps(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	owners := []string{string(unowned), string(takes), string(keeps), string(releases), string(ends)}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(strings.TrimPrefix(line, "//"))
		arrow := slices.Index(words, "->")
		owner := slices.IndexFunc(words, func(w string) bool { return slices.Contains(owners, w) })
		if arrow > 0 && owner > arrow { // words behind the owner are a remark
			out = append(out, strings.Join(words[:owner+1], " "))
		}
	}
	return out
}

// Trees is how many trees of processes are known.
func (k *Kernel) Trees() (n int) { return k.forest.Trees() }

// RunAfter is the beginning of Run with something in between: the program has begun, and its process is there.
func (k *Kernel) RunAfter(ctx context.Context, s agentkernel.Spec, between func(agentkernel.PID)) (agentkernel.PID, error) {
	h := &inline{w: watch.New(false)}
	h.w.Hold()
	p, _, err := k.create(ctx, s, h)
	if err != nil {
		return 0, err
	}
	defer k.unwatch(p, h.w)
	between(p.pid)
	k.launchInline(p, h)
	return p.pid, nil
}

// IdleEvents counts the events that say that a session waits, also those behind its end, until stop is called.
func IdleEvents(k *Kernel, pid agentkernel.PID) (count func() int, stop func()) {
	p := k.lookup(pid)
	p.mu.Lock()
	w := k.watch(p, false)
	p.mu.Unlock()
	return func() (n int) {
		events, _, _, _ := w.Take()
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
	return k.sessions.Sessions()
}

// HeldForAll is how many bytes of calls and results the kernel keeps for all programs.
func (k *Kernel) HeldForAll() int64 { return k.forest.Held() }

// SetMostHeld bounds that while a test runs.
func SetMostHeld(t *testing.T, most int64) {
	before := room.Most
	room.Most = func() int64 { return most }
	t.Cleanup(func() { room.Most = before })
}
