package process

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"agentkernel"
)

// Stats counts the operating system's processes of a backend.
type Stats struct {
	Zygotes  int   `json:"zygotes"`
	Children int   `json:"children"` // programs and those that wait for one
	Waiting  int   `json:"waiting"`  // children that wait for a program
	Forked   int64 `json:"forked"`   // since the beginning
}

// tenant is a namespace of users with one set of imports out of one environment. Its zygote belongs to nobody else.
type tenant struct {
	namespace string
	set       importSet
	env       string // identity of Program.Host
}

// tenants keeps a zygote for each tenant that ran something lately, and children of it that wait for a program.
type tenants struct {
	cfg *Config

	mu     sync.Mutex
	closed bool
	houses map[tenant]*house
	forked int64
	retire *time.Timer
	quit   context.Context
	stop   context.CancelFunc
	tasks  sync.WaitGroup
}

// house is a tenant's zygote with its waiting children.
type house struct {
	z       *zygote
	starts  chan struct{} // closed when z or err is set
	err     error
	fell    bool               // err is an end that nobody here has caused: another try may succeed
	waiting []*child           // with these limits
	limits  agentkernel.Limits // that waiting children have
	misses  int                // programs in a row that wanted other limits
	making  int                // children that are being forked to wait
	used    time.Time
}

// manyMisses is how many programs in a row with other limits make the waiting children be exchanged.
const manyMisses = 3

var errClosed = errors.New("the backend is closed")

func newTenants(cfg *Config) *tenants {
	t := &tenants{cfg: cfg, houses: map[tenant]*house{}}
	t.quit, t.stop = context.WithCancel(context.Background())
	return t
}

// take gives a child that waits for a program: one that stands ready, or a new one.
func (t *tenants) take(ctx context.Context, python Interpreter, who tenant, limits agentkernel.Limits, mounts []agentkernel.Mount, stdin *os.File) (*child, error) {
	for left := takeTries; ; left-- {
		h, err := t.house(ctx, python, who)
		if err != nil && left > 1 && ctx.Err() == nil && h != nil && h.fell {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(mounts) == 0 && stdin == nil { // those that wait see no folders, and read nothing
			if c := t.ready(h, limits); c != nil {
				return c, nil
			}
		}
		c, err := h.z.fork(ctx, limits, mounts, stdin)
		if err == nil {
			t.mu.Lock()
			t.forked++
			t.replenish(h)
			t.mu.Unlock()
			return c, nil
		}
		if ctx.Err() != nil || left == 1 || !errors.Is(err, errStillborn) && !h.z.endedBy(ctx, err) {
			return nil, err
		}
	}
}

// takeTries is how often a child is asked for whose zygote, or which itself, is killed meanwhile.
const takeTries = 4

// ready gives a child that waits already, and has another one made in its place; nil if there is none with these
// limits.
func (t *tenants) ready(h *house, limits agentkernel.Limits) *child {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case h.limits == (agentkernel.Limits{}):
		h.limits = limits
		return nil
	case !sameWalls(h.limits, limits):
		if h.misses++; h.misses >= manyMisses {
			t.clear(h)
			h.limits, h.misses = limits, 0
		}
		return nil
	}
	h.misses = 0
	defer t.refill(h)
	for len(h.waiting) > 0 {
		c := h.waiting[0]
		h.waiting = h.waiting[1:]
		if !c.dead() {
			return c
		}
		c.close()
	}
	return nil
}

// afterwards is when a child that was taken is replaced while others wait: when a short program has ended, so that the
// fork does not slow it down.
const afterwards = 3 * time.Millisecond

// refill has a child made in place of one that was taken: at once if it was the last; t.mu is held.
func (t *tenants) refill(h *house) {
	if len(h.waiting) == 0 {
		t.replenish(h)
		return
	}
	time.AfterFunc(afterwards, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.replenish(h)
	})
}

// wallLimits are the limits that are built into walls; the others are the sandbox's own to keep. Of Disk that is what
// bounds /tmp.
func wallLimits(l agentkernel.Limits) agentkernel.Limits {
	return agentkernel.Limits{Disk: tmpBytes(l), Memory: l.Memory, Time: l.Time, CPUs: l.CPUs, CPUTime: l.CPUTime, Pids: l.Pids, OpenFiles: l.OpenFiles, FileSize: l.FileSize}
}

func sameWalls(a, b agentkernel.Limits) bool { return wallLimits(a) == wallLimits(b) }

// replenish forks children beside everything else; t.mu is held.
func (t *tenants) replenish(h *house) {
	for !t.closed && len(h.waiting)+h.making < t.cfg.Warm && !h.z.dead() {
		h.making++
		limits := h.limits
		t.tasks.Go(func() {
			c, err := h.z.fork(t.quit, limits, nil, nil)
			t.mu.Lock()
			defer t.mu.Unlock()
			h.making--
			switch {
			case err != nil: // the next take reports it to somebody who can do something about it
				t.cfg.Logger.Debug("no child in advance", "err", err)
			case t.closed || !sameWalls(limits, h.limits):
				c.kill(errClosed)
				c.close()
			default:
				t.forked++
				h.waiting = append(h.waiting, c)
				t.tasks.Go(func() { t.rehearse(h, c) })
			}
		})
	}
}

