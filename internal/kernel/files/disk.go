package files

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/limits"
)

// How often a layer is measured: the first time soon, then so that measuring takes no more than a tenth of the time.
const (
	look  = 50 * time.Millisecond
	share = 10
)

// Disk makes the layers of processes and counts what they hold: those of a process by itself, and those of all processes below a
// root together against what the root may have, so that nobody has more by starting more children. What a child that has ended
// has left counts until it is applied or discarded. The root itself never ends for what is below it.
type Disk struct {
	store  agentkernel.StoreReader
	layers agentkernel.Layers
	limit  func(*agentkernel.Spec) agentkernel.Limits
	log    *slog.Logger

	mu    sync.Mutex
	trees map[agentkernel.PID]*treeDisk // by root; none of a tree that has not been asked for in this life of the kernel
}

// treeDisk is what the layers of all processes below a root hold.
type treeDisk struct {
	mu     sync.Mutex
	counts bool // what the store says is in here
	limit  int64
	held   map[agentkernel.PID]onDisk
	again  time.Time // not counted anew before
}

// onDisk is what one process has on the disk: in its folders, and in files that its sandbox holds without a name.
type onDisk struct{ layer, nameless int64 }

// NewDisk counts on what a store and layers have (nil: no process has folders). limit gives the limits in force of a Spec.
func NewDisk(store agentkernel.StoreReader, layers agentkernel.Layers, limit func(*agentkernel.Spec) agentkernel.Limits, log *slog.Logger) *Disk {
	return &Disk{store: store, layers: layers, limit: limit, log: log, trees: map[agentkernel.PID]*treeDisk{}}
}

// Create prepares the folders of a process that gets this PID. CodeLimit: the layers of its tree hold as much as they may.
func (d *Disk) Create(ctx context.Context, pid agentkernel.PID, s *agentkernel.Spec) error {
	if !s.NeedsFiles() {
		return nil
	}
	if d.layers == nil {
		return agentkernel.Errorf(agentkernel.CodeUnsupported, "workspace", "this kernel gives programs no folders and no standard input")
	}
	if !s.HasFiles() || len(s.Ancestors) == 0 {
		return d.layers.Create(pid, s)
	}
	root := s.Ancestors[0]
	if full := d.treeFull(ctx, root, 0, onDisk{}); full != nil {
		return full
	}
	if err := d.layers.Create(pid, s); err != nil {
		return err
	}
	if h, err := d.layer(pid); err == nil {
		_ = d.treeFull(ctx, root, pid, h) // one that goes beyond it now is told when it is measured
	}
	return nil
}

// Watch measures the changes of a process again and again, until ctx ends, or ended is told of a limit that they have hit.
func (d *Disk) Watch(ctx context.Context, pid agentkernel.PID, s *agentkernel.Spec, box func() agentkernel.Sandbox, ended func(*agentkernel.Error)) {
	watch(ctx, func() bool {
		full := d.Full(ctx, pid, s, box)
		if full != nil && ctx.Err() == nil {
			ended(full)
		}
		return full != nil
	})
}

// watch calls full soon, and then so that it takes no more than a tenth of the time, until it says true or ctx ends.
func watch(ctx context.Context, full func() bool) {
	for wait := look; ; {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		begun := time.Now()
		if full() {
			return
		}
		wait = max(look, share*time.Since(begun))
	}
}

// Full is the limit that a process's changes have hit, those included that its sandbox holds (nil: it has none), or those of its
// tree, if it has added to them; nil: none. What cannot be measured is logged, and ends nothing.
func (d *Disk) Full(ctx context.Context, pid agentkernel.PID, s *agentkernel.Spec, box func() agentkernel.Sandbox) *agentkernel.Error {
	own, ofTree := d.measure(ctx, pid, s, box)
	return cmp.Or(own, ofTree)
}

// Ended is the same of a program that has exited, by itself: what its tree holds is a matter of those that go on.
func (d *Disk) Ended(ctx context.Context, pid agentkernel.PID, s *agentkernel.Spec, box func() agentkernel.Sandbox) *agentkernel.Error {
	own, _ := d.measure(ctx, pid, s, box)
	return own
}

