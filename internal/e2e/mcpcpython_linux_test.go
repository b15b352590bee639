package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/tool/tooltest"
)

// dataPython is a Python that every user can run, with numpy and pandas.
func dataPython(t testing.TB) string {
	t.Helper()
	python := systemPython(t)
	if exec.Command(python, "-c", "import numpy, pandas").Run() == nil {
		return python
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s has no numpy and pandas; run: make deps", python)
	}
	t.Skipf("SKIPPED, NOTHING PROVED: %s has no numpy and pandas; run: make deps", python)
	return ""
}

// What an assistant with a folder does: it reads a table, looks at it, and goes on with it call by call. Code that runs
// away takes nothing along, and a folder that has changed under a session that has to run again is told.
func TestMCPPandasSession(t *testing.T) {
	python := dataPython(t)
	dir := folder(t, map[string]string{"x.csv": "k,v\na,1\nb,2\na,3\n"})
	cfg := mcpConfig(openEmbedded(t, home(t), withSandboxes(t), func(c *embedded.Config) { c.Python = python }), "")
	cfg.Spec.Workspace = &agentkernel.Workspace{Path: dir}
	cs := connectMCP(t, cfg)
	tool(t, cs, "execute_code", args{"code": "import pandas as pd, numpy as np\ndf = pd.read_csv('x.csv')\nnp.random.seed(7)"}, "")
	tool(t, cs, "execute_code", args{"code": "print(df.head())"}, "2  a  3")
	first := tool(t, cs, "execute_code", args{"code": "np.random.seed(7)\nr = np.random.rand()\nr"}, "result: 0.0763")
	if got := tool(t, cs, "execute_code", args{"code": "df.groupby('k').v.sum().to_csv('sums.csv')"}, "sums.csv"); got["session"] != first["session"] || got["note"] != nil {
		t.Errorf("%v", got)
	}
	tool(t, cs, "execute_code", args{"code": "df = None\nopen('junk', 'w').write('x')\nwhile True: pass", "timeout": 2}, "!the variables from before it")
	tool(t, cs, "execute_code", args{"code": "import os\nprint(open('sums.csv').read().split(), len(df), sorted(os.listdir()))"}, "['k,v', 'a,4', 'b,2'] 3 ['sums.csv', 'x.csv']")

	writeText(t, filepath.Join(dir, "x.csv"), "k,v\n")
	tool(t, cs, "execute_code", args{"code": "len(df)"}, "result: 3") // the process still has it
	tool(t, cs, "execute_code", args{"code": "while True: pass", "timeout": 1}, "!the variables from before it")
	if got := tool(t, cs, "execute_code", args{"code": "len(df)"}, "!its folder has changed"); !strings.Contains(fmt.Sprint(got["note"]), "the session ended") {
		t.Errorf("%v", got)
	}
	tool(t, cs, "execute_code", args{"code": "import pandas as pd\nlen(pd.read_csv('x.csv'))"}, "result: 0")
}

// A kernel is killed between two calls of an assistant. The next kernel has the session, wherever its code ran, and
// nothing that it did is done again.
func TestMCPSessionSurvivesKill(t *testing.T) {
	t.Setenv(envSandboxes, systemPython(t))
	dir, file := home(t), filepath.Join(t.TempDir(), "lines")
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	v := startVictim(t, dir)
	k := v.client(t, dir)
	cs := connectMCP(t, mcpConfig(k, cfg))
	tool(t, cs, "execute_code", args{"code": fmt.Sprintf("import random\nfrom tools.test import append_line\nx = random.random()\nappend_line(path=%q, text='one')", file)}, "")
	begun := tool(t, cs, "execute_code", args{"code": "import zlib\nsize = zlib.crc32(b'x')\nx"}, "result: ")
	for round := range 2 {
		v.kill()
		v = startVictim(t, dir)
		pid := agentkernel.PID(begun["pid"].(float64))
		eventually(t, "the session waits", func() bool { return waitsForCell(t, k, pid) })
		got := tool(t, cs, "execute_code", args{"code": "import zlib as z\nassert z.crc32(b'x') == size\nx"}, "result: ")
		if got["result"] != begun["result"] || got["session"] != begun["session"] {
			t.Errorf("round %d: %v, and before %v", round, got, begun)
		}
	}
	v.kill()
	if got := lines(t, file); got != "one " {
		t.Errorf("written: %q", got)
	}
}
