package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"agentkernel"
)

// store is the disk as one generation of kernels has it.
type store struct {
	w          *World
	generation int
	closed     atomic.Bool
	broken     atomic.Bool // a commit has failed
	refused    atomic.Bool // and the kernel itself has heard of it; a client keeps it to himself
}

var _ agentkernel.Store = (*store)(nil)

// crashed is what the goroutines of a dead kernel are told.
func crashed() error {
	return agentkernel.Errorf(agentkernel.CodeStorage, "store", "the machine crashed")
}

// closedStore is what a store answers that was closed.
func closedStore() error {
	return agentkernel.Errorf(agentkernel.CodeUnavailable, "store", "the store has been closed")
}

func brokenStore() error {
	return agentkernel.Errorf(agentkernel.CodeStorage, "store", "the disk is full")
}

// unusable is why nothing more can be written; nil: it can.
func (s *store) unusable() error {
	switch {
	case s.broken.Load():
		return brokenStore()
	case s.closed.Load():
		return closedStore()
	}
	return nil
}

func (s *store) Info() agentkernel.StoreInfo { return agentkernel.StoreInfo{UUID: storeUUID} }

const storeUUID = "sim"

func (s *store) NewPID(context.Context) (agentkernel.PID, error) {
	d := s.w.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.w.gate.alive(s.generation) {
		d.last++
	}
	return d.last, nil
}

// Append never waits: the kernel calls it under its locks.
func (s *store) Append(b agentkernel.Batch) (agentkernel.Position, error) {
	d := s.w.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if !s.w.gate.alive(s.generation) {
		return 0, crashed()
	}
	if err := s.unusable(); err != nil {
		s.refused.Store(s.broken.Load())
		return 0, err
	}
	b = clean(b)
	s.w.trace.batch(&b)
	for i := range b.Entries {
		e := &b.Entries[i]
		begins := e.Kind == agentkernel.EntryCall && !e.Done || e.Kind == agentkernel.EntryRetry
		if begins && s.w.held.over(d.view.rows[e.PID]) {
			s.w.failf("process %d begins call %d, %s, and was told to stand still", e.PID, e.Call, e.Op)
		}
	}
	pos, err := d.append(b)
	if err != nil {
		s.w.failf("%v", err)
	}
	return pos, nil
}

// Flush makes durable what it is asked for, and mostly everything.
func (s *store) Flush(ctx context.Context, pos agentkernel.Position) error {
	roll, ok := s.w.gate.pass(s.generation, s.nameOf(ctx, pos), 0)
	if !ok {
		return crashed()
	}
	d := s.w.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if (roll>>16)%10_000 < s.w.plan.breaks && !s.closed.Load() {
		s.broken.Store(true)
	}
	switch {
	case s.broken.Load(): // for ever, also for what is durable
		s.refused.Store(s.refused.Load() || opOf(ctx) == nil)
		return brokenStore()
	case s.closed.Load() && pos > d.base+agentkernel.Position(d.durable):
		return closedStore()
	case ctx.Err() != nil && roll%2 == 0:
		return ctx.Err()
	case roll%8 < 6:
		d.commit(d.end())
	default:
		d.commit(pos)
	}
	return nil
}

// nameOf names a flush by who waits for it: a client, or the process whose batch is at the position.
func (s *store) nameOf(ctx context.Context, pos agentkernel.Position) string {
	if o := opOf(ctx); o != nil {
		return fmt.Sprintf("flush by op %d", o.id)
	}
	d := s.w.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := int(pos - d.base); i > 0 && i <= len(d.log) {
		return fmt.Sprintf("flush of %d at %d", pidOf(&d.log[i-1]), pos)
	}
	return "flush"
}

// Close makes everything durable.
func (s *store) Close() error {
	if _, ok := s.w.gate.pass(s.generation, "close store", 0); !ok {
		return crashed()
	}
	if s.broken.Load() {
		return brokenStore()
	}
	d := s.w.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commit(d.end())
	s.closed.Store(true)
	return nil
}

// readOf is read for something of a process. What the kernel reads of one whose program lives elsewhere it reads with the seat of
// its host locked.
func (s *store) readOf(ctx context.Context, pid agentkernel.PID, what string, about any) error {
	if r := s.w.disk.row(pid); r == nil || r.Spec.Backend != hostedBackend {
		return s.read(ctx, what, about)
	}
	if !s.w.gate.alive(s.generation) {
		return crashed()
	}
	return nil
}

// read waits for the turn of a read, unless its caller holds a lock meanwhile: one that looks for an idempotency key.
func (s *store) read(ctx context.Context, what string, about any) error {
	if !s.w.gate.alive(s.generation) {
		return crashed()
	}
	o := opOf(ctx)
	if s.w.booting || o != nil && o.locks {
		return ctx.Err()
	}
	name := fmt.Sprintf("read %s %v", what, about)
	if o != nil {
		name += fmt.Sprintf(" by op %d", o.id)
	}
	if _, ok := s.w.gate.pass(s.generation, name, 0); !ok {
		return crashed()
	}
	if s.closed.Load() {
		return closedStore()
	}
	return ctx.Err()
}

func (s *store) Process(ctx context.Context, pid agentkernel.PID) (agentkernel.ProcessRecord, error) {
	if err := s.read(ctx, "process", pid); err != nil {
		return agentkernel.ProcessRecord{}, err
	}
	r := s.w.disk.row(pid)
	if r == nil {
		return agentkernel.ProcessRecord{}, agentkernel.Errorf(agentkernel.CodeNotFound, "store", "there is no process %d", pid)
	}
	return *r, nil
}

