package frontend

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// words gives the tokens of a source as text, "|" for the end of a logical line.
func words(t *testing.T, src string) string {
	t.Helper()
	tok, err := lex(src)
	if err != nil {
		return "error: " + err.text
	}
	var out []string
	for _, k := range tok {
		text := src[k.start:k.end]
		switch k.kind {
		case tokNewline:
			text = "|"
		case tokFText:
			text = "<" + text + ">"
		}
		out = append(out, strings.ReplaceAll(text, "\n", "~"))
	}
	return strings.Join(out, " ")
}

func TestLex(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"x = 1", "x = 1 |"},
		{"x=(1,\n # c\n 2)\ny", "x = ( 1 , 2 ) | y |"},
		{"a \\\n + b # c", "a + b |"},
		{"\n\n  # c\n\nx\n\n", "x |"},
		{"'a\\'b' \"c\\\\\" r'\\\\' b'x' Rb\"y\" u'z'", "'a\\'b' \"c\\\\\" r'\\\\' b'x' Rb\"y\" u'z' |"},
		{"'''a\n'b''c\\''''; x", "'''a~'b''c\\'''' ; x |"},
		{"''; \"\"; ''''''", "'' ; \"\" ; '''''' |"},
		{"f'a{x}b'", "f' <a> { x } <b> ' |"},
		{"f'{x!r:>{w}}' f'{{}}'", "f' { x <!r> : <>> { w } } ' f' <{{}}> ' |"},
		{"f'{d[\"k\"]:%Y-%m}{a!=b}'", "f' { d [ \"k\" ] : <%Y-%m> } { a != b } ' |"},
		{"f'{x=}' rf'\\d{n}\\{m}'", "f' { x = } ' rf' <\\d> { n } <\\> { m } ' |"},
		{"f'{f\"{y}\"}' f'{'a'}'", "f' { f\" { y } \" } ' f' { 'a' } ' |"},
		{"f'''a{\nx\n}b\n'''", "f''' <a> { x } <b~> ''' |"},
		{"f'\\N{DASH}{x}'", "f' <\\N{DASH}> { x } ' |"},
		{"f'{lambda x: 1}'", "f' { lambda x : < 1> } ' |"},
		{"1_000 0x1F 1e-5 1.5j .5 1.", "1_000 0x1F 1e-5 1.5j .5 1. |"},
		{"a**=b//c<<=d->e:=f...", "a **= b // c <<= d -> e := f ... |"},
		{"naïve = 'ü'", "naïve = 'ü' |"},
		{"x = 'a", "error: unterminated string literal"},
		{"x = '''a", "error: unterminated triple-quoted string literal"},
		{"f'{x'", "error: unterminated string literal"},
		{"f'{x", "error: unterminated f-string literal"},
		{"f'a}'", "error: f-string: single '}' is not allowed"},
		{"f'{x)}'", "error: f-string: unmatched ')'"},
		{"(", "error: '(' was never closed"},
		{")", "error: unmatched ')'"},
		{"{]", "error: closing parenthesis ']' does not match opening parenthesis '{'"},
		{"brf'x'", "brf 'x' |"},
	} {
		if got := words(t, c.src); got != c.want {
			t.Errorf("%q\ngot  %s\nwant %s", c.src, got, c.want)
		}
	}
}

func TestStatements(t *testing.T) {
	s, err := parse("x.py", `if a: import b; x = 1
try:
    import c
    from d import (e,
        f as g)
except (X, ImportError): pass
class K:
    def m(self): return {'import': 1}
	
async def h():
    with q as r:
        import i.j as k, l
`, true)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, st := range s.stmts {
		parent := "-"
		if st.parent >= 0 {
			parent = s.stmts[st.parent].kw
		}
		got = append(got, parent+">"+s.str(st.first))
	}
	want := "->if if>import if>x ->try try>import try>from ->except except>pass ->class class>def def>return ->async def>with with>import"
	if g := strings.Join(got, " "); g != want {
		t.Errorf("got  %s\nwant %s", g, want)
	}
	var imports []string
	for _, imp := range s.imports {
		text := imp.module + " as " + imp.as
		for _, n := range imp.names {
			text += " " + n.name + "/" + n.as
		}
		if s.guarded(imp.stmt) {
			text += " guarded"
		}
		imports = append(imports, text)
	}
	if g, w := strings.Join(imports, "; "), "b as ; c as  guarded; d as  e/ f/g guarded; i.j as k; l as "; g != w {
		t.Errorf("got  %s\nwant %s", g, w)
	}
}

