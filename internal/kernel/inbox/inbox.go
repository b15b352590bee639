// Package inbox is what the inboxes of processes need beside the store, which has what is in them: who looks into one at the moment,
// what may be put in, and how much, and what a program is told of a signal. It never reads or takes anything itself.
package inbox

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/sys"
)

// Looks are who looks into an inbox: there is one at most, so that nothing is taken twice. The zero value has none.
type Looks struct {
	mu    sync.Mutex
	again map[agentkernel.PID]bool // something may have come since it was read
}

// Begin makes the caller the one who looks into the inbox of a process, until End. False: somebody does, and will look again.
func (l *Looks) Begin(pid agentkernel.PID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, looking := l.again[pid]; looking {
		l.again[pid] = true
		return false
	}
	if l.again == nil {
		l.again = map[agentkernel.PID]bool{}
	}
	l.again[pid] = false
	return true
}

// Again says whether something may have come since Begin, or since Again was asked last.
func (l *Looks) Again(pid agentkernel.PID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	again := l.again[pid]
	if again {
		l.again[pid] = false
	}
	return again
}

// End ends Begin, and also the look into the inbox of a process that has ended.
func (l *Looks) End(pid agentkernel.PID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.again, pid)
}

// Looking says whether somebody looks into the inbox of a process.
func (l *Looks) Looking(pid agentkernel.PID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, looking := l.again[pid]
	return looking
}

// Posts are what a family sends with a call as the store has it.
func Posts(posts []sys.Post) (sent []agentkernel.Post) {
	for _, m := range posts {
		sent = append(sent, agentkernel.Post{To: m.To, Kind: m.Kind, Priority: cmp.Or(m.Priority, agentkernel.DefaultPriority), Data: m.Data})
	}
	return sent
}

// Reachable refuses posts to who cannot have any: of another namespace, ended, or never there. op is the call that sends them.
func Reachable(ctx context.Context, store agentkernel.StoreReader, namespace, op string, posts []sys.Post) error {
	for _, m := range posts {
		rec, err := store.Process(ctx, m.To)
		switch {
		case err != nil && agentkernel.CodeOf(err) != agentkernel.CodeNotFound:
			return err
		case err != nil || rec.Namespace != namespace:
			return agentkernel.Errorf(agentkernel.CodeNotFound, op, "there is no process %d", m.To)
		case rec.State.Terminal():
			return agentkernel.Errorf(agentkernel.CodeConflict, op, "process %d has ended: %s", m.To, rec.State)
		}
	}
	return nil
}

// Senders are who puts user signals into inboxes: one at a time into each, so that no more come than there is room for.
type Senders [64]struct {
	once sync.Once
	turn chan struct{} // has room for whose turn it is
}

// Enter waits for its turn with the inbox of a process and refuses one more user signal where too many wait. The caller ends the turn.
func (s *Senders) Enter(ctx context.Context, store agentkernel.Store, pid agentkernel.PID) (end func(), err error) {
	at := &s[int(pid)%len(s)]
	at.once.Do(func() { at.turn = make(chan struct{}, 1) })
	select { // no mutex: who waits for a store may leave
	case at.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	end = func() { <-at.turn }
	n, err := store.Waiting(ctx, pid, agentkernel.PostSignal)
	if err == nil && n >= agentkernel.MaxSignalsWaiting {
		err = agentkernel.Errorf(agentkernel.CodeLimit, "signal",
			"%d signals wait for process %d already, which is the limit: its program does not take them", n, pid).WithPID(pid)
	}
	if err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// Interrupted is what a program is told whose call a signal interrupts. write: it may have happened; stopBy: when the program is killed,
// zero if it is not, and deadline why, as Stopped has it.
func Interrupted(op, label string, write bool, stopBy, deadline time.Time) *agentkernel.Error {
	text := "a signal asked it to stop"
	if !stopBy.IsZero() {
		text = reached(deadline) + "it is to stop, and is killed at " + stopBy.UTC().Format(time.RFC3339)
	}
	if write {
		text = "interrupted while " + label + " was under way; whether it happened is unknown"
	}
	return agentkernel.Errorf(agentkernel.CodeInterrupted, op, "%s", text)
}

// interrupts are the exceptions with which an interrupt ends a program that lets it.
var interrupts = []string{"KernelInterrupt", "KeyboardInterrupt"}

// Obeys says whether the error with which a program has ended is the interrupt that asked it to; nil is none.
func Obeys(e *agentkernel.Error) bool {
	return e != nil && (e.Code == agentkernel.CodeInterrupted || slices.Contains(interrupts, e.Exception))
}

// Killed is why a process ended that somebody has killed.
func Killed() *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeKilled, "kill", "killed by a signal")
}

// Stopped is why a process was killed that was asked to stop. deadline is that because of which it was asked, zero if somebody has;
// obeyed: the interrupt ended it, and not the end of its grace time.
func Stopped(deadline time.Time, obeyed bool) *agentkernel.Error {
	op, how := "stop", "had not ended when its grace time was over"
	if obeyed {
		how = "did"
	}
	if !deadline.IsZero() {
		op = agentkernel.OpDeadline
	}
	return agentkernel.Errorf(agentkernel.CodeKilled, op, "%sit was asked to stop, and %s", reached(deadline), how)
}

// reached says which deadline has come; "": none.
func reached(deadline time.Time) string {
	if deadline.IsZero() {
		return ""
	}
	return "its deadline was reached (" + deadline.UTC().Format(time.RFC3339) + "): "
}
