package agentkernel_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// upwardArrows bounds how many files of internal/kernel use a file of a layer above their own.
const upwardArrows = 30

// TestTheKernelRunsDown: the files of the kernel are in the layers that its package comment gives them, and few use one of a
// layer above their own: whoever reads a file need not know what stands above it.
func TestTheKernelRunsDown(t *testing.T) {
	const dir = "internal/kernel"
	arrows := arrowsOf(t, dir)
	layers := layersOf(t, dir)
	files := map[string]bool{}
	for a := range arrows {
		files[a.from], files[a.to] = true, true
	}
	for file := range files {
		if layers[file] == 0 {
			t.Errorf("%s/%s is in no layer: doc.go lists the files of each", dir, file)
		}
	}
	for file := range layers {
		if !files[file] {
			t.Errorf("%s/doc.go puts %s into a layer, which is not there or has to do with no other file", dir, file)
		}
	}
	var upward []arrow
	for a := range arrows {
		if layers[a.from] < layers[a.to] {
			upward = append(upward, a)
		}
	}
	text := fmt.Sprintf("%d of %d arrows between the %d files of %s run up", len(upward), len(arrows), len(files), dir)
	for i, a := range worst(upward, arrows) {
		if i == 10 {
			break
		}
		text += fmt.Sprintf("\n%s (%d) uses of %s (%d): %s", a.from, layers[a.from], a.to, layers[a.to], strings.Join(slices.Sorted(maps.Keys(arrows[a])), " "))
	}
	if len(upward) > upwardArrows || 10*len(upward) > len(arrows) {
		t.Errorf("%s; %d may, and a tenth", text, upwardArrows)
	}
	t.Log(text)
}

// worst sorts arrows: those first that stand for the most references.
func worst(list []arrow, arrows map[arrow]map[string]int) []arrow {
	references := func(a arrow) (n int) {
		for _, each := range arrows[a] {
			n += each
		}
		return n
	}
	return slices.SortedFunc(slices.Values(list), func(a, b arrow) int {
		return cmp.Or(cmp.Compare(references(b), references(a)), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
}

// arrow says that a file of a package uses a name that another one declares.
type arrow struct{ from, to string }

var layerLine = regexp.MustCompile(`(?m)^//\t([1-9]) \w+ +((?:\w+\.go ?)+)$`)

// layersOf reads the layers of the files of a package from its comment.
func layersOf(t *testing.T, dir string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	layers := map[string]int{}
	for _, m := range layerLine.FindAllSubmatch(text, -1) {
		for _, file := range strings.Fields(string(m[2])) {
			if layers[file] != 0 {
				t.Errorf("%s/doc.go has %s in two layers", dir, file)
			}
			layers[file] = int(m[1][0] - '0')
		}
	}
	return layers
}

// arrowsOf type-checks a package and finds the arrows between its files, with how often each uses which names. Fields and
// methods are names, too.
func arrowsOf(t *testing.T, dir string) map[arrow]map[string]int {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}", "./"+dir).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		exports[path] = file
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	pkg, err := conf.Check(module+"/"+dir, fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	arrows := map[arrow]map[string]int{}
	for id, used := range info.Uses {
		if used.Pkg() != pkg || used.Parent() != nil && used.Parent() != pkg.Scope() { // of another package, or of a function
			continue
		}
		a := arrow{filepath.Base(fset.Position(id.Pos()).Filename), filepath.Base(fset.Position(used.Pos()).Filename)}
		if a.from == a.to {
			continue
		}
		if arrows[a] == nil {
			arrows[a] = map[string]int{}
		}
		arrows[a][used.Name()]++
	}
	return arrows
}
