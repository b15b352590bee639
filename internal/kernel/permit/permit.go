// Package permit says what the permissions of a Spec take away, whether they mean anything at all, and whether a call has the
// arguments of its description. It decides from descriptions alone: it must never ask what a process is doing, nor change it.
package permit

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/journal"
	"agentkernel/internal/nearest"
)

// Denied says whether one of the words takes a call away: its capability, its family or its name does.
func Denied(deny []string, call *agentkernel.Syscall) bool {
	if call.Capability == "" {
		return false
	}
	for _, d := range deny {
		if d == call.Capability || d == call.Family() || d == call.Name {
			return true
		}
	}
	return false
}

// Words are those that take one of the calls away; capabilities are the ones among them that mean more than one call.
func Words(calls iter.Seq[*agentkernel.Syscall]) (words, capabilities []string) {
	for call := range calls {
		if call.Capability != "" {
			words = append(words, call.Capability, call.Family(), call.Name)
			capabilities = append(capabilities, call.Capability)
		}
	}
	slices.Sort(words)
	slices.Sort(capabilities)
	return slices.Compact(words), slices.Compact(capabilities)
}

// Check refuses permissions of a Spec that would never match any of the calls: whoever wrote them relies on them.
func Check(s *agentkernel.Spec, calls iter.Seq[*agentkernel.Syscall]) error {
	for _, word := range s.Deny {
		if known, capabilities := Words(calls); !slices.Contains(known, word) {
			e := agentkernel.Errorf(agentkernel.CodeInvalid, "spec", "deny %q takes nothing away: there is no capability of that name", word)
			if q := nearest.Question(word, known); q != "" {
				return e.WithHint("%s", q)
			}
			return e.WithHint("%s, or the name of a system call", strings.Join(capabilities, ", "))
		}
	}
	for _, pattern := range s.Allow {
		if err := agentkernel.CheckAllow(pattern); err != nil {
			return err
		}
	}
	return nil
}

// UnknownArgument refuses names that the call does not have. encoding/json would take "TOOL" for "tool", and
// which of the two counts would depend on their order, which is another one in the journal.
func UnknownArgument(call *agentkernel.Syscall, canonical json.RawMessage) *agentkernel.Error {
	names, ok := journal.Names(canonical)
	if !ok {
		return agentkernel.Errorf(agentkernel.CodeInvalid, call.Name, "wrong arguments for %s: they are not an object", call.Signature())
	}
	for _, name := range names {
		if !slices.ContainsFunc(call.Args, func(a agentkernel.Param) bool { return a.Name == name }) {
			return agentkernel.Errorf(agentkernel.CodeInvalid, call.Name, "wrong arguments for %s: there is no argument %q", call.Signature(), clip.Short(name))
		}
	}
	return nil
}
