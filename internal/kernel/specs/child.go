package specs

import (
	"cmp"
	"slices"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/budget"
	"agentkernel/internal/kernel/keys"
)

// Hosted is the name of the backend in a Spec of a process whose program runs elsewhere.
const Hosted = "hosted"

// FromOutside clears what only the kernel fills in, and refuses a Spec that sets the rest of it.
func FromOutside(s *agentkernel.Spec) error {
	if err := keys.Usable(s.IdempotencyKey); err != nil {
		return err
	}
	s.Ancestors, s.DetachedFrom, s.Budgets, s.BudgetsUSD, s.BudgetsTime = nil, 0, nil, false, false
	if len(s.Program.Earlier) > 0 || s.Program.Cells != 0 {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "spec", "earlier and pieces of a program are filled in by the kernel").
			WithHint("leave them out; a session is fed its cells one by one")
	}
	return s.Isolation.Validate()
}

// PutBelow gives a Spec what it has from its parent, whoever starts it. A tree is of one namespace: what it spends counts for that.
func PutBelow(s, parent *agentkernel.Spec) error {
	if s.Namespace = cmp.Or(s.Namespace, parent.Namespace); s.Namespace != parent.Namespace {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "spec", "process %d is of the namespace %q, so that a child of it cannot be of %q", s.Parent, parent.Namespace, s.Namespace).
			WithHint("leave the namespace out, or the parent")
	}
	putBelow(s, parent)
	return nil
}

func putBelow(s, parent *agentkernel.Spec) {
	s.Ancestors, s.DetachedFrom = below(parent, s.Parent), detachedFrom(parent, s.Parent)
	s.Isolation, s.Budgets = s.Isolation.Below(parent.Isolation), budget.Nodes(s.Parent, parent)
	s.BudgetsUSD, s.BudgetsTime = parent.BoundsUSD(), parent.BoundsTime()
	s.Deadline = deadlineBelow(parent, s)
}

// deadlineBelow is the deadline of a child: its own, or that of the parent if that is sooner and the child is not detached.
func deadlineBelow(parent, s *agentkernel.Spec) time.Time {
	if at := parent.Deadline; !at.IsZero() && !s.Detached && (s.Deadline.IsZero() || at.Before(s.Deadline)) {
		return at
	}
	return s.Deadline
}

// InTime refuses a deadline that has passed, and one that is too far ahead.
func InTime(s *agentkernel.Spec, now time.Time) error {
	ahead := s.Deadline.Sub(now)
	switch {
	case s.Deadline.IsZero():
	case ahead <= 0:
		layout := time.RFC3339
		if ahead > -time.Second { // both may be in the same second
			layout = time.RFC3339Nano
		}
		return agentkernel.Errorf(agentkernel.CodeInvalid, "spec", "the deadline %s has passed: it is %s", s.Deadline.UTC().Format(layout), now.UTC().Format(layout))
	case ahead > agentkernel.MaxDeadline:
		return agentkernel.Errorf(agentkernel.CodeInvalid, "spec", "the deadline %s is too far ahead: ten years are the most, 3,650 days", s.Deadline.UTC().Format(time.RFC3339))
	}
	return nil
}

// below gives the ancestors of a child.
func below(parent *agentkernel.Spec, pid agentkernel.PID) []agentkernel.PID {
	return append(slices.Clone(parent.Ancestors), pid)
}

// detachedFrom is the nearest detached process above a child of pid; 0: there is none.
func detachedFrom(parent *agentkernel.Spec, pid agentkernel.PID) agentkernel.PID {
	if parent.Detached {
		return pid
	}
	return parent.DetachedFrom
}

// Attached says whether a signal to the process pid, which is above, reaches the process of a Spec.
func Attached(s *agentkernel.Spec, pid agentkernel.PID) bool {
	if s.Detached {
		return false
	}
	for _, above := range slices.Backward(s.Ancestors) {
		switch above {
		case pid:
			return true
		case s.DetachedFrom:
			return false
		}
	}
	return true
}

// Complete fills in what a Spec leaves to the kernel, and refuses one that is none.
func Complete(s *agentkernel.Spec) error {
	if s.Backend != Hosted {
		s.Program.NormalizeLanguage()
	}
	if err := s.Validate(); err != nil {
		return err
	}
	if s.Namespace == "" {
		s.Namespace = "default"
	}
	s.Deadline = s.Deadline.UTC().Truncate(time.Microsecond) // as it is stored
	if s.Priority == 0 {
		s.Priority = agentkernel.DefaultPriority
	}
	if s.Program.Language == "" && s.Backend != Hosted {
		s.Program.Language = agentkernel.Python
	}
	return nil
}

