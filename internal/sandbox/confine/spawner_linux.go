package confine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/lazy"
)

// Spawner builds sandboxes and starts programs in them, by way of a small helper process that is started at
// the first use. Safe for concurrent use.
type Spawner struct {
	cfg     SpawnerConfig
	machine *Machine
	people  identities
	watches *shares
	locks   *shares

	mu     sync.Mutex
	closed bool
	helper *helper        // nil before the first use and after it died
	alive  sync.WaitGroup // sandboxes with a process
}

var nameForm = lazy.Regexp(`^[A-Za-z0-9-]{1,64}$`)

// NewSpawner looks at the machine and removes what a dead kernel of the same name has left. A machine that
// allows no sandbox is no error here: each use says why.
func NewSpawner(cfg SpawnerConfig) (*Spawner, error) {
	if cfg.Launcher == nil || !nameForm().MatchString(cfg.Name) {
		return nil, agentkernel.Errorf(agentkernel.CodeInternal, op, "a spawner needs a launcher and a name, not %q", cfg.Name)
	}
	s := &Spawner{cfg: cfg, machine: Look()}
	if cfg.NoCgroups {
		s.machine.groups = &groups{why: "cgroups are switched off"}
	}
	if err := s.machine.groups.open(cfg.Name); err != nil {
		s.machine.groups = &groups{why: err.Error()}
	}
	s.people = newIdentities(s.machine, cfg.Name)
	s.watches, s.locks = newWatches(s.machine), newLocks()
	return s, nil
}

// Machine is what the spawner's machine allows.
func (s *Spawner) Machine() *Machine { return s.machine }

// Close ends the helper, and with it every sandbox, and removes their cgroups.
func (s *Spawner) Close() error {
	s.mu.Lock()
	h := s.helper
	s.closed = true
	s.mu.Unlock()
	if h != nil {
		h.end()
	}
	s.alive.Wait()
	if err := s.machine.groups.close(); err != nil {
		return agentkernel.AsError(err, agentkernel.CodeInternal, op)
	}
	return nil
}

// Cell is a sandbox that was decided but has no process yet: its plan, its cgroups, its identity.
type Cell struct {
	Plan     *Plan
	Identity Identity
	Config   Config

	spawner *Spawner
	group   *group
	own     bool // the identity goes back at the end
	once    sync.Once
	decided decided // for children
}

// decided keeps what was decided for the last children of a zygote: most programs have the same limits, and to decide
// them again costs more than to start one.
type decided struct {
	mu   sync.Mutex
	last []decision // the newest last
}

type decision struct {
	cfg     Config
	counted Counted // without its directories
	plan    *Plan
}

// keptDecisions bounds decided.last.
const keptDecisions = 4

