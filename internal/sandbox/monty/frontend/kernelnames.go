package frontend

import (
	"slices"
	"strings"
	"sync"

	"agentkernel"
)

// errorNameList are the exceptions that `from kernel import` offers. The engine cannot raise types of the host, so that each
// is the builtin that it is derived from (agentkernel.GuestBase).
var errorNameList = []string{"ToolError", "LimitError", "OutcomeUnknown", "SessionLost", "KernelInterrupt"}

// guestNames are the names of the syscall table as programs write them, made once.
type guestNames struct {
	functions map[string]bool   // "sleep", "state.get"
	families  map[string]bool   // "state"
	bare      map[string]string // "llm": "ask", which llm(...) means
}

var guests = sync.OnceValue(func() guestNames {
	g := guestNames{map[string]bool{}, map[string]bool{}, map[string]string{}}
	for _, s := range agentkernel.Syscalls() {
		if s.Guest == "" {
			continue
		}
		g.functions[s.Guest] = true
		if f, verb, ok := strings.Cut(s.Guest, "."); ok {
			g.families[f] = true
			if s.Bare {
				g.bare[f] = verb
			}
		}
	}
	return g
})

// kernelFunction says whether the module `kernel` has a function of this name ("sleep", "state.get").
func kernelFunction(name string) bool { return guests().functions[name] }

// isFamily says whether the name is an object of functions in `kernel` ("state").
func isFamily(name string) bool { return guests().families[name] }

// bareFunction is the function that a call of an object of kernel itself means ("kernel.llm": "ask"); "": there is none.
func bareFunction(module string) string {
	family, ours := strings.CutPrefix(module, "kernel.")
	if !ours {
		return ""
	}
	return guests().bare[strings.TrimPrefix(family, "aio.")]
}

// kernelNames lists what can be imported from kernel, or the functions of one of its objects.
func kernelNames(family string) []string {
	var out []string
	for name := range guests().functions {
		f, verb, dotted := strings.Cut(name, ".")
		switch {
		case family == "":
			out = append(out, f)
		case dotted && f == family:
			out = append(out, verb)
		}
	}
	if family == "" {
		out = append(out, errorNameList...)
		out = append(out, "aio")
	}
	slices.Sort(out)
	return slices.Compact(out)
}
