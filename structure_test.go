package agentkernel_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentkernel"
)

// TestTheKernelKnowsNoNames: what a call means is in its family, or, for those that change the table of processes, in the
// files of the kernel that carry them out. Everything else goes by what a call's descriptor and handler say.
func TestTheKernelKnowsNoNames(t *testing.T) {
	calls, families := map[string]bool{}, map[string]bool{}
	for _, desc := range agentkernel.Syscalls() {
		calls[desc.Name], families[desc.Family()] = true, true
	}
	backends := []string{"cpython", "monty", "none", "process", "wasm"}
	own := map[string]bool{"sys_proc.go": true, "sys_next.go": true}
	err := filepath.WalkDir("internal/kernel", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == "advice" {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || own[entry.Name()] {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Errorf("%s: %v", fset.Position(lit.Pos()), err)
			}
			if agentkernel.ForOperator(text) || slices.Contains(backends, text) {
				t.Errorf("%s names a command, a flag, a setting or a backend: %q (internal/kernel/advice says what users can do)", fset.Position(lit.Pos()), text)
			}
			for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == '"' }) {
				if calls[word] || families[strings.TrimSuffix(word, ".")] && strings.HasSuffix(word, ".") {
					t.Errorf("%s names the call %s", fset.Position(lit.Pos()), word)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// kernelLines and structFields bound what a reader has to hold in his head at once.
const (
	kernelLines  = 7500
	structFields = 24
)

// TestTheKernelStaysSmall: what does not need the process table has a package of its own below internal/kernel. A struct that is
// a field of another one of the package, by value, counts with its fields.
func TestTheKernelStaysSmall(t *testing.T) {
	files, err := filepath.Glob("internal/kernel/*.go")
	if err != nil {
		t.Fatal(err)
	}
	lines, structs := 0, map[string]*ast.StructType{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		lines += fset.File(file.Pos()).LineCount()
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					structs[spec.Name.Name] = s
				}
			}
			return true
		})
	}
	if lines > kernelLines {
		t.Errorf("internal/kernel has %d lines, %d at most", lines, kernelLines)
	}
	largest := 0
	for name, s := range structs {
		n := fields(structs, s)
		if largest = max(largest, n); n > structFields {
			t.Errorf("internal/kernel: %s has %d fields, %d at most", name, n, structFields)
		}
	}
	t.Logf("internal/kernel has %d lines, and %d fields in its largest struct", lines, largest)
	if len(structs) < 15 {
		t.Errorf("only %d structs were found", len(structs))
	}
}

// fields counts the fields of a struct with those of the structs among them.
func fields(structs map[string]*ast.StructType, s *ast.StructType) (n int) {
	for _, f := range s.Fields.List {
		each := 1
		switch inner := f.Type.(type) {
		case *ast.StructType:
			each = fields(structs, inner)
		case *ast.Ident:
			if named := structs[inner.Name]; named != nil {
				each = fields(structs, named)
			}
		}
		n += each * max(1, len(f.Names))
	}
	return n
}