// plan gives the plan that Decide would. What looks at directories is decided each time.
func (d *decided) plan(m *Machine, cfg Config, id Identity, counted Counted) (*Plan, error) {
	if d == nil || cfg.Kind != Child || cfg.Workspace != nil || len(cfg.Volumes) > 0 || len(cfg.Masked) > 0 {
		return m.Decide(cfg, id, counted)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	dirs := counted.Dirs
	counted.Dirs = nil
	for _, l := range d.last {
		if reflect.DeepEqual(l.counted, counted) && reflect.DeepEqual(l.cfg, cfg) {
			p := *l.plan
			p.Cgroups = dirs
			return &p, nil
		}
	}
	p, err := m.Decide(cfg, id, counted)
	if err != nil {
		return nil, err
	}
	if len(d.last) == keptDecisions {
		d.last = d.last[1:]
	}
	d.last = append(d.last, decision{cfg, counted, p})
	own := *p
	own.Cgroups = dirs
	return &own, nil
}

// Prepare decides a sandbox and makes what must be there before its process: cgroups and scratch directories.
// Errors are those of Machine.Decide.
func (s *Spawner) Prepare(cfg Config) (*Cell, error) {
	if cfg.Kind == Child {
		return nil, agentkernel.Errorf(agentkernel.CodeInternal, op, "a child is prepared by its zygote's cell")
	}
	id, err := s.people.take()
	if err != nil {
		return nil, err
	}
	c, err := s.prepare(cfg, id, nil)
	if err != nil {
		s.people.give(id)
		return nil, err
	}
	c.own = true
	return c, nil
}

// Child prepares a sandbox for a fork of the zygote that runs in c.
func (c *Cell) Child(cfg Config) (*Cell, error) {
	if c.Config.Kind != Zygote || cfg.Kind != Child {
		return nil, agentkernel.Errorf(agentkernel.CodeInternal, op, "only a zygote has children")
	}
	for _, m := range c.Config.Runtime {
		if inside(m.target(), TmpDir) { // the child's own /tmp would cover it
			cfg.kept = append(cfg.kept, m.target())
		}
	}
	return c.spawner.prepare(cfg, c.Identity, &c.decided)
}

func (s *Spawner) prepare(cfg Config, id Identity, known *decided) (*Cell, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	for _, dir := range cfg.scratch() {
		if err := makeScratch(dir); err != nil {
			return nil, err
		}
	}
	c := &Cell{Identity: id, Config: cfg.withDefaults(), spawner: s, group: &group{counted: Counted{Why: s.machine.groups.why}}}
	var err error
	if cfg.Kind == Bare {
		c.group.counted.Why = "one process needs none"
	} else if cfg.Kind != Zygote { // its children have limits, each its own
		if c.group, err = s.machine.groups.make(c.Config.Limits); err != nil {
			return nil, err
		}
	}
	if c.Plan, err = known.plan(s.machine, cfg, id, c.group.counted); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// begin counts a process that is about to be; Process.reap counts it off.
func (s *Spawner) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, op, "the kernel is ending; no sandbox is started")
	}
	s.alive.Add(1)
	return nil
}

// Close gives back what Prepare took. Process.Wait does it for a cell whose process was started or adopted;
// only a cell without one is closed by hand.
func (c *Cell) Close() error { return c.giveBack(false) }

// ended is Close for a cell in which everything has died.
func (c *Cell) ended(exit Exit) error {
	return c.giveBack(exit.Limit == "" && exit.Usage.RefusedPids == 0)
}

// giveBack gives everything back, once. clean: the cgroups have nobody in them, and have counted nothing that matters.
func (c *Cell) giveBack(clean bool) (err error) {
	c.once.Do(func() {
		if !clean || !c.spawner.machine.groups.keep(c.group) {
			err = c.group.remove()
		}
		if c.own {
			c.spawner.people.give(c.Identity)
		}
	})
	return err
}

// Trees opens the trees of a plan, in their order, for an executor that is not the spawner's own.
func (s *Spawner) Trees(ctx context.Context, p *Plan) ([]*os.File, error) {
	if len(p.Trees) == 0 {
		return nil, nil
	}
	r, err := s.ask(ctx, request{Trees: p.Trees}, nil, true)
	if err != nil {
		return nil, err
	}
	files := make([]*os.File, len(r.fds))
	for i, fd := range r.fds {
		files[i] = os.NewFile(uintptr(fd), "tree") //nolint:gosec // a descriptor
	}
	return files, nil
}

// askTries is how often something is asked for whose spawner, or whose new process, is killed each time.
const askTries = 4

// ask has a spawner do something. If the spawner is killed the next one is asked, unless the first may have done what must not be
// done twice: a whole program runs as soon as it is started. Zygotes and engines wait for what they are to do. A process
// that was killed before it was let go has done nothing in any case.
func (s *Spawner) ask(ctx context.Context, r request, fds []int, again bool) (reply, error) {
	for left := askTries; ; left-- {
		asked := false
		h, err := s.help()
		if err == nil {
			asked = true
			var a reply
			if a, err = h.ask(ctx, r, fds); err == nil {
				return a, nil
			}
		}
		unborn := errors.Is(err, errUnborn)
		switch {
		case !unborn && (!errors.Is(err, errLost) || asked && !again) || ctx.Err() != nil:
			return reply{}, err
		case left == 1:
			return reply{}, agentkernel.Errorf(agentkernel.CodeUnavailable, op, "%w, %d times in a row", agentkernel.AsError(err, "", op).Err, askTries).
				WithHint("look for what kills it (memory, a watchdog: dmesg says); agentkernel doctor")
		}
	}
}

