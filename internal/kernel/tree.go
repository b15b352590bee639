package kernel

import (
	"fmt"
	"sync"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/kernel/room"
)

// maxDepth is how many processes may stand above a process.
const maxDepth = 32

// tree is what a process and all its descendants use together, so that nobody has more by starting
// children. A process that never had any has none.
type tree struct {
	mu       sync.Mutex
	members  map[agentkernel.PID]int64 // that live, and what the kernel holds for each; see held
	reserved int                       // children about to join
	written  int64                     // bytes in the journals of all, those that have ended included
}

// forest finds the tree of a process by the process at its root.
type forest struct {
	trees sync.Map // agentkernel.PID -> *tree
	total room.Total
}

// rootOf is the process at the root of the tree to which p belongs.
func rootOf(p *process) agentkernel.PID {
	if above := p.spec.Ancestors; len(above) > 0 {
		return above[0]
	}
	return p.pid
}

// of gives the tree of p, nil if p is alone. A member of an earlier kernel joins when it is first seen.
func (fo *forest) of(p *process) *tree {
	found, ok := fo.trees.Load(rootOf(p))
	if !ok {
		if len(p.spec.Ancestors) == 0 {
			return nil
		}
		found, _ = fo.trees.LoadOrStore(rootOf(p), &tree{members: map[agentkernel.PID]int64{}})
	}
	return found.(*tree)
}

// rejoin puts a process that was read from the store, and what its journal holds, into its tree, if it is in one.
func (k *Kernel) rejoin(p *process) {
	if _, tree := k.forest.trees.Load(p.pid); !tree && len(p.spec.Ancestors) == 0 {
		return
	}
	root := k.lookup(rootOf(p))
	found, loaded := k.forest.trees.LoadOrStore(rootOf(p), &tree{members: map[agentkernel.PID]int64{}})
	t := found.(*tree)
	var above int64
	if !loaded && root != nil && root != p { // it was alone until now
		root.mu.Lock()
		above = root.standing.Account.Journal
		root.mu.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written += above + p.standing.Account.Journal
	t.join(p.pid)
	if above > 0 {
		t.join(root.pid)
	}
}

// grow gives the tree of p, which is about to have a child; p.mu is not held.
func (fo *forest) grow(p *process) *tree {
	if t := fo.of(p); t != nil {
		return t
	}
	p.mu.Lock()
	t := &tree{members: map[agentkernel.PID]int64{p.pid: p.held()}, written: p.standing.Account.Journal}
	p.mu.Unlock()
	found, _ := fo.trees.LoadOrStore(p.pid, t)
	return found.(*tree)
}

// leave takes a process that has ended out of its tree; the last one takes the tree along.
func (fo *forest) leave(p *process) {
	fo.total.Set(&p.share, 0)
	found, ok := fo.trees.Load(rootOf(p))
	if !ok {
		return
	}
	t := found.(*tree)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.members, p.pid)
	if len(t.members) == 0 && t.reserved == 0 {
		fo.trees.Delete(rootOf(p))
	}
}

// reserve takes a place for one more process, unless limit processes live already.
func (t *tree) reserve(limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.members)+t.reserved >= limit {
		return false
	}
	t.reserved++
	return true
}

// settle turns a reserved place into a member; 0 gives the place back.
func (t *tree) settle(pid agentkernel.PID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reserved--
	if pid != 0 {
		t.join(pid)
	}
}

// account counts what a batch writes to the journal; p.mu is held.
func (k *Kernel) account(p *process, b *agentkernel.Batch) {
	before := p.standing.Account.Journal
	for i := range b.Entries {
		p.standing.Add(&b.Entries[i])
	}
	k.forest.note(p)
	if t := k.forest.of(p); t != nil {
		t.mu.Lock()
		t.written += p.standing.Account.Journal - before
		t.mu.Unlock()
	}
}

// join makes a process a member; t.mu is held.
func (t *tree) join(pid agentkernel.PID) {
	if _, member := t.members[pid]; !member {
		t.members[pid] = 0
	}
}

// note keeps in mind what the kernel holds for a process; p.mu is held.
func (fo *forest) note(p *process) {
	held := fo.total.Set(&p.share, p.held())
	if t := fo.of(p); t != nil {
		t.mu.Lock()
		t.members[p.pid] = held
		t.mu.Unlock()
	}
}

// held is how much the kernel holds for a process and its tree; p.mu is held.
func (fo *forest) held(p *process) int64 {
	t := fo.of(p)
	if t == nil {
		return p.held()
	}
	fo.note(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	var all int64
	for _, held := range t.members {
		all += held
	}
	return all
}

// journalFull is the error that ends a process whose journal, or that of its tree, is full; p.mu is held.
func (k *Kernel) journalFull(p *process) *agentkernel.Error {
	written := p.standing.Account.Journal
	if t := k.forest.of(p); t != nil {
		t.mu.Lock()
		written = max(written, t.written)
		t.mu.Unlock()
	}
	if limit := p.spec.InForce.Journal; written > limit {
		return limitError("journal", bytesize.Text(limit), bytesize.Text(written)).
			WithHint(advice.PassByName)
	}
	return nil
}

// roomForChild reserves a place for a child of p in its tree. The caller settles it.
func (k *Kernel) roomForChild(p *process, op string) (*tree, error) {
	if len(p.spec.Ancestors)+1 > maxDepth {
		return nil, agentkernel.Errorf(agentkernel.CodeLimit, op, "%d processes stand above this one already, which is the limit", maxDepth)
	}
	t, limit := k.forest.grow(p), p.spec.InForce.Processes
	if !t.reserve(limit) {
		return nil, agentkernel.Errorf(agentkernel.CodeLimit, op, "%d processes of this tree live, which is its limit", limit).
			WithHint(advice.WaitForSome)
	}
	return t, nil
}

// tooManyCalls is the answer to the call that comes while so many are under way.
func tooManyCalls(f *inflight, limit int) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeLimit, f.op, "%d calls are under way, which is the limit", limit).
		WithHint(advice.TakeSome)
}

// held is how many bytes the kernel keeps for calls of p that are under way or whose results nobody has
// taken yet; p.mu is held.
func (p *process) held() int64 {
	var n int64
	for _, f := range p.inflight {
		n += room.ArgsCopies * int64(len(f.args))
	}
	for i := range p.run.arrived {
		n += int64(len(p.run.arrived[i].Result))
	}
	return n
}

// tooMuchHeld refuses a payload (what) of size bytes, in copies, if with it the kernel would keep more for the program and
// its tree than the program's own memory may hold, or too much for all; p.mu is held.
func (k *Kernel) tooMuchHeld(p *process, f *inflight, size, copies int, what string) *agentkernel.Error {
	if size < room.BigPayload {
		return nil
	}
	if full := k.forest.total.Full(k.forest.held(p), int64(size)*int64(copies), p.spec.InForce.Memory); full != "" {
		return agentkernel.Errorf(agentkernel.CodeLimit, f.op, "%s", fmt.Sprintf(what, bytesize.Text(int64(size)))).WithHint("%s", full)
	}
	return nil
}
