package reaper

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// Argument, as the first argument, makes this executable a guard.
const Argument = "__agentkernel-guard"

// mainCalled says whether this executable can be a guard.
var mainCalled atomic.Bool

// Guarded starts commands below a guard where there can be one: a process between the kernel and the command, to which Linux
// gives what the command leaves behind in whatever session and environment, and which kills all of it when the command or
// the kernel ends. Elsewhere (macOS, a program that does not call [Main]) it is the [Reaper] alone.
//
// A guard is this same executable. It costs some milliseconds at the start and some megabytes while the command runs, so it
// is for what starts seldom and is not ours: tool servers.
type Guarded struct{ *Reaper }

// thisFile is the executable of this process, of which a guard is made: the very file that runs, also if it was replaced.
const thisFile = "/proc/self/exe"

func access(path string) error { return syscall.Access(path, 1) }

// Guarded is a launcher that starts commands below a guard.
func (r *Reaper) Guarded() Guarded { return Guarded{r} }

// Start starts cmd as [Reaper.Start] does. A file that cannot be executed is no error here: the command ends at once with
// status 126 and says why on its standard error.
func (g Guarded) Start(cmd *exec.Cmd) error {
	if !canGuard || !mainCalled.Load() || access(thisFile) != nil {
		return g.Reaper.Start(cmd)
	}
	control, mine, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = control.Close() }()
	name := filepath.Base(cmd.Path)
	wrap(cmd, control)
	if err := g.start(cmd, name, mine); err != nil {
		_ = mine.Close()
		return err
	}
	return nil
}

// end kills a child with its group, or tells its guard to do it, and waits until it is gone.
func (s *started) end(ctx context.Context) {
	if s.control != nil {
		_ = s.control.Close()
		_ = syscall.Kill(s.PID, syscall.SIGCONT) // the command may have stopped it with the group
		ctx, cancel := guardPatience(ctx)
		defer cancel()
		if awaitGone(ctx, s.proc()) == nil {
			return
		}
	}
	s.killGroup()
	_ = killAndWait(ctx, s.proc())
}

// guards are those of the living that are guards, and others the rest. A guard ends by itself when there is nothing below
// it any more, and must not before: what is below it would be lost sight of.
func (q prey) guards(alive []proc) (guards, others []proc) {
	for _, p := range alive {
		if q.isGuard(p) {
			guards = append(guards, p)
		} else {
			others = append(others, p)
		}
	}
	return guards, others
}

func (q prey) isGuard(p proc) bool {
	for _, c := range q.children {
		if c.Guard && c.PID == p.pid && c.Start == p.start {
			return true
		}
	}
	return false
}

// withoutGuards is the same prey of which none is taken for a guard.
func (q prey) withoutGuards() prey {
	q.children = slices.Clone(q.children)
	for i := range q.children {
		q.children[i].Guard = false
	}
	return q
}

// guardPatience bounds how long a guard has for its work: it is killed then, as it may hang itself.
func guardPatience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 2*time.Second)
}

// awaitGuards waits until the guards have ended, with all that was below them.
func awaitGuards(ctx context.Context, guards []proc) error {
	ctx, cancel := guardPatience(ctx)
	defer cancel()
	for _, p := range guards {
		_ = syscall.Kill(p.pid, syscall.SIGCONT) // it may have been stopped with its group
		if err := awaitGone(ctx, p); err != nil {
			return err
		}
	}
	return nil
}
