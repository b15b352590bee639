package process

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"agentkernel"
)

// goCache is where the tests build: the first build of all compiles the standard library.
func goCache(t testing.TB) string {
	t.Helper()
	shared.cacheOnce.Do(func() {
		dir, err := os.MkdirTemp("", "gocache")
		if err != nil {
			t.Fatal(err)
		}
		shared.goCache = dir
	})
	return shared.goCache
}

// Programs in Go are built without network, once, and what does not compile says where.
func TestGoPrograms(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("SKIPPED, NOTHING PROVED: there is no go")
	}
	b := newBackend(t, func(c *Config) { c.GoCache = goCache(t); c.Command = OwnCommand() })
	program := func(source string, modules map[string]string, args ...string) agentkernel.Program {
		return agentkernel.Program{Name: "main.go", Language: agentkernel.Go, Source: source, Modules: modules, Args: args}
	}
	const hello = "package main\n\nimport \"os\"\n\nfunc main() {\n\tos.Stdout.WriteString(\"hello \" + os.Args[1] + name() + \"\\n\")\n\tos.Exit(3)\n}\n"
	for _, c := range []struct {
		p   agentkernel.Program
		out string
	}{
		{program(hello, map[string]string{"name.go": "package main\n\nfunc name() string { return \"!\" }\n"}, "x"), "hello x!\n"},
		{program(strings.Replace(hello, "import \"os\"", "import (\n\t\"os\"\n\t\"own/lib\"\n)\n\nfunc name() string { return lib.Name }", 1),
			map[string]string{"go.mod": "module own\n\ngo 1.20\n", "lib/lib.go": "package lib\n\nconst Name = \" of the module\"\n"}, "y"), "hello y of the module\n"},
	} {
		for range 2 { // the second time it is there already
			r := newRun(t, b, "")
			r.req.Program = c.p
			turn, err := r.finish()
			if err != nil || turn.ExitCode != 3 || r.out.String() != c.out {
				t.Errorf("%+v %v %q", turn, err, r.out.String())
			}
			if err := r.box.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for source, want := range map[string]string{
		"package main\n\nfunc main() {\n\tx := 1\n}\n":                                  "main.go:4:2: declared and not used: x",
		"package main\n\nimport \"C\"\n\nfunc main() {}\n":                              "build constraints exclude all Go files", // no cgo
		"package main\n\nimport \"example.org/nosuch\"\n\nfunc main() { nosuch.F() }\n": "example.org/nosuch",
	} {
		_, err := b.Check(program(source, nil))
		if agentkernel.CodeOf(err) != agentkernel.CodeSyntax || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
}
