package policy

import (
	"context"

	"agentkernel"
)

// needs lists the rights that a process with this Spec is to be created with, or handed code: it
// may do all that the Spec says.
func needs(s *agentkernel.Spec) []agentkernel.Right {
	rights := []agentkernel.Right{agentkernel.RightRun}
	if len(s.Tools) > 0 || len(s.Allow) > 0 || len(s.AllowHosts) > 0 || len(s.Models) > 0 {
		rights = append(rights, agentkernel.RightTools)
	}
	if s.HasFiles() || s.Stdin != "" || s.Program.Host != "" || s.Isolation == agentkernel.IsolationNone {
		rights = append(rights, agentkernel.RightHost)
	}
	if s.Interactive { // whoever listens to it is asked, and it waits for him
		rights = append(rights, agentkernel.RightAnswer)
	}
	return rights
}

// mayAll says whether the principal may run whatever a Spec says.
func (s *scope) mayAll() bool {
	for _, r := range []agentkernel.Right{agentkernel.RightTools, agentkernel.RightHost, agentkernel.RightAnswer} {
		if !s.who.Has(r) {
			return false
		}
	}
	return true
}

// drive refuses to hand code to a process that may do what the principal may not.
func (s *scope) drive(ctx context.Context, op string, pid agentkernel.PID, rights ...agentkernel.Right) error {
	if err := s.may(op, append(rights, agentkernel.RightRun)...); err != nil {
		return err
	}
	if s.mayAll() { // its Spec, with the program text, need not be read
		return s.own(ctx, op, pid)
	}
	spec, err := s.ownSpec(ctx, pid)
	if err != nil {
		return err
	}
	return s.may(op, needs(&spec)...)
}

// admit says what is created for a Spec of the principal: its namespace is filled in. Refused are
// rights that it lacks, other namespaces, and processes of others as a parent, a past or an
// ancestor.
func (s *scope) admit(ctx context.Context, op string, spec agentkernel.Spec) (agentkernel.Spec, error) {
	if err := s.may(op, needs(&spec)...); err != nil {
		return spec, err
	}
	if err := s.into(op, spec.Namespace); err != nil {
		return spec, err
	}
	spec.Namespace = s.namespace
	if spec.Parent != 0 {
		parent, err := s.ownSpec(ctx, spec.Parent)
		if err != nil {
			return spec, err
		}
		if spec.Isolation == "" && parent.Isolation == agentkernel.IsolationNone { // it would be the child's, too
			if err := s.may(op, agentkernel.RightHost); err != nil {
				return spec, err
			}
		}
	}
	if spec.Past != nil { // what that did, the new process will show
		if err := s.own(ctx, op, spec.Past.PID, agentkernel.RightRead); err != nil {
			return spec, err
		}
	}
	for _, pid := range spec.Ancestors {
		if err := s.own(ctx, op, pid); err != nil {
			return spec, err
		}
	}
	return spec, nil
}
