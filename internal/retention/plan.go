package retention

import (
	"cmp"
	"slices"
	"time"

	"agentkernel"
)

// plan decides which processes may be forgotten. It is pure; prune.go does what follows.
//
// A process that stays keeps its children and its past, and those theirs: a rerun of it answers from them, and would
// make their writes again if they were gone. One that is unfinished keeps its parent and all above, too.
//
// Those that go are taken in an order in which nobody is taken before those who need it: a process after its parent and
// after its reruns. So whatever somebody names in the middle of it still has all that belongs to it.
type plan struct {
	// The candidates, by PID: those that ended early enough.
	pids, parents, pasts []agentkernel.PID
	others               []bystander // all that are no candidates, by PID
	fate                 []fate
	byParent, byPast     []int32 // indexes of candidates, by parent and by past
	order                []int32 // in which those that go are taken
	kept                 int64   // how many stay
	next                 int     // of order
}

// fate is what becomes of a candidate.
type fate uint8

const (
	goes fate = iota
	stays
	taken
)

// bystander is a process that is no candidate.
type bystander struct {
	pid, parent, past agentkernel.PID
	unfinished        bool
}

// options say which processes somebody means, and which of them are still counted.
type options struct {
	agentkernel.PruneOptions
	allowances agentkernel.Allowances
	now        time.Time
}

// expired says whether a process is one that the options mean.
func expired(k *agentkernel.Lineage, o *options) bool {
	return k.State.Terminal() && k.Ended.Before(o.Before) && (o.Namespace == "" || k.Namespace == o.Namespace) &&
		!(o.KeepFailed && (k.State != agentkernel.StateExited || k.ExitCode != 0)) &&
		k.Ended.Before(o.counted(k.Namespace))
}

// counted is since when what has ended in a namespace is counted by an allowance; far in the future: none counts it.
func (o *options) counted(namespace string) time.Time {
	if since := o.allowances.Since(namespace, o.now); !since.IsZero() {
		return since
	}
	return o.now.AddDate(1000, 0, 0)
}

// add takes the next process, in the order of PIDs.
func (k *plan) add(r agentkernel.Lineage, o *options) {
	if expired(&r, o) {
		k.pids, k.parents, k.pasts = append(k.pids, r.PID), append(k.parents, r.Parent), append(k.pasts, r.Past)
		return
	}
	k.others = append(k.others, bystander{r.PID, r.Parent, r.Past, !r.State.Terminal()})
}

// decide marks the candidates that stay, once all are there.
func (k *plan) decide() {
	k.fate = make([]fate, len(k.pids))
	k.byParent, k.byPast = sorted(k.parents), sorted(k.pasts)
	for _, b := range k.others {
		for _, child := range k.named(k.byParent, k.parents, b.pid) {
			k.keep(child)
		}
		k.keep(b.past)
		if b.unfinished {
			k.keepAbove(b.parent)
		}
	}
	k.arrange()
}

// sorted gives the indexes of a column in the order of its values.
func sorted(column []agentkernel.PID) []int32 {
	out := make([]int32, len(column))
	for i := range out {
		out[i] = int32(i)
	}
	slices.SortFunc(out, func(a, b int32) int { return cmp.Or(cmp.Compare(column[a], column[b]), cmp.Compare(a, b)) })
	return out
}

// arrange decides about the order. Who names whom has no rings, unless somebody made a child whose past is above it;
// then the ring is opened somewhere.
func (k *plan) arrange() {
	seen := make([]bool, len(k.pids))
	var visit func(i int)
	visit = func(i int) {
		if seen[i] || k.fate[i] != goes {
			return
		}
		seen[i] = true
		if parent, ok := k.find(k.parents[i]); ok {
			visit(parent)
		}
		for _, rerun := range k.named(k.byPast, k.pasts, k.pids[i]) {
			if j, ok := k.find(rerun); ok {
				visit(j)
			}
		}
		k.order = append(k.order, int32(i))
	}
	for i := range k.pids {
		visit(i)
	}
}

// find is the index of a candidate.
func (k *plan) find(pid agentkernel.PID) (int, bool) { return slices.BinarySearch(k.pids, pid) }

// keep lets a process stay, with its children and its past.
func (k *plan) keep(pid agentkernel.PID) {
	todo := []agentkernel.PID{pid}
	for len(todo) > 0 {
		pid, todo = todo[len(todo)-1], todo[:len(todo)-1]
		i, ok := k.find(pid)
		if !ok || k.fate[i] != goes {
			continue
		}
		k.fate[i] = stays
		k.kept++
		todo = append(todo, k.pasts[i])
		todo = append(todo, k.named(k.byParent, k.parents, pid)...)
	}
}

// keepAbove lets a process and all above it stay.
func (k *plan) keepAbove(pid agentkernel.PID) {
	for last := pid + 1; pid != 0 && pid < last; { // a parent is older than its child
		k.keep(pid)
		last, pid = pid, k.parentOf(pid)
	}
}

func (k *plan) parentOf(pid agentkernel.PID) agentkernel.PID {
	if i, ok := k.find(pid); ok {
		return k.parents[i]
	}
	i, ok := slices.BinarySearchFunc(k.others, pid, func(b bystander, pid agentkernel.PID) int { return cmp.Compare(b.pid, pid) })
	if !ok {
		return 0
	}
	return k.others[i].parent
}

// named gives the candidates that have pid in a column.
func (k *plan) named(index []int32, column []agentkernel.PID, pid agentkernel.PID) (out []agentkernel.PID) {
	i, _ := slices.BinarySearchFunc(index, pid, func(j int32, pid agentkernel.PID) int { return cmp.Compare(column[j], pid) })
	for ; i < len(index) && column[index[i]] == pid; i++ {
		out = append(out, k.pids[index[i]])
	}
	return out
}

// take gives up to n of those that go. They cannot be kept any more.
func (k *plan) take(n int) (out []agentkernel.PID) {
	for ; k.next < len(k.order) && len(out) < n; k.next++ {
		if i := k.order[k.next]; k.fate[i] == goes {
			k.fate[i] = taken
			out = append(out, k.pids[i])
		}
	}
	return out
}
