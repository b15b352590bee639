package agentkernel

import (
	"slices"
	"strings"
)

// Right is one thing that a principal may do in its namespace. No right implies another.
type Right string

const (
	RightRead Right = "read" // see processes, journals, events, files, skills and documents
	RightRun  Right = "run"  // create, feed, recover and rerun processes; save skills and documents
	// RightAnswer decides about processes: signals, answers to what they ask, resolutions of
	// unknown outcomes.
	RightAnswer Right = "answer"
	// RightTools reaches the outside: names tool files, accepts tools, and allows programs calls
	// and hosts. A tool file names commands, which run as the kernel's user.
	RightTools Right = "tools"
	// RightHost reaches the kernel's machine: shows programs its files, applies or discards what
	// they changed in them, and lets programs run without walls.
	RightHost Right = "host"
	// RightAdmin imports recordings into the namespace, and prunes it. What concerns all namespaces
	// (a backup, the storage, the end of the kernel) is the owner's alone.
	RightAdmin Right = "admin"
)

// Rights are all of them.
func Rights() []Right {
	return []Right{RightRead, RightRun, RightAnswer, RightTools, RightHost, RightAdmin}
}

// Principal is who calls from outside. The zero value has no rights.
type Principal struct {
	// Name is who it is, for messages and logs; nothing is decided by it.
	Name string `json:"name,omitempty"`
	// Owner may do everything in every namespace; Namespace and Rights do not count then. It is
	// whoever owns the data directory.
	Owner bool `json:"owner,omitempty"`
	// Namespace is the one that the principal sees; "" is "default".
	Namespace string  `json:"namespace,omitempty"`
	Rights    []Right `json:"rights,omitempty"`
}

// Owner is the principal who may do everything.
func Owner() Principal { return Principal{Name: "owner", Owner: true} }

// Has says whether the principal has a right.
func (p *Principal) Has(r Right) bool { return p.Owner || slices.Contains(p.Rights, r) }

// Validate refuses rights that do not exist, and namespaces that are the kernel's own.
func (p *Principal) Validate() error {
	if p.Owner {
		return nil
	}
	for _, r := range p.Rights {
		if !slices.Contains(Rights(), r) {
			return Errorf(CodeInvalid, "principal", "the right %q is not known", string(r)).WithHint("there are: %s", rightNames())
		}
	}
	return ValidateNamespace(p.Namespace)
}

func rightNames() string {
	names := make([]string, 0, len(Rights()))
	for _, r := range Rights() {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}
