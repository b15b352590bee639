package kernel

import (
	"os"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// append journals an entry of p; p.mu is held.
func (k *Kernel) append(p *process, e agentkernel.Entry) {
	k.appendBatch(p, agentkernel.Batch{Entries: []agentkernel.Entry{e}})
}

// appendBatch hands a batch to the store, numbering its entries; p.mu is held.
func (k *Kernel) appendBatch(p *process, b agentkernel.Batch) {
	if p.run.verifies != nil {
		return // it is in no store
	}
	if p.parked != nil && len(b.Entries) > 0 {
		b = k.woken(p, b)
	}
	for i := range b.Entries {
		b.Entries[i].PID, b.Entries[i].Seq = p.pid, p.standing.Seq+int64(i)+1
		if b.Entries[i].At.IsZero() {
			b.Entries[i].At = k.cfg.Now()
		}
		b.Entries[i].WriteNote()
	}
	for i := range b.Posts {
		last := &b.Entries[len(b.Entries)-1]
		b.Posts[i].PostID, b.Posts[i].At = agentkernel.PostID{From: p.pid, Seq: last.Seq, N: i}, k.cfg.Now()
	}
	before := p.standing.Account.Amounts
	k.account(p, &b)
	b.Epoch = k.cfg.Epoch(p.place().Root())
	pos, err := k.store.Append(b)
	if err != nil {
		go k.notStored(p, err)
		return
	}
	p.pos = pos
	if after := p.standing.Account.Amounts; after != before { // now: who takes what was given back comes later in the journal
		k.table.ledger.Note(k.books(p), p.pid, before, after, b.Entries)
	}
	k.observe(p, &b)
	k.sent(b.Posts)
	for { // another process's batch may be later, and noted already
		last := k.last.Load()
		if last >= int64(pos) || k.last.CompareAndSwap(last, int64(pos)) {
			return
		}
	}
}

// account counts what a batch writes to the journal; p.mu is held.
func (k *Kernel) account(p *process, b *agentkernel.Batch) {
	before := p.standing.Account.Journal
	for i := range b.Entries {
		p.standing.Add(&b.Entries[i])
	}
	k.note(p)
	k.forest.Wrote(p.place(), p.standing.Account.Journal-before)
}

// woken adds to the first batch about a process that was parked that it is in memory, and, if another kernel had parked it, that
// this one has taken it up; p.mu is held.
func (k *Kernel) woken(p *process, b agentkernel.Batch) agentkernel.Batch {
	first, by := agentkernel.Batch{}, p.parked.Kernel
	if p.parked = nil; by != k.stamp() {
		p.recoveries.Add(1)
		first.Entries = []agentkernel.Entry{k.recoveryEntry(true)}
	}
	if b.Key != nil { // which goes with no row
		first.Process = p.record()
		k.appendBatch(p, first)
		return b
	}
	b.Entries, b.Process = append(first.Entries, b.Entries...), p.record()
	return b
}

// stamp tells the processes that this kernel has parked from those of other kernels.
func (k *Kernel) stamp() int64 { return k.cfg.About.Started.UnixNano() }

func (k *Kernel) recoveryEntry(fromImage bool) agentkernel.Entry {
	return history.Recovery(fromImage, os.Getpid(), k.cfg.About.Before)
}
