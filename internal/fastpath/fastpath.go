// Package fastpath is what makes a small program quick: what a backend and a store may be able to do so that the caller who
// waits for such a program drives it inline, and what can be remembered of Specs that ask for nothing special beyond tools. It is worth tens
// of microseconds. The contract does not know it; without it everything works, later. It has nothing to do with models.
package fastpath

import (
	"context"
	"time"

	"agentkernel"
)

// Backend has sandboxes at hand whose programs mostly answer within microseconds. The caller who waits for such a program
// drives it inline at first: to wake another goroutine, and to be woken by it, takes longer than the program. It begins
// while its process is still made.
type Backend interface {
	agentkernel.Backend
	// StartNow is Start if that need not wait for anything. Nil: it would have to, or the program cannot be had so;
	// Start says which.
	StartNow(req agentkernel.StartRequest) Sandbox
}

// Sandbox can run its program beside the work of whoever drives it.
type Sandbox interface {
	agentkernel.Sandbox
	// Begin hands over the reply as Next does, but does not wait for the turn: Next must be called after it, with no
	// reply. False: nothing was done. After an error the sandbox is dead.
	Begin(ctx context.Context, reply *agentkernel.Reply) (bool, error)
	// Ready waits for the turn, at most so long. True: Next will not wait.
	Ready(atMost time.Duration) bool
}

// Stager is a Store that can do part of a commit before anybody waits for it.
type Stager interface {
	// Stage begins a commit of what was appended, if nobody is writing anything now, and returns: what takes the disk's
	// time is left to the next Flush. It changes nothing of what is durable, or seen.
	Stage()
}

// Moments is a Store that can answer many reads of single processes at little cost, as they are made when a kernel takes up what
// another one has left.
type Moments interface {
	// Moment gives a context with which Process, ProcessLeft, Entries, EntriesLeft and Image read from one transaction for as long as nothing
	// is appended about their process. What they answer is the same. done ends it.
	Moment(ctx context.Context) (_ context.Context, done func())
}

// Actives is a Store that can tell of the processes which are neither parked nor ended by their PIDs alone, which is most of what a
// kernel wants to know of those that another one has left.
type Actives interface {
	// Active gives them in ascending order.
	Active(ctx context.Context) ([]agentkernel.PID, error)
}

// few is how many processes are read one by one.
const few = 8

// Together gives a context for reading n processes one after the other.
func Together(ctx context.Context, store agentkernel.Store, n int) (_ context.Context, done func()) {
	if s, ok := store.(Moments); ok && n > few {
		return s.Moment(ctx)
	}
	return ctx, func() {}
}
