// Package policy narrows a kernel to what a principal may see and do: one namespace, and its rights
// there. What is outside is answered as if it were not there, so that a PID says nothing to whoever
// may not see its process.
//
//	policy.go     Scoped, and how a process or a namespace is told to be the principal's
//	processes.go  the process table, sessions, repairs, traces
//	spec.go       what a new process asks for, and which rights that needs
//	keeping.go    recordings, tools, library, files, housekeeping
//
// It must never embed the kernel that it narrows: a method that is added to the contract has to be
// decided upon here. It keeps nothing, and knows no kernel but the contract.
//
// A namespace is the border, and what is inside it is shared: a principal with the right to run may
// save a skill that a process of the same namespace with more permissions imports. A tree of
// processes has one namespace, unless the owner has put a process below one of another: then a
// signal to that one reaches it, as it does for the owner.
package policy

import (
	"context"
	"slices"

	"agentkernel"
)

// Scoped returns the kernel as a principal sees it. For the owner that is k itself, with all
// abilities that k has besides the contract. Of those anybody else has Hosted alone, narrowed: the
// others are about the kernel as a whole. Close ends nothing there: the kernel is not the
// principal's. A principal that is not valid may do nothing.
func Scoped(k agentkernel.Kernel, who agentkernel.Principal) agentkernel.Kernel {
	if who.Owner {
		return k
	}
	who.Rights = slices.Clone(who.Rights)
	s := &scope{k: k, who: who, namespace: orDefault(who.Namespace), invalid: who.Validate()}
	if h, ok := k.(agentkernel.Hosted); ok {
		return &hostedScope{s, h}
	}
	return s
}

// scope is a kernel as a principal sees it who is not the owner.
type scope struct {
	k         agentkernel.Kernel
	who       agentkernel.Principal
	namespace string
	invalid   error // why the principal may do nothing; nil: it is valid
}

// hostedScope is the scope of a kernel that hosts programs.
type hostedScope struct {
	*scope
	hosted agentkernel.Hosted
}

var (
	_ agentkernel.Kernel = (*scope)(nil)
	_ agentkernel.Hosted = (*hostedScope)(nil)
)

func orDefault(namespace string) string {
	if namespace == "" {
		return "default"
	}
	return namespace
}

// may refuses what the principal lacks a right for. It is asked before anything is looked up, so
// that the answer says nothing of what there is.
func (s *scope) may(op string, rights ...agentkernel.Right) error {
	if s.invalid != nil {
		return s.invalid
	}
	for _, r := range rights {
		if !s.who.Has(r) {
			return s.denied(op, r)
		}
	}
	return nil
}

func (s *scope) denied(op string, r agentkernel.Right) error {
	return agentkernel.Errorf(agentkernel.CodeDenied, op, "%s lacks the right %q in the namespace %q", s.name(), string(r), s.namespace).
		WithHint("the owner of the kernel grants rights")
}

// ownerAlone refuses what concerns all namespaces.
func (s *scope) ownerAlone(op string) error {
	if s.invalid != nil {
		return s.invalid
	}
	return agentkernel.Errorf(agentkernel.CodeDenied, op, "%s is for the owner of the kernel: it concerns all namespaces, and %s has the namespace %q", op, s.name(), s.namespace)
}

func (s *scope) name() string {
	if s.who.Name == "" {
		return "this principal"
	}
	return s.who.Name
}

// here says whether a namespace is the principal's.
func (s *scope) here(namespace string) bool { return orDefault(namespace) == s.namespace }

// into refuses to write into a namespace that is not the principal's; "" is meant as its own.
func (s *scope) into(op, namespace string) error {
	if namespace == "" || namespace == s.namespace {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeDenied, op, "%s may write into the namespace %q alone, not into %.100q", s.name(), s.namespace, namespace)
}

// own refuses a process that is not there, or is of another namespace: the principal cannot tell
// which. A process never changes its namespace, so that the answer holds for the call that follows.
func (s *scope) own(ctx context.Context, op string, pid agentkernel.PID, rights ...agentkernel.Right) error {
	if err := s.may(op, rights...); err != nil {
		return err
	}
	p, err := s.k.Process(ctx, pid)
	return s.seen(pid, p.Namespace, err)
}

// ownSpec is own for who needs to know what the process may do.
func (s *scope) ownSpec(ctx context.Context, pid agentkernel.PID) (agentkernel.Spec, error) {
	spec, err := s.k.Spec(ctx, pid)
	if err = s.seen(pid, spec.Namespace, err); err != nil {
		return agentkernel.Spec{}, err
	}
	return spec, nil
}

// seen is what the principal is told of a process that was looked up. One that was pruned is as if
// it had never been: whose it was nobody knows any more.
func (s *scope) seen(pid agentkernel.PID, namespace string, err error) error {
	if err == nil && s.here(namespace) {
		return nil
	}
	if err != nil && agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		return err
	}
	return agentkernel.Errorf(agentkernel.CodeNotFound, "store", "there is no process %d", pid).WithHint("agentkernel ps --all lists them")
}

// Info leaves out what is of the machine and of other namespaces, and counts the processes of this
// one.
func (s *scope) Info(ctx context.Context) (agentkernel.KernelInfo, error) {
	if err := s.may("info", agentkernel.RightRead); err != nil {
		return agentkernel.KernelInfo{}, err
	}
	all, err := s.k.Info(ctx)
	if err != nil {
		return agentkernel.KernelInfo{}, err
	}
	info := agentkernel.KernelInfo{Version: all.Version, API: all.API, Started: all.Started, Mode: all.Mode,
		Store: agentkernel.StoreInfo{UUID: all.Store.UUID, Schema: all.Store.Schema}}
	for _, b := range all.Backends {
		b.Problem, b.Fix, b.Walls = "", "", nil // they name paths
		info.Backends = append(info.Backends, b)
	}
	info.Holds = s.holds(ctx, all.Holds)
	unended := agentkernel.Filter{Namespace: s.namespace, Unfinished: true}
	if all.Unfinished == 0 {
		info.Processes, err = s.k.Count(ctx, unended)
		return info, err
	}
	for page, err := range agentkernel.Pages(ctx, s.k, unended) {
		if err != nil {
			return agentkernel.KernelInfo{}, err
		}
		for i := range page {
			if page[i].State == agentkernel.StateUnfinished {
				info.Unfinished++
			} else {
				info.Processes++
			}
		}
	}
	return info, nil
}

// Close ends nothing: the kernel goes on for others.
func (s *scope) Close() error { return nil }