// cpythonTokens prints, for each file of argv, its NAME, NUMBER and OP tokens outside f-strings.
const cpythonTokens = `
import sys, json, tokenize, io
out = []
for name in sys.argv[1:]:
    try:
        text = open(name, encoding="utf-8").read()
        compile(text, name, "exec")
        names = [t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type in (tokenize.NAME, tokenize.OP)]
        lines = sum(1 for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.NEWLINE)
    except Exception:
        out.append(None)
        continue
    out.append({"words": names, "lines": lines})
json.dump(out, sys.stdout)
`

// TestLexLikeCPython reads files of CPython's own library and compares words and logical lines.
func TestLexLikeCPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("SKIPPED, NOTHING PROVED: python3 is missing")
	}
	where, err := exec.Command(python, "-I", "-c", "import os; print(os.path.dirname(os.__file__))").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(string(where))
	files, err := filepath.Glob(dir + "/[a-n]*.py")
	if err != nil || len(files) < 20 {
		t.Skipf("SKIPPED, NOTHING PROVED: no library in %s", dir)
	}
	files = files[:min(len(files), 30)]
	out, err := exec.Command(python, append([]string{"-I", "-W", "ignore", "-c", cpythonTokens}, files...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []*struct {
		Words []string
		Lines int
	}
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	for i, name := range files {
		if want[i] == nil {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		src, perr := parse(name, string(text), true)
		if perr != nil {
			t.Errorf("%s: %v", name, perr)
			continue
		}
		var got []string
		lines := 0
		for k := 0; k < len(src.tok); k++ {
			switch tok := src.tok[k]; tok.kind {
			case tokFStart: // the tokens of f-strings differ between versions of CPython
				k = int(tok.match)
			case tokName, tokOp:
				got = append(got, src.str(int32(k)))
			case tokNewline:
				lines++
			}
		}
		if lines != want[i].Lines || strings.Join(got, " ") != strings.Join(want[i].Words, " ") {
			t.Errorf("%s: %d lines and %d words, CPython has %d and %d", name, lines, len(got), want[i].Lines, len(want[i].Words))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"from tools.fs import a\nprint(f'{a(\"x\"):>{3}}')", "x = '", "f'{{{x!r}}}'", "a[0], b = c\ndel d[1:]",
		"class A(B):\n def __len__(s): yield", "import a.b as c, d\nfrom e import (f,\n g)", "'%s' % x ** 2 % y", "\\\n", "lambda lambda: (",
		"try:\n import q\nexcept: pass", "if x: import y; z", "match x:\n case 1: pass", "raise SystemExit(3) from e", "f\"{f'{'", "\t x\n  y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 10_000 {
			return
		}
		p := programOf(text)
		_, _ = Check(p) // must not panic
		b, err := Bind(p, nil)
		if err != nil {
			return
		}
		src, err := parse("x", text, true)
		if err != nil {
			t.Fatal("Bind accepted what parse refuses")
		}
		// rewriting keeps the number of lines, and what it makes can be read again
		last := b.Feeds[len(b.Feeds)-1].Code
		if strings.Count(last, "\n") != strings.Count(src.text, "\n") {
			t.Fatalf("lines changed:\n%q\n%q", src.text, last)
		}
		if _, lerr := lex(last); lerr != nil {
			t.Fatalf("%s:\n%q\n%q", lerr.text, src.text, last)
		}
	})
}

// TestLinearTime feeds what would take minutes if any pass were quadratic. The bound is far beyond what a
// loaded machine needs.
func TestLinearTime(t *testing.T) {
	const n = 40_000
	for name, text := range map[string]string{
		"nested calls":  strings.Repeat("f(", 190) + strings.Repeat("x,", n) + strings.Repeat(")", 190),
		"lambdas":       "x = " + strings.Repeat("lambda a=1, b=", n) + "2",
		"fors":          strings.Repeat("for ", n),
		"as":            strings.Repeat("as ", n),
		"imports":       strings.Repeat("import a as b\n", n),
		"tried imports": "try:\n" + strings.Repeat("    import a\n", n) + "except ImportError: pass\n",
		"strings":       strings.Repeat("'a' ", n) + "% x",
		"percents":      strings.Repeat("'a' % ", n) + "x",
		"dots":          "x" + strings.Repeat(".get", n),
		"tuple":         strings.Repeat("a[0],", n) + "b = c",
		"f-strings":     strings.Repeat("f'{x}' ", n),
		"deep":          strings.Repeat("(", 199) + strings.Repeat("x for y in z,", n) + strings.Repeat(")", 199),
		"classes":       strings.Repeat("class A(TypedDict): x = 1\n", n/20),
		"globals":       strings.Repeat("def f(): global x\n", n),
		"backslashes":   strings.Repeat("\\", n),
	} {
		begin := time.Now()
		_, _ = Check(programOf(text))
		_, _ = Bind(programOf(text), nil)
		if d := time.Since(begin); d > 30*time.Second {
			t.Errorf("%s took %v", name, d)
		}
	}
}
