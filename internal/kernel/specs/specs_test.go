package specs_test

import (
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/specs"
	"agentkernel/internal/store/storetest"
)

// The text of a Spec that is remembered is the one that would be made, whatever the Spec is and whatever came before it.
func TestTextsOfSpecs(t *testing.T) {
	for _, s := range []agentkernel.Spec{
		{},
		{Program: agentkernel.Program{Name: "a.py", Language: agentkernel.Python, Source: "1"}, Namespace: "default", Backend: "auto", Priority: 10},
	} {
		in := specs.New(agentkernel.DefaultLimits())
		fields, different := 0, map[string]bool{}
		compare := func(name string) {
			fields++
			for range 2 {
				got, want := string(in.Data(&s)), string(history.SpecData(&s))
				if got != want {
					t.Errorf("%s: %s\nwant %s", name, got, want)
				}
				different[want] = true
			}
		}
		compare("")
		storetest.EachField(&s, compare)
		if fields < 45 || len(different) < 40 {
			t.Errorf("%d fields were changed, with %d texts", fields, len(different))
		}
	}
}
