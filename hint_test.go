package agentkernel_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentkernel"
)

// typed is what only a person at the command line can use: a flag, a command. It is written otherwise than what Reader.Hint looks for.
var typed = regexp.MustCompile("(^|[ ('`\"])(--[a-z]|agentkernel (-|[a-z]))")

// notTyped is where the word agentkernel is the program and no command.
var notTyped = regexp.MustCompile(`(newer|whoever runs|put) agentkernel|kernel call \S+ --json`)

const attribution = "for whoever runs agentkernel: "

// TestHintsOfTheSource: none of the hints that stand in the source tells a model or a program to type something.
func TestHintsOfTheSource(t *testing.T) {
	hints := sourceHints(t)
	if len(hints) < 250 {
		t.Fatalf("only %d hints found: is this still how they are written?", len(hints))
	}
	named := 0
	for _, at := range slices.Sorted(maps.Keys(hints)) {
		hint := hints[at]
		if got := agentkernel.AtTerminal.Hint(hint); got != hint {
			t.Errorf("%s: a person at the command line is told %q, not %q", at, got, hint)
		}
		for name, reader := range map[string]agentkernel.Reader{"model": agentkernel.OverMCP, "program": agentkernel.InProgram} {
			got := reader.Hint(hint)
			own, _, _ := strings.Cut(got, attribution)
			if typed.MatchString(notTyped.ReplaceAllString(own, "")) {
				t.Errorf("%s: a %s is told %q", at, name, got)
			}
			if again := reader.Hint(got); again != got {
				t.Errorf("%s: a %s is told %q, and of that %q", at, name, got, again)
			}
			if got != hint {
				named++
				t.Logf("%s, a %s:\n\t%s\n\t%s", at, name, hint, got)
			}
		}
	}
	if named < 100 {
		t.Errorf("only %d hints are said otherwise", named)
	}
}

// A model's programs have no arguments and no standard input: it is not told of either.
func TestInputOverMCP(t *testing.T) {
	if got := agentkernel.OverMCP.Hint(agentkernel.NoTerminal); strings.Contains(got, "stdin FILE") || strings.Contains(got, "argv") || !strings.Contains(got, "write the values into the code") {
		t.Errorf("a model is told %q", got)
	}
}

// sourceHints are the texts of hints by file and line: what stands in calls of WithHint, fields and variables of that name, and
// constants that they name.
func sourceHints(t *testing.T) map[string]string {
	t.Helper()
	hints := map[string]string{"boundary.go": (&agentkernel.Spec{}).Boundary("FileNotFoundError: "),
		"boundary.go, session": agentkernel.FilesOfSession, "boundary.go, input": (&agentkernel.Spec{}).Boundary("EOFError: "), "boundary.go, sleep": (&agentkernel.Spec{}).Boundary("NameError: name 'sleep' is not defined"),
		"boundary.go, network":         (&agentkernel.Spec{}).Boundary("ENOTFOUND"),
		"boundary.go, network, script": (&agentkernel.Spec{Program: agentkernel.Program{Language: agentkernel.Script}}).Boundary("ENOTFOUND"),
		"boundary.go, folder":          (&agentkernel.Spec{Workspace: &agentkernel.Workspace{}}).Boundary("FileNotFoundError: '/data'")}
	for i := range reflect.TypeFor[agentkernel.Limits]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[agentkernel.Limits]().Field(i).Tag.Get("json"), ",")
		hints["limit.go, "+name] = agentkernel.RaiseLimit(name)
	}
	files := token.NewFileSet()
	packages := map[string][]*ast.File{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "node_modules" || d.Name() == "testdata"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(files, path, nil, 0)
		packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range packages {
		constants := map[string]ast.Expr{}
		for _, f := range in {
			ast.Inspect(f, func(n ast.Node) bool {
				if v, ok := n.(*ast.ValueSpec); ok && len(v.Names) == len(v.Values) {
					for i, name := range v.Names {
						constants[name.Name] = v.Values[i]
						if text := textOf(v.Values[i], nil); text != "" && (strings.HasPrefix(name.Name, "advice") || f.Name.Name == "advice") {
							hints[files.Position(v.Pos()).String()] = strings.ReplaceAll(text, "%s", "NAME")
						}
					}
				}
				return true
			})
		}
		add := func(e ast.Expr) {
			if id, ok := e.(*ast.Ident); ok && constants[id.Name] != nil {
				e = constants[id.Name]
			}
			if text := textOf(e, constants); text != "" {
				hints[files.Position(e.Pos()).String()] = strings.ReplaceAll(text, "%s", "NAME")
			}
		}
		for _, f := range in {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "WithHint" {
						for _, arg := range n.Args {
							add(arg)
						}
					}
				case *ast.KeyValueExpr:
					if id, ok := n.Key.(*ast.Ident); ok && strings.EqualFold(id.Name, "hint") {
						add(n.Value)
					}
				case *ast.AssignStmt:
					for i, left := range n.Lhs {
						s, field := left.(*ast.SelectorExpr)
						id, variable := left.(*ast.Ident)
						if len(n.Rhs) == len(n.Lhs) && (field && s.Sel.Name == "Hint" || variable && slices.Contains([]string{"hint", "why", "note", "mends"}, id.Name)) {
							add(n.Rhs[i])
						}
					}
				}
				return true
			})
		}
	}
	return hints
}

// textOf is the text that stands in an expression: a literal, several that are added, or the format of a Sprintf.
func textOf(e ast.Expr, constants map[string]ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		return textOf(e.X, constants) + textOf(e.Y, constants)
	case *ast.Ident:
		if v := constants[e.Name]; v != nil {
			return textOf(v, nil)
		}
		return "NAME"
	case *ast.CallExpr:
		if s, ok := e.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Sprintf" {
			return textOf(e.Args[0], constants)
		}
	}
	return ""
}

// TestPassedOn: what a program says of an error that it could not mend is cut into what went wrong and what its reader can do, in whole sentences.
func TestPassedOn(t *testing.T) {
	for text, want := range map[string][3]string{
		"no key (for whoever runs agentkernel: set it)\n":                             {"no key ", "set it", "\n"},
		"no key (it is not set; for whoever runs agentkernel: set it)":                {"no key ", "it is not set; set it", ""},
		"no (none) key (it (the key) is not; for whoever runs agentkernel: set (it))": {"no (none) key ", "it (the key) is not; set (it)", ""},
		"no key (it is not set)":             {"no key (it is not set)", "", ""},
		"for whoever runs agentkernel: f(x)": {"for whoever runs agentkernel: f(x)", "", ""},
		"for whoever runs agentkernel: x)":   {"for whoever runs agentkernel: x)", "", ""},
		"":                                   {"", "", ""},
	} {
		before, hint, after := agentkernel.PassedOn(text)
		if got := [3]string{before, hint, after}; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
