package sandboxtest

import (
	"maps"
	"time"

	"agentkernel"
)

// row is one thing that is tried with a program in each language that a backend speaks. A language has its case, or a
// sentence why there is none; one that has neither fails the suite, so that a new language cannot be forgotten.
type row struct {
	name   string
	in     map[agentkernel.Language]Case
	cannot map[agentkernel.Language]string
}

// Every program in Go is this one: the first argument says which. It is built once.
const goSource = `package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

func kernel(args ...string) (string, error) {
	cmd := exec.Command("kernel", args...)
	cmd.ExtraFiles, cmd.Stderr = []*os.File{os.NewFile(3, "door")}, os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

func must(text string, err error) string {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return text
}

var hold [][]byte

func main() {
	switch os.Args[1] {
	case "print":
		fmt.Println("a ü")
		fmt.Println("b")
	case "stderr":
		fmt.Fprintln(os.Stderr, "e")
	case "arguments":
		fmt.Println(strings.Join(os.Args[2:], "|"))
	case "exit":
		os.Exit(3)
	case "panic":
		var m map[string]int
		m["x"] = 1
	case "state":
		fmt.Println(must(kernel("state", "get", "k")))
	case "tool":
		fmt.Println(must(kernel("tool", "call", "my-files.write", "--arg", "path=x")))
	case "denied":
		_, err := kernel("self")
		fmt.Println(err)
	case "parallel":
		var all sync.WaitGroup
		got := make([]string, 10)
		for i := range got {
			all.Add(1)
			go func() {
				defer all.Done()
				got[i] = must(kernel("state", "get", fmt.Sprint("k", i)))
			}()
		}
		all.Wait()
		fmt.Println(got)
	case "endless":
		fmt.Println("on")
		for {
		}
	case "memory":
		for {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			hold = append(hold, b)
		}
	case "flood":
		for {
			fmt.Println("flood")
		}
	case "file":
		b, err := os.ReadFile("f")
		fmt.Print(must(string(b), err))
		must("", os.WriteFile("g", []byte("new"), 0o644))
	case "stdin":
		b, err := io.ReadAll(os.Stdin)
		fmt.Print(must(string(b), err))
	case "ticks":
		for {
			fmt.Println("tick")
			time.Sleep(5 * time.Millisecond)
		}
	}
}
`

func python(c Case) Case { c.Language, c.File = agentkernel.Python, "report.py"; return c }
func node(c Case) Case   { c.Language, c.File = agentkernel.Node, "app.mjs"; return c }

func script(c Case) Case {
	c.Language, c.File, c.Source = agentkernel.Script, "script.sh", "#!/bin/sh\n"+c.Source
	return c
}

func inGo(what string, c Case) Case {
	c.Language, c.File, c.Source, c.Args = agentkernel.Go, "main.go", goSource, append([]string{what}, c.Args...)
	return c
}

// command runs an executable; its arguments are in front of those of the case.
func command(c Case, words ...string) Case {
	c.Language, c.File, c.Source, c.Args = agentkernel.Command, words[0], words[0], append(words[1:], c.Args...)
	return c
}

// with gives a row; what is the word for the program in Go.
func with(name, what string, py, js, sh, cmd Case, in Case) row {
	return row{name: name, in: map[agentkernel.Language]Case{
		agentkernel.Python: python(py), agentkernel.Node: node(js), agentkernel.Script: script(sh), agentkernel.Go: inGo(what, in), agentkernel.Command: cmd}}
}

// without takes languages out of a row.
func (r row) without(why string, languages ...agentkernel.Language) row {
	r.in, r.cannot = maps.Clone(r.in), maps.Clone(r.cannot)
	if r.cannot == nil {
		r.cannot = map[agentkernel.Language]string{}
	}
	for _, l := range languages {
		delete(r.in, l)
		r.cannot[l] = why
	}
	return r
}

func shortOf(what string) func(*agentkernel.Limits) {
	return func(l *agentkernel.Limits) {
		switch what {
		case "time":
			l.Time = agentkernel.Duration(300 * time.Millisecond)
		case "memory":
			l.Memory = 128 << 20 // Node needs some sixty to start
		case "output":
			l.Output = 1000
		}
	}
}

