package tool_test

import (
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/tool"
)

func TestLocalToolsAreDescribed(t *testing.T) {
	modules := map[string]string{
		"tools.report.monthly": "import csv\n\n\ndef monthly(rows: list[dict[str, int]], *, by=\"a, (b\", limit: int = 5,\n" +
			"            last=None) -> dict[str, float]:  # sums\n    \"\"\"Totals by month.\n\n    The rows are those of a file.\n    \"\"\"\n    return {}\n",
		"tools.report.plain":  "async def plain():\n    return ')'\n",
		"tools.report.helper": "'''Small helpers.'''\ndef one(x): return x\ndef _hidden(): pass\n",
		"tools.report.broken": "def broken(a, b='",
		"skills.other":        "def other(): pass",
	}
	tools := tool.LocalTools(modules)
	want := []struct{ name, signature, doc string }{
		{"broken", "broken(a, b=)", ""},
		{"helper", "helper", "Small helpers.\n\nhelper.one(x)"},
		{"monthly", `monthly(rows: list[dict[str, int]], *, by="a, (b", limit: int = 5, last=None) -> dict[str, float]`, "Totals by month.\n\nThe rows are those of a file."},
		{"plain", "plain()", ""},
	}
	if len(tools) != len(want) {
		t.Fatalf("%d tools: %+v", len(tools), tools)
	}
	for i, w := range want {
		got := tools[i]
		if got.Server != "report" || got.PythonName != w.name || got.Signature != w.signature || got.Doc != w.doc || got.Effect != agentkernel.EffectLocal {
			t.Errorf("%d: got %q, %q, %q", i, got.PythonName, got.Signature, got.Doc)
		}
	}
	params := tools[2].Params
	if len(params) != 4 || params[0].Type != "list[dict[str, int]]" || !params[0].Required || params[1].Default != `"a, (b"` || params[2].Type != "int" {
		t.Errorf("the parameters: %+v", params)
	}
}

func FuzzLocalTools(f *testing.F) {
	for _, source := range []string{"def x(a=(1, 2)): 'doc'", "def x(\"", "def x(a: \"\"\"", "async def x(", "r'''", "def x() -> [:"} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		for _, got := range tool.LocalTools(map[string]string{"tools.s.x": source}) {
			if got.PythonName != "x" || len(got.Doc) > 5<<10 || strings.ContainsRune(got.Signature, '\n') {
				t.Fatalf("%+v", got)
			}
		}
	})
}
