package agentkernel

import "slices"

// Isolation says what kind of boundary stands around a program. In a Spec it is a floor: the program runs behind that
// boundary or a stronger one, or not at all.
type Isolation string

// The kinds of boundary, the weakest first. None is no boundary, and no Spec can ask for it.
const (
	IsolationInterpreter Isolation = "interpreter" // an interpreter that has no way out but system calls of ours
	IsolationProcess     Isolation = "process"     // namespaces, seccomp and more around processes of the host's kernel
	IsolationKernel      Isolation = "kernel"      // a kernel of its own in user space (gVisor)
	IsolationVM          Isolation = "vm"          // a virtual machine
)

// Isolations are all of them, the weakest first.
func Isolations() []Isolation {
	return []Isolation{IsolationInterpreter, IsolationProcess, IsolationKernel, IsolationVM}
}

// Reaches says whether i is at least as strong as floor. Every boundary reaches "", and "" reaches nothing else.
func (i Isolation) Reaches(floor Isolation) bool {
	all := Isolations()
	return slices.Index(all, i) >= slices.Index(all, floor)
}

// Stronger is the stronger of two floors.
func (i Isolation) Stronger(other Isolation) Isolation {
	if i.Reaches(other) {
		return i
	}
	return other
}

// Validate says which boundaries there are.
func (i Isolation) Validate() error {
	switch {
	case i == "" || slices.Contains(Isolations(), i):
		return nil
	case i == "none":
		return Errorf(CodeUnsupported, "spec", "no program runs without a boundary").
			WithHint("leave the isolation out for that of the backend: interpreter in monty, process in process")
	}
	return Errorf(CodeInvalid, "spec", "isolation %q is not known: interpreter, process, kernel or vm", string(i))
}
