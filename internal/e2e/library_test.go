package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agentkernel"
)

const reportSkill = "from skills.totals import total\n\ndef monthly(rows, year=None):\n    return {'year': year, 'total': total(rows)}\n"

// A saved skill is a module of programs, with the skills that it imports itself; a program keeps the version
// that it was created with.
func TestSkillsAreImported(t *testing.T) {
	k := openEmbedded(t, home(t))
	save := func(name, code string) error {
		_, err := k.SaveSkill(t.Context(), agentkernel.Skill{Namespace: "default", Name: name, Code: code})
		return err
	}
	if err := save("report", reportSkill); agentkernel.CodeOf(err) != agentkernel.CodeNotFound || !strings.Contains(err.Error(), "totals") {
		t.Errorf("a skill that imports what is not there: %v", err)
	}
	if err := save("totals", "def total(rows):\n    return sum(rows)\n"); err != nil {
		t.Fatal(err)
	}
	if err := save("report", reportSkill); err != nil {
		t.Fatal(err)
	}
	run := func(source string) agentkernel.Process {
		p, err := k.Run(t.Context(), agentkernel.Spec{Program: agentkernel.Program{Name: "p.py", Source: source}}, func(agentkernel.Event) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := run("from skills.report import monthly\nmonthly([1, 2, 3], year=2026)"); string(p.Result) != `{"year":2026,"total":6}` {
		t.Errorf("%s %v", p.Result, p.Error)
	}
	later, err := k.Spawn(t.Context(), agentkernel.Spec{Program: agentkernel.Program{Name: "p.py",
		Source: "from kernel import sleep\nsleep(0.2)\nfrom skills.totals import total\ntotal([1, 2])"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := save("totals", "def total(rows):\n    return 'changed'\n"); err != nil {
		t.Fatal(err)
	}
	if p, err := k.Wait(t.Context(), later.PID); err != nil || string(p.Result) != "3" {
		t.Errorf("an older process: %s %v", p.Result, err)
	}
	if p := run("from skills.totals import total\ntotal([1, 2])"); string(p.Result) != `"changed"` {
		t.Errorf("a newer process: %s", p.Result)
	}
	for name, c := range map[string]struct {
		skill, code string
		want        agentkernel.Code
		says        string
	}{
		"syntax":      {"x", "def f(:\n    pass\n", agentkernel.CodeSyntax, "skills/x.py, line 1"},
		"unsupported": {"x", "import numpy\ndef f():\n    pass\n", agentkernel.CodeUnavailable, "numpy"},
		"itself":      {"x", "from skills.x import f\ndef f():\n    pass\n", agentkernel.CodeInvalid, "circle"},
		"name":        {"class", "def f():\n    pass\n", agentkernel.CodeInvalid, "name of a skill"},
		"utf-8":       {"x", "def f():\n    return '\xff'\n", agentkernel.CodeSyntax, "UTF-8"},
	} {
		if err := save(c.skill, c.code); agentkernel.CodeOf(err) != c.want || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = k.Spawn(t.Context(), agentkernel.Spec{Program: agentkernel.Program{Source: "from skills.reprot import monthly"}})
	if e := agentkernel.AsError(err, "", ""); e == nil || e.Code != agentkernel.CodeNotFound || !strings.Contains(e.Hint, "report") {
		t.Errorf("a misspelt skill: %v", err)
	}
}

// The library answers alike through a kernel here and over its socket.
func TestLibraryOfBothKernels(t *testing.T) {
	bothKernels(t, func(t *testing.T, k agentkernel.Kernel) {
		d, err := k.PutDocument(t.Context(), agentkernel.Document{Owner: "ann", Name: "state.json", Data: json.RawMessage(`{"n": 1}`)})
		if err != nil || d.Version != 1 {
			t.Fatalf("%+v %v", d, err)
		}
		if d, err = k.Document(t.Context(), "", "ann", "state.json"); err != nil || string(d.Data) != `{"n":1}` {
			t.Errorf("%+v %v", d, err)
		}
		if _, err := k.SaveSkill(t.Context(), agentkernel.Skill{Name: "s", Code: "def f():\n    return 1\n"}); err != nil {
			t.Error(err)
		}
		if list, err := k.Skills(t.Context(), agentkernel.SkillQuery{}); err != nil || len(list) != 1 || list[0].Functions[0] != "f()" {
			t.Errorf("%+v %v", list, err)
		}
		if err := k.DeleteSkill(t.Context(), "", "s"); err != nil {
			t.Error(err)
		}
	})
}
