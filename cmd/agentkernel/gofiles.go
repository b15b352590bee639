package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"agentkernel"
	"agentkernel/internal/regular"
	"agentkernel/internal/sandbox/workspace"
)

// goMain is the file of a package that counts as the program.
const goMain = "main.go"

// isGoPackage says whether a directory holds Go source.
func isGoPackage(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	return err == nil && len(files) > 0
}

// goPackage is the program of a directory: its package, and the module below it if it has a go.mod.
func goPackage(dir string, args []string) (agentkernel.Program, error) {
	p := agentkernel.Program{Name: goMain, Language: agentkernel.Go, Args: args, Modules: map[string]string{}}
	err := gatherGo(dir, p.Modules)
	if err == nil {
		source, ok := p.Modules[goMain]
		if !ok {
			return p, agentkernel.Errorf(agentkernel.CodeInvalid, "run", "%s is a directory without a %s: only a program in Go may be a directory", dir, goMain).
				WithHint("name a file in it, or put func main into %s", goMain)
		}
		p.Source = source
		delete(p.Modules, goMain)
	}
	return p, err
}

// withGoFiles adds the module of a file, if it lies beside a go.mod; the file alone is the program otherwise.
func withGoFiles(p *agentkernel.Program, file string) error {
	dir := filepath.Dir(file)
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return nil //nolint:nilerr // a file by itself
	}
	p.Modules = map[string]string{}
	err := gatherGo(dir, p.Modules)
	delete(p.Modules, filepath.Base(file))
	return err
}

// gatherGo reads the source files of a package, and with a go.mod those of the packages below it.
func gatherGo(dir string, files map[string]string) error {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	module := err == nil
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fileError(dir, err)
	}
	defer root.Close()
	unasked, err := workspace.NewUnasked(root, nil)
	if err != nil {
		return fileError(dir, err)
	}
	total := 0
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fileError(path, err)
		}
		name := d.Name()
		hidden := strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "node_modules"
		switch {
		case d.IsDir() && path != dir && (!module || hidden):
			return fs.SkipDir
		case !d.Type().IsRegular() || strings.HasSuffix(name, "_test.go"):
			return nil
		case filepath.Ext(name) != ".go" && (!module || name != "go.mod" && name != "go.sum" && name != "modules.txt"):
			return nil
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return fileError(path, err)
		}
		text, err := unasked.Read(filepath.ToSlash(rel), int64(maxSource-total))
		switch {
		case errors.Is(err, regular.ErrTooLarge):
			return agentkernel.Errorf(agentkernel.CodeInvalid, "run", "the files in %s are larger than 16 MB, which no program is", dir).
				WithHint("a program reads its data through a tool")
		case errors.Is(err, workspace.ErrKeys):
			return keysIn(path, "the module").WithHint("if the program may have it, name its folder with --workspace, and read it there")
		case err != nil:
			return fileError(path, err)
		}
		total += len(text)
		files[filepath.ToSlash(rel)], err = readSource(bytes.NewReader(text), path)
		return err
	})
}
