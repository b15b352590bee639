package permit_test

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/permit"
)

// calls yields the whole table.
func calls() iter.Seq[*agentkernel.Syscall] {
	return func(yield func(*agentkernel.Syscall) bool) {
		for _, call := range agentkernel.Syscalls() {
			if !yield(&call) {
				return
			}
		}
	}
}

// TestDenied over the whole table: a capability, a family and a name each take away what they say,
// and nothing else.
func TestDenied(t *testing.T) {
	words, _ := permit.Words(calls())
	for call := range calls() {
		for _, word := range words {
			want := call.Capability != "" && slices.Contains([]string{call.Capability, call.Family(), call.Name}, word)
			if got := permit.Denied([]string{"nothing", word}, call); got != want {
				t.Errorf("deny %q takes %s away: %t", word, call.Name, got)
			}
		}
		if call.Capability == "" && permit.Denied(words, call) {
			t.Errorf("%s cannot be taken away, and was", call.Name)
		}
		if permit.Denied(nil, call) || permit.Denied([]string{"", "*", call.Name + "x"}, call) {
			t.Errorf("%s was taken away by something else", call.Name)
		}
	}
	for _, family := range []string{"proc", "tool", "state", "time", "rand", "http", "log", "proc.spawn", "tool.call", "state.get"} {
		if !slices.Contains(words, family) {
			t.Errorf("%q takes nothing away", family)
		}
	}
	if slices.Contains(words, "proc.exit") || slices.Contains(words, "proc.self") {
		t.Error("what cannot be taken away is offered")
	}
}

// known knows all calls.
func known() *permit.Arguments {
	byName := map[string]*agentkernel.Syscall{}
	for call := range calls() {
		byName[call.Name] = call
	}
	return permit.NewArguments(byName, func(call *agentkernel.Syscall) *agentkernel.Syscall { return call })
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		spec      agentkernel.Spec
		code      agentkernel.Code
		text, tip string
	}{
		{spec: agentkernel.Spec{Deny: []string{"state", "proc.spawn"}, Allow: []string{"github.*"}}},
		{agentkernel.Spec{Deny: []string{"proc.spwan"}}, agentkernel.CodeInvalid, `deny "proc.spwan" takes nothing away`, "proc.spawn"},
		{agentkernel.Spec{Deny: []string{"*"}}, agentkernel.CodeInvalid, `deny "*" takes nothing away`, "or the name of a system call"},
		{agentkernel.Spec{Allow: []string{"fake.[a"}}, agentkernel.CodeInvalid, `allow "fake.[a" is no pattern`, ""},
	} {
		err := known().Check(&c.spec)
		if agentkernel.CodeOf(err) != c.code {
			t.Errorf("%q %q: %v", c.spec.Deny, c.spec.Allow, err)
			continue
		}
		if e := agentkernel.AsError(err, "", ""); e != nil && (!strings.Contains(e.Message(), c.text) || !strings.Contains(e.Hint, c.tip)) {
			t.Errorf("%q %q: %v, %s", c.spec.Deny, c.spec.Allow, e, e.Hint)
		}
	}
}

func TestUnknownArgument(t *testing.T) {
	reads := known()
	for args, want := range map[string]string{
		`{}`: "", `{"default":1,"key":"k"}`: "", `{"KEY":"k"}`: `there is no argument "KEY"`, `[]`: "not an object", `null`: "not an object",
	} {
		canonical, err := reads.Read(1, &agentkernel.Call{Op: "state.get", Args: json.RawMessage(args)})
		if string(canonical) != args {
			t.Errorf("%s became %s", args, canonical)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Message(), want)) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
