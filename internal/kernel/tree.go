package kernel

import (
	"fmt"
	"slices"
	"sync"

	"agentkernel"
)

// maxDepth is how many processes may stand above a process.
const maxDepth = 32

// tree is what a process and all its descendants use together, so that nobody has more by starting
// children. A process that never had any has none.
type tree struct {
	mu       sync.Mutex
	members  map[agentkernel.PID]struct{} // that live
	reserved int                          // children about to join
	written  int64                        // bytes in the journals of all, those that have ended included
}

// forest finds the tree of a process by the process at its root.
type forest struct{ trees sync.Map } // agentkernel.PID -> *tree

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
		found, _ = fo.trees.LoadOrStore(rootOf(p), &tree{members: map[agentkernel.PID]struct{}{}})
	}
	return found.(*tree)
}

// rejoin puts a process of an earlier kernel, and what its journal holds, into its tree.
func (k *Kernel) rejoin(p *process) {
	root := k.lookup(rootOf(p))
	found, loaded := k.forest.trees.LoadOrStore(rootOf(p), &tree{members: map[agentkernel.PID]struct{}{}})
	t := found.(*tree)
	var above int64
	if !loaded && root != nil && root != p { // it was alone until now
		root.mu.Lock()
		above = root.account.Journal
		root.mu.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written += above + p.account.Journal
	t.members[p.pid] = struct{}{}
	if above > 0 {
		t.members[root.pid] = struct{}{}
	}
}

// grow gives the tree of p, which is about to have a child; p.mu is not held.
func (fo *forest) grow(p *process) *tree {
	if t := fo.of(p); t != nil {
		return t
	}
	p.mu.Lock()
	written := p.account.Journal
	p.mu.Unlock()
	t := &tree{members: map[agentkernel.PID]struct{}{p.pid: {}}, written: written}
	found, _ := fo.trees.LoadOrStore(p.pid, t)
	return found.(*tree)
}

// leave takes a process that has ended out of its tree; the last one takes the tree along.
func (fo *forest) leave(p *process) {
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
		t.members[pid] = struct{}{}
	}
}

// account counts what a batch writes to the journal; p.mu is held.
func (k *Kernel) account(p *process, b *agentkernel.Batch) {
	before := p.account.Journal
	for i := range b.Entries {
		p.account.Add(&b.Entries[i])
		p.pauses.Add(&b.Entries[i])
		p.unresolved = p.unresolved.Add(&b.Entries[i])
	}
	if t := k.forest.of(p); t != nil {
		t.mu.Lock()
		t.written += p.account.Journal - before
		t.members[p.pid] = struct{}{}
		t.mu.Unlock()
	}
}

// journalFull is the error that ends a process whose journal, or that of its tree, is full; p.mu is held.
func (k *Kernel) journalFull(p *process) *agentkernel.Error {
	written := p.account.Journal
	if t := k.forest.of(p); t != nil {
		t.mu.Lock()
		written = max(written, t.written)
		t.mu.Unlock()
	}
	if limit := p.spec.limits.Journal; written > limit {
		return limitError("journal", byteCount(limit), byteCount(written)).
			WithHint("pass large data between tools by name; or raise limits.journal")
	}
	return nil
}

// roomForChild reserves a place for a child of p in its tree. The caller settles it.
func (k *Kernel) roomForChild(p *process, op string) (*tree, error) {
	if len(p.spec.Ancestors)+1 > maxDepth {
		return nil, agentkernel.Errorf(agentkernel.CodeLimit, op, "%d processes stand above this one already, which is the limit", maxDepth)
	}
	t, limit := k.forest.grow(p), p.spec.limits.Processes
	if !t.reserve(limit) {
		return nil, agentkernel.Errorf(agentkernel.CodeLimit, op, "%d processes of this tree live, which is its limit", limit).
			WithHint("wait for some of them; or raise limits.processes")
	}
	return t, nil
}

// descends says whether a Spec is of a process somewhere below pid.
func descends(s *agentkernel.Spec, pid agentkernel.PID) bool {
	return s.Parent == pid || slices.Contains(s.Ancestors, pid)
}

// tooManyCalls is the answer to the call that comes while so many are under way.
func tooManyCalls(f *inflight, limit int) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeLimit, f.op, "%d calls are under way, which is the limit", limit).
		WithHint("take the results of some before you issue more; or raise limits.in_flight")
}

// bigPayload is the size from which arguments and results are counted in the kernel's memory: smaller ones
// are bounded by their number.
const bigPayload = 64 << 10

// held is how many bytes the kernel keeps for calls of p that are under way or whose results nobody has
// taken yet; p.mu is held.
func (p *process) held() int64 {
	var n int64
	for _, f := range p.inflight {
		n += int64(len(f.args))
	}
	for i := range p.arrived {
		n += int64(len(p.arrived[i].Result))
	}
	return n
}

// tooMuchHeld refuses a payload of size bytes if with it the kernel would keep more for the program than the
// program's own memory may hold; p.mu is held. what says what the payload is.
func (p *process) tooMuchHeld(f *inflight, size int, what string) *agentkernel.Error {
	if size < bigPayload {
		return nil
	}
	held, limit := p.held(), p.spec.limits.Memory
	if held+int64(size) <= limit {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeLimit, f.op, "%s", fmt.Sprintf(what, byteCount(int64(size)))).
		WithHint("%s wait in the kernel for this program, whose memory limit is %s: take results before you issue more calls",
			byteCount(held), byteCount(limit))
}