// quiet is how long a child has waited when it is told to rehearse, if nothing else runs then.
const quiet = 4 * time.Millisecond

var rehearsal = sealed([]byte("\x00\x00\x00\x00\x00" + `{"type":"rehearse"}`))

// rehearse has a waiting child use idle time: it does what running a program needs, which gets it the memory for it.
// While programs run that would take time away from them.
func (t *tenants) rehearse(h *house, c *child) {
	wait := quiet
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-t.quit.Done():
			return
		case <-c.ended:
			return
		case <-timer.C:
			wait = min(2*wait, time.Second) // a program may run for hours
			timer.Reset(wait)
		}
		t.mu.Lock()
		waits, busy := slices.Contains(h.waiting, c), h.making > 0 || h.busy()
		if waits && !busy {
			_ = c.send(rehearsal) // under the lock: nobody else speaks to it. It has ended: whoever takes it sees that
		}
		t.mu.Unlock()
		if !waits || !busy {
			return
		}
	}
}

// house gives the tenant's house with a zygote that can fork, starting one if there is none.
func (t *tenants) house(ctx context.Context, python Interpreter, who tenant) (*house, error) {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil, errClosed
	}
	h := t.houses[who]
	if h == nil || h.err != nil || h.z != nil && h.z.dead() {
		if h != nil {
			t.clear(h)
		}
		t.evict()
		h = &house{starts: make(chan struct{})}
		t.houses[who] = h
		t.tasks.Go(func() { t.build(h, python, who.set) })
	}
	h.used = time.Now()
	t.armRetire()
	t.mu.Unlock()
	select {
	case <-h.starts:
		return h, h.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// build starts the zygote of a house.
func (t *tenants) build(h *house, python Interpreter, set importSet) {
	defer close(h.starts)
	z, err := startZygote(t.quit, t.cfg, python, set)
	if err == nil {
		err = z.awaitReady(t.quit)
	}
	fell := false
	if err != nil && z != nil {
		fell = z.fell()
		z.kill(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	h.z, h.err, h.fell = z, err, fell
}

// clear forgets the waiting children of a house whose zygote has gone; t.mu is held.
func (t *tenants) clear(h *house) {
	for _, c := range h.waiting {
		c.kill(errZygoteGone)
		c.close()
	}
	h.waiting = nil
}

// busy says whether the zygote has children besides those that wait; t.mu is held.
func (h *house) busy() bool {
	if h.z == nil {
		return h.err == nil
	}
	h.z.mu.Lock()
	defer h.z.mu.Unlock()
	return len(h.z.children)+len(h.z.forks) > len(h.waiting)
}

// evict ends the zygote that was idle for longest when there are too many; t.mu is held. Busy ones stay.
func (t *tenants) evict() {
	if len(t.houses) < t.cfg.Zygotes {
		return
	}
	var oldest tenant
	var found *house
	for who, h := range t.houses {
		if !h.busy() && h.making == 0 && (found == nil || h.used.Before(found.used)) {
			oldest, found = who, h
		}
	}
	if found != nil {
		t.end(oldest, found)
	}
}

// end kills an idle zygote and forgets it; t.mu is held.
func (t *tenants) end(who tenant, h *house) {
	delete(t.houses, who)
	t.clear(h)
	if h.z != nil {
		t.tasks.Go(func() { h.z.kill(errIdle) })
	}
}

var errIdle = errors.New("nobody used it")

// armRetire sees to it that idle zygotes are looked at again; t.mu is held.
func (t *tenants) armRetire() {
	if t.retire == nil {
		t.retire = time.AfterFunc(t.cfg.IdleAfter, t.retireIdle)
	}
}

func (t *tenants) retireIdle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retire = nil
	if t.closed {
		return
	}
	for who, h := range t.houses {
		if !h.busy() && h.making == 0 && time.Since(h.used) >= t.cfg.IdleAfter {
			t.end(who, h)
		}
	}
	if len(t.houses) > 0 {
		t.armRetire()
	}
}

// background runs f beside everything else; close waits for it.
func (t *tenants) background(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.tasks.Go(f)
	}
}

func (t *tenants) stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Stats{Zygotes: len(t.houses), Forked: t.forked}
	for _, h := range t.houses {
		s.Waiting += len(h.waiting)
		if h.z != nil {
			h.z.mu.Lock()
			s.Children += len(h.z.children)
			h.z.mu.Unlock()
		}
	}
	return s
}

// close kills every zygote, and with it every program, and waits until they are gone.
func (t *tenants) close() {
	t.mu.Lock()
	t.closed = true
	t.stop()
	if t.retire != nil {
		t.retire.Stop()
	}
	houses := make([]*house, 0, len(t.houses))
	for _, h := range t.houses {
		houses = append(houses, h)
	}
	t.mu.Unlock()
	t.tasks.Wait()
	for _, h := range houses {
		if h.z != nil {
			h.z.kill(errClosed)
		}
	}
	for _, h := range houses {
		if h.z != nil {
			<-h.z.gone
		}
		t.mu.Lock()
		t.clear(h)
		t.mu.Unlock()
	}
}
