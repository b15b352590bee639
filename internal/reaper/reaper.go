// Package reaper starts the kernel's child processes (workers, tool servers) so that none outlives the
// kernel that started it, and kills those of a dead kernel before recovery answers anyone (invariant 9).
// It must never touch a process that this data directory's kernels did not start.
//
// Marks tie a child and its descendants to a kernel, each enough where another fails. Signal and
// variable are there at the child's first instruction, the group's record some microseconds later:
//
//   - the parent-death signal (Linux) ends the child itself with the kernel, however that dies;
//   - the process group, recorded on disk with the leader's start time, so that a PID that the system gave
//     to someone else is never taken for ours;
//   - the environment variable AGENTKERNEL_OWNER, which descendants inherit and keep when they leave the
//     group or the session. A descendant escapes only if it leaves the group, drops the variable and
//     outlives its own parent, all three;
//   - a guard (Linux, see [Guarded]), for tool servers: from below it a descendant does not escape in these ways either.
//
// Nothing is fsynced: a crash that loses written pages has ended every process as well.
package reaper

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"agentkernel"
	"agentkernel/internal/lazy"
)

// EnvOwner is the environment variable that marks children and their descendants. A kernel that runs
// inside a child of another kernel adds its own mark behind a colon.
const EnvOwner = "AGENTKERNEL_OWNER"

const op = "reaper"

// killPatience bounds how long Kill and Close wait for processes to vanish. SIGKILL works at once unless a
// process hangs inside a system call.
const killPatience = 5 * time.Second

// Reaper starts and records children. Safe for concurrent use.
type Reaper struct {
	dir     string // records of this incarnation
	owner   string
	inherit string       // marks that this kernel itself carries
	forks   int64        // that the system had made when the reaper began; 0: unknown
	first   atomic.Int64 // PID of the first child; 0: none yet
	starts  chan start
	ended   chan struct{} // closed when the starting thread has gone

	mu       sync.Mutex
	closed   bool
	starting sync.WaitGroup
	count    int64
	children map[*exec.Cmd]*started
}

// started is a child that was not forgotten yet.
type started struct {
	child
	control *os.File      // its guard ends, with all that is below it, when this is closed; nil: it has none
	killing chan struct{} // nil until somebody kills it; closed when that is done
}

type start struct {
	cmd  *exec.Cmd
	done chan error
}

var ownerForm = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// New prepares a reaper that records its children in dir. owner names this kernel incarnation, never used
// before (letters, digits, dot, dash, underscore); it is handed to each child as the environment variable
// AGENTKERNEL_OWNER so that descendants can be found. Call KillSurvivors(dir) first.
func New(dir, owner string) (*Reaper, error) {
	if !ownerForm().MatchString(owner) {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, op, "owner %q is not a name of letters, digits, dots and dashes", owner)
	}
	r := &Reaper{
		dir: filepath.Join(dir, owner), owner: owner, inherit: os.Getenv(EnvOwner),
		starts: make(chan start), ended: make(chan struct{}), children: map[*exec.Cmd]*started{},
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeStorage, op, "children cannot be recorded: %w", err)
	}
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeStorage, op, "children of %s cannot be recorded: %w", owner, err)
	}
	if err := writeKernel(r.dir); err != nil {
		return nil, err
	}
	r.forks, _ = forks()
	go r.serveStarts()
	return r, nil
}

// serveStarts starts every child from one thread, because Linux ties the parent-death signal to the thread
// that forked: a child started from a passing goroutine would die when the Go runtime retires its thread.
// The thread is never unlocked, so it ends with this function, and takes forgotten children with it.
func (r *Reaper) serveStarts() {
	defer close(r.ended)
	runtime.LockOSThread()
	for s := range r.starts {
		err := s.cmd.Start()
		if err == nil && r.first.Load() == 0 {
			r.first.Store(int64(s.cmd.Process.Pid))
		}
		s.done <- err
	}
}

// Start starts cmd in its own process group, dying with this kernel (Linux: parent-death signal), recorded
// on disk. The mark is in its environment from its first instruction on. The error is that of cmd.Start.
func (r *Reaper) Start(cmd *exec.Cmd) error { return r.start(cmd, filepath.Base(cmd.Path), nil) }

// start starts cmd, which people know by name; control: as a guard, which ends when this is closed.
func (r *Reaper) start(cmd *exec.Cmd, name string, control *os.File) error {
	n, ok := r.begin()
	if !ok {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, op, "the kernel is ending; %s is not started", name)
	}
	defer r.starting.Done()
	r.mark(cmd, n)
	confine(cmd, control == nil)
	s := start{cmd: cmd, done: make(chan error, 1)}
	r.starts <- s
	if err := <-s.done; err != nil {
		return err
	}
	c := newChild(markOf(r.owner, n), name, cmd.Process.Pid)
	c.Guard = control != nil
	c.save(r.dir)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.children[cmd] = &started{child: c, control: control}
	return nil
}

func (r *Reaper) begin() (n int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, false
	}
	r.starting.Add(1)
	r.count++
	return r.count, true
}

func (r *Reaper) mark(cmd *exec.Cmd, n int64) {
	base := cmd.Env
	if base == nil {
		base = os.Environ()
	}
	env := make([]string, 0, len(base)+1)
	for _, kv := range base {
		if !strings.HasPrefix(kv, EnvOwner+"=") {
			env = append(env, kv)
		}
	}
	value := markOf(r.owner, n)
	if r.inherit != "" {
		value = r.inherit + ":" + value
	}
	cmd.Env = append(env, EnvOwner+"="+value)
}

func markOf(owner string, n int64) string { return owner + "/" + strconv.FormatInt(n, 10) }

// Kill kills cmd's whole process group and everything that carries its mark, and forgets the record. The
// caller still waits for cmd. Safe after the command has ended, and needed then too: a server that ended
// may have left children. Of several callers one works, and all return when it is done. Does nothing for a
// command that this reaper did not start.
func (r *Reaper) Kill(cmd *exec.Cmd) {
	r.mu.Lock()
	s, ok := r.children[cmd]
	if !ok {
		r.mu.Unlock()
		return
	}
	if other := s.killing; other != nil {
		r.mu.Unlock()
		<-other
		return
	}
	s.killing = make(chan struct{})
	r.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), killPatience)
	defer cancel()
	c := s.child
	s.end(ctx) // so that the hunt's first look finds it gone
	if _, err := hunt(ctx, prey{children: []child{c}, owns: c.owns, since: c.Start, floor: floor(c.PID, r.forks)}); err == nil {
		c.forget(r.dir)
	}
	r.mu.Lock()
	delete(r.children, cmd)
	r.mu.Unlock()
	close(s.killing)
}

// Close kills every child that is left and ends the starting thread. Records of what could not be killed
// stay for KillSurvivors.
func (r *Reaper) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	r.mu.Unlock()
	r.starting.Wait()

	r.mu.Lock()
	left := make([]child, 0, len(r.children))
	for _, s := range r.children {
		left = append(left, s.child)
		if s.control != nil {
			_ = s.control.Close()
		} else {
			s.killGroup()
		}
	}
	clear(r.children)
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), killPatience)
	defer cancel()
	var err error
	if first := int(r.first.Load()); first != 0 {
		_, err = hunt(ctx, prey{children: left, owns: ownedBy(r.owner), floor: floor(first, r.forks)})
	}
	close(r.starts)
	<-r.ended
	if err != nil {
		return err
	}
	return removeRecords(r.dir)
}