// rows is the table.
func rows() []row {
	const (
		getK    = `async state.get {"key":"k"}`
		write   = `tool.call {"arguments":{"path":"x"},"server":"my-files","tool":"write"}`
		refused = "permission_denied: no (do y)"
	)
	denied := failing(agentkernel.CodeDenied, "no")
	limit := func(what, source string) Case {
		return Case{Source: source, Limits: shortOf(what), Code: agentkernel.CodeLimit, Op: "limit." + what, Output: "*"}
	}
	expect := func(c Case, output string) Case { c.Output = output; return c }
	src := func(source, output string) Case { return Case{Source: source, Output: output} }
	return []row{
		with("print", "print", src("print('a ü')\nprint('b')", "a ü\nb\n"), src("console.log('a ü');\nconsole.log('b')", "a ü\nb\n"),
			src("echo 'a ü'; echo b", "a ü\nb\n"), command(src("", "a ü\nb\n"), "printf", `a ü\nb\n`), src("", "a ü\nb\n")),
		with("standard error", "stderr", src("import sys\nprint('e', file=sys.stderr)", "[stderr]e\n"), src("console.error('e')", "[stderr]e\n"),
			src("echo e >&2", "[stderr]e\n"), command(src("", "[stderr]e\n"), "sh", "-c", "echo e >&2"), src("", "[stderr]e\n")),
		with("arguments", "arguments", Case{Source: "import sys\nprint('|'.join(sys.argv[1:]))", Args: []string{"a", "--b", "ü ü"}, Output: "a|--b|ü ü\n"},
			Case{Source: "console.log(process.argv.slice(2).join('|'))", Args: []string{"a", "--b", "ü ü"}, Output: "a|--b|ü ü\n"},
			Case{Source: `printf '%s|%s|%s\n' "$@"`, Args: []string{"a", "--b", "ü ü"}, Output: "a|--b|ü ü\n"},
			command(Case{Args: []string{"a", "--b", "ü ü"}, Output: "a|--b|ü ü\n"}, "printf", `%s|%s|%s\n`), Case{Args: []string{"a", "--b", "ü ü"}, Output: "a|--b|ü ü\n"}),
		with("exit code", "exit", Case{Source: "import sys\nsys.exit(3)", Calls: []string{`proc.exit {"code":3}`}}, Case{Source: "process.exit(3)", ExitCode: 3},
			Case{Source: "exit 3", ExitCode: 3}, command(Case{ExitCode: 3}, "sh", "-c", "exit 3"), Case{ExitCode: 3}),
		with("an error that nobody catches", "panic",
			Case{Source: "def f(x):\n    return 1 / x\nf(0)", Code: agentkernel.CodeProgram, Message: "ZeroDivisionError", Traceback: []string{"File \"report.py\", line 2, in f"}},
			Case{Source: "function f(x) {\n  return x.y.z;\n}\nf({});", Code: agentkernel.CodeProgram, Message: "TypeError", Traceback: []string{"at f (app.mjs:2:14)"}, ExitCode: 1},
			Case{Source: "set -e\nnosuchcommand", Prints: []string{"nosuchcommand", "not found"}, ExitCode: 127},
			command(Case{Prints: []string{"nosuchfile"}, ExitCode: 1}, "cat", "nosuchfile"),
			Case{Prints: []string{"panic: assignment to entry in nil map", "main.go:"}, ExitCode: 2}),
		with("what cannot run", "", src("print('ran')\nx = = 2", ""), src("console.log('ran');\nlet x = = 2", ""), src("", ""), command(src("", ""), "nosuchcommand"), src("", "")).broken(),
		with("a system call", "state", Case{Source: "from kernel import state\nprint(state.get('k'))", Calls: []string{`state.get {"key":"k"}`}, Output: "k\n"},
			Case{Source: "import { state } from 'kernel';\nconsole.log(await state.get('k'))", Calls: []string{getK}, Output: "k\n"},
			Case{Source: "kernel state get k", Calls: []string{getK}, Output: "k\n"},
			command(Case{Calls: []string{getK}, Output: "k\n"}, "env", "kernel", "state", "get", "k"), Case{Calls: []string{getK}, Output: "k\n"}),
		with("a tool", "tool", Case{Source: "from tools.my_files import write\nprint(write('x')['path'])", Calls: []string{write}, Output: "x\n"},
			Case{Source: "import { write } from 'tools/my_files';\nconsole.log((await write('x')).path)", Calls: []string{"async " + write}, Output: "x\n"},
			Case{Source: "kernel tool call my-files.write --arg path=x", Calls: []string{"async " + write}, Output: "{\"path\":\"x\"}\n"},
			command(Case{Calls: []string{"async " + write}, Output: "{\"path\":\"x\"}\n"}, "env", "kernel", "tool", "call", "my-files.write", "--arg", "path=x"),
			Case{Calls: []string{"async " + write}, Output: "{\"path\":\"x\"}\n"}),
		with("a call that is refused", "denied", Case{Answer: denied, Source: "from kernel import self\ntry:\n    self()\nexcept PermissionError as e:\n    print(e)", Output: refused + "\n"},
			Case{Answer: denied, Source: "import { self, PermissionError } from 'kernel';\ntry { await self(); } catch (e) { console.log(e instanceof PermissionError, e.message); }", Output: "true " + refused + "\n"},
			Case{Answer: denied, Source: "kernel self; echo $?", Prints: []string{refused, "3\n"}},
			command(Case{Answer: denied, Prints: []string{refused}, ExitCode: 3}, "env", "kernel", "self"),
			Case{Answer: denied, Prints: []string{refused, "exit status 3"}}),
		with("calls at the same time", "parallel",
			Case{Hold: 10, Source: "import asyncio\nfrom kernel.aio import state\nprint(await asyncio.gather(*[state.get('k' + str(i)) for i in range(10)]))", Output: "['k0', 'k1', 'k2', 'k3', 'k4', 'k5', 'k6', 'k7', 'k8', 'k9']\n"},
			Case{Hold: 10, Source: "import { state } from 'kernel';\nconsole.log((await Promise.all(Array.from({length: 10}, (_, i) => state.get('k' + i)))).join(' '))", Output: "k0 k1 k2 k3 k4 k5 k6 k7 k8 k9\n"},
			Case{Hold: 10, Source: "for i in 0 1 2 3 4 5 6 7 8 9; do kernel state get k$i > /tmp/$i & done; wait; cat /tmp/? | tr '\\n' ' '", Output: "k0 k1 k2 k3 k4 k5 k6 k7 k8 k9 "},
			command(Case{Hold: 2, Output: "k0\n"}, "sh", "-c", "kernel state get k1 > /dev/null & kernel state get k0; wait"),
			Case{Hold: 10, Output: "[k0 k1 k2 k3 k4 k5 k6 k7 k8 k9]\n"}),
		with("the time limit", "endless", limit("time", "while True:\n    pass"), limit("time", "for (;;);"), limit("time", "trap '' TERM\nwhile :; do :; done"),
			command(limit("time", ""), "sleep", "1000"), limit("time", "")),
		with("the memory limit", "memory", limit("memory", "x = []\nwhile True:\n    x.append('y' * 100000)"), limit("memory", "const x = [];\nfor (;;) x.push({a: Math.random(), b: [1, 2, 3]})"),
			limit("memory", "head -c 500m /dev/zero | tail"), command(limit("memory", ""), "sort", "/dev/zero"), limit("memory", "")),
		with("the output limit", "flood", limit("output", "while True:\n    print('flood')"), limit("output", "for (;;) console.log('flood')"),
			limit("output", "yes"), command(limit("output", ""), "yes"), limit("output", "")),
		with("its files", "file", Case{Needs: []Feature{Files}, Without: "permission_denied", Folder: true, Source: "print(open('f').read())\nopen('g', 'w').write('new')", Output: "old\n"},
			Case{Folder: true, Source: "import fs from 'node:fs';\nconsole.log(fs.readFileSync('f', 'utf8'));\nfs.writeFileSync('g', 'new')", Output: "old\n"},
			Case{Folder: true, Source: "cat f; echo; printf new > g", Output: "old\n"}, command(Case{Folder: true}, "cp", "new", "g"), Case{Folder: true, Output: "old"}),
		with("its standard input", "stdin", Case{Needs: []Feature{Files}, Without: "stdin", Stdin: "1\n2\n", Source: "import sys\nprint(sys.stdin.read(), end='')", Output: "1\n2\n"},
			Case{Stdin: "1\n2\n", Source: "import fs from 'node:fs';\nprocess.stdout.write(fs.readFileSync(0, 'utf8'))", Output: "1\n2\n"},
			Case{Stdin: "1\n2\n", Source: "cat", Output: "1\n2\n"}, command(expect(Case{Stdin: "1\n2\n"}, "2\n1\n"), "sort", "-r"), Case{Stdin: "1\n2\n", Output: "1\n2\n"}),
		with("its result", "", Case{Source: "{'a': [1, 2]}", Result: `{"a":[1,2]}`}, Case{Source: "import { result } from 'kernel';\nresult({a: [1, 2]})", Result: `{"a":[1,2]}`}, Case{}, Case{}, Case{}).
			without("it has an exit code and no value", agentkernel.Script, agentkernel.Command, agentkernel.Go),
	}
}

// broken makes the row one of programs that are refused before anything of them runs.
func (r row) broken() row {
	for l, c := range r.in {
		c.Code = map[agentkernel.Language]agentkernel.Code{agentkernel.Command: agentkernel.CodeNotFound}[l]
		switch l {
		case agentkernel.Go:
			c.Source = "package main\n\nfunc main() {\n\tx := 1\n}\n"
		case agentkernel.Script:
			c.Source = "#!/usr/bin/env nosuchinterpreter\n"
			c.Code = agentkernel.CodeNotFound
		case agentkernel.Node:
			c.ExitCode = 1 // Node itself says so, before the first line runs
		}
		if c.Code == "" {
			c.Code = agentkernel.CodeSyntax
		}
		r.in[l] = c
	}
	return r
}
