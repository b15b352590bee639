// Package trees counts what a process and all its descendants use together, so that nobody has more by starting children: how
// many live, what the kernel holds for them, what their journals have. It sees no process: whoever calls says where one is, and
// what it uses. It never refuses anything; limits are the kernel's to enforce.
package trees

import (
	"sync"

	"agentkernel"
	"agentkernel/internal/kernel/room"
)

// Place is where a process is.
type Place struct {
	PID   agentkernel.PID
	Above []agentkernel.PID // its ancestors, the root of the tree first
	Share *room.Share       // what the kernel holds for it, of what it holds for all
}

// Root is the process at the root of its tree.
func (at Place) Root() agentkernel.PID { return agentkernel.RootOf(at.PID, at.Above) }

// Tree is what the processes of a tree have together. A process that never had a child has none.
type Tree struct {
	mu       sync.Mutex
	members  map[agentkernel.PID]int64 // that live, and what the kernel holds for each
	reserved int                       // children about to join
	written  int64                     // bytes in the journals of all, those that have ended included
}

// Forest finds the tree of a process by the process at its root. The zero value is ready.
type Forest struct {
	// Ended is told when the last process of a tree that the kernel knows of has ended; nil: nothing is.
	Ended func(root agentkernel.PID)

	// Total is what the kernel holds for all.
	Total room.Total

	// Repeated is what it has in memory of journals that are being repeated.
	Repeated room.Total

	trees sync.Map // agentkernel.PID -> *Tree
}

// small is the size of a journal that is repeated whatever else is.
const small = 16 << 20

// Repeatable says whether so many bytes of a journal are too many beside those that are being repeated; nil: they never are, as it is read for
// a moment alone.
func (fo *Forest) Repeatable(alone bool) func(bytes int64) bool {
	if alone {
		return nil
	}
	return func(bytes int64) bool { return bytes > small && fo.Repeated.Exceeded(bytes) }
}

// Of gives the tree of a process, nil if it is alone. A member of an earlier kernel joins when it is first seen.
func (fo *Forest) Of(at Place) *Tree {
	found, ok := fo.trees.Load(at.Root())
	if !ok {
		if len(at.Above) == 0 {
			return nil
		}
		found, _ = fo.trees.LoadOrStore(at.Root(), &Tree{members: map[agentkernel.PID]int64{}})
	}
	return found.(*Tree)
}

// Plant makes the tree of a process that was alone, and is about to have a child. held and written are what it uses by itself.
func (fo *Forest) Plant(at Place, held, written int64) *Tree {
	found, _ := fo.trees.LoadOrStore(at.PID, &Tree{members: map[agentkernel.PID]int64{at.PID: held}, written: written})
	return found.(*Tree)
}

// Rejoin puts a process that was read from the store, and what its journal holds, into its tree, if it is in one. above is what
// the journal of the root holds, asked if that was alone until now; 0: nothing, or nobody has it in memory.
func (fo *Forest) Rejoin(at Place, written int64, above func() int64) {
	if _, tree := fo.trees.Load(at.PID); !tree && len(at.Above) == 0 {
		return
	}
	found, loaded := fo.trees.LoadOrStore(at.Root(), &Tree{members: map[agentkernel.PID]int64{}})
	t := found.(*Tree)
	var root int64
	if !loaded && len(at.Above) > 0 {
		root = above()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written += root + written
	t.join(at.PID)
	if root > 0 {
		t.join(at.Root())
	}
}

// Leave takes a process that has ended out of its tree; the last one takes the tree along.
func (fo *Forest) Leave(at Place) {
	fo.Unload(at)
	if fo.leave(at) && fo.Ended != nil {
		fo.Ended(at.Root())
	}
}

// leave says whether it was the last one.
func (fo *Forest) leave(at Place) (last bool) {
	found, ok := fo.trees.Load(at.Root())
	if !ok {
		return true
	}
	t := found.(*Tree)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.members, at.PID)
	if len(t.members) > 0 || t.reserved > 0 {
		return false
	}
	fo.trees.Delete(at.Root())
	return true
}

// Unload notes that the kernel holds nothing for a process any more.
func (fo *Forest) Unload(at Place) { fo.Total.Set(at.Share, 0) }

// Note keeps in mind what the kernel holds for a process.
func (fo *Forest) Note(at Place, held int64) {
	fo.Total.Set(at.Share, held)
	if t := fo.Of(at); t != nil {
		t.mu.Lock()
		t.members[at.PID] = held
		t.mu.Unlock()
	}
}

// Wrote counts bytes that a process has written to its journal.
func (fo *Forest) Wrote(at Place, bytes int64) {
	if t := fo.Of(at); t != nil {
		t.mu.Lock()
		t.written += bytes
		t.mu.Unlock()
	}
}

// Written is how many bytes the journals of a process and its tree have; own is how many its own has.
func (fo *Forest) Written(at Place, own int64) int64 {
	t := fo.Of(at)
	if t == nil {
		return own
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(own, t.written)
}

// Full says why the kernel has no room for more bytes of a process for which it holds own, and whose tree may have limit; "":
// it has.
func (fo *Forest) Full(at Place, own, more, limit int64) string {
	return fo.Total.Full(fo.held(at, own), more, limit)
}

// held is how much the kernel holds for a process and its tree.
func (fo *Forest) held(at Place, own int64) int64 {
	t := fo.Of(at)
	if t == nil {
		return own
	}
	fo.Note(at, own)
	t.mu.Lock()
	defer t.mu.Unlock()
	var all int64
	for _, held := range t.members {
		all += held
	}
	return all
}

// Held is what the kernel holds for all processes.
func (fo *Forest) Held() int64 { return fo.Total.Held() }

// Trees is how many there are.
func (fo *Forest) Trees() (n int) {
	fo.trees.Range(func(any, any) bool { n++; return true })
	return n
}

// Reserve takes a place for one more process, unless limit processes live already. Settle follows.
func (t *Tree) Reserve(limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.members)+t.reserved >= limit {
		return false
	}
	t.reserved++
	return true
}

// Settle turns a reserved place into a member; 0 gives the place back.
func (t *Tree) Settle(pid agentkernel.PID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reserved--
	if pid != 0 {
		t.join(pid)
	}
}

// join makes a process a member; t.mu is held.
func (t *Tree) join(pid agentkernel.PID) {
	if _, member := t.members[pid]; !member {
		t.members[pid] = 0
	}
}

// UnlessFenced leaves out that a batch was refused, for those who wait for the batches of other trees.
func UnlessFenced(err error) error {
	if agentkernel.CodeOf(err) == agentkernel.CodeFenced {
		return nil
	}
	return err
}
