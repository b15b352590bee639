package main

import (
	"strings"
	"testing"

	"agentkernel"
)

func TestSpeaksOfTools(t *testing.T) {
	for source, want := range map[string]bool{
		"print(1)":                                                        false,
		"from tools.demo import add\nadd(1, 2)":                           true,
		"# from tools.demo import add\nprint(1)":                          false,
		"print(1)  # a tool would do":                                     false,
		"print('#')\nimport tools.demo":                                   true,
		"x = \"a # b\"; from kernel import tool":                          true,
		"\"\"\"What tools do.\n\nIt's 'quoted'.\n\"\"\"\nprint(1)":        false,
		"def f():\n    'About tools.'\n    return 1":                      false,
		"spawn('''\nfrom tools.demo import add\n''')":                     true,
		"spawn(\n    'from tools.demo import add')":                       true,
		"source = 'from tools.demo import add'":                           true,
		"print('it\\'s')\nfrom tools.demo import add":                     true,
		"print('unclosed\nfrom tools.demo import add":                     true,
		"print(\"\"\"a\"b\"\"\")  # tool\nprint('''c\\'''d''') # no tool": false,
		"":   false,
		"'":  false,
		"\\": false,
	} {
		if got := speaksOfTools(&agentkernel.Program{Language: agentkernel.Python, Source: source}); got != want {
			t.Errorf("%q: %t, want %t", source, got, want)
		}
		if code := pythonCode(source); strings.Count(code, "\n") != strings.Count(source, "\n") {
			t.Errorf("%q: the lines have moved: %q", source, code)
		}
	}
	if !speaksOfTools(&agentkernel.Program{Language: agentkernel.Node, Source: "import {add} from 'tools'; # it's"}) {
		t.Error("other languages have other comments")
	}
}