// OfHosted refuses what a program cannot have that runs where the kernel sets no boundary, and has no sandbox.
func OfHosted(s *agentkernel.Spec) error {
	refuse := func(what, without string) error {
		return agentkernel.Errorf(agentkernel.CodeUnsupported, "spec", "a hosted program runs outside the kernel, which cannot %s", what).
			WithHint("leave %s out, or let a backend run the program", without)
	}
	switch {
	case s.Past != nil:
		return agentkernel.Errorf(agentkernel.CodeUnsupported, "spec", "a hosted program runs outside the kernel, which cannot run it again").
			WithHint("start the program itself again, with another key")
	case s.Isolation != "" && s.Isolation != agentkernel.IsolationNone:
		return refuse("promise the isolation "+string(s.Isolation), "the isolation")
	case s.Program.Session:
		return refuse("hand it cells of a session", "session")
	case s.Workspace != nil || len(s.Volumes) > 0:
		return refuse("keep its changes to files apart", "workspace and volumes")
	case s.Stdin != "":
		return refuse("give it a standard input", "stdin")
	}
	return nil
}

// Asked is what a program asks for in a child of its own.
type Asked struct {
	Name, Source string
	Args         []string
	Priority     int
	Detached     bool
	Budget       agentkernel.Budget
	Limits       *agentkernel.Limits // nil: those of the parent
	Deadline     *float64            // in seconds since 1970; nil: that of the parent
	Folder       bool                // it sees the folders of the parent, through a layer of its own
}

// Parent is a process that starts a child.
type Parent struct {
	*Shared
	PID   agentkernel.PID
	Lived time.Duration // as Limits.Wall counts
}

// Child makes the Spec of the child that a process starts with a call: never more than its parent has. What a human has allowed the parent
// with "always" is the parent's alone: a Spec outlives who said so, and a child that is detached outlives the process of which it was said.
func Child(parent *Parent, call int64, a Asked) (agentkernel.Spec, error) {
	s := agentkernel.Spec{
		Program: agentkernel.Program{Name: a.Name, Language: agentkernel.Python, Source: a.Source, Args: a.Args, Modules: parent.Program.Modules,
			Host: environmentOf(&parent.Program)},
		Backend: parent.Backend, Namespace: parent.Namespace, Parent: parent.PID, Detached: a.Detached, Budget: a.Budget, OnBudget: parent.OnBudget, Priority: max(parent.Priority, a.Priority),
		Limits: parent.Limits, Tools: parent.Tools, ToolDigests: parent.ToolDigests, Allow: parent.Allow, AllowHosts: parent.AllowHosts,
		Models: parent.Models, Deny: parent.Deny, OnUnknown: parent.OnUnknown, Durability: parent.Durability,
		IdempotencyKey: keys.OfChild(parent.PID, call),
		Interactive:    parent.Interactive && !a.Detached, // who follows its parent is told what it asks; one that is detached may outlive him
	}
	if s.Program.Name == "" {
		s.Program.Name = "<spawned>"
	}
	if s.Backend == Hosted { // the child is a text, which a backend runs
		s.Backend = ""
	}
	if a.Deadline != nil { // InTime refuses what is out of these bounds
		s.Deadline = time.UnixMicro(int64(min(max(*a.Deadline, 1), 1e11) * 1e6)).UTC()
	}
	putBelow(&s, &parent.Spec)
	if a.Limits != nil {
		s.Limits = a.Limits.Within(parent.InForce)
	}
	if wall := time.Duration(parent.InForce.Wall); wall > 0 { // the parent's time from start to end holds for all that it starts
		s.Limits = s.Limits.Within(agentkernel.Limits{Wall: agentkernel.Duration(max(wall-parent.Lived, time.Millisecond))})
	}
	if !a.Folder {
		return s, nil
	}
	return s, foldersOf(&s, &parent.Spec)
}

// foldersOf shows a child the folders of its parent as they are, without what the parent has changed. What it changes in the workspace waits in a
// layer of its own to be applied: nobody has asked for more. Volumes are applied by themselves, so those it only reads.
func foldersOf(s, parent *agentkernel.Spec) error {
	if !parent.HasFiles() {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "spec", "this process has no folder that a child could have").
			WithHint("leave folder out, or start the process with a workspace")
	}
	if parent.Workspace != nil {
		w := *parent.Workspace
		w.Publish, s.Workspace = false, &w
	}
	s.Volumes = slices.Clone(parent.Volumes)
	for i := range s.Volumes {
		s.Volumes[i].ReadOnly, s.Volumes[i].Size = true, 0
	}
	return nil
}

// environmentOf is the virtual environment that a program's children in Python have, too.
func environmentOf(p *agentkernel.Program) string {
	if p.Language != agentkernel.Python {
		return ""
	}
	return p.Host
}
