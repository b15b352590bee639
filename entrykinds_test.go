package agentkernel

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// TestEntryKinds: the list has each kind that is declared. What it lacks cannot be imported.
func TestEntryKinds(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "store.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "EntryKind" {
				declared += len(spec.Names)
			}
		}
		return true
	})
	seen := map[EntryKind]bool{}
	for _, k := range EntryKinds() {
		seen[k] = true
	}
	if len(seen) != declared || declared == 0 {
		t.Errorf("%d kinds are listed, and %d declared", len(seen), declared)
	}
}
