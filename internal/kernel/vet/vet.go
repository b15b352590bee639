// Package vet says what is wrong with a call, or with the permissions of a Spec, as far as the descriptors of the calls tell.
// It knows no process.
package vet

import (
	"encoding/json"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/clip"
	"agentkernel/internal/journal"
	"agentkernel/internal/nearest"
)

// maxArgs bounds the arguments of one call, in bytes: no tool server takes a larger message.
const maxArgs = 64 << 20

// Arguments gives the canonical form of a call's arguments; null with the reason for those that have none.
func Arguments(call *agentkernel.Call) (json.RawMessage, *agentkernel.Error) {
	if len(call.Args) > maxArgs {
		return json.RawMessage("null"), agentkernel.Errorf(agentkernel.CodeLimit, call.Op, "the arguments are %s long; the limit is %s",
			bytesize.Text(int64(len(call.Args))), bytesize.Text(maxArgs))
	}
	canonical, err := journal.Canonical(call.Args)
	if err != nil {
		return json.RawMessage("null"), agentkernel.Errorf(agentkernel.CodeInvalid, call.Op, "arguments: %v", err)
	}
	return canonical, nil
}

// UnknownArgument refuses names that the call does not have. encoding/json would take "TOOL" for "tool", and
// which of the two counts would depend on their order, which is another one in the journal.
func UnknownArgument(desc *agentkernel.Syscall, canonical json.RawMessage) *agentkernel.Error {
	names, ok := journal.Names(canonical)
	if !ok {
		return agentkernel.Errorf(agentkernel.CodeInvalid, desc.Name, "wrong arguments for %s: they are not an object", desc.Signature())
	}
	for _, name := range names {
		if !slices.ContainsFunc(desc.Args, func(a agentkernel.Param) bool { return a.Name == name }) {
			return agentkernel.Errorf(agentkernel.CodeInvalid, desc.Name, "wrong arguments for %s: there is no argument %q", desc.Signature(), clip.Short(name))
		}
	}
	return nil
}

// Denied says whether a Spec that denies these words denies a call.
func Denied(deny []string, desc *agentkernel.Syscall) bool {
	if desc.Capability == "" {
		return false
	}
	for _, d := range deny {
		if d == desc.Capability || d == desc.Family() || d == desc.Name {
			return true
		}
	}
	return false
}

// Deniable are the words that take something away; capabilities are those that mean more than one call.
func Deniable(calls []*agentkernel.Syscall) (words, capabilities []string) {
	for _, c := range calls {
		if c.Capability != "" {
			words = append(words, c.Capability, c.Family(), c.Name)
			capabilities = append(capabilities, c.Capability)
		}
	}
	slices.Sort(words)
	slices.Sort(capabilities)
	return slices.Compact(words), slices.Compact(capabilities)
}

// Permissions refuses permissions that would never match: whoever wrote them relies on them.
func Permissions(s *agentkernel.Spec, calls []*agentkernel.Syscall) error {
	for _, word := range s.Deny {
		if known, capabilities := Deniable(calls); !slices.Contains(known, word) {
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
