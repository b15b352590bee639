package kernel

import (
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/backends"
	"agentkernel/internal/kernel/moves"
	"agentkernel/internal/kernel/origin"
	"agentkernel/internal/kernel/replay"
	"agentkernel/internal/kernel/verify"
	"agentkernel/internal/sys"
)

// need is what a process's sandbox needs before it can run on.
type need uint8

const (
	needStart need = iota // nothing: it has not run yet
	needAck               // to be told that its async call is under way
	needReply             // the result of the sync call run.current
	needAny               // any result of its async calls, or that it has output
	needGo                // nothing: it was stopped while it computed
)

// run is one beginning of a process's program, in one backend: from its start or from its image, with what the journal knows
// of it already. A restart of any kind replaces it; see Kernel.newRun.
type run struct {
	backend *backends.Backend // nil: hosted
	// fingerprint is the engine with which the program began or its image was made.
	fingerprint string
	moved       *moves.Moved // nil: it is where it began
	box         agentkernel.Sandbox
	lastWalls   []agentkernel.Wall // around the sandbox that it had last; see walls
	bound       *sys.Binding       // the tools that the program imported
	reemit      bool               // the sandbox was loaded from an image and will say its turn again
	need        need
	hasOutput   bool               // needAny: its sandbox has something to say without a result
	current     int64              // needAck, needReply: the call
	reply       *agentkernel.Reply // the reply that needAck or needReply asks for, once known
	replySeq    int64              // the entry that has it
	arrived     []arrival          // results of async calls not yet delivered, in journal order
	calls       int64              // number of the last call that the program, which may be repeating itself, has made
	cell        int64              // a session's: the proc.next whose cell it runs, or ran last; 0: none
	stays       int64              // a session: the proc.next for whose cell it could not move
	abort       *agentkernel.Error // why the kernel is ending the sandbox of a cell, and not the session
	replay      *replay.Replay     // what the journal still knows better than the program; nil when live
	origin      *origin.Origin     // of a rerun; nil: none
	verifies    *verify.Run        // repeats a recording and does nothing else; nil: an ordinary process
	turning     time.Duration      // since when, by Kernel.clock, it has been in a turn that the kernel times; 0: it is in none
	running     time.Duration      // in its sandboxes
	waits       int64              // how often it had to wait
	lastRun     int64              // when it last left its slot, for eviction: nanoseconds since 1970
}
