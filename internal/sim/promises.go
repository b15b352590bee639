package sim

import (
	"bytes"
	"strings"
	"sync"

	"agentkernel"
)

// promises are what clients were told: it must be durable when they are, and stay true for ever.
type promises struct {
	mu       sync.Mutex
	seqs     map[agentkernel.PID]int64               // the last entry that somebody has heard of
	ends     map[agentkernel.PID]agentkernel.Process // how processes have ended
	killable map[agentkernel.PID]bool                // somebody has tried to kill it, or one above it
}

func newPromises() *promises {
	return &promises{seqs: map[agentkernel.PID]int64{}, ends: map[agentkernel.PID]agentkernel.Process{}, killable: map[agentkernel.PID]bool{}}
}

// seq notes that a client has heard of an entry.
func (p *promises) seq(w *World, pid agentkernel.PID, seq int64, what string) {
	if have := w.disk.durableTo(pid); have < seq {
		w.failf("a client was told of entry %d of process %d by %s, and only %d entries are durable", seq, pid, what, have)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seqs[pid] = max(p.seqs[pid], seq)
}

// process notes that a client was told how a process stands.
func (p *promises) process(w *World, got *agentkernel.Process) {
	p.seq(w, got.PID, 1, "its row")
	if !got.State.Terminal() {
		return
	}
	l := w.disk.ledger(got.PID)
	if l == nil || !l.terminal {
		w.failf("a client was told that process %d has ended, and its journal has no end", got.PID)
		return
	}
	p.seq(w, got.PID, l.seq, "its end")
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, ok := p.ends[got.PID]; ok && !sameEnd(&before, got) {
		w.failf("process %d: a client was told %s %s, and another %s %s", got.PID, before.State, before.Result, got.State, got.Result)
	}
	p.ends[got.PID] = *got
}

func sameEnd(a, b *agentkernel.Process) bool {
	return a.State == b.State && a.ExitCode == b.ExitCode && bytes.Equal(a.Result, b.Result)
}

// mayBeKilled notes that somebody tries to kill a process.
func (p *promises) mayBeKilled(w *World, pid agentkernel.PID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killable[pid] = true
}

// killed says whether somebody has tried to kill the process of a row.
func (p *promises) killed(r *agentkernel.ProcessRecord) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pid := range append([]agentkernel.PID{r.PID}, r.Spec.Ancestors...) {
		if p.killable[pid] {
			return true
		}
	}
	return false
}

// hold checks that everything that was promised is still so.
func (p *promises) hold(w *World) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid, seq := range p.seqs {
		if l := w.disk.ledger(pid); l == nil || l.seq < seq {
			w.failf("a client was told of entry %d of process %d, which is lost", seq, pid)
		}
	}
	for pid, end := range p.ends {
		if r := w.disk.row(pid); r == nil || !sameEnd(&r.Process, &end) {
			w.failf("a client was told that process %d has ended with %s %s, and the store has %+v", pid, end.State, end.Result, r)
		}
	}
}

// reader is a client that reads the events of a process.
type reader struct {
	seq int64
	out strings.Builder
}

// take checks an event.
func (r *reader) take(w *World, pid agentkernel.PID, ev *agentkernel.Event) {
	if ev.PID != pid {
		w.failf("who follows process %d was told of process %d", pid, ev.PID)
	}
	w.promises.seq(w, pid, ev.Seq, "the event "+string(ev.Kind))
	if ev.Process != nil {
		w.promises.process(w, ev.Process)
	}
	switch ev.Kind {
	case agentkernel.EventOutput:
		if ev.Seq <= r.seq {
			w.failf("who follows process %d was told of entry %d after entry %d", pid, ev.Seq, r.seq)
		}
		r.out.WriteString(ev.Text)
	case agentkernel.EventEnd:
		if want := printed(w.disk.journal(pid)); r.out.String() != want {
			w.failf("who followed process %d read %q, and it has printed %q", pid, r.out.String(), want)
		}
	}
	r.seq = max(r.seq, ev.Seq)
}
