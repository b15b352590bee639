package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"agentkernel"
	"agentkernel/internal/lazy"
	"agentkernel/internal/regular"
	"agentkernel/internal/sandbox/workspace"
)

// localImport finds './x' and '../x' in import, export ... from, import() and require().
var localImport = lazy.Regexp(`(?:\bfrom|\bimport|\brequire)\s*\(?\s*["'](\.{1,2}/[^"'\n]+)["']`)

// withNodeFiles adds what a program in Node has beside it: the files that it imports by a relative path, with theirs,
// package.json, and the directory node_modules, here or above. The folder may be a stranger's: a link in it is followed
// as far as it stays there.
func withNodeFiles(p *agentkernel.Program, file string) error {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return fileError(file, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fileError(dir, err)
	}
	defer root.Close()
	main := filepath.Base(file)
	n := nodeFiles{root: root, files: map[string]string{main: p.Source}} // files may import the program itself
	if err := n.gather(main, p.Source); err != nil {
		return err
	}
	if _, err := root.Lstat(nodeManifest); err == nil {
		if err := n.read(nodeManifest, main); err != nil {
			return err
		}
	}
	delete(n.files, main)
	if len(n.files) > 0 {
		p.Modules = n.files
	}
	p.Host, err = nodePackages(dir)
	return err
}

// nodeManifest says, of the files of a program, which kind of modules they are.
const nodeManifest = "package.json"

// nodePackages finds the node_modules of a program in dir, without links in its path; "": there is none.
func nodePackages(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		packages := filepath.Join(at, "node_modules")
		if info, err := os.Stat(packages); err == nil && info.IsDir() {
			return beneath(at, packages)
		}
		if at == filepath.Dir(at) {
			return "", nil
		}
	}
}

// beneath gives the real path of a directory in dir: one that is a link may lead to a place in dir only.
func beneath(dir, path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fileError(path, err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", fileError(dir, err)
	}
	if rel, err := filepath.Rel(dir, real); err != nil || !filepath.IsLocal(rel) {
		return "", agentkernel.Errorf(agentkernel.CodeDenied, "run", "%s is a link that leads out of its folder, to %s: the program would be shown what lies there", path, real).
			WithHint("remove the link, and install the packages in its place (npm install), or copy them there if the program may have them")
	}
	return real, nil
}

// nodeFiles are the files that travel with a program.
type nodeFiles struct {
	root  *os.Root
	files map[string]string // by path below root
	total int
}

// gather reads what the file `name` imports.
func (n *nodeFiles) gather(name, source string) error {
	if ext := filepath.Ext(name); ext == ".json" {
		return nil
	}
	for _, m := range localImport().FindAllStringSubmatch(source, -1) {
		found, err := n.resolve(name, m[1])
		if err != nil {
			return err
		}
		if _, seen := n.files[found]; seen || found == "" {
			continue // Node says where and why, if it comes to an import of what is not there
		}
		if err := n.read(found, name); err != nil {
			return err
		}
		if err := n.gather(found, n.files[found]); err != nil {
			return err
		}
	}
	return nil
}

// resolve finds the file of a relative import of the file `by`, as require does; "" if there is none.
func (n *nodeFiles) resolve(by, imported string) (string, error) {
	path := filepath.Join(filepath.Dir(by), imported)
	for _, ending := range []string{"", ".js", ".json", ".cjs", ".mjs", "/index.js"} {
		if !filepath.IsLocal(path + ending) {
			if info, err := os.Stat(filepath.Join(n.root.Name(), path+ending)); err == nil && info.Mode().IsRegular() {
				return "", agentkernel.Errorf(agentkernel.CodeUnsupported, "run", "%s imports %s, which lies outside of the program's directory", by, imported).
					WithHint("move the program up, so that all its files lie below it, or make them a package in node_modules")
			}
			continue
		}
		info, err := n.root.Stat(path + ending)
		switch {
		case err == nil && info.Mode().IsRegular():
			return filepath.ToSlash(path + ending), nil
		case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return "", n.refused(path+ending, by, err)
		}
	}
	return "", nil
}

// read takes a file that the file `by` needs.
func (n *nodeFiles) read(name, by string) error {
	if err := n.secret(name, by); err != nil {
		return err
	}
	b, err := regular.ReadIn(n.root, filepath.FromSlash(name), int64(maxSource-n.total))
	if err != nil {
		return n.refused(name, by, err)
	}
	n.total += len(b)
	n.files[name], err = readSource(bytes.NewReader(b), filepath.Join(n.root.Name(), name))
	return err
}

// secret refuses a file in which keys usually lie, under its own name or that of a link.
func (n *nodeFiles) secret(name, by string) error {
	names := []string{name}
	dir, err := filepath.EvalSymlinks(n.root.Name())
	if err == nil {
		if real, err := filepath.EvalSymlinks(filepath.Join(dir, filepath.FromSlash(name))); err == nil {
			if rel, err := filepath.Rel(dir, real); err == nil {
				names = append(names, filepath.ToSlash(rel))
			}
		}
	}
	if !slices.ContainsFunc(names, workspace.Secret) {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeDenied, "run", "%s, which %s needs, is a file in which keys or passwords usually lie: it is not given to a program", filepath.Join(n.root.Name(), name), by).
		WithHint("if the program may have it, name its folder with --workspace, and read it there with fs.readFileSync")
}

// refused says why a file was not read; os.Root has no name for the error of a link that leaves it.
func (n *nodeFiles) refused(name, by string, err error) error {
	path := filepath.Join(n.root.Name(), name)
	switch {
	case errors.Is(err, regular.ErrTooLarge):
		return agentkernel.Errorf(agentkernel.CodeInvalid, "run", "%s and the files beside it are larger than 16 MB, which no program is", by).
			WithHint("a program reads its data through a tool")
	case strings.Contains(err.Error(), "escapes"):
		return agentkernel.Errorf(agentkernel.CodeDenied, "run", "%s, which %s needs, is a link that leads out of the program's directory", path, by).
			WithHint("copy the file into the directory, if the program may have it")
	}
	return fileError(path, err)
}
