package process

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

func needNode(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no node")
		}
		t.Skip("SKIPPED, NOTHING PROVED: there is no node")
	}
}

func nodeProgram(name, source string) agentkernel.Program {
	return agentkernel.Program{Name: name, Language: agentkernel.Node, Source: source}
}

var nodeTestTools = []agentkernel.Tool{
	{Server: "my-files", Name: "read-text", PythonServer: "my_files", PythonName: "read_text", Params: []agentkernel.ToolParam{{Name: "path"}, {Name: "head"}}},
	{Server: "my-files", Name: "delete", PythonServer: "my_files", PythonName: "delete"},
	{Server: "my-files", Name: "a_b", PythonServer: "my_files", PythonName: "a_b"},
	{Server: "my-files", Name: "a__b", PythonServer: "my_files", PythonName: "a__b"},
	{Server: "my-files", Name: "größe\"", PythonServer: "my_files", PythonName: "größe_"},
}

// Programs in Node print, import, call and end as anywhere, with the kernel as modules.
func TestNodePrograms(t *testing.T) {
	needNode(t)
	for _, c := range []struct {
		p          agentkernel.Program
		out, calls string
		code       int
		result     string
	}{
		{p: nodeProgram("app.mjs", "console.log('hello', process.argv.slice(2), import.meta.url); console.error('err')"), out: "hello [] file:///program/app/app.mjs\n[stderr]err\n"},
		{p: agentkernel.Program{Name: "app.cjs", Language: agentkernel.Node, Source: "if (require.main === module) console.log(require('os').hostname(), process.argv[2], __filename); process.exit(3)", Args: []string{"--x"}},
			out: "sandbox --x /program/app/app.cjs\n", code: 3},
		{p: nodeProgram("app.mjs", "import { state, now, randomBytes } from 'kernel';\nawait state.set('k', {a: [1, 1.5, 2n**70n, NaN, null, undefined], b: new Uint8Array([97]), $c: new Set([1])});\nconsole.log(await state.get('x'), await now());"),
			calls: `async state.set {"key":"k","value":{"$dict":[["a",[1,1.5,1180591620717411303424,{"$float":"nan"},null,null]],["b",{"$bytes":"YQ=="}],["$c",{"$set":[1]}]]}}` + "\n" + `async state.get {"key":"x"}` + "\nasync time.now {}",
			out:   "x time.now\n"},
		{p: nodeProgram("app.mjs", "import { llm, state } from 'kernel';\nawait llm('hi', { maxTokens: 5, model: 'fast' });\nawait llm.complete([], { tools: [] });\nawait llm('hi', 'be short', { schema: {} });\nawait state.set('k', { value: 1 });"),
			calls: `async llm.ask {"prompt":"hi","max_tokens":5,"model":"fast"}` + "\n" + `async llm.complete {"messages":[],"tools":[]}` + "\n" + `async llm.ask {"prompt":"hi","system":"be short","schema":{}}` + "\n" + `async state.set {"key":"k","value":{"value":1}}`},
		{p: nodeProgram("app.cjs", "const kernel = require('kernel'); const files = require('tools/my_files');\n(async () => { await files.read_text('/a', 3); await files.readText({path: '/b'}); await files.delete(); kernel.result({done: true}); })()"),
			calls:  `async tool.call {"server":"my-files","tool":"read-text","arguments":{"path":"/a","head":3}}` + "\n" + `async tool.call {"server":"my-files","tool":"read-text","arguments":{"path":"/b"}}` + "\n" + `async tool.call {"server":"my-files","tool":"delete","arguments":{}}`,
			result: `{"done":true}`},
		{p: nodeProgram("app.mjs", "import { readText, aB, a__b, größe, delete as remove } from 'tools/my_files';\nconst a = readText('/a'), b = remove({});\nconsole.log('issued');\nconsole.log(await Promise.all([a, b]));"),
			out: "issued\n[ 'tool.call', 'tool.call' ]\n"},
		{p: agentkernel.Program{Name: "app.js", Language: agentkernel.Node, Source: "import { f } from './lib/f.js';\nconsole.log(f(2));", Modules: map[string]string{"lib/f.js": "export const f = (x) => x * 21;", "package.json": `{"type":"module"}`}},
			out: "42\n"},
		{p: nodeProgram("app.mjs", "import { spawnSync } from 'node:child_process';\nconsole.log(spawnSync('kernel', ['state', 'get', 'from-shell'], {stdio: ['ignore', 'pipe', 'inherit', 3]}).stdout.toString().trim())"), out: "from-shell\n"},
		{p: nodeProgram("app.mjs", "import { Worker } from 'node:worker_threads';\nimport { createHash } from 'node:crypto';\nimport { gzipSync } from 'node:zlib';\nnew Worker('console.log(1 + 1)', {eval: true}).on('exit', () => console.log(createHash('sha256').update('x').digest('hex').slice(0, 8), gzipSync('x').length))"), out: "2\n2d711642 21\n"},
	} {
		r, turn, err := wholeRun(t, c.p, answeredBy(echoState), func(r *run) { r.req.Tools = nodeTestTools })
		if err != nil || turn.Kind != agentkernel.TurnExit || turn.ExitCode != c.code || r.out.String() != c.out || string(turn.Result) != c.result {
			t.Errorf("%s\nended with %+v %v\nand printed %q, want %q\n%s", c.p.Source, turn, err, r.out.String(), c.out, tracebackOf(turn))
		}
		if got := strings.Join(r.calls, "\n"); c.calls != "" && got != c.calls {
			t.Errorf("%s\ncalls\n%s\nwant\n%s", c.p.Source, got, c.calls)
		}
	}
}

