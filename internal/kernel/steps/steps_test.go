package steps_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/steps"
)

// TestDocumentedSteps: the table in the comment of package kernel is the one of the code.
func TestDocumentedSteps(t *testing.T) {
	text, err := os.ReadFile("../doc.go")
	if err != nil {
		t.Fatal(err)
	}
	owners := []string{"unowned", "takes", "keeps", "releases", "ends"}
	var documented, coded []string
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(strings.TrimPrefix(line, "//"))
		arrow := slices.Index(words, "->")
		owner := slices.IndexFunc(words, func(w string) bool { return slices.Contains(owners, w) })
		if arrow > 0 && owner > arrow { // words behind the owner are a remark
			documented = append(documented, strings.Join(words[:owner+1], " "))
		}
	}
	for _, s := range steps.All() {
		coded = append(coded, s.String())
	}
	if !slices.Equal(documented, coded) {
		t.Errorf("documented:\n%s\nin the code:\n%s", strings.Join(documented, "\n"), strings.Join(coded, "\n"))
	}
}

// TestOwners: nobody takes what another one owns, nobody lets go of what he does not own, and what has ended goes nowhere.
func TestOwners(t *testing.T) {
	states := []agentkernel.State{steps.Created, agentkernel.StateReady, agentkernel.StateRunning, agentkernel.StateWaiting,
		agentkernel.StateExited, agentkernel.StateFailed, agentkernel.StateKilled}
	for _, s := range steps.All() {
		taken := 0
		for _, from := range states {
			for _, owned := range []bool{false, true} {
				to, owns, err := s.Take(from, owned)
				if err != nil {
					if to != from || owns != owned {
						t.Errorf("%s: refused, and yet it is %s", s, to)
					}
					continue
				}
				taken++
				line := s.String()
				wrong := from.Terminal() || strings.HasSuffix(line, "takes") && (owned || !owns) || strings.HasSuffix(line, "releases") && (!owned || owns) ||
					strings.HasSuffix(line, "keeps") && !(owned && owns) || strings.HasSuffix(line, "unowned") && (owned || owns) || to.Terminal() && owns
				if wrong || to != from && to == agentkernel.StateRunning && !owns {
					t.Errorf("%s: from %s, owned %t, to %s, owned %t", s, from, owned, to, owns)
				}
			}
		}
		if taken == 0 {
			t.Errorf("%s: nothing takes it", s)
		}
	}
}

func TestEnd(t *testing.T) {
	for to, want := range map[agentkernel.State]*steps.Step{agentkernel.StateExited: steps.Exit, agentkernel.StateFailed: steps.Fail, agentkernel.StateKilled: steps.Kill} {
		if got := steps.End(to); got != want {
			t.Errorf("to %s: %s", to, got)
		}
		if state, owned, err := want.Take(agentkernel.StateRunning, true); state != to || owned || err != nil {
			t.Errorf("%s: %s, owned %t, %v", want, state, owned, err)
		}
	}
}
