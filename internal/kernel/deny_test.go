package kernel

import (
	"slices"
	"testing"

	"agentkernel"
	"agentkernel/internal/sys/families"
)

// TestDenied over the whole table: a capability, a family and a name each take away what they say, and nothing else.
func TestDenied(t *testing.T) {
	table := agentkernel.Syscalls()
	ops, err := newOps(families.All(families.Parts{}))
	if err != nil {
		t.Fatal(err)
	}
	words, _ := (&Kernel{ops: ops}).deniable()
	for _, desc := range table {
		for _, word := range words {
			want := desc.Capability != "" && slices.Contains([]string{desc.Capability, desc.Family(), desc.Name}, word)
			if got := denied([]string{"nothing", word}, &desc); got != want {
				t.Errorf("deny %q takes %s away: %t", word, desc.Name, got)
			}
		}
		if desc.Capability == "" && denied(words, &desc) {
			t.Errorf("%s cannot be taken away, and was", desc.Name)
		}
		if denied(nil, &desc) || denied([]string{"", "*", desc.Name + "x"}, &desc) {
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
