package files_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/files"
)

// disk counts with a limit of 100 bytes, unless a Spec has one of its own.
func disk(store agentkernel.StoreReader, l agentkernel.Layers) *files.Disk {
	return files.NewDisk(store, l, func(s *agentkernel.Spec) agentkernel.Limits {
		return s.Limits.WithDefaults(agentkernel.Limits{Disk: 100})
	}, slog.New(slog.DiscardHandler))
}

// measured is a Layers whose processes have what a test says, and as much beside it.
type measured struct {
	agentkernel.Layers
	used   map[agentkernel.PID]int64
	beside int64
	err    error
	asked  int
}

func (m *measured) Create(pid agentkernel.PID, _ *agentkernel.Spec) error {
	m.used[pid] = 0
	return nil
}

func (m *measured) Used(pid agentkernel.PID) (changes, beside int64, err error) {
	m.asked++
	n, ok := m.used[pid]
	if !ok {
		return 0, 0, errors.New("there is none")
	}
	return n, m.beside, m.err
}

// family is a store of one tree.
type family struct {
	agentkernel.StoreReader
	rows []agentkernel.ProcessRecord
	err  error
}

func (f *family) Process(_ context.Context, pid agentkernel.PID) (agentkernel.ProcessRecord, error) {
	return f.rows[pid-1], f.err
}

func (f *family) Processes(_ context.Context, by agentkernel.Filter) (list []agentkernel.ProcessRecord, err error) {
	for _, rec := range f.rows {
		if rec.Spec.Parent == by.Parent {
			list = append(list, rec)
		}
	}
	return list, f.err
}

// child adds a process below others; the first has none above it.
func (f *family) child(above ...agentkernel.PID) (agentkernel.PID, *agentkernel.Spec) {
	s := withFolder()
	if s.Stdin = ""; len(above) > 0 {
		s.Ancestors, s.Parent = above, above[len(above)-1]
	}
	pid := agentkernel.PID(len(f.rows) + 1)
	f.rows = append(f.rows, agentkernel.ProcessRecord{Process: agentkernel.Process{PID: pid, State: agentkernel.StateUnfinished}, Spec: *s})
	return pid, s
}

// tree is a root, process 1, and what tests put below it.
type tree struct {
	t      *testing.T
	store  *family
	layers *measured
	disk   *files.Disk
}

func newTree(t *testing.T) *tree {
	r := &tree{t: t, store: &family{}, layers: &measured{used: map[agentkernel.PID]int64{}}}
	r.disk = disk(r.store, r.layers)
	r.spawn()
	return r
}

func (r *tree) spawn(above ...agentkernel.PID) agentkernel.PID {
	pid, s := r.store.child(above...)
	if err := r.disk.Create(r.t.Context(), pid, s); err != nil {
		r.t.Fatal(err)
	}
	return pid
}

func (r *tree) full(pid agentkernel.PID, b agentkernel.Sandbox) *agentkernel.Error {
	return r.disk.Full(r.t.Context(), pid, &r.store.rows[pid-1].Spec, func() agentkernel.Sandbox { return b })
}

// TestFull: what a sandbox holds in files without a name counts, and what cannot be measured ends nothing.
func TestFull(t *testing.T) {
	for name, c := range map[string]struct {
		used int64
		err  error
		box  agentkernel.Sandbox
		full bool
	}{
		"as much as it may":        {100, nil, nil, false},
		"more":                     {101, nil, nil, true},
		"with what has no name":    {60, nil, &box{held: 41}, true},
		"and that fits":            {60, nil, &box{held: 40}, false},
		"not to be measured":       {0, errors.New("broken"), nil, false},
		"said while it is counted": {0, agentkernel.LimitErrorf("disk", "too many files"), nil, true},
	} {
		r := newTree(t)
		r.layers.beside = 1000
		r.layers.used[1], r.layers.err = c.used, c.err
		if full := r.full(1, c.box); (full != nil) != c.full {
			t.Errorf("%s: %v", name, full)
		}
	}
}

// TestATreeIsFull: what all children have on the disk counts against what the root may have, also of those that have ended, and of
// processes that an earlier kernel ran; how their folders were found counts, too. What is applied or discarded counts no more,
// and the root goes on.
func TestATreeIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, restarted := range []bool{false, true} {
			r := newTree(t)
			r.layers.beside = 5
			first, second := r.spawn(1), r.spawn(1, 2)
			r.layers.used[1], r.layers.used[first], r.layers.used[second] = 100, 45, 45
			if restarted {
				r.disk = disk(r.store, r.layers)
			}
			for _, pid := range []agentkernel.PID{1, first, second} {
				if full := r.full(pid, nil); full != nil {
					t.Errorf("restarted %v: 100 of 100 bytes, and process %d ends: %v", restarted, pid, full)
				}
			}
			r.store.rows[first-1].State, r.layers.used[second] = agentkernel.StateExited, 46
			full := r.full(second, nil)
			if limit, _ := full.Limit(); limit != "disk" || full.Hint == "" {
				t.Errorf("restarted %v: 101 of 100 bytes: %v", restarted, full)
			}
			if full := r.full(1, nil); full != nil {
				t.Errorf("restarted %v: the root ends: %v", restarted, full)
			}
			third, spec := r.store.child(1)
			if err := r.disk.Create(t.Context(), third, spec); agentkernel.CodeOf(err) != agentkernel.CodeLimit {
				t.Errorf("restarted %v: a child more: %v", restarted, err)
			}
			time.Sleep(time.Second)
			r.layers.used[first] = 0
			if err := r.disk.Create(t.Context(), third, spec); err != nil {
				t.Errorf("restarted %v: a child after one was applied: %v", restarted, err)
			}
			time.Sleep(time.Second)
			r.layers.used[third] = 90
			if delete(r.layers.used, second); r.full(third, nil) != nil {
				t.Errorf("restarted %v: one that was pruned counts", restarted)
			}
		}
	})
}

// TestFilesWithoutANameOfATree: what sandboxes hold in files without a name is not lost when the tree is counted anew, unless
// their process has ended.
func TestFilesWithoutANameOfATree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTree(t)
		one, two := r.spawn(1), r.spawn(1)
		if full := r.full(one, &box{held: 60}); full != nil {
			t.Fatal(full)
		}
		r.layers.used[two] = 41
		if full := r.full(two, nil); full == nil {
			t.Error("101 of 100 bytes, and the tree goes on")
		}
		time.Sleep(time.Second)
		r.store.rows[one-1].State = agentkernel.StateKilled
		if full := r.full(two, nil); full != nil {
			t.Errorf("what a sandbox held that is gone: %v", full)
		}
	})
}

// TestATreeIsNotCountedTooOften: a program that asks again and again for a child more has the tree measured no more than a tenth
// of the time, also right after it was forgotten.
func TestATreeIsNotCountedTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTree(t)
		child := r.spawn(1)
		r.layers.used[child] = 101
		if full := r.full(child, nil); full == nil {
			t.Fatal("101 of 100 bytes")
		}
		for range 2 {
			r.layers.asked = 0
			for range 100 {
				if err := r.disk.Create(t.Context(), 9, &r.store.rows[child-1].Spec); err == nil {
					t.Fatal("a child more")
				}
			}
			if r.layers.asked > 1 {
				t.Errorf("measured %d times", r.layers.asked)
			}
			r.disk.Forget(1)
		}
	})
}
