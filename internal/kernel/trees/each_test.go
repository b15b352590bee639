package trees_test

import (
	"sync"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/trees"
)

// TestEach: every place is called once, a child never before its parent has been dealt with, and one tree that waits holds up no other.
func TestEach(t *testing.T) {
	trees.Each(nil, func(int) { t.Error("called for nothing") })
	var list []agentkernel.ProcessRecord
	for pid := agentkernel.PID(1); pid <= 40; pid++ {
		rec := agentkernel.ProcessRecord{}
		rec.PID = pid
		if pid > 8 { // below one of the first eight
			rec.Spec.Ancestors = []agentkernel.PID{pid%8 + 1}
		}
		list = append(list, rec)
	}
	var mu sync.Mutex
	called := map[int]int{}
	last := map[agentkernel.PID]int{}
	others := make(chan struct{})
	trees.Each(list, func(i int) {
		root := list[i].PID
		if above := list[i].Spec.Ancestors; len(above) > 0 {
			root = above[0]
		}
		if i == 0 {
			<-others
		}
		mu.Lock()
		defer mu.Unlock()
		if was, ok := last[root]; ok && was > i {
			t.Errorf("place %d of tree %d after place %d", i, root, was)
		}
		last[root] = i
		if called[i]++; len(called) == 30 { // the chunk of the tree that waits has ten places
			close(others)
		}
	})
	for i := range list {
		if called[i] != 1 {
			t.Errorf("place %d was called %d times", i, called[i])
		}
	}
}
