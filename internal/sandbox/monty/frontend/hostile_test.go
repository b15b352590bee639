package frontend

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

// numbered joins n pieces that contain their number.
func numbered(n int, piece string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, piece, i)
	}
	return b.String()
}

// TestHostileSources: whatever a program looks like, to refuse or to bind it takes time and memory in
// proportion to its length. It is done on the kernel's time, before anything runs.
func TestHostileSources(t *testing.T) {
	const n = 20_000
	for name, src := range map[string]string{
		"brackets that open":         strings.Repeat("(", 10*n),
		"nested lists":               "x = " + strings.Repeat("[", n) + strings.Repeat("]", n),
		"nested calls":               "x = " + strings.Repeat("f(", n) + strings.Repeat(")", n),
		"brackets that close":        strings.Repeat(")", 10*n),
		"mixed brackets":             strings.Repeat("([{", 3*n),
		"blocks in blocks":           nestedBlocks(2000),
		"one long line":              "x = 1" + strings.Repeat(" + 1", 5*n),
		"one long name":              strings.Repeat("x", 20*n),
		"one long import":            "import " + strings.Repeat("x", 20*n),
		"dots of an import":          "from " + strings.Repeat(".", 20*n) + " import x",
		"one long tool":              "from tools.fs import " + strings.Repeat("x", 20*n),
		"one long kernel name":       "from kernel import " + strings.Repeat("x", 20*n),
		"many imports":               numbered(n, "import os\n"),
		"many unknown imports":       numbered(n, "import nothing%d\n"),
		"many tools":                 numbered(n, "from tools.fs import t%d\n"),
		"many names of one import":   "from tools.fs import a" + numbered(n, ", t%d"),
		"many servers":               numbered(n, "import tools.s%d\n"),
		"many servers that are used": numbered(n/2, "import tools.s%d\n") + numbered(n/2, "tools.s%d.a()\n"),
		"many uses of one server":    "import tools.fs\n" + numbered(n, "tools.fs.t%d()\n"),
		"many skills":                numbered(n, "import skills.s%d\n"),
		"many aliases":               numbered(n, "from tools.fs import read as r%d\n"),
		"many definitions":           numbered(n, "def f%d(): pass\n"),
		"many assignments":           numbered(n, "v%d = 1\n"),
		"many uses":                  "from statistics import mean\n" + numbered(n, "v = mean([1, %d])\n"),
		"many prints":                numbered(n, "print(%d, file=None)\n"),
		"many formats":               numbered(n, "x = '%%s' %% %d\n"),
		"many deletions":             "d = {}\n" + numbered(n, "del d[%d]\n"),
		"many swaps":                 "a = [1, 2]\n" + strings.Repeat("a[0], a[1] = a[1], a[0]\n", n),
		"a long swap":                strings.Repeat("a[0], ", n) + "b = 1",
		"a chain of attributes":      "x" + strings.Repeat(".a", 5*n),
		"a chain of calls":           "x" + strings.Repeat("()", 5*n),
		"a chain of comparisons":     "1" + strings.Repeat(" < 1", 5*n),
		"many semicolons":            strings.Repeat("x=1;", 5*n),
		"continued lines":            "x = 1" + strings.Repeat(" \\\n + 1", 2*n),
		"comments":                   strings.Repeat("# x\n", 5*n),
		"empty lines":                strings.Repeat("\n", 20*n),
		"tabs":                       strings.Repeat("\t", 20*n) + "x",
		"many strings":               strings.Repeat("'a' ", 5*n),
		"a string without end":       "x = '" + strings.Repeat("a", 20*n),
		"triple quotes":              strings.Repeat("'''a'''\n", 2*n),
		"triple quotes without end":  strings.Repeat("'''", 3*n+1),
		"escapes":                    "x = '" + strings.Repeat(`\'`, 10*n),
		"f-strings":                  numbered(n, "x = f'{%d}'\n"),
		"f-strings in f-strings":     nestedFStrings(200),
		"braces in an f-string":      "x = f'" + strings.Repeat("{", 5*n),
		"doubled braces":             "x = f'" + strings.Repeat("{{", 5*n) + "'",
		"formats in formats":         "x = f'" + strings.Repeat("{a:", n) + strings.Repeat("}", n) + "'",
		"decorators":                 strings.Repeat("@f\n", 2*n) + "def g(): pass",
		"lambdas":                    "f = " + strings.Repeat("lambda: ", 2*n) + "1",
		"comprehensions":             "x = [1" + strings.Repeat(" for a in b", n) + "]",
		"enum of many":               "from enum import Enum\nclass C(Enum):\n" + numbered(n/10, "    V%d = 1\n"),
		"dataclass of many":          "from dataclasses import dataclass\n@dataclass\nclass C:\n" + numbered(n/10, "    v%d: int = 1\n"),
		"annotations":                "x: " + strings.Repeat("list[", n) + strings.Repeat("]", n) + " = 1",
		"numbers":                    "x = " + strings.Repeat("9", 20*n),
		"excepts":                    "try:\n    pass\n" + numbered(n/10, "except E%d:\n    pass\n"),
		"elifs":                      "if a:\n    pass\n" + strings.Repeat("elif a:\n    pass\n", n),
		"withs":                      "with " + strings.Repeat("a, ", n) + "a: pass",
		"isinstance of many":         "x = isinstance(a, int" + strings.Repeat(" | int", n) + ")",
		"stars":                      "x = f(" + strings.Repeat("*a, ", 2*n) + ")",
		"byte orders":                strings.Repeat("\ufeff", 5*n),
		"zeros":                      strings.Repeat("\x00", 10*n),
		"form feeds":                 strings.Repeat("\f", 10*n),
		"wide letters":               strings.Repeat("ü", 5*n) + " = 1",
		"globals":                    "def f():\n" + numbered(n, "    global v%d\n"),
		"many sets":                  numbered(n, "v%d = set()\n"),
		"sets in one line":           "x = [" + strings.Repeat("set(), ", n) + "]",
		"sets that are sorted":       "x = sorted(" + strings.Repeat("set(), ", n) + "1)",
		"sets that are searched":     "x = [" + strings.Repeat("x in {1}, ", n) + "1]",
		"sets in len and isinstance": "x = isinstance(" + strings.Repeat("{1}, ", n) + "1)",
		"loops of a generator":       "x = sum(1" + strings.Repeat(" for a in b", n) + ")",
		"loops over sets":            "x = [1" + strings.Repeat(" for a in {1}", n) + "]",
		"one set that is used":       "s = set()\n" + strings.Repeat("s = set()\ns.add(1)\n", n),
		"returns":                    "def f():\n" + strings.Repeat("    return 1\n", n),
	} {
		t.Run(name, func(t *testing.T) {
			prog := agentkernel.Program{Name: "p.py", Language: agentkernel.Python, Source: src}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			needs, err := Check(prog)
			checked := time.Since(began)
			if err == nil {
				tools := []agentkernel.Tool{}
				for _, ref := range needs.Tools {
					tools = append(tools, agentkernel.Tool{Server: ref.Server, PythonServer: ref.Server, Name: ref.Name, PythonName: ref.Name, Signature: ref.Name + "()"})
				}
				_, err = Bind(prog, tools)
			}
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			if took > 2*time.Minute {
				t.Errorf("took %s, of that %s to check", took, checked)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > uint64(2000*len(src)+64<<20) {
				t.Errorf("%d bytes of memory for %d", used, len(src))
			}
			if e := agentkernel.AsError(err, "", ""); e != nil && len(e.Message())+len(e.Hint)+len(e.Traceback) > 16<<10 {
				t.Errorf("the error is %d bytes long: %.200s", len(e.Message()), e.Message())
			}
		})
	}
}

// TestProgramsOfManyTokens: a program may have as much data as anybody writes into one, and no more than the kernel has memory for.
func TestProgramsOfManyTokens(t *testing.T) {
	list := func(tokens int) string { return "x = [" + strings.Repeat("1,", tokens/2) + "]\n" }
	for name, c := range map[string]struct {
		prog agentkernel.Program
		want agentkernel.Code
	}{
		"data of 2 MB":               {agentkernel.Program{Source: list(900_000)}, ""},
		"one text of 15 MB":          {agentkernel.Program{Source: "x = '" + strings.Repeat("a;", 7<<20) + "'\n"}, ""},
		"statements of 15 MB":        {agentkernel.Program{Source: strings.Repeat("a;", 7<<20)}, agentkernel.CodeUnsupported},
		"signs of 15 MB":             {agentkernel.Program{Source: "x=" + strings.Repeat("-", 15<<20) + "1"}, agentkernel.CodeSyntax},
		"names without a comma":      {agentkernel.Program{Source: "x" + strings.Repeat(".a", maxRun/2-1) + "\n\nx" + strings.Repeat(".a", maxRun/2-1) + ", x\n"}, ""},
		"more of them":               {agentkernel.Program{Source: "x" + strings.Repeat(".a", maxRun/2) + "\n"}, agentkernel.CodeSyntax},
		"more in brackets":           {agentkernel.Program{Source: "f(x, y" + strings.Repeat("()", maxRun/2) + ")\n"}, agentkernel.CodeSyntax},
		"brackets of many":           {agentkernel.Program{Source: strings.Repeat("()\n", 5<<20)}, agentkernel.CodeUnsupported},
		"fields of many":             {agentkernel.Program{Source: strings.Repeat("f'{a}{b}'\n", 1<<20)}, agentkernel.CodeUnsupported},
		"modules, each with half":    {agentkernel.Program{Source: "import skills.a, skills.b, skills.c\n", Modules: map[string]string{"skills.a": list(450_000), "skills.b": list(450_000), "skills.c": list(450_000)}}, agentkernel.CodeUnsupported},
		"modules that are not taken": {agentkernel.Program{Source: "import skills.a\n", Modules: map[string]string{"skills.a": list(450_000), "skills.b": list(450_000), "skills.c": list(450_000)}}, ""},
	} {
		c.prog.Name, c.prog.Language = "p.py", agentkernel.Python
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Check(c.prog)
		runtime.ReadMemStats(&after)
		if agentkernel.CodeOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 200<<20 {
			t.Errorf("%s: %d MiB of memory", name, used>>20)
		}
	}
	cells := agentkernel.Program{Name: "p.py", Language: agentkernel.Python, Source: "y = 1\n", Session: true, Cells: 100}
	for range 100 {
		cells.Earlier = append(cells.Earlier, "import os\n"+list(100_000))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Check(cells)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; err != nil || used > 200<<20 {
		t.Errorf("a session of large cells: %v, %d MiB of memory", err, used>>20)
	}
}

func nestedBlocks(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "if x:\n")
	}
	return b.String() + strings.Repeat(" ", n) + "pass\n"
}

func nestedFStrings(n int) string {
	s := "1"
	for range n {
		s = "f'{" + s + "}'"
	}
	return "x = " + s
}
