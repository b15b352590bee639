package reaper

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"agentkernel"
)

// proc is one process as the system shows it.
type proc struct {
	pid, parent, group, session int
	start                       int64 // unit of the system; grows; never 0
	dead                        bool  // a zombie: it has no effects any more
}

// prey describes the processes to kill.
type prey struct {
	children []child           // recorded group leaders
	owns     func(string) bool // whether a mark is one of ours
	since    int64             // no descendant can have started before; 0: unknown
	floor    int               // no descendant can have a smaller PID; 0: unknown
}

// hunt kills all processes that are prey, and returns when none is left, with how many there were. It looks
// again after each round, since what is being killed may have forked.
func hunt(ctx context.Context, q prey) (killed int, err error) {
	var seen []proc
	for {
		alive, err := q.find()
		if err != nil {
			return len(seen), agentkernel.Errorf(agentkernel.CodeUnavailable, op, "processes cannot be listed: %w", err)
		}
		if len(alive) == 0 {
			return len(seen), nil
		}
		for _, p := range alive {
			if !slices.ContainsFunc(seen, func(s proc) bool { return s.pid == p.pid && s.start == p.start }) {
				seen = append(seen, p)
			}
		}
		guards, others := q.guards(alive)
		for _, p := range others {
			if err := killAndWait(ctx, p); err != nil {
				return len(seen), survives(p, err)
			}
		}
		if len(others) == 0 && awaitGuards(ctx, guards) != nil {
			q = q.withoutGuards() // they hang, and are killed as others are
		}
	}
}

func survives(p proc, err error) error {
	return agentkernel.Errorf(agentkernel.CodeConflict, op, "os process %d, started by an earlier kernel, cannot be ended: %w", p.pid, err).
		WithHint("end it by hand (kill -9 %d) and try again; it may still have effects until then", p.pid)
}

// find lists the living processes that are prey.
func (q prey) find() ([]proc, error) {
	all, err := list(q.floor)
	if err != nil {
		return nil, err
	}
	byPID := make(map[int]proc, len(all))
	for _, p := range all {
		byPID[p.pid] = p
	}
	spared := lineage()
	ours := make(map[int]bool)
	for _, p := range all {
		if !spared[p.pid] && (q.inGroup(p, byPID) || q.marked(p)) {
			ours[p.pid] = true
		}
	}
	addDescendants(all, ours, spared)
	var found []proc
	for _, p := range all {
		if ours[p.pid] && !p.dead {
			found = append(found, p)
		}
	}
	return found, nil
}

// inGroup says whether p is in a recorded group that is still the one we made.
func (q prey) inGroup(p proc, byPID map[int]proc) bool {
	for _, c := range q.children {
		if p.group != c.PID {
			continue
		}
		if leader, ok := byPID[c.PID]; ok {
			// A PID that lives on as a group's number is not given away; another start time means that
			// the group had ended and the number means someone else now.
			return leader.start == c.Start
		}
		return p.session == c.Session && p.start >= c.Start
	}
	return false
}

func (q prey) marked(p proc) bool {
	return !p.dead && p.start >= q.since && slices.ContainsFunc(marks(p.pid), q.owns)
}

// addDescendants adds the children of what is ours, which hold even without mark and group.
func addDescendants(all []proc, ours, spared map[int]bool) {
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if ours[p.parent] && !ours[p.pid] && !spared[p.pid] {
				ours[p.pid], grew = true, true
			}
		}
	}
}

// lineage is this process and its ancestors: a kernel that is started from a surviving shell of a dead
// one must not kill itself or the shell that waits for it.
func lineage() map[int]bool {
	spared := map[int]bool{1: true}
	for pid := os.Getpid(); pid > 1 && !spared[pid]; {
		spared[pid] = true
		p, _ := look(pid)
		pid = p.parent
	}
	return spared
}

// splitMarks reads the marks out of an environment.
func splitMarks(environ string) []string {
	for kv := range strings.SplitSeq(environ, "\x00") {
		if v, ok := strings.CutPrefix(kv, EnvOwner+"="); ok {
			return strings.Split(v, ":")
		}
	}
	return nil
}

// killGroup ends the whole group in one step, so that nothing in it can fork past the kill.
func (c child) killGroup() {
	if p, ok := look(c.PID); ok && p.start == c.Start && p.group == c.PID {
		_ = syscall.Kill(-c.PID, syscall.SIGKILL)
	}
}

// pollEvery is how often a dying process is looked at where the system cannot wake us.
const pollEvery = 2 * time.Millisecond

// awaitGone polls until p has ended.
func awaitGone(ctx context.Context, p proc) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if now, ok := look(p.pid); !ok || now.start != p.start || now.dead {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is still there after SIGKILL: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}
