package tool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// late notes that something was not answered in time, and asks the server whether it is still there: a slow tool
// looks like a process that hangs, and behind the latter each later call would wait out its time, too.
func (s *server) late(inst *instance, what string, began time.Time) {
	took := time.Since(began)
	s.hub.cfg.Logger.Warn("tool call timed out", "server", s.entry.name, "incarnation", inst.id, "tool", what,
		"after", took.Round(time.Millisecond).String())
	// HTTP: each call is a request of its own, the process is not ours to kill, and the SDK gives up the session, with
	// all calls on it, if a ping is refused with a plain status.
	if inst.conn == nil || !inst.alive() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if began.After(inst.unanswered) {
		inst.unanswered = began
	}
	if !inst.asked && !s.closed {
		inst.asked = true
		s.hub.work.Go(func() { s.ask(inst, what) })
	}
}

// ask pings the server, and takes it for dead if it does not answer. Any answer is one, a refusal too. So is one to
// another call that came since this one was sent: a server that works on one message at a time answers the ping in its
// turn, and the calls before it shall not fail. Where it hangs all the same, the next call to time out finds that out.
func (s *server) ask(inst *instance, what string) {
	patience := s.hub.cfg.PingTimeout
	ctx, cancel := context.WithTimeout(inst.halt, patience)
	defer cancel()
	err := inst.session.Ping(ctx, &mcp.PingParams{})
	s.mu.Lock()
	inst.asked = false
	busy := inst.conn.answeredSince(inst.unanswered)
	s.mu.Unlock()
	if !errors.Is(err, context.DeadlineExceeded) || busy || !inst.alive() {
		return
	}
	s.hub.cfg.Logger.Warn("tool server hangs: it is killed, and the next call starts it again", "server", s.entry.name,
		"incarnation", inst.id, "tool", what, "ping", patience.String())
	inst.condemn(fmt.Sprintf("it did not answer a ping within %s, after %s had timed out", patience, what))
}

// condemn takes a stdio server that lives and does not answer for dead: no further call goes to it, those under way
// fail, and watch ends its process.
func (inst *instance) condemn(why string) {
	_ = inst.conn.fail(errors.New(why))
	_ = inst.conn.Close()
}

// overdue says that ctx ended by its time, not because the caller left.
func overdue(ctx context.Context) bool { return errors.Is(ctx.Err(), context.DeadlineExceeded) }