func (s *store) Processes(ctx context.Context, f agentkernel.Filter) ([]agentkernel.ProcessRecord, error) {
	if err := s.read(ctx, "processes", f.Parent); err != nil {
		return nil, err
	}
	return s.list(f), nil
}

func (s *store) list(f agentkernel.Filter) []agentkernel.ProcessRecord {
	var out []agentkernel.ProcessRecord
	for _, row := range slices.Backward(s.w.disk.rows()) {
		r := *row
		if f.Unfinished && r.State.Terminal() || f.Active && (r.State.Terminal() || r.Parked != nil) || f.Before != 0 && r.PID >= f.Before || f.Parent != 0 && r.Parent != f.Parent || f.Namespace != "" && r.Namespace != f.Namespace {
			continue
		}
		r.Spec.Program.Source, r.Spec.Program.Modules = "", nil
		if out = append(out, r); f.Limit > 0 && len(out) == f.Limit {
			break
		}
	}
	return out
}

func (s *store) Count(ctx context.Context, f agentkernel.Filter) (int, error) {
	if err := s.read(ctx, "count", f.Parent); err != nil {
		return 0, err
	}
	f.Limit = 0
	return len(s.list(f)), nil
}

func (s *store) Due(ctx context.Context, kernel int64, limit int) (list []agentkernel.Due, err error) {
	if err := s.read(ctx, "due", limit); err != nil {
		return nil, err
	}
	for _, r := range s.w.disk.rows() {
		if p := r.Parked; !r.State.Terminal() && p != nil && !p.Until.IsZero() && (kernel == 0 || p.Kernel == kernel) {
			list = append(list, agentkernel.Due{PID: r.PID, At: p.Until})
		}
	}
	slices.SortStableFunc(list, func(a, b agentkernel.Due) int { return a.At.Compare(b.At) })
	return list[:min(limit, len(list))], nil
}

func (s *store) Inbox(ctx context.Context, pid agentkernel.PID) ([]agentkernel.Post, error) {
	if err := s.readOf(ctx, pid, "inbox", pid); err != nil {
		return nil, err
	}
	return s.w.disk.inbox(pid), nil
}

func (s *store) Waiting(ctx context.Context, pid agentkernel.PID, kind string) (n int, err error) {
	list, err := s.Inbox(ctx, pid)
	for i := range list {
		if list[i].Kind == kind {
			n++
		}
	}
	return n, err
}

func (s *store) Posted(ctx context.Context) (found []agentkernel.PID, err error) {
	if err := s.read(ctx, "posted", ""); err != nil {
		return nil, err
	}
	for _, r := range s.w.disk.rows() {
		if len(s.w.disk.inbox(r.PID)) > 0 && !r.State.Terminal() {
			found = append(found, r.PID)
		}
	}
	return found, nil
}

// ByKey does not wait: the kernel holds a lock.
func (s *store) ByKey(ctx context.Context, namespace, key string) (agentkernel.PID, error) {
	if !s.w.gate.alive(s.generation) {
		return 0, crashed()
	}
	d := s.w.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	pid, ok := d.view.keys[agentkernel.Key{Namespace: namespace, Name: key}]
	if !ok {
		return 0, agentkernel.Errorf(agentkernel.CodeNotFound, "store", "no process has that key")
	}
	return pid, ctx.Err()
}

func (s *store) Entries(ctx context.Context, pid agentkernel.PID, from int64, limit int) ([]agentkernel.Entry, error) {
	if err := s.readOf(ctx, pid, "entries", fmt.Sprint(pid, from, limit)); err != nil {
		return nil, err
	}
	all := s.w.disk.journal(pid)
	all = all[min(max(from-1, 0), int64(len(all))):]
	if limit > 0 {
		all = all[:min(limit, len(all))]
	}
	return all, nil
}

func (s *store) Image(ctx context.Context, pid agentkernel.PID) (agentkernel.Image, error) {
	if err := s.read(ctx, "image", pid); err != nil {
		return agentkernel.Image{}, err
	}
	d := s.w.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	im, ok := d.view.images[pid]
	if !ok {
		return im, agentkernel.Errorf(agentkernel.CodeNotFound, "store", "there is no image of process %d", pid)
	}
	return im, nil
}

func (s *store) State(ctx context.Context, pid agentkernel.PID) (map[string]json.RawMessage, error) {
	if err := s.readOf(ctx, pid, "state", pid); err != nil {
		return nil, err
	}
	d := s.w.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.view.state[pid]), nil
}

// SmallState reads all of a working set: none of a simulation is large.
func (s *store) SmallState(ctx context.Context, pid agentkernel.PID, atMost int64) (state map[string]json.RawMessage, size int64, err error) {
	if state, err = s.State(ctx, pid); err == nil {
		state, size = agentkernel.SmallState(state, atMost)
	}
	return state, size, err
}

// SetHolds is durable at once, or did not happen.
func (s *store) SetHolds(ctx context.Context, holds []agentkernel.Hold) error {
	if err := s.read(ctx, "set holds", len(holds)); err != nil {
		return err
	}
	if err := s.unusable(); err != nil {
		return err
	}
	d := s.w.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holds = slices.Clone(holds)
	return nil
}

func (s *store) Holds(ctx context.Context) ([]agentkernel.Hold, error) {
	if err := s.read(ctx, "holds", ""); err != nil {
		return nil, err
	}
	d := s.w.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.holds), nil
}
