package confine

import (
	"hash/fnv"
	"sync"

	"agentkernel"
)

// identities hands out who sandboxes are outside.
type identities struct {
	mu    *sync.Mutex
	fixed *Identity // an ordinary user's own
	first uint32
	next  uint32
	free  []uint32 // last given back first: their namespaces for files are still there
}

// Root's sandboxes are users of this range, which neither distributions nor systemd assign to anyone
// (systemd: UIDS-GIDS.md). Each data directory has a slice of it.
const (
	firstUID  = 1_900_000_000
	uidSlices = 3000
	uidSlice  = 65_536
)

func newIdentities(m *Machine, name string) identities {
	ids := identities{mu: &sync.Mutex{}}
	if !m.root {
		ids.fixed = &Identity{m.uid, m.gid}
		return ids
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	ids.first = firstUID + h.Sum32()%uidSlices*uidSlice
	return ids
}

func (ids *identities) take() (Identity, error) {
	if ids.fixed != nil {
		return *ids.fixed, nil
	}
	ids.mu.Lock()
	defer ids.mu.Unlock()
	var n uint32
	switch last := len(ids.free) - 1; {
	case last >= 0:
		n, ids.free = ids.free[last], ids.free[:last]
	case ids.next < uidSlice:
		n = ids.next
		ids.next++
	default:
		return Identity{}, agentkernel.Errorf(agentkernel.CodeLimit, op, "there are %d sandboxes already", uidSlice)
	}
	return Identity{ids.first + n, ids.first + n}, nil
}

func (ids *identities) give(id Identity) {
	if ids.fixed != nil {
		return
	}
	ids.mu.Lock()
	defer ids.mu.Unlock()
	ids.free = append(ids.free, id.UID-ids.first)
}