// What nobody catches names the user's file and line, and the error of a call is what it is.
func TestNodeErrors(t *testing.T) {
	needNode(t)
	denied := func(agentkernel.Call) agentkernel.Reply {
		return agentkernel.Reply{Err: agentkernel.Errorf(agentkernel.CodeDenied, "x", "no").WithHint("do y")}
	}
	for source, want := range map[string][2]string{
		"function f(x) {\n  return x.y.z;\n}\nf({});":                                          {"TypeError: Cannot read properties of undefined (reading 'z')", "at f (app.mjs:2:14)"},
		"import { self } from 'kernel';\nasync function g() {\n  await self();\n}\nawait g();": {"PermissionError: permission_denied: no (do y)", "app.mjs:3:9"},
		"import { self } from 'kernel';\nself();\nsetTimeout(() => {}, 60000);":                {"PermissionError: permission_denied: no (do y)", "app.mjs:2:1"},
		"throw 'text'":                    {"uncaught: text", ""},
		"let x = = 2":                     {"SyntaxError: Unexpected token '='", "app.mjs:1"},
		"import x from 'no-such-package'": {"Cannot find package 'no-such-package'", "app.mjs"},
		"import { state } from 'kernel';\nconst a = []; a.push(a); await state.set('k', a)": {"TypeError: invalid_argument: a value that holds itself", "app.mjs:2"},
		"import { state } from 'kernel';\nawait state.get(1, 2, 3)":                         {"state.get(key, default) was called with 3 arguments", "app.mjs:2"},
	} {
		r, turn, err := wholeRun(t, nodeProgram("app.mjs", source), answeredBy(denied))
		if err != nil || turn.Kind != agentkernel.TurnFail || turn.Err.Code != map[bool]agentkernel.Code{true: agentkernel.CodeSyntax, false: agentkernel.CodeProgram}[strings.HasPrefix(want[0], "Syntax")] || !strings.Contains(turn.Err.Message(), want[0]) ||
			!strings.Contains(turn.Err.Traceback, want[1]) || strings.Contains(turn.Err.Traceback, "/program/") || strings.Contains(turn.Err.Traceback, "node:internal") {
			t.Errorf("%s\n%+v %v %s\n%s\nwant %q", source, turn, err, r.out.String(), tracebackOf(turn), want)
		}
	}
	caught := "import { self, PermissionError } from 'kernel';\ntry { await self(); } catch (e) { console.log(e instanceof PermissionError, e.code, e.message); }"
	if r, turn, err := wholeRun(t, nodeProgram("app.mjs", caught), answeredBy(denied)); err != nil || r.out.String() != "true permission_denied permission_denied: no (do y)\n" {
		t.Errorf("%+v %v %s", turn, err, r.out.String())
	}
}

