package backends

import (
	"fmt"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
)

// The isolation that a Spec asks for is a floor: a backend below it is passed over, and refused where it is named.

// tooWeak says that a backend does not reach a floor.
func tooWeak(b *Backend, floor agentkernel.Isolation) *agentkernel.Error {
	if floor == "" {
		return agentkernel.Errorf(agentkernel.CodeDenied, "spec", "the %s backend has no boundary, and that must be asked for", b.Name).
			WithHint(advice.AskForNone)
	}
	return agentkernel.Errorf(agentkernel.CodeUnsupported, "spec", "the %s backend is below the isolation that is asked for: it has %s, wanted is %s",
		b.Name, boundary(b), floor).WithHint("leave the backend out: the kernel chooses one that reaches it, if there is one")
}

// unreached says that no backend reaches the floor of a Spec.
func (l List) unreached(s *agentkernel.Spec) error {
	if s.Isolation == "" {
		return nil
	}
	if s.Isolation == agentkernel.IsolationNone && !slices.ContainsFunc(l, func(b *Backend) bool { return b.Isolation == agentkernel.IsolationNone }) {
		return agentkernel.Errorf(agentkernel.CodeDenied, "spec", "this kernel runs no program without a boundary").
			WithHint(advice.NoneForbidden)
	}
	var have []string
	for _, b := range l {
		if b.Isolation.Reaches(s.Isolation) {
			return nil
		}
		have = append(have, fmt.Sprintf("%s (%s)", b.Name, boundary(b)))
	}
	return agentkernel.Errorf(agentkernel.CodeUnsupported, "spec", "no backend here reaches the isolation %s; there are: %s",
		s.Isolation, strings.Join(have, ", ")).WithHint("%s", reachedBy(s.Isolation))
}

// reachedBy says what a floor takes.
func reachedBy(floor agentkernel.Isolation) string {
	switch floor {
	case agentkernel.IsolationVM:
		return "it takes a backend that runs programs in virtual machines, which this version does not have; process is the strongest that it has"
	case agentkernel.IsolationKernel:
		return "it takes a backend that gives programs a kernel of their own (gVisor), which this version does not have; process is the strongest that it has"
	case agentkernel.IsolationProcess:
		return advice.TakesProcess
	}
	return advice.Doctor
}

func boundary(b *Backend) string {
	if b.Isolation == "" {
		return string(agentkernel.IsolationNone)
	}
	return string(b.Isolation)
}
