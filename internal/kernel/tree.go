package kernel

import (
	"fmt"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/kernel/limits"
	"agentkernel/internal/kernel/room"
	"agentkernel/internal/kernel/trees"
)

// place is where p is among all processes.
func (p *process) place() trees.Place {
	return trees.Place{PID: p.pid, Above: p.spec.Ancestors, Share: &p.share}
}

// inTree says whether p has ancestors, or had children.
func (k *Kernel) inTree(p *process) bool { return k.forest.Of(p.place()) != nil }

// rejoin puts a process that was read from the store, and what its journal holds, into its tree, if it is in one.
func (k *Kernel) rejoin(p *process) {
	p.mu.Lock()
	k.heed(p)
	k.table.ledger.Join(k.books(p), p.pid, &p.standing.Account)
	written := p.standing.Account.Journal
	p.mu.Unlock()
	if p.spec.Budget != (agentkernel.Budget{}) { // its kernel may have died before it warned
		k.external.Go(func() { _, _ = k.States.Budget(k.ctx, p.pid) })
	}
	k.forest.Rejoin(p.place(), written, func() (above int64) {
		if root := k.lookup(p.place().Root()); root != nil {
			root.mu.Lock()
			above = root.standing.Account.Journal
			root.mu.Unlock()
		}
		return above
	})
}

// note keeps in mind what the kernel holds for a process; p.mu is held.
func (k *Kernel) note(p *process) { k.forest.Note(p.place(), p.heldBytes()) }

// journalFull is the error that ends a process whose journal, or that of its tree, has no room for more bytes; p.mu is held.
func (k *Kernel) journalFull(p *process, more int) *agentkernel.Error {
	return limits.Journal(&p.spec.InForce, k.forest.Written(p.place(), p.standing.Account.Journal)+int64(more), room.Most())
}

// roomForChild reserves a place for a child of p in its tree. The caller settles it.
func (k *Kernel) roomForChild(p *process, op string) (*trees.Tree, error) {
	if err := limits.Depth(op, len(p.spec.Ancestors)); err != nil {
		return nil, err
	}
	t := k.forest.Of(p.place())
	if t == nil {
		p.mu.Lock()
		held, written := p.heldBytes(), p.standing.Account.Journal
		p.mu.Unlock()
		t = k.forest.Plant(p.place(), held, written)
	}
	if !t.Reserve(p.spec.InForce.Processes) {
		return nil, limits.Processes(&p.spec.InForce)
	}
	return t, nil
}

// tooMuchHeld refuses a payload (what) of size bytes, in copies, if with it the kernel would keep more for the program and
// its tree than the program's own memory may hold, or too much for all; p.mu is held.
func (k *Kernel) tooMuchHeld(p *process, f *inflight, size, copies int, what string) *agentkernel.Error {
	if size < room.BigPayload && !k.forest.Total.Exceeded(int64(size)*int64(copies)) {
		return nil
	}
	if full := k.forest.Full(p.place(), p.heldBytes(), int64(size)*int64(copies), p.spec.InForce.Memory); full != "" {
		return agentkernel.Errorf(agentkernel.CodeLimit, f.op, "%s", fmt.Sprintf(what, bytesize.Text(int64(size)))).WithHint("%s", full)
	}
	return nil
}
