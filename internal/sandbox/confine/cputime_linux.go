package confine

import (
	"path/filepath"
	"strconv"
	"time"
)

// cpuTotal is what a sandbox's processes have used of the processors. It never falls: a process that ended without being
// waited for (its parent ignores SIGCHLD, or set SA_NOCLDWAIT) adds nothing to its parent's time, so what it was last seen
// to have used is kept. One that lived and ended so between two looks is not counted; only a cgroup counts that.
type cpuTotal struct {
	seen    map[cpuKey]cpuSeen
	pending map[cpuKey]time.Duration // by parent: what ended since the last look, and may still show in the parent's time
	orphans time.Duration            // the same, of processes whose parent has ended too
	lost    time.Duration            // what no process shows any more
}

// cpuKey is one process: numbers are used again.
type cpuKey struct {
	pid   int
	start string
}

type cpuSeen struct {
	total  time.Duration // its own, and that of the children it has waited for
	waited time.Duration // that of the children
	parent cpuKey
}

// of adds a tree up. It says whether processes vanish without being waited for.
func (c *cpuTotal) of(tree []int) (sum time.Duration, vanish bool) {
	now := make(map[cpuKey]cpuSeen, len(tree))
	starts := make(map[int]string, len(tree))
	parents := make(map[cpuKey]int, len(tree))
	for _, pid := range tree {
		key, s, parent, ok := cpuOf(pid)
		if !ok {
			continue
		}
		now[key], starts[pid], parents[key] = s, key.start, parent
		sum += s.total
	}
	for key, s := range now {
		s.parent = cpuKey{parents[key], starts[parents[key]]}
		now[key] = s
	}
	// What the children of a process that ended had used shows in its time if it waited for them.
	left := map[cpuKey]time.Duration{}
	for key, s := range now {
		left[key] = s.waited - c.seen[key].waited
	}
	settle := func(key cpuKey, owed time.Duration) time.Duration {
		n := min(owed, left[key])
		left[key] -= n
		return owed - n
	}
	late := c.orphans // after one more look it would show
	for key, owed := range c.pending {
		late += settle(key, owed)
	}
	c.pending, c.orphans = map[cpuKey]time.Duration{}, 0
	for key, s := range c.seen {
		if _, lives := now[key]; lives {
			continue
		}
		if again, s, _, ok := cpuOf(key.pid); ok && again == key { // the list of children is not exact while it changes
			now[key] = s
			sum += s.total
			continue
		}
		if _, lives := now[s.parent]; lives {
			c.pending[s.parent] += s.total
		} else {
			c.orphans += s.total
		}
	}
	for key, owed := range c.pending {
		if owed = settle(key, owed); owed > 0 {
			c.pending[key] = owed
		} else {
			delete(c.pending, key)
		}
	}
	for key := range left { // orphans were waited for by whoever took them
		late = settle(key, late)
		c.orphans = settle(key, c.orphans)
	}
	c.lost += late
	c.seen = now
	return sum + c.lost, late > 0 || len(c.pending) > 0
}

// cpuOf is what a process and the children it has waited for have used: fields 14 to 17, and 22, of proc_pid_stat(5).
func cpuOf(pid int) (key cpuKey, s cpuSeen, parent int, ok bool) {
	f := statFields(pid)
	if len(f) < 20 {
		return key, s, 0, false
	}
	for i, field := range f[11:15] {
		n, _ := strconv.ParseInt(field, 10, 64)
		t := time.Duration(n) * (time.Second / ticks)
		s.total += t
		if i >= 2 {
			s.waited += t
		}
	}
	parent, _ = strconv.Atoi(f[1])
	return cpuKey{pid, f[19]}, s, parent, true
}

// cpuUsed is what the sandbox's processes have used as its cgroup counts it, all of it; not ok without such a cgroup.
func (gr *group) cpuUsed() (used time.Duration, ok bool) {
	n, ok := gr.cpuCounter()
	return n - gr.cpuBefore, ok
}

// cpuCounter is that of the cgroup, whose earlier sandboxes it counts too.
func (gr *group) cpuCounter() (time.Duration, bool) {
	if dir := gr.dirs[ctlAcct]; dir != "" && !gr.v2[ctlAcct] {
		n, err := readInt(filepath.Join(dir, "cpuacct.usage"))
		return time.Duration(n), err == nil
	}
	for c, dir := range gr.dirs {
		if gr.v2[c] {
			n := counter(filepath.Join(dir, "cpu.stat"), "usage_usec")
			return time.Duration(n) * time.Microsecond, n > 0
		}
	}
	return 0, false
}
