package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
// as far as it stays there. tools are the tools files of its process.
func withNodeFiles(p *agentkernel.Program, file string, tools []string) error {
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
	unasked, err := workspace.NewUnasked(root, tools)
	if err != nil {
		return fileError(dir, err)
	}
	n := nodeFiles{root: root, unasked: unasked, files: map[string]string{main: p.Source}} // files may import the program itself
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

// nodePackagesDir is where packages are, which a program is shown whole.
const nodePackagesDir = "node_modules"

const ownPackages = "remove the link, and install the packages in its place (npm install), or copy them there if the program may have them"

// nodePackages finds the node_modules of a program in dir, without links in its path; "": there is none.
func nodePackages(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		packages := filepath.Join(at, nodePackagesDir)
		if info, err := os.Stat(packages); err == nil && info.IsDir() {
			return packagesIn(at, packages)
		}
		if at == filepath.Dir(at) {
			return "", nil
		}
	}
}

// packagesIn gives the real path of a node_modules in dir: one that is a link may lead to another node_modules in dir only.
// All else there, such as .git, the program would be shown whole.
func packagesIn(dir, path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fileError(path, err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", fileError(dir, err)
	}
	if rel, err := filepath.Rel(dir, real); err != nil || !filepath.IsLocal(rel) {
		return "", agentkernel.Errorf(agentkernel.CodeDenied, "run", "%s is a link that leads out of its folder, to %s: the program would be shown what lies there", path, real).
			WithHint(ownPackages)
	}
	if filepath.Base(real) != nodePackagesDir {
		return "", agentkernel.Errorf(agentkernel.CodeDenied, "run", "%s is a link to %s, which is no node_modules: the program would be shown all that lies there", path, real).
			WithHint(ownPackages)
	}
	return real, nil
}

// nodeFiles are the files that travel with a program.
type nodeFiles struct {
	root    *os.Root
	unasked *workspace.Unasked
	files   map[string]string // by path below root
	total   int
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
	b, err := n.unasked.Read(name, int64(maxSource-n.total))
	if err != nil {
		return n.refused(name, by, err)
	}
	n.total += len(b)
	n.files[name], err = readSource(bytes.NewReader(b), filepath.Join(n.root.Name(), name))
	return err
}

// refused says why a file was not read; os.Root has no name for the error of a link that leaves it.
func (n *nodeFiles) refused(name, by string, err error) error {
	path := filepath.Join(n.root.Name(), name)
	switch {
	case errors.Is(err, regular.ErrTooLarge):
		return agentkernel.Errorf(agentkernel.CodeInvalid, "run", "%s and the files beside it are larger than 16 MB, which no program is", by).
			WithHint("a program reads its data through a tool")
	case errors.Is(err, workspace.ErrKeys):
		return keysIn(path, by).
			WithHint("if the program may have it, name its folder with --workspace, and read it there with fs.readFileSync")
	case strings.Contains(err.Error(), "escapes"):
		return agentkernel.Errorf(agentkernel.CodeDenied, "run", "%s, which %s needs, is a link that leads out of the program's directory", path, by).
			WithHint("copy the file into the directory, if the program may have it")
	}
	return fileError(path, err)
}
