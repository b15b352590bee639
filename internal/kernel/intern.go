package kernel

import (
	"encoding/json"
	"sync"

	"agentkernel"
	"agentkernel/internal/simplespec"
)

// interner shares equal Specs, program text included, between processes: a thousand processes of one
// program with the same settings hold one.
type interner struct {
	defaults agentkernel.Limits
	mu       sync.Mutex
	refs     map[internKey]*sharedSpec
	texts    simplespec.Texts[simplespec.Key, json.RawMessage] // see data
}

// internKey is a Spec as text: what specData shows, and what it leaves out.
type internKey struct{ spec, source string }

// sharedSpec is a Spec with what follows from it alone. It must not be changed.
type sharedSpec struct {
	agentkernel.Spec
	limits agentkernel.Limits // in force: those of the Spec, else the kernel's defaults

	key   internKey
	users int // 0: not shared
}

func newInterner(defaults agentkernel.Limits) *interner {
	return &interner{defaults: defaults, refs: map[internKey]*sharedSpec{}}
}

// data is specData, which takes longer than a small program, and mostly says what it said before.
func (in *interner) data(s *agentkernel.Spec) json.RawMessage {
	simple, ok := simplespec.Of(s)
	if !ok {
		return specData(s)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	text, _ := in.texts.Get(simple, func() (json.RawMessage, error) { return specData(s), nil })
	return text
}

// take gives the shared Spec that equals s, of which data is the text (specData). A program with modules
// is not shared.
func (in *interner) take(s *agentkernel.Spec, data []byte) *sharedSpec {
	if len(s.Program.Modules) > 0 || data == nil {
		return in.own(s)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	key := internKey{string(data), s.Program.Source}
	shared := in.refs[key]
	if shared == nil {
		shared = in.own(s)
		shared.key = key
		in.refs[key] = shared
	}
	shared.users++
	return shared
}

func (in *interner) own(s *agentkernel.Spec) *sharedSpec {
	return &sharedSpec{Spec: *s, limits: s.Limits.WithDefaults(in.defaults)}
}

// drop gives back what take gave.
func (in *interner) drop(s *sharedSpec) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if s.users == 0 {
		return
	}
	if s.users--; s.users == 0 {
		delete(in.refs, s.key)
	}
}
