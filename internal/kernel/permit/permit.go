// Package permit says what the permissions of a Spec take away, whether they mean anything at all,
// and whether a call has arguments that can be journalled and are those of its description. It
// decides from descriptions alone: it must never ask what a process is doing, nor change it.
package permit

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/clip"
	"agentkernel/internal/journal"
	"agentkernel/internal/nearest"
)

// Denied says whether one of the words takes a call away: its capability, its family or its name
// does.
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

// Words are those that take one of the calls away; capabilities are the ones among them that mean
// more than one call.
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

// Check refuses permissions of a Spec that would never match any of the calls: whoever wrote them
// relies on them.
func (a *Arguments) Check(s *agentkernel.Spec) error {
	var known, capabilities []string
	if len(s.Deny) > 0 {
		known, capabilities = Words(maps.Values(a.calls))
	}
	for _, word := range s.Deny {
		if !slices.Contains(known, word) {
			e := agentkernel.Errorf(agentkernel.CodeInvalid, "spec", "deny %.100q takes nothing away: there is no capability of that name", word)
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

// maxArgs bounds the arguments of one call, in bytes: no tool server takes a larger message.
const maxArgs = 64 << 20

// maxKnown bounds what is remembered of long arguments, in bytes: some dozen long conversations.
const maxKnown = 32 << 20

// Arguments reads the arguments of calls. Of long ones it remembers what it has read.
type Arguments struct {
	calls     map[string]*agentkernel.Syscall
	canonizer *journal.Canonizer
}

// NewArguments knows some calls, by their names.
func NewArguments[T any](calls map[string]T, of func(T) *agentkernel.Syscall) *Arguments {
	a := &Arguments{map[string]*agentkernel.Syscall{}, journal.NewCanonizer(maxKnown)}
	for name, call := range calls {
		a.calls[name] = of(call)
	}
	return a
}

// Read gives the canonical form of the arguments of a process's call, and what is wrong with them; null for those that have none. What is
// wrong with those of a call that is not known, nobody asks.
func (a *Arguments) Read(pid agentkernel.PID, call *agentkernel.Call) (json.RawMessage, *agentkernel.Error) {
	if len(call.Args) > maxArgs {
		return json.RawMessage("null"), agentkernel.Errorf(agentkernel.CodeLimit, call.Op, "the arguments are %s long; the limit is %s",
			bytesize.Text(int64(len(call.Args))), bytesize.Text(maxArgs))
	}
	canonical, names, err := a.canonizer.Canonical(int64(pid), call.Args)
	if err != nil {
		return json.RawMessage("null"), agentkernel.Errorf(agentkernel.CodeInvalid, call.Op, "arguments: %v", err)
	}
	desc := a.calls[call.Op]
	if desc == nil {
		return canonical, nil
	}
	ok := true
	if names == nil {
		names, ok = journal.Names(canonical)
	}
	if !ok {
		return canonical, agentkernel.Errorf(agentkernel.CodeInvalid, call.Op, "wrong arguments for %s: they are not an object", desc.Signature())
	}
	return canonical, unknownArgument(desc, names)
}

// Refusal says why a process may not make a call: it was denied to it, or bad is wrong with its arguments.
func Refusal(deny []string, call *agentkernel.Syscall, bad *agentkernel.Error) *agentkernel.Error {
	if Denied(deny, call) {
		return agentkernel.Errorf(agentkernel.CodeDenied, call.Name, "%s is denied to this process (deny = %q)", call.Name, call.Capability)
	}
	return bad
}

// unknownArgument refuses names that the call does not have. encoding/json would take "TOOL" for
// "tool", and which of the two counts would depend on their order, which is another one in the
// journal.
func unknownArgument(call *agentkernel.Syscall, names []string) *agentkernel.Error {
	for _, name := range names {
		if !slices.ContainsFunc(call.Args, func(a agentkernel.Param) bool { return a.Name == name }) {
			return agentkernel.Errorf(agentkernel.CodeInvalid, call.Name, "wrong arguments for %s: there is no argument %q", call.Signature(), clip.Short(name))
		}
	}
	return nil
}

// NoSyscall refuses a call that none of ops is, and says which ones may be meant.
func NoSyscall[T any](name string, ops map[string]T) *agentkernel.Error {
	err := agentkernel.Errorf(agentkernel.CodeNotFound, clip.Short(name), "there is no syscall %q", clip.Short(name))
	if q := nearest.Question(clip.Short(name), slices.Sorted(maps.Keys(ops))); q != "" {
		return err.WithHint("%s", q)
	}
	return err
}

// NotHere is the answer for a call of the journal that this kernel does not have: a newer one, or one with more families,
// ran the process.
func NotHere(name string) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeVersion, name, "this kernel does not know the call %s, which is in the journal", clip.Short(name)).
		WithHint("continue the process with the version that ran it")
}
