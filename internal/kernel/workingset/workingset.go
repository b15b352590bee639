// Package workingset keeps the working set of a process in memory while that uses it, and counts it with what the kernel keeps for
// all programs. It must not know whose it is, nor when it leaves memory.
package workingset

import (
	"context"
	"encoding/json"
	"math"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/kernel/room"
	"agentkernel/internal/sys"
)

// Set is a working set in memory. Its owner lets one at a time use it, and drops it in the end.
type Set struct {
	keys  map[string]json.RawMessage
	size  int64 // bytes of all keys and values
	total *room.Total
	share room.Share
}

// Store is what a working set is read from.
type Store interface {
	State(ctx context.Context, pid agentkernel.PID) (map[string]json.RawMessage, error)
	SmallState(ctx context.Context, pid agentkernel.PID, atMost int64) (map[string]json.RawMessage, int64, error)
}

// Load reads the working set of a process for a call (op). A large one counts before it is in memory, since many may be read at once, and is
// refused if there is no room for it.
func Load(ctx context.Context, store Store, pid agentkernel.PID, op string, total *room.Total) (*Set, error) {
	keys, size, err := store.SmallState(ctx, pid, room.BigPayload-1)
	if err != nil {
		return nil, err
	}
	s := &Set{total: total}
	if size >= room.BigPayload {
		if err := s.refusal(op, "the working set of %s is not read into memory: there is no room for it", size, size); err != nil {
			return nil, err
		}
	}
	s.resize(size)
	if size >= room.BigPayload {
		if keys, err = store.State(ctx, pid); err != nil {
			s.Drop()
			return nil, err
		}
	}
	if s.keys = keys; keys == nil {
		s.keys = map[string]json.RawMessage{}
	}
	return s, nil
}

// Change is that of [sys.WorkingSet], for a call (op).
func (s *Set) Change(op string, use sys.Use) error {
	changed, err := use(s.keys, s.size)
	if err != nil {
		return err
	}
	var given, more int64
	for key, value := range changed {
		old, there := s.keys[key]
		more -= bytes(key, old, there)
		if value != nil {
			given += int64(len(value))
			more += bytes(key, value, true)
		}
	}
	if more > 0 {
		if err := s.refusal(op, "there is no room for a value of %s in the working set", given, more); err != nil {
			return err
		}
	}
	for key, value := range changed {
		if s.keys[key] = value; value == nil {
			delete(s.keys, key)
		}
	}
	s.resize(s.size + more)
	return nil
}

// Drop notes that the working set leaves memory; of nil it notes nothing.
func (s *Set) Drop() {
	if s != nil {
		s.resize(0)
	}
}

func (s *Set) resize(size int64) { s.size = s.total.Set(&s.share, size) }

// refusal says (what, with a size) that there is no room for more bytes; nil: there is. They are held against what all programs may
// have, and not against the memory limit of one: a working set is no larger than its own limit.
func (s *Set) refusal(op, what string, size, more int64) error {
	full := s.total.Full(0, more, math.MaxInt64)
	if full == "" {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeLimit, op, what, bytesize.Text(size)).WithHint("%s", full)
}

// bytes are those of a key and its value.
func bytes(key string, value json.RawMessage, there bool) int64 {
	if !there {
		return 0
	}
	return int64(len(key) + len(value))
}