// Values that JSON lacks leave a program in Node as docs/values.md says, or not at all.
func TestNodeValues(t *testing.T) {
	needNode(t)
	for value, want := range map[string]string{
		`new Date(0)`:                            `"1970-01-01T00:00:00.000Z"`,
		`new Date(NaN)`:                          `{"$repr":"Invalid Date"}`,
		`new RangeError('no')`:                   `{"$exception":{"type":"RangeError","arg":"no"}}`,
		`new Error()`:                            `{"$exception":{"type":"Error","arg":null}}`,
		`/a+/g`:                                  `{"$repr":"/a+/g"}`,
		`new Float64Array([1, 0.5])`:             `[1,0.5]`,
		`new BigInt64Array([2n ** 62n])`:         `[4611686018427387904]`,
		`new Uint8Array([97]).buffer`:            `{"$bytes":"YQ=="}`,
		`Promise.resolve(1)`:                     `{"$repr":"[object Promise]"}`,
		`new WeakMap()`:                          `{"$repr":"[object WeakMap]"}`,
		`(await import('node:path'))`:            `{"$repr":"[object Module]"}`,
		`[function f() {}, Symbol('s')]`:         `[{"$repr":"<function f>"},{"$repr":"Symbol(s)"}]`,
		`new (class P { x = 1 })()`:              `{"x":1}`,
		`(function () { return arguments })(1)`:  `[1]`,
		`new String('text')`:                     `"text"`,
		`new URL('http://example.com/a')`:        `"http://example.com/a"`,
		`[...Array(198)].reduce((v) => [v], [])`: strings.Repeat("[", 199) + strings.Repeat("]", 199),
		`[...Array(199)].reduce((v) => [v], [])`: "! invalid_argument: a value is nested deeper than 200 levels",
		`'a\ud800'`:                              "! invalid_argument: a text holds half of a surrogate pair and is not UTF-8",
		`{['\udc00']: 1}`:                        "! invalid_argument: a text holds half of a surrogate pair and is not UTF-8",
		`new Map([['\ud83d', 1]])`:               "! invalid_argument: a text holds half of a surrogate pair and is not UTF-8",
		`'\ud83d\ude00'`:                         `"😀"`,
	} {
		source := "import { call } from 'kernel';\ntry { await call('x', { v: " + value + " }); } catch (e) { console.log('!', e.message, e.code); }"
		r, turn, err := wholeRun(t, nodeProgram("app.mjs", source), answeredBy(echoState))
		got := strings.TrimSuffix(strings.TrimPrefix(strings.Join(r.calls, "\n"), `async x {"v":`), "}")
		if len(r.calls) == 0 {
			got = strings.TrimSuffix(r.out.String(), " invalid_argument\n")
		}
		if err != nil || turn.Kind != agentkernel.TurnExit || got != want {
			t.Errorf("%s: %.300s, want %.300s (%+v %v)", value, got, want, turn, err)
		}
	}
	forms := func(agentkernel.Call) agentkernel.Reply {
		return agentkernel.Reply{Result: json.RawMessage(`[{"$repr":"a"},{"$object":{"type":"P","fields":{"x":{"$repr":"b"}}}},{"$exception":{"type":"E","arg":"c"}}]`)}
	}
	source := "import { call } from 'kernel';\nconst [a, b, c] = await call('x', {});\nconsole.log(a, b, String(c), c instanceof Error)"
	if r, turn, err := wholeRun(t, nodeProgram("app.mjs", source), answeredBy(forms)); err != nil || r.out.String() != "a { x: 'b' } E: c true\n" {
		t.Errorf("%+v %v %s", turn, err, r.out.String())
	}
}

// A thousand calls at a time are each answered, in an order that the kernel chooses.
func TestNodeParallelCalls(t *testing.T) {
	needNode(t)
	source := "import { state } from 'kernel';\nconst got = await Promise.all(Array.from({length: 1000}, (_, i) => state.get('k' + i)));\nconsole.log(got.every((v, i) => v === 'k' + i))"
	if r, turn, err := wholeRun(t, nodeProgram("app.mjs", source), answeredBy(echoState)); err != nil || r.out.String() != "true\n" || len(r.calls) != 1000 {
		t.Errorf("%+v %v %s", turn, err, r.out.String())
	}
}

