package sqlite

import (
	"errors"

	"agentkernel"
)

// What the queue knows of processes: where their journals end, who owns a key, what is on its way.

// errLookUp tells the caller of append to read what the database knows of the process, learn it, and try again.
var errLookUp = errors.New("the end of the journal or the owner of the key is not known")

func (q *queue) check(p *pending, t tail) error {
	if len(p.batch.Entries) > 0 {
		switch first := p.batch.Entries[0].Seq; {
		case t.next == 0:
			return errLookUp
		case first != t.next:
			return agentkernel.Errorf(agentkernel.CodeInvalid, "store",
				"entry %d cannot be appended: the next entry of this journal is %d", first, t.next).WithPID(p.pid)
		}
	}
	if k, ok := keyOf(&p.batch); ok {
		switch owner, known := q.keys[k]; {
		case !known:
			return errLookUp
		case owner != 0 && owner != p.pid:
			return agentkernel.Errorf(agentkernel.CodeConflict, "store",
				"idempotency key %q belongs to process %d already", k.Name, owner).WithPID(p.pid)
		}
	}
	return nil
}

// keyOf is the key that a batch gives to its process, or writes again.
func keyOf(b *agentkernel.Batch) (agentkernel.Key, bool) {
	switch r := b.Process; {
	case b.Key != nil:
		return *b.Key, true
	case r != nil && r.Spec.IdempotencyKey != "":
		return agentkernel.Key{Namespace: r.Namespace, Name: r.Spec.IdempotencyKey}, true
	}
	return agentkernel.Key{}, false
}

// pendingOf gives the batches of a process that are not durable, in order. They must not be changed.
func (q *queue) pendingOf(pid agentkernel.PID) []agentkernel.Batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.tails[pid].pos <= q.durable {
		return nil
	}
	var found []agentkernel.Batch
	for _, part := range [][]pending{q.group, q.waiting} {
		for i := range part {
			if part[i].pid == pid {
				found = append(found, part[i].batch)
			}
		}
	}
	return found
}

// know tells the queue that a PID is new, so that its journal need not be looked up.
func (q *queue) know(pid agentkernel.PID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, known := q.tails[pid]; !known {
		q.tails[pid] = tail{next: 1}
	}
}

// forgotten counts what the queue has dropped; read it before the database, and hand it to learn.
func (q *queue) forgotten() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.forgot
}

// learn tells the queue what the database says about a process: the next seq of its journal, and who owns
// the key of the record about to be appended (0: nobody). What the queue knows by now is newer and
// stays. If the queue has dropped anything since forgotten was read, the reading may be out of date and
// does not count.
func (q *queue) learn(pid agentkernel.PID, next int64, k agentkernel.Key, owner agentkernel.PID, forgotten int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.forgot != forgotten {
		return
	}
	if t := q.tails[pid]; t.next == 0 {
		t.next = next
		q.tails[pid] = t
	}
	if _, known := q.keys[k]; !known && k.Name != "" {
		q.keys[k] = owner
	}
}

// maxGuesses bounds ends.
const maxGuesses = 1024

// guess tells the queue where a journal ends that was read to its end: whoever has read it is often about to append to it. What was forgotten is as for
// learn. It is kept until something is appended about the process.
func (q *queue) guess(pid agentkernel.PID, next int64, forgotten int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, known := q.tails[pid]; known || q.forgot != forgotten {
		return
	}
	if len(q.ends) >= maxGuesses {
		clear(q.ends)
	}
	q.ends[pid] = next
}

// standing says what is durable, what has been forgotten, and the position of the newest batch about a process, 0 if none is known.
func (q *queue) standing(pid agentkernel.PID) (durable agentkernel.Position, forgot int64, newest agentkernel.Position) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.durable, q.forgot, q.tails[pid].pos
}

// owner is the process that holds a key in a batch that is not durable yet, 0 if none.
func (q *queue) owner(k agentkernel.Key) agentkernel.PID {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.keys[k]
}
