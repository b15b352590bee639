package agentkernel_test

import (
	"testing"

	"agentkernel"
)

// The command that ends a hold is copied into a shell, and a namespace has the name that somebody has given it.
func TestHoldCommand(t *testing.T) {
	for name, want := range map[string]string{
		"":            "thaw",
		"team-a.1":    "thaw --namespace team-a.1",
		"a b":         "thaw --namespace 'a b'",
		"x;$(rm 'y')": `thaw --namespace 'x;$(rm '\''y'\'')'`,
	} {
		h := agentkernel.Hold{Namespace: name}
		if got := h.Command("thaw"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if h := (agentkernel.Hold{Tree: 7}); h.Command("halt") != "halt --tree 7" {
		t.Error(h.Command("halt"))
	}
}
