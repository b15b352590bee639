// Package verify plans the verification of a recording: which program repeats it, on which backend and within which limits, or
// why none can here. It runs nothing, and takes no more of this machine than it is told.
package verify

import (
	"encoding/json"

	"agentkernel"
	"agentkernel/internal/kernel/backends"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/specs"
)

// Namespace is where recorded programs run: a worker never changes its namespace, so that one that ran a stranger's program
// serves nobody else.
const Namespace = "$replay"

// Plan is a verification that can be run.
type Plan struct {
	Backend *backends.Backend
	Spec    agentkernel.Spec
	History *history.History
	Tools   []agentkernel.Tool // that the program imports
}

// New plans a verification, or says why its program cannot run here. nil: the program had not begun, and needs what only a
// beginning finds out. defaults are the limits of a process that names none.
func New(v *agentkernel.Verification, all backends.List, defaults agentkernel.Limits) (*Plan, error) {
	unsupported := func(format string, args ...any) error {
		return agentkernel.Errorf(agentkernel.CodeUnsupported, "replay", format, args...)
	}
	found := all.Find(v.Backend)
	program := &v.Spec.Program
	switch {
	case v.Backend == specs.Hosted:
		return nil, unsupported("the program ran outside the kernel and is not in the recording")
	case found == nil:
		return nil, unsupported("the program ran on the backend %.40q, which is not here", v.Backend)
	case !found.Replayable || !program.Language.Replayable():
		return nil, unsupported("programs in %s on the backend %s do not repeat themselves", program.Language, found.Name)
	}
	p := &Plan{Backend: found, Spec: agentkernel.Spec{Program: *program, Namespace: Namespace, Backend: found.Name, Deny: v.Spec.Deny,
		Limits: limits(v, defaults)}}
	needs, err := found.Check(p.Spec.Program)
	if err != nil {
		return nil, err
	}
	p.History = history.Fold(history.Base{}, v.Journal)
	noted := p.History.Noted && json.Unmarshal(p.History.Tools, &p.Tools) == nil
	if !noted && len(needs.Tools) > 0 {
		return nil, nil
	}
	return p, nil
}

// limits are those of the recorded process where they matter for what the program does, but never more of this machine than
// whoever asks for the verification grants.
func limits(v *agentkernel.Verification, defaults agentkernel.Limits) agentkernel.Limits {
	granted := agentkernel.Limits{Time: v.Time, Memory: v.Memory}.WithDefaults(defaults)
	l := v.Spec.Limits.WithDefaults(defaults)
	l.Time, l.Memory, l.Wall = min(l.Time, granted.Time), min(l.Memory, granted.Memory), 0
	return l
}
