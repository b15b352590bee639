package storetest

import (
	"slices"
	"testing"

	"agentkernel"
)

// FencingOpener opens a store that lives in a directory. fence gives the tree below root to another kernel, under a lease of
// this epoch.
type FencingOpener func(dir string) (s agentkernel.Store, fence func(root agentkernel.PID, epoch int64), err error)

// ExerciseFencing runs the suite of a store that several kernels use, beside Exercise.
func ExerciseFencing(t *testing.T, open FencingOpener) {
	var fence func(agentkernel.PID, int64)
	f := start(t, func(dir string) (s agentkernel.Store, err error) {
		s, fence, err = open(dir)
		return s, err
	})
	fencer, ok := f.Store.(agentkernel.Fencer)
	if !ok {
		t.Fatal("the store is no Fencer")
	}
	told := make(chan agentkernel.PID, 4)
	fencer.OnFenced(func(root agentkernel.PID) { told <- root })
	root, child, other := record(f.pid()), record(f.pid()), record(f.pid())
	child.Parent, child.Spec.Parent, child.Spec.Ancestors = root.PID, root.PID, []agentkernel.PID{root.PID}
	batch := func(p *agentkernel.ProcessRecord, seq, epoch int64) agentkernel.Batch {
		return agentkernel.Batch{Epoch: epoch, Process: p, Entries: []agentkernel.Entry{entry(p.PID, seq)}}
	}
	for _, p := range []*agentkernel.ProcessRecord{root, child, other} {
		f.flush(f.append(batch(p, 1, 1)))
	}
	of := func(p *agentkernel.ProcessRecord) (seqs []int64) {
		for _, e := range f.entries(p.PID) {
			seqs = append(seqs, e.Seq)
		}
		return seqs
	}

	before := f.append(batch(other, 2, 1))
	lost := f.append(agentkernel.Batch{Epoch: 1, Entries: []agentkernel.Entry{entry(child.PID, 2)}})
	after := f.append(batch(other, 3, 1))
	fence(root.PID, 2)
	if got := <-told; got != root.PID {
		t.Errorf("the tree of process %d was said to be fenced, want %d", got, root.PID)
	}
	f.refused(f.Flush(t.Context(), lost), agentkernel.CodeFenced)
	f.flush(before) // the others, before and behind it, go on
	f.flush(after)
	f.refused(f.Flush(t.Context(), lost), agentkernel.CodeFenced) // again, and for ever
	for _, p := range []*agentkernel.ProcessRecord{root, child} {
		_, err := f.Append(batch(p, 2, 1))
		f.refused(err, agentkernel.CodeFenced)
	}
	if got := of(child); !slices.Equal(got, []int64{1}) {
		t.Errorf("the fenced journal has the entries %v", got)
	}
	f.flush(f.append(batch(child, 2, 2))) // whoever has the lease
	f.flush(f.append(batch(root, 2, 0)))  // and who needs none
	f.flush(f.append(batch(other, 4, 1)))
	f.twice(func() {
		if a, b, c := of(root), of(child), of(other); !slices.Equal(a, []int64{1, 2}) || !slices.Equal(b, a) || !slices.Equal(c, []int64{1, 2, 3, 4}) {
			t.Errorf("the journals have the entries %v, %v, %v", a, b, c)
		}
	})
	if len(told) > 0 {
		t.Errorf("process %d was fenced, too", <-told)
	}
}

// epochs: as long as nobody has a newer lease of a tree, its batches are taken, under whatever epoch.
func epochs(t *testing.T, open Opener) {
	f := start(t, open)
	p := record(f.pid())
	f.append(agentkernel.Batch{Process: p, Epoch: 1})
	for i, epoch := range []int64{1, 1, 0, 2} {
		f.flush(f.append(agentkernel.Batch{Epoch: epoch, Entries: []agentkernel.Entry{entry(p.PID, int64(i)+1)}}))
	}
	f.twice(func() {
		if got := f.entries(p.PID); len(got) != 4 {
			t.Errorf("%d entries, want 4", len(got))
		}
	})
}