// CanShow says what keeps a folder from being shown to a sandbox, read-only; nil: nothing.
func (s *Spawner) CanShow(ctx context.Context, folder string) error {
	source, owner, err := directory("folder", folder)
	if err != nil {
		return err
	}
	id, err := s.people.take()
	if err != nil {
		return err
	}
	defer s.people.give(id)
	t := Tree{Name: "workspace", Source: source, ReadOnly: true}.shown(s.machine.root, owner, id)
	files, err := s.Trees(ctx, &Plan{Trees: []Tree{t}})
	for _, f := range files {
		_ = f.Close()
	}
	return err
}

// Start starts the cell's program with the given descriptors as 0, 1, 2 and so on; the caller closes its own.
// The cell belongs to the process from then on; after an error it is closed. Errors: CodeNotFound, CodeDenied
// or CodeUnsupported when the program cannot be executed, CodeUnavailable when a wall cannot be built.
func (s *Spawner) Start(ctx context.Context, c *Cell, files []*os.File) (*Process, error) {
	p, err := s.start(ctx, c, files)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return p, nil
}

func (s *Spawner) start(ctx context.Context, c *Cell, files []*os.File) (*Process, error) {
	if len(files) < 3 || len(files) > maxFiles {
		return nil, agentkernel.Errorf(agentkernel.CodeInternal, op, "a program needs from 3 to %d descriptors, not %d", maxFiles, len(files))
	}
	fds := make([]int, len(files))
	for i, f := range files {
		// Not File.Fd: that would make a socket or pipe blocking for the caller.
		raw, err := f.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { fds[i] = int(fd) })
		}
		if err != nil {
			return nil, agentkernel.Errorf(agentkernel.CodeInternal, op, "descriptor %d: %w", i, err)
		}
	}
	r, err := s.ask(ctx, request{Plan: c.Plan}, fds, c.Config.Kind != Whole)
	if err == nil && len(r.fds) != 3 {
		err = agentkernel.Errorf(agentkernel.CodeInternal, op, "the spawner sent %d descriptors", len(r.fds))
	}
	if err == nil {
		err = s.begin()
	}
	if err != nil {
		closeAll(r.fds) // the init reads the end of file and ends
		return nil, err
	}
	return newProcess(c, r.answer.PID, r.fds[0], r.fds[1], r.fds[2]), nil
}

// Adopt takes over the process that an executor made for the cell, by a pidfd; the caller closes its own. It
// must still be waiting for its start, since Adopt puts it into its cgroups. The process is pid 1 of its
// namespace: with it everything in there ends.
func (c *Cell) Adopt(pidfd *os.File) (*Process, error) {
	dup, err := unix.FcntlInt(pidfd.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, agentkernel.AsError(err, agentkernel.CodeInternal, op)
	}
	pid, err := ownFirst(dup)
	if err == nil {
		err = join(c.Plan.Cgroups, pid)
	}
	if err == nil {
		err = unix.SetNonblock(dup, true)
	}
	if err == nil {
		err = c.spawner.begin()
	}
	if err != nil {
		_ = unix.Close(dup)
		return nil, agentkernel.AsError(err, agentkernel.CodeCrashed, op)
	}
	return newProcess(c, pid, dup, -1, -1), nil
}

// ownFirst is the number of a pidfd's process, as this process counts. It has to be the first of a pid namespace below the
// executor's: an executor that is in a stranger's hands could hand us ourselves.
func ownFirst(pidfd int) (int, error) {
	b, err := readSmall(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd))
	if err != nil {
		return 0, err
	}
	_, line, _ := cutLine(string(b), "NSpid:")
	numbers := strings.Fields(line) // from our namespace downwards
	pid, _ := strconv.Atoi(slices.Concat(numbers, []string{"0"})[0])
	switch {
	case pid <= 0:
		return 0, agentkernel.Errorf(agentkernel.CodeCrashed, op, "the sandbox's process has ended")
	case len(numbers) < 3 || numbers[len(numbers)-1] != "1":
		return 0, agentkernel.Errorf(agentkernel.CodeDenied, op, "process %d is no sandbox's", pid)
	}
	return pid, nil
}
