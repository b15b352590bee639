// Package specs completes and checks Specs, makes those of children, and shares equal ones between processes.
package specs

import (
	"encoding/json"
	"sync"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/prompt"
)

// Interner shares equal Specs, program text included, between processes: a thousand processes of one
// program with the same settings hold one.
type Interner struct {
	defaults agentkernel.Limits
	mu       sync.Mutex
	refs     map[internKey]*Shared
	texts    prompt.Texts[prompt.Key, json.RawMessage] // see data
}

// internKey is a Spec as text: what history.SpecData shows, and what it leaves out.
type internKey struct{ spec, source string }

// Shared is a Spec with what follows from it alone. It must not be changed.
type Shared struct {
	agentkernel.Spec
	InForce agentkernel.Limits // those of the Spec, else the kernel's defaults

	key   internKey
	users int // 0: not shared
}

// New returns an Interner; defaults are the limits of a Spec that does not name them.
func New(defaults agentkernel.Limits) *Interner {
	return &Interner{defaults: defaults, refs: map[internKey]*Shared{}}
}

// Data is history.SpecData, which takes longer than a small program, and mostly says what it said before.
func (in *Interner) Data(s *agentkernel.Spec) json.RawMessage {
	simple, ok := prompt.Of(s)
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
	if len(s.Program.Modules) > 0 || data == nil {
		return in.Own(s)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	key := internKey{string(data), s.Program.Source}
	shared := in.refs[key]
	if shared == nil {
		shared = in.Own(s)
		shared.key = key
		in.refs[key] = shared
	}
	shared.users++
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
	if s.users--; s.users == 0 {
		delete(in.refs, s.key)
	}
}
