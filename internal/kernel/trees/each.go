package trees

import (
	"slices"
	"sync"

	"agentkernel"
)

// sideBySide is how many trees Each has under way at a time: enough to read of one while another waits.
const sideBySide = 4

// Each calls fn with each place in a list of processes, and returns when all calls have: those of one tree one after the other, in the
// order of the list, several trees side by side.
func Each(list []agentkernel.ProcessRecord, fn func(i int)) {
	of := make(map[agentkernel.PID][]int, len(list))
	var roots []agentkernel.PID // in the order of the list
	for i := range list {
		root := list[i].PID
		if above := list[i].Spec.Ancestors; len(above) > 0 {
			root = above[0]
		}
		if _, seen := of[root]; !seen {
			roots = append(roots, root)
		}
		of[root] = append(of[root], i)
	}
	var group sync.WaitGroup
	for tree := range slices.Chunk(roots, max(1, (len(roots)+sideBySide-1)/sideBySide)) {
		group.Go(func() {
			for _, root := range tree {
				for _, i := range of[root] {
					fn(i)
				}
			}
		})
	}
	group.Wait()
}
