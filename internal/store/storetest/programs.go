package storetest

import (
	"testing"

	"agentkernel"
)

// programsAgain stores processes of programs that differ in one thing from the one before: a store may keep
// each program once, but must tell them apart.
func programsAgain(t *testing.T, open Opener) {
	f := start(t, open)
	a := agentkernel.Program{Name: "p.py", Language: agentkernel.Python, Source: "print(1)\n"}
	other, longer, modules, moreModules, language := a, a, a, a, a
	other.Source = "print(2)\n"
	longer.Source = a.Source + "print(2)\n"
	modules.Modules = map[string]string{"skills.x": "y = 1\n"}
	moreModules.Modules = map[string]string{"skills.x": "y = 1\n", "skills.z": ""}
	language.Language = "starlark"
	var rows []*agentkernel.ProcessRecord
	for _, program := range []agentkernel.Program{a, a, other, a, longer, a, modules, a, modules, moreModules, a, language, a, a} {
		row := record(f.pid())
		row.Name, row.Spec.Program = program.Name, program
		rows = append(rows, row)
		f.flush(f.append(agentkernel.Batch{Process: row}))
	}
	f.reopen()
	for _, want := range rows {
		got, err := f.Process(t.Context(), want.PID)
		if err != nil {
			t.Fatal(err)
		}
		f.same(*want, got)
	}
}
