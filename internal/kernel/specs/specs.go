// Package specs completes and checks Specs, makes those of children, and shares equal ones between processes.
package specs

import (
	"encoding/json"
	"sync"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/fastpath"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/room"
)

// Interner shares equal Specs, program text included, between processes: a thousand processes of one
// program with the same settings hold one.
type Interner struct {
	defaults agentkernel.Limits
	mu       sync.Mutex
	refs     map[internKey]*Shared
	texts    fastpath.Texts[fastpath.Key, json.RawMessage] // see data
	total    *room.Total                                   // has the larger ones
}

// internKey is a Spec as text: what history.SpecData shows, and what it leaves out.
type internKey struct{ spec, source string }

// Shared is a Spec with what follows from it alone. It must not be changed.
type Shared struct {
	agentkernel.Spec
	InForce agentkernel.Limits // those of the Spec, else the kernel's defaults

	key   internKey
	users int // 0: nobody gives it back
	held  room.Share
}

// New returns an Interner; defaults are the limits of a Spec that does not name them. What the Specs take is a part of total.
func New(defaults agentkernel.Limits, total *room.Total) *Interner {
	return &Interner{defaults: defaults, refs: map[internKey]*Shared{}, total: total}
}

// copies is how often the kernel has the program and the arguments of a process in memory: in its Spec, as the text of that, and in the
// journal's queue.
const copies = 3

// size is about how many bytes the kernel keeps for a Spec; 0: so few that the number of processes bounds them. Modules are those of a
// parent, or of all processes from one client.
func size(s *agentkernel.Spec) int64 {
	n := len(s.Program.Source)
	for _, arg := range s.Program.Args {
		n += len(arg)
	}
	if n < room.BigPayload {
		return 0
	}
	return copies * int64(n)
}

// Room refuses a Spec for whose program there is no room in memory, beside those of other processes.
func (in *Interner) Room(s *agentkernel.Spec) error {
	n := size(s)
	if n == 0 || !in.total.Exceeded(n) {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeLimit, "spec", "there is no room for a program that has %s with its arguments: what the kernel keeps in memory for all programs is %s, and the most is %s",
		bytesize.Text(n/copies), bytesize.Text(in.total.Held()), bytesize.Text(room.Most())).
		WithHint("wait until others have ended; large data belongs in a file, or comes from a tool")
}

// Data is history.SpecData, which takes longer than a small program, and mostly says what it said before.
func (in *Interner) Data(s *agentkernel.Spec) json.RawMessage {
	simple, ok := fastpath.Of(s)
	if !ok {
		return history.SpecData(s)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	text, _ := in.texts.Get(simple, func() (json.RawMessage, error) { return history.SpecData(s), nil })
	return text
}

// Take returns the shared Spec that equals s, of which data is the text (history.SpecData). A program with modules
// is not shared.
func (in *Interner) Take(s *agentkernel.Spec, data []byte) *Shared {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(s.Program.Modules) > 0 || data == nil {
		return in.enter(s)
	}
	key := internKey{string(data), s.Program.Source}
	shared := in.refs[key]
	if shared == nil {
		shared = in.enter(s)
		shared.key = key
		in.refs[key] = shared
		return shared
	}
	shared.users++
	return shared
}

// enter returns a Shared with its first user, whose size counts until the last has given it back.
func (in *Interner) enter(s *agentkernel.Spec) *Shared {
	shared := in.Own(s)
	shared.users = 1
	in.total.Set(&shared.held, size(s))
	return shared
}

// Limits are those in force for a Spec.
func (in *Interner) Limits(s *agentkernel.Spec) agentkernel.Limits {
	return s.Limits.WithDefaults(in.defaults)
}

// Own returns a Shared of which nobody else has a part.
func (in *Interner) Own(s *agentkernel.Spec) *Shared {
	return &Shared{Spec: *s, InForce: in.Limits(s)}
}

// Drop gives back what Take returned.
func (in *Interner) Drop(s *Shared) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if s.users == 0 {
		return
	}
	if s.users--; s.users > 0 {
		return
	}
	in.total.Set(&s.held, 0)
	if in.refs[s.key] == s {
		delete(in.refs, s.key)
	}
}
