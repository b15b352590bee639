package vet_test

import (
	"slices"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/vet"
)

// TestDenied over the whole table: a capability, a family and a name each take away what they say, and nothing else.
func TestDenied(t *testing.T) {
	table := agentkernel.Syscalls()
	var calls []*agentkernel.Syscall
	for i := range table {
		calls = append(calls, &table[i])
	}
	words, _ := vet.Deniable(calls)
	for _, desc := range table {
		for _, word := range words {
			want := desc.Capability != "" && slices.Contains([]string{desc.Capability, desc.Family(), desc.Name}, word)
			if got := vet.Denied([]string{"nothing", word}, &desc); got != want {
				t.Errorf("deny %q takes %s away: %t", word, desc.Name, got)
			}
		}
		if desc.Capability == "" && vet.Denied(words, &desc) {
			t.Errorf("%s cannot be taken away, and was", desc.Name)
		}
		if vet.Denied(nil, &desc) || vet.Denied([]string{"", "*", desc.Name + "x"}, &desc) {
			t.Errorf("%s was taken away by something else", desc.Name)
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
