package faulty

import (
	"context"

	"agentkernel"
)

var _ agentkernel.Fencer = (*Store)(nil)

// fences are the trees that other kernels have taken over. Store.mu guards them.
type fences struct {
	epochs  map[agentkernel.PID]int64           // by root: of the newest lease
	roots   map[agentkernel.PID]agentkernel.PID // of the processes whose rows were appended
	refused map[agentkernel.Position]error
	told    func(root agentkernel.PID)
}

func newFences() fences {
	return fences{epochs: map[agentkernel.PID]int64{}, roots: map[agentkernel.PID]agentkernel.PID{}, refused: map[agentkernel.Position]error{}}
}

// OnFenced sets what is told of a tree that Fence takes away.
func (s *Store) OnFenced(fn func(root agentkernel.PID)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = fn
}

// Fence gives the tree below root to another kernel, under a lease of this epoch: batches of a lower one are refused from now
// on, and so are those that are held back.
func (s *Store) Fence(root agentkernel.PID, epoch int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epochs[root] = epoch
	for i := range s.held {
		h := &s.held[i]
		if err := s.fenced(&h.batch, h.pid); err != nil {
			s.fences.refused[s.handed+agentkernel.Position(i)+1] = err
			*h = held{refused: true} // its position stays
		}
	}
	if s.told != nil {
		go s.told(root)
	}
}

// refuses says why a batch is not taken; nil: it is. s.mu is held.
func (s *Store) refuses(b *agentkernel.Batch) error {
	pid := pidOf(*b)
	if b.Process != nil {
		s.roots[pid] = rootOf(b.Process)
	}
	return s.fenced(b, pid)
}

// fenced says that another kernel has the tree of a batch; s.mu is held.
func (s *Store) fenced(b *agentkernel.Batch, pid agentkernel.PID) error {
	if b.Epoch == 0 || b.Epoch >= s.epochs[s.root(pid)] {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeFenced, "store", "another kernel holds the tree of process %d", s.root(pid)).WithPID(pid)
}

// root is the process at the root of a process's tree; s.mu is held.
func (s *Store) root(pid agentkernel.PID) agentkernel.PID {
	if root, ok := s.roots[pid]; ok {
		return root
	}
	rec, err := s.inner.Process(context.Background(), pid)
	if err != nil {
		return pid
	}
	s.roots[pid] = rootOf(&rec)
	return s.roots[pid]
}

func rootOf(rec *agentkernel.ProcessRecord) agentkernel.PID {
	if above := rec.Spec.Ancestors; len(above) > 0 {
		return above[0]
	}
	return rec.PID
}
