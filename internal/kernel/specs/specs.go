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

// argCost is what an argument takes beside its text.
const argCost = 16

// size is about how many bytes the kernel keeps for a Spec; 0: so few that the number of processes bounds them. Modules are those of a
// parent, or of all processes from one client.
func size(s *agentkernel.Spec) int64 {
	n := len(s.Program.Source)
	for _, arg := range s.Program.Args {
		n += len(arg) + argCost
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
	return in.take(s, data, func() *Shared { return in.Own(s) })
}

// Share is Take of a Spec that may be kept as it is; see [Draft].
func (in *Interner) Share(s *Shared, data []byte) *Shared {
	return in.take(&s.Spec, data, func() *Shared {
		s.InForce = in.Limits(&s.Spec)
		return s
	})
}

// take makes a Shared where there is no equal one. Its size counts until its last user has given it back.
func (in *Interner) take(s *agentkernel.Spec, data []byte, fresh func() *Shared) *Shared {
	in.mu.Lock()
	defer in.mu.Unlock()
	var key internKey
	if len(s.Program.Modules) == 0 && data != nil {
		key = internKey{string(data), s.Program.Source}
		if shared := in.refs[key]; shared != nil {
			shared.users++
			return shared
		}
	}
	made := fresh()
	made.users, made.key = 1, key
	in.total.Set(&made.held, size(s))
	if key != (internKey{}) {
		in.refs[key] = made
	}
	return made
}

// Limits are those in force for a Spec.
func (in *Interner) Limits(s *agentkernel.Spec) agentkernel.Limits {
	return s.Limits.WithDefaults(in.defaults)
}

// Draft is a Shared for Share, and its Spec, which is still to be completed.
func Draft(s agentkernel.Spec) (*Shared, *agentkernel.Spec) {
	d := &Shared{Spec: s}
	return d, &d.Spec
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
