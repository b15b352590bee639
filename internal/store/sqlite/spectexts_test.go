package sqlite

import (
	"testing"

	"agentkernel"
	"agentkernel/internal/store/storetest"
)

// What is remembered of a spec column is what would be written, whatever the process is and whatever came before it.
func TestSpecTexts(t *testing.T) {
	for _, base := range []agentkernel.ProcessRecord{
		{},
		{Process: agentkernel.Process{Name: "a.py", Namespace: "default", Backend: "monty", Priority: 10},
			Spec: agentkernel.Spec{Program: agentkernel.Program{Name: "a.py", Language: agentkernel.Python}, Namespace: "default", Backend: "auto", Priority: 10}},
	} {
		var texts specTexts
		fields, different := 0, map[string]bool{}
		compare := func(name string) {
			fields++
			want, err := encodeSpec(&base)
			if err != nil {
				t.Fatal(name, err)
			}
			for range 2 {
				if got, err := texts.encode(&base); err != nil || got != want {
					t.Errorf("%s: %q, %v; want %q", name, got, err, want)
				}
			}
			different[want] = true
		}
		compare("")
		storetest.EachField(&base, compare)
		if fields < 60 || len(different) < 30 {
			t.Errorf("%d fields were changed, with %d texts", fields, len(different))
		}
	}
}
