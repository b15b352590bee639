package sim

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"agentkernel"
)

// disk is what outlives a kernel: a log of batches in the order in which they were appended. It is the store of the simulated
// world; a store hands it to one generation of kernels.
type disk struct {
	mu      sync.Mutex
	log     []agentkernel.Batch
	base    agentkernel.Position // of the batches before the log; positions are never used twice
	durable int                  // how many batches of the log are, as far as anybody was told
	safe    int                  // how many are: fewer if the disk lies
	lies    bool                 // a flush returns before anything is durable
	view    view
	settled map[agentkernel.PID]int64 // the last durable entry of each process
	ledgers map[agentkernel.PID]*ledger
	last    agentkernel.PID
	carried map[agentkernel.PID]bool // the present kernel has created it, or taken it up
	holds   []agentkernel.Hold       // what stands still
	all     bool                     // and it carries all that others have parked
	// allowances are the setting of the kernels.
	allowances agentkernel.Allowances
	market     *market // the models that there are; nil: none
}

// view is what the log comes to.
type view struct {
	pids    []agentkernel.PID                              // that have a row, rising
	rows    map[agentkernel.PID]*agentkernel.ProcessRecord // never changed, only replaced
	entries map[agentkernel.PID][]agentkernel.Entry
	images  map[agentkernel.PID]agentkernel.Image
	state   map[agentkernel.PID]map[string]json.RawMessage
	keys    map[agentkernel.Key]agentkernel.PID
	inbox   map[agentkernel.PID][]agentkernel.Post
}

func newDisk() *disk {
	d := &disk{}
	d.reset()
	return d
}

// reset forgets everything but the log.
func (d *disk) reset() {
	d.view = view{
		rows: map[agentkernel.PID]*agentkernel.ProcessRecord{}, entries: map[agentkernel.PID][]agentkernel.Entry{},
		images: map[agentkernel.PID]agentkernel.Image{}, state: map[agentkernel.PID]map[string]json.RawMessage{},
		keys: map[agentkernel.Key]agentkernel.PID{}, inbox: map[agentkernel.PID][]agentkernel.Post{},
	}
	d.settled, d.ledgers, d.last = map[agentkernel.PID]int64{}, map[agentkernel.PID]*ledger{}, 0
}

// pidOf is the process of a batch.
func pidOf(b *agentkernel.Batch) agentkernel.PID {
	switch {
	case len(b.Entries) > 0:
		return b.Entries[0].PID
	case b.Process != nil:
		return b.Process.PID
	case b.Image != nil:
		return b.Image.PID
	}
	return 0
}

// clean is a batch as a store would read it again: nothing that its sender still has, and times in microseconds.
func clean(b agentkernel.Batch) agentkernel.Batch {
	b.Entries = slices.Clone(b.Entries)
	for i := range b.Entries {
		b.Entries[i].At = b.Entries[i].At.Truncate(time.Microsecond)
	}
	if b.Process != nil {
		p := *b.Process
		p.Created, p.Ended = p.Created.Truncate(time.Microsecond), p.Ended.Truncate(time.Microsecond)
		b.Process = &p
	}
	if b.Image != nil {
		im := *b.Image
		b.Image = &im
	}
	b.State = maps.Clone(b.State)
	return b
}

// append adds a batch, and says what is wrong with it; d.mu is held.
func (d *disk) append(b agentkernel.Batch) (agentkernel.Position, error) {
	d.log = append(d.log, b)
	for i := range b.Entries {
		if kind := b.Entries[i].Kind; kind == agentkernel.EntryCreated || kind == agentkernel.EntryRecover {
			d.carried[b.Entries[i].PID] = true
		}
	}
	return d.base + agentkernel.Position(len(d.log)), d.apply(&b)
}