// Limits end a program in Node with their names.
func TestNodeLimits(t *testing.T) {
	needNode(t)
	for _, c := range []struct {
		op, source string
		change     func(*agentkernel.Limits)
	}{
		{"limit.memory", "const x = []; for (;;) x.push({a: Math.random(), b: [1, 2, 3]});", func(l *agentkernel.Limits) { l.Memory = 96 << 20 }},
		{"limit.memory", "const x = []; for (;;) x.push({a: Math.random(), b: [1, 2, 3]});", func(l *agentkernel.Limits) { l.Memory = 300 << 20 }},
		{"limit.memory", "const x = []; for (;;) x.push(Buffer.alloc(1 << 20, 1));", func(l *agentkernel.Limits) { l.Memory = 128 << 20 }},
		{"limit.time", "for (;;) {}", func(l *agentkernel.Limits) { l.Time = agentkernel.Duration(500 * time.Millisecond) }},
		{"limit.output", "for (;;) console.log('flood')", func(l *agentkernel.Limits) { l.Output = 1000 }},
	} {
		_, turn, err := wholeRun(t, nodeProgram("app.mjs", c.source), func(r *run) { c.change(&r.req.Limits) })
		if err == nil && turn.Err != nil {
			err = turn.Err
		}
		if e := agentkernel.AsError(err, agentkernel.CodeInternal, ""); err == nil || e.Code != agentkernel.CodeLimit || e.Op != c.op {
			t.Errorf("%s: %+v %v, want %s", c.source, turn, err, c.op)
		}
	}
}

// Packages beside the program are found, and ours are not hidden by any of them.
func TestNodePackagesOfTheHost(t *testing.T) {
	needNode(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"left/index.js": "module.exports = 'left'", "kernel/index.js": "module.exports = {state: 'theirs'}"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for d := dir; len(d) > len(os.TempDir()); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := nodeProgram("app.mjs", "import left from 'left';\nimport { state } from 'kernel';\nimport fs from 'node:fs';\nlet w = 'written'; try { fs.writeFileSync('/program/node_modules/x', ''); } catch (e) { w = e.code; }\nconsole.log(left, typeof state.get, w)")
	p.Host = dir
	if r, turn, err := wholeRun(t, p); err != nil || r.out.String() != "left function EROFS\n" {
		t.Errorf("%+v %v %s\n%s", turn, err, r.out.String(), tracebackOf(turn))
	}
}

// Links among the packages lead to what the sandbox has at that place, never to the host's files.
func TestNodePackagesLinkToNothingOfTheHost(t *testing.T) {
	needNode(t)
	dir, secret := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(secret, "index.js"), []byte("module.exports = 'secret'"), 0o644); err != nil {
		t.Fatal(err)
	}
	up, err := filepath.Rel(dir, secret)
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"absolute": secret, "relative": up} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []string{dir, secret} {
		for d := at; len(d) > len(os.TempDir()); d = filepath.Dir(d) {
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := nodeProgram("app.cjs", "for (const name of ['absolute', 'relative']) { try { console.log(require(name)); } catch (e) { console.log(e.code); } }")
	p.Host = dir
	if r, turn, err := wholeRun(t, p); err != nil || r.out.String() != "MODULE_NOT_FOUND\nMODULE_NOT_FOUND\n" {
		t.Errorf("%+v %v %s\n%s", turn, err, r.out.String(), tracebackOf(turn))
	}
}

// The static pass finds the servers whose tools are imported.
func TestNodeNeeds(t *testing.T) {
	needNode(t)
	p := nodeProgram("app.mjs", "import a from 'tools/one';\nconst b = require(\"tools/two\"), c = await import('tools/one');\nconsole.log('tools/three')")
	needs, err := sharedBackend(t).Check(p)
	got, jerr := json.Marshal(needs.Tools)
	if want := `[{"server":"one","name":"*","line":1},{"server":"two","name":"*","line":2}]`; err != nil || jerr != nil || string(got) != want {
		t.Errorf("%s %v", got, err)
	}
	p.Modules = map[string]string{"../x.js": ""}
	if _, err := sharedBackend(t).Check(p); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
		t.Errorf("%v", err)
	}
	p = nodeProgram("app.mjs", "'"+strings.Repeat("x", maxSources)+"'")
	if _, err := sharedBackend(t).Check(p); agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(err.Error(), "the limit is 512 KiB") {
		t.Errorf("%v", err)
	}
	b := newBackend(t, func(c *Config) { c.Node = "/nonexistent/node" })
	if _, err := b.Check(nodeProgram("app.mjs", "")); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable || !strings.Contains(agentkernel.AsError(err, "", "").Hint, "install Node.js") {
		t.Errorf("%v", err)
	}
}