func (d *Disk) measure(ctx context.Context, pid agentkernel.PID, s *agentkernel.Spec, box func() agentkernel.Sandbox) (own, ofTree *agentkernel.Error) {
	used, beside, err := d.layers.Used(pid)
	if full := agentkernel.AsError(err, agentkernel.CodeStorage, ""); err != nil && full.Code == agentkernel.CodeLimit {
		return full, nil
	}
	if err != nil {
		d.log.Warn("the changes of a process cannot be measured", "pid", pid, "err", err)
		return nil, nil
	}
	var nameless int64
	if holder, ok := box().(agentkernel.Holder); ok {
		nameless = holder.Held(used)
	}
	if len(s.Ancestors) > 0 {
		ofTree = d.treeFull(ctx, s.Ancestors[0], pid, onDisk{used + beside, nameless})
	}
	limit := d.limit(s)
	return limits.Disk(&limit, used+nameless, pid), ofTree
}

// Forget lets go of what is known of a tree whose last process has ended.
func (d *Disk) Forget(root agentkernel.PID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.trees, root)
}

func (d *Disk) tree(root agentkernel.PID) *treeDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.trees[root]
	if t == nil {
		t = &treeDisk{}
		d.trees[root] = t
	}
	return t
}

// Changed says that somebody has applied or discarded what a process has left.
func (d *Disk) Changed(pid agentkernel.PID) {
	d.mu.Lock()
	all := slices.Collect(maps.Values(d.trees))
	d.mu.Unlock()
	for _, t := range all {
		t.mu.Lock()
		if _, ok := t.held[pid]; ok {
			t.held[pid], _ = d.layer(pid) // nothing, where none is left
		}
		t.mu.Unlock()
	}
}

// treeFull notes what a process below a root has on the disk (0: none), and gives the limit that all below it have hit, if it has more
// than before; nil: none.
func (d *Disk) treeFull(ctx context.Context, root, pid agentkernel.PID, now onDisk) *agentkernel.Error {
	t := d.tree(root)
	t.mu.Lock()
	defer t.mu.Unlock()
	note := func() {
		if pid != 0 {
			t.held[pid] = now
		}
	}
	if !t.counts && !d.count(ctx, root, t) {
		return nil
	}
	before := t.held[pid]
	note()
	// Somebody may have pruned since: whoever did so says nothing here.
	if t.sum() > t.limit && !time.Now().Before(t.again) {
		d.count(ctx, root, t)
		note()
	}
	if pid != 0 && now.layer+now.nameless <= before.layer+before.nameless { // others have filled it
		return nil
	}
	return limits.DiskOfTree(t.limit, t.sum(), root)
}

func (t *treeDisk) sum() (sum int64) {
	for _, h := range t.held {
		sum += h.layer + h.nameless
	}
	return sum
}

// count measures the layers of all processes below a root, no more than a tenth of the time; t.mu is held. False: it cannot.
func (d *Disk) count(ctx context.Context, root agentkernel.PID, t *treeDisk) bool {
	begun := time.Now()
	err := d.walk(ctx, root, t)
	t.again = time.Now().Add(max(look, share*time.Since(begun)))
	if err != nil {
		d.log.Warn("what the layers of a tree hold cannot be counted", "pid", root, "err", err)
	}
	return err == nil
}

// walk measures the layers of all processes below a root. What a running sandbox holds without a name stays as it was told.
func (d *Disk) walk(ctx context.Context, root agentkernel.PID, t *treeDisk) error {
	top, err := d.store.Process(ctx, root)
	if err != nil {
		return err
	}
	held := map[agentkernel.PID]onDisk{}
	for above := []agentkernel.PID{root}; len(above) > 0; above = above[1:] {
		children, err := d.store.Processes(ctx, agentkernel.Filter{Parent: above[0]})
		if err != nil {
			return err
		}
		for _, c := range children {
			if !c.Spec.HasFiles() { // nor has any child of it
				continue
			}
			h, _ := d.layer(c.PID) // nothing where none is left, or where it cannot be measured: its process is told so
			if !c.State.Terminal() {
				h.nameless = t.held[c.PID].nameless
			}
			held[c.PID] = h
			above = append(above, c.PID)
		}
	}
	for pid, before := range t.held { // not stored yet
		if _, ok := held[pid]; !ok {
			if h, err := d.layer(pid); err == nil {
				h.nameless = before.nameless
				held[pid] = h
			}
		}
	}
	t.counts, t.limit, t.held = true, d.limit(&top.Spec).Disk, held
	return nil
}

// layer is what the layers of a child take on the disk, and how its folders were found.
func (d *Disk) layer(pid agentkernel.PID) (onDisk, error) {
	used, beside, err := d.layers.Used(pid)
	return onDisk{layer: used + beside}, err
}
