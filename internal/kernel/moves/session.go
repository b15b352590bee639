package moves

import (
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/kernel/backends"
	"agentkernel/internal/kernel/replay"
)

// Session is a session on its way to another backend.
type Session struct {
	From   *backends.Backend
	Failed *agentkernel.Error // why it goes back to From; nil: it does not
	Ended  *agentkernel.Error // its own end came first
	Cell   int64              // it moves in the middle of the cell that answered this call; 0: between two
	done   chan struct{}      // closed when it waits for its cell again, or has ended
}

// NewSession is a session that is about to leave a backend.
func NewSession(from *backends.Backend, cell int64) *Session {
	return &Session{From: from, Cell: cell, done: make(chan struct{})}
}

// Done is closed when the session waits for its cell again, or has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Arrive says that the session is where it is to stay.
func (s *Session) Arrive() { close(s.done) }

// End says that the session has ended on its way; nil: by itself.
func (s *Session) End(why *agentkernel.Error) {
	if s.Ended = why; why == nil {
		s.Ended = agentkernel.Errorf(agentkernel.CodeConflict, "session", "it exited")
	}
	close(s.done)
}

// Returns says whether the session goes back to where it was, because its sandbox has ended on the way with an error, or by an
// exit (nil) if exited is set. False: it has ended.
func (s *Session) Returns(err *agentkernel.Error, exited bool) bool {
	if s.Failed != nil || EndsAnywhere(err) || err == nil && !exited {
		return false
	}
	if s.Failed = err; err == nil {
		s.Failed = replay.Diverged("it exits")
	}
	return true
}

// Outcome is why a session does not wait on the backend to, where it was to go because of why; nil: it does.
func (s *Session) Outcome(pid agentkernel.PID, to string, why *agentkernel.Error) error {
	switch {
	case s.Ended != nil:
		return agentkernel.Errorf(agentkernel.CodeConflict, "session", "session %d has ended: %s", pid, s.Ended.Message()).WithPID(pid)
	case s.Failed != nil:
		return agentkernel.Errorf(agentkernel.CodeDiverged, "session", "%s; and the session cannot move to the %s backend with its variables, because its code so far does something else there: %s",
			why.Message(), to, s.Failed.Message()).WithPID(pid).
			WithHint(`the session is as it was; session "new" with backend %q begins one there, session "none" runs this by itself`, to)
	}
	return nil
}

// EndsAnywhere says whether an error ends a session wherever it is. Any other may be what its backend does to it.
func EndsAnywhere(err *agentkernel.Error) bool {
	limit, _ := err.Limit()
	return limit == "wall" || err != nil && err.Code == agentkernel.CodeKilled
}

// Placing is a cell that a session is to run, for which a backend is wanted.
type Placing struct {
	PID     agentkernel.PID // of the session
	Spec    *agentkernel.Spec
	Stays   bool   // the session cannot move
	Backend string // that is to run it; "" or "auto": the session's own
	Program *agentkernel.Program
}

// named says whether the cell asks for another backend than the one on which its session is.
func (c *Placing) named(here *backends.Backend) bool {
	return c.Backend != "" && c.Backend != backends.Auto && c.Backend != here.Name
}

// Verdict is where a cell is to run.
type Verdict struct {
	Needs  agentkernel.Needs // where its session is
	Err    error             // why it cannot run there; nil: it can
	To     *backends.Backend // where its session has to go first; nil: it stays
	Why    *agentkernel.Error
	CanRun bool // where its session is, if that cannot go
}

// Check is Backend.Check for a cell whose session is on one of all backends: where that is not the one for it, its session is
// to move.
func (c *Placing) Check(all backends.List, here *backends.Backend) (v Verdict) {
	named := c.named(here)
	v.Needs, v.Err = here.Check(*c.Program)
	if !named && (v.Err == nil && len(v.Needs.Differs) == 0 || c.Spec.Backend != backends.Auto || v.Err != nil && !backends.Elsewhere(v.Err)) {
		return v
	}
	if v.To, v.Err = c.Destination(all, here, v.Err); v.To == nil {
		return v
	}
	v.CanRun = v.Err == nil && !named
	switch v.Why = agentkernel.AsError(v.Err, agentkernel.CodeUnsupported, "session"); {
	case named:
		v.Why = agentkernel.Errorf(agentkernel.CodeUnsupported, "session", "its client asked for the %s backend", v.To.Name)
	case v.Why == nil:
		v.Why = agentkernel.Errorf(agentkernel.CodeUnsupported, "session", "%s", strings.Join(v.Needs.Differs, "; "))
	}
	return v
}

// Destination finds the backend that can run a cell, and the session's earlier ones perhaps, behind the present one in the
// order of choice. Nil: there is none; the error is then why the cell cannot run, or nil if it can where it is.
func (c *Placing) Destination(all backends.List, here *backends.Backend, refused error) (*backends.Backend, error) {
	named := c.named(here)
	if named && !slices.Contains(all.Names(), c.Backend) {
		return nil, all.Unknown(c.Backend)
	}
	result := refused
	for _, b := range all.Behind(here) {
		if named && b.Name != c.Backend || !c.couldGo(b, named) {
			continue
		}
		there, err := b.Check(*c.Program)
		switch {
		case err != nil && named:
			return nil, err
		case err != nil && refused != nil:
			result = backends.BothRefused(result, b.Name, err)
		case err == nil && (refused != nil || named || len(there.Differs) == 0):
			return b, refused
		}
	}
	if named {
		return nil, agentkernel.Errorf(agentkernel.CodeUnsupported, "session", "session %d is on the %s backend and cannot move to %s", c.PID, here.Name, c.Backend).WithPID(c.PID).
			WithHint(`session "new" with backend %q begins one there, session "none" runs this by itself`, c.Backend)
	}
	return nil, result
}

// couldGo says whether a backend could have the session, whatever its cells are.
func (c *Placing) couldGo(b *backends.Backend, named bool) bool {
	return (named || b.Offered(c.Spec)) && !c.Stays && b.Sessions && b.Replayable && b.Speaks(c.Spec.Program.Language) && b.Lacks(c.Spec) == nil
}
