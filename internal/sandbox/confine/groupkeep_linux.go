package confine

import (
	"errors"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Cgroups of version 1 are used again: to make and to remove three takes longer than anything else that a sandbox
// needs of the kernel, and leaves Linux work to do when both are done. A group of version 2 is one directory alone, and
// the most memory that it ever had is told for good.

// KeptGroups bounds how many sandboxes' cgroups are kept without a sandbox.
const KeptGroups = 16

const (
	// keptFor is how long after they were made: another kernel takes what is old and empty for abandoned.
	keptFor = abandoned / 2
	// keptMemory is what may still be charged to them: the system takes its time to count down, and what a program
	// left in the caches of the machine would count as the next one's.
	keptMemory = 2 << 20
)

// keep takes back the cgroups of a sandbox in which everything is dead, and none of whose limits was met. It says
// whether it wants them.
func (g *groups) keep(gr *group) bool {
	for _, c := range []string{ctlMemory, ctlPids, ctlCPU} {
		if gr.dirs[c] == "" || gr.v2[c] {
			return false
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || len(g.kept) >= KeptGroups || time.Since(gr.made) > keptFor {
		return false
	}
	g.kept = append(g.kept, gr)
	return true
}

// again gives kept cgroups with these limits, as if they were new; nil if there are none.
func (g *groups) again(l Limits) *group {
	g.mu.Lock()
	var gr *group
	if len(g.kept) > 0 { // the one that has been there for longest
		gr = g.kept[0]
		g.kept = g.kept[1:]
	}
	g.mu.Unlock()
	if gr == nil {
		return nil
	}
	if gr.limits != l || !gr.renew() {
		_ = gr.remove() // what cannot be removed is removed by the next kernel
		return nil
	}
	return gr
}

// renew makes kept cgroups like new ones. It says whether they are.
func (gr *group) renew() bool {
	memory, pids, cpu := gr.dirs[ctlMemory], gr.dirs[ctlPids], gr.dirs[ctlCPU]
	if n, err := readInt(filepath.Join(pids, "pids.current")); err != nil || n != 0 || time.Since(gr.made) > keptFor {
		return false
	}
	if n, err := readInt(filepath.Join(memory, "memory.usage_in_bytes")); err != nil || n > keptMemory {
		return false
	}
	if err := writeFile(filepath.Join(memory, mostWithSwap), "0"); err != nil && !errors.Is(err, unix.ENOENT) {
		return false
	}
	// A quota that is set is a fresh one, whatever the last program has used of it.
	return writeFile(filepath.Join(memory, "memory.max_usage_in_bytes"), "0") == nil &&
		writeFile(filepath.Join(cpu, "cpu.cfs_quota_us"), strconv.Itoa(gr.limits.quota())) == nil
}
