package kernel

import (
	"context"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/room"
	"agentkernel/internal/kernel/watch"
)

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