// apply makes a batch seen; d.mu is held.
func (d *disk) apply(b *agentkernel.Batch) error {
	pid, v := pidOf(b), &d.view
	l := d.ledgers[pid]
	if l == nil {
		l = newLedger(pid)
		d.ledgers[pid] = l
	}
	err := l.take(b)
	if b.Process != nil {
		if v.rows[pid] == nil {
			v.pids = append(v.pids, pid)
			slices.Sort(v.pids)
		}
		v.rows[pid] = b.Process
		if key := b.Process.Spec.IdempotencyKey; key != "" {
			v.keys[agentkernel.Key{Namespace: b.Process.Namespace, Name: key}] = pid
		}
	}
	v.entries[pid] = append(v.entries[pid], b.Entries...)
	if b.Image != nil {
		if v.images[pid] = *b.Image; len(b.Image.Bytes) == 0 {
			delete(v.images, pid)
		}
	}
	for key, value := range b.State {
		if v.state[pid] == nil {
			v.state[pid] = map[string]json.RawMessage{}
		}
		if v.state[pid][key] = value; value == nil {
			delete(v.state[pid], key)
		}
	}
	if b.Key != nil {
		v.keys[*b.Key] = pid
	}
	for _, p := range b.Posts {
		v.inbox[p.To] = append(slices.Clip(v.inbox[p.To]), p)
	}
	if err == nil {
		err = d.checkBudgets(b)
	}
	if len(b.Took) > 0 {
		v.inbox[pid] = slices.DeleteFunc(slices.Clone(v.inbox[pid]), func(p agentkernel.Post) bool { return slices.Contains(b.Took, p.PostID) })
	}
	d.last = max(d.last, pid)
	return err
}

// commit makes the log durable up to a position; d.mu is held.
func (d *disk) commit(pos agentkernel.Position) {
	for d.durable < min(int(pos-d.base), len(d.log)) {
		for _, e := range d.log[d.durable].Entries {
			d.settled[e.PID] = e.Seq
		}
		d.durable++
	}
	if !d.lies {
		d.safe = d.durable
	}
}

// end is the position of the last batch; d.mu is held.
func (d *disk) end() agentkernel.Position { return d.base + agentkernel.Position(len(d.log)) }

// crash keeps what was flushed and, of the rest, as much as roll says.
func (d *disk) crash(roll uint64) (kept, lost int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rest := len(d.log) - d.safe
	keep := d.safe + int(roll%uint64(rest+1))
	lost = len(d.log) - keep
	d.base += agentkernel.Position(lost)
	d.log = slices.Clip(d.log[:keep])
	d.reset()
	for i := range d.log {
		_ = d.apply(&d.log[i]) // it was looked at when it came
	}
	d.durable, d.safe = 0, 0
	d.commit(d.end())
	d.safe = d.durable
	return keep, lost
}

// intended says whether the intent of a call is durable.
func (d *disk) intended(pid agentkernel.PID, call int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.ledgers[pid]
	if l == nil || l.calls[call] == nil {
		return false
	}
	return l.calls[call].seq <= d.settled[pid] && !l.calls[call].unsent
}

// durableTo is the last durable entry of a process.
func (d *disk) durableTo(pid agentkernel.PID) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.settled[pid]
}

// carries says whether the present kernel carries a process, unless it has ended.
func (d *disk) carries(pid agentkernel.PID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	row := d.view.rows[pid]
	return d.carried[pid] || d.all && row != nil && row.Parked != nil
}

// booted says that another kernel begins.
func (d *disk) booted() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.carried, d.all = map[agentkernel.PID]bool{}, false
}

// carriesAll says that the present kernel carries all that was parked.
func (d *disk) carriesAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = true
}

// inbox is what a process has been sent and has not taken.
func (d *disk) inbox(pid agentkernel.PID) []agentkernel.Post {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := slices.Clone(d.view.inbox[pid])
	slices.SortStableFunc(list, func(a, b agentkernel.Post) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.At.Compare(b.At))
	})
	return list
}

// row is the row of a process; nil: it has none.
func (d *disk) row(pid agentkernel.PID) *agentkernel.ProcessRecord {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.view.rows[pid]
}

// rows are those of all processes, by PID.
func (d *disk) rows() []*agentkernel.ProcessRecord {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]*agentkernel.ProcessRecord, len(d.view.pids))
	for i, pid := range d.view.pids {
		out[i] = d.view.rows[pid]
	}
	return out
}

// journal is the journal of a process.
func (d *disk) journal(pid agentkernel.PID) []agentkernel.Entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.view.entries[pid])
}

// ledger is the fold of a journal; nil: there is none.
func (d *disk) ledger(pid agentkernel.PID) *ledger {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ledgers[pid]
}

// below are the descendants of a process.
func (d *disk) below(pid agentkernel.PID) []*agentkernel.ProcessRecord {
	return slices.DeleteFunc(d.rows(), func(r *agentkernel.ProcessRecord) bool { return !slices.Contains(r.Spec.Ancestors, pid) })
}
