package kernel

import (
	"context"

	"agentkernel"
	"agentkernel/internal/kernel/cells"
	"agentkernel/internal/kernel/history"
)

// A piece with a key runs once. Whoever does not know what became of it (his connection broke, the kernel died) feeds it
// again: then he reads in the journal what it did, and follows it if it is still running. The key is in the journal with
// the piece, so that it is durable before anything that the piece does outside.

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
	handed, err := history.Cells(ctx, k.store, pid)
	if err != nil {
		return 0, err
	}
	return cells.FedBefore(pid, handed, piece)
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
	end, done, err := cells.Follow(func(fn func(agentkernel.Event) error) error { return k.Events(ctx, pid, at+1, true, fn) }, fn)
	if err != nil {
		return end, err
	}
	p, err := k.Process(ctx, pid)
	if err != nil {
		return end, err
	}
	if end.Process = p; !done {
		return end, cells.Unfinished(pid)
	}
	return end, nil
}
