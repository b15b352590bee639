package kernel

import (
	"cmp"
	"slices"

	"agentkernel"
)

// kin decides which processes may be forgotten. It is pure; prune.go does what follows.
//
// A process that stays keeps its children and its past, and those theirs: a rerun of it answers from them, and would
// make their writes again if they were gone. One that is unfinished keeps its parent and all above, too. So a
// process goes only with everything that it started, and after everything that repeated it.
type kin struct {
	// The candidates, by PID: those that ended early enough.
	pids, parents, pasts []agentkernel.PID
	stays                []bool
	byParent             []int32 // indexes of candidates, by parent
	kept                 int64   // how many stay
	next                 int     // those before it have been taken
}

// staying is a process that is no candidate, as far as it decides about others.
type staying struct{ pid, parent, past agentkernel.PID }

// relatives collects what the store reports, in the order of PIDs.
type relatives struct {
	kin
	stay []staying
}

// expired says whether a process is one that the options mean.
func expired(k *agentkernel.Kin, o *agentkernel.PruneOptions) bool {
	return k.State.Terminal() && k.Ended.Before(o.Before) && (o.Namespace == "" || k.Namespace == o.Namespace) &&
		!(o.KeepFailed && (k.State != agentkernel.StateExited || k.ExitCode != 0))
}

func (r *relatives) add(k agentkernel.Kin, o *agentkernel.PruneOptions) {
	if expired(&k, o) {
		r.pids, r.parents, r.pasts = append(r.pids, k.PID), append(r.parents, k.Parent), append(r.pasts, k.Past)
		return
	}
	s := staying{pid: k.PID, past: k.Past}
	if !k.State.Terminal() {
		s.parent = k.Parent
	}
	r.stay = append(r.stay, s)
}

// decide gives the candidates with those marked that stay.
func (r *relatives) decide() *kin {
	k := &r.kin
	k.stays = make([]bool, len(k.pids))
	k.byParent = make([]int32, len(k.pids))
	for i := range k.byParent {
		k.byParent[i] = int32(i)
	}
	slices.SortStableFunc(k.byParent, func(a, b int32) int { return cmp.Compare(k.parents[a], k.parents[b]) })
	for _, s := range r.stay {
		k.keepBelow(s.pid)
		k.keep(s.past)
		k.keepAbove(s.parent)
	}
	return k
}

// find is the index of a candidate.
func (k *kin) find(pid agentkernel.PID) (int, bool) { return slices.BinarySearch(k.pids, pid) }

// keep lets a process stay, with its children and its past.
func (k *kin) keep(pid agentkernel.PID) {
	todo := []agentkernel.PID{pid}
	for len(todo) > 0 {
		pid, todo = todo[len(todo)-1], todo[:len(todo)-1]
		i, ok := k.find(pid)
		if !ok || k.stays[i] {
			continue
		}
		k.stays[i] = true
		k.kept++
		todo = append(todo, k.pasts[i])
		todo = append(todo, k.children(pid)...)
	}
}

func (k *kin) keepBelow(pid agentkernel.PID) {
	for _, child := range k.children(pid) {
		k.keep(child)
	}
}

// keepAbove lets a process and all above it stay.
func (k *kin) keepAbove(pid agentkernel.PID) {
	for pid != 0 {
		i, ok := k.find(pid)
		if !ok {
			return
		}
		k.keep(pid)
		pid = k.parents[i]
	}
}

func (k *kin) children(pid agentkernel.PID) (out []agentkernel.PID) {
	i, _ := slices.BinarySearchFunc(k.byParent, pid, func(j int32, pid agentkernel.PID) int { return cmp.Compare(k.parents[j], pid) })
	for ; i < len(k.byParent) && k.parents[k.byParent[i]] == pid; i++ {
		out = append(out, k.pids[k.byParent[i]])
	}
	return out
}

// take gives up to n of those that go. They cannot be kept any more.
func (k *kin) take(n int) (out []agentkernel.PID) {
	for ; k.next < len(k.pids) && len(out) < n; k.next++ {
		if !k.stays[k.next] {
			out = append(out, k.pids[k.next])
		}
	}
	return out
}
