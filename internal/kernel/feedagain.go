package kernel

import (
	"context"
	"errors"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/keys"
)

// A piece with a key runs once. Whoever does not know what became of it (his connection broke, the kernel died) feeds it
// again: then he reads in the journal what it did, and follows it if it is still running. The key is in the journal with
// the piece, so that it is durable before anything that the piece does outside.

// lockKey keeps all others from taking idempotency keys until unlock, and refuses one that another process has. nil: there is
// none to take.
func (k *Kernel) lockKey(ctx context.Context, pid agentkernel.PID, key *agentkernel.Key) (unlock func(), err error) {
	if key == nil {
		return func() {}, nil
	}
	k.keys.Lock()
	owner, err := k.store.ByKey(ctx, key.Namespace, key.Name)
	switch {
	case agentkernel.CodeOf(err) == agentkernel.CodeNotFound, err == nil && owner == pid:
		return k.keys.Unlock, nil
	case err == nil:
		err = keys.Taken(owner, key.Name)
	}
	k.keys.Unlock()
	return nil, err
}

// fedBefore finds where in the journal of a session a piece with this one's key was handed over; 0: nowhere. CodeConflict if
// that was another piece.
func (k *Kernel) fedBefore(ctx context.Context, pid agentkernel.PID, piece *agentkernel.Piece) (at int64, err error) {
	if piece.Key == "" {
		return 0, nil
	}
	if known, err := k.mayHaveFed(ctx, pid, piece.Key); !known || err != nil {
		return 0, err
	}
	if err := k.settled(ctx); err != nil {
		return 0, err
	}
	cells, err := history.Cells(ctx, k.store, pid)
	for _, had := range cells {
		switch {
		case had.Key != piece.Key:
		case had.Source != piece.Source:
			return at, sessionConflict(pid, "the key %.80q belongs to another piece of session %d", piece.Key, pid).WithHint("take another key")
		default:
			at = had.Seq
		}
	}
	return at, err
}

// mayHaveFed says whether a session has had a piece with a key, or has to be asked by its journal. The keys of one that
// runs are kept, so that each new piece does not read all that was before it.
func (k *Kernel) mayHaveFed(ctx context.Context, pid agentkernel.PID, key string) (bool, error) {
	p := k.lookup(pid)
	if p == nil {
		return true, nil
	}
	p.mu.Lock()
	born, ended := p.recoveries == 0, p.state.Terminal() // this kernel has seen all its pieces
	p.mu.Unlock()
	if ended {
		return true, nil
	}
	return k.sessions.HasKey(pid, key, born, func() ([]history.Handed, error) { return history.Cells(ctx, k.store, pid) })
}

// fedAgain reports the events of a piece that was handed over at a journal position, until it has run.
func (k *Kernel) fedAgain(ctx context.Context, pid agentkernel.PID, at int64, fn func(agentkernel.Event) error) (agentkernel.PieceEnd, error) {
	var end agentkernel.PieceEnd
	done := false
	err := k.Events(ctx, pid, at+1, true, func(ev agentkernel.Event) error {
		if err := fn(ev); err != nil {
			return err
		}
		switch ev.Kind {
		case agentkernel.EventIdle:
			end.Result, end.Error = ev.Idle.Result, ev.Idle.Error
		case agentkernel.EventEnd:
			end.Ended, end.Result, end.Error = true, ev.Process.Result, ev.Process.Error
		case agentkernel.EventState:
			if !ev.Process.Paused {
				return nil
			}
		default:
			return nil
		}
		done = true
		return errPieceDone
	})
	if err != nil && !errors.Is(err, errPieceDone) {
		return end, err
	}
	p, err := k.Process(ctx, pid)
	if err != nil {
		return end, err
	}
	if end.Process = p; !done {
		return end, sessionConflict(pid, "session %d is unfinished: no kernel runs it", pid).WithHint(advice.Recover, pid)
	}
	return end, nil
}
