package agentkernel

import "slices"

// Isolation says what kind of boundary stands around a program. In a Spec it is a floor: the program runs behind that
// boundary or a stronger one, or not at all.
type Isolation string

// The kinds of boundary, the weakest first.
const (
	// IsolationNone is no boundary at all: a program may do what the kernel's user may. It is never a default. A Spec that
	// asks for it gets a boundary all the same wherever one can stand.
	IsolationNone        Isolation = "none"
	IsolationInterpreter Isolation = "interpreter" // an interpreter that has no way out but system calls of ours
	IsolationProcess     Isolation = "process"     // namespaces, seccomp and more around processes of the host's kernel
	IsolationKernel      Isolation = "kernel"      // a kernel of its own in user space (gVisor)
	IsolationVM          Isolation = "vm"          // a virtual machine
)

// Isolations are all of them, the weakest first.
func Isolations() []Isolation {
	return []Isolation{IsolationNone, IsolationInterpreter, IsolationProcess, IsolationKernel, IsolationVM}
}

// Reaches says whether i is at least as strong as floor. Every boundary reaches "", which none does not; "" itself reaches
// that and none, and nothing else.
func (i Isolation) Reaches(floor Isolation) bool {
	switch floor {
	case "":
		return i != IsolationNone
	case IsolationNone:
		return true
	}
	all := Isolations()
	return slices.Index(all, i) >= slices.Index(all, floor)
}

// Below is the floor of a process that asks for i below one whose floor is parent: the parent's where nothing is asked for,
// and never a weaker one.
func (i Isolation) Below(parent Isolation) Isolation {
	if i != "" && i.Reaches(parent) {
		return i
	}
	return parent
}

// Validate says which boundaries there are.
func (i Isolation) Validate() error {
	switch {
	case i == "" || slices.Contains(Isolations(), i):
		return nil
	}
	return Errorf(CodeInvalid, "spec", "isolation %q is not known: none, interpreter, process, kernel or vm", string(i))
}
