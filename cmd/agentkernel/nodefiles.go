package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"agentkernel"
	"agentkernel/internal/lazy"
)

// localImport finds './x' and '../x' in import, export ... from, import() and require().
var localImport = lazy.Regexp(`(?:\bfrom|\bimport|\brequire)\s*\(?\s*["'](\.{1,2}/[^"'\n]+)["']`)

// withNodeFiles adds what a program in Node has beside it: the files that it imports by a relative path, with theirs,
// package.json, and the directory node_modules, here or above.
func withNodeFiles(p *agentkernel.Program, file string) error {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return fileError(file, err)
	}
	files := map[string]string{}
	if err := gatherNode(dir, filepath.Base(file), p.Source, files); err != nil {
		return err
	}
	if text, err := os.ReadFile(filepath.Join(dir, "package.json")); err == nil {
		files["package.json"] = string(text)
	}
	delete(files, filepath.Base(file)) // files may import the program itself
	if len(files) > 0 {
		p.Modules = files
	}
	for at := dir; ; at = filepath.Dir(at) {
		packages := filepath.Join(at, "node_modules")
		if info, err := os.Stat(packages); err == nil && info.IsDir() {
			p.Host, err = filepath.EvalSymlinks(packages)
			return err
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// gatherNode reads what the file `name` below dir imports.
func gatherNode(dir, name, source string, files map[string]string) error {
	if ext := filepath.Ext(name); ext == ".json" {
		return nil
	}
	for _, m := range localImport().FindAllStringSubmatch(source, -1) {
		found, err := resolveNode(dir, filepath.Join(filepath.Dir(name), m[1]))
		switch {
		case err != nil:
			return err
		case found == "":
			continue // Node says where and why, if it comes to that import
		case !filepath.IsLocal(found):
			return agentkernel.Errorf(agentkernel.CodeUnsupported, "run", "%s imports %s, which lies outside of the program's directory", name, m[1]).
				WithHint("move the program up, so that all its files lie below it, or make them a package in node_modules")
		}
		if _, seen := files[found]; seen {
			continue
		}
		text, err := readFile(filepath.Join(dir, found))
		if err != nil {
			return err
		}
		files[found] = text
		if err := gatherNode(dir, found, text, files); err != nil {
			return err
		}
	}
	return nil
}

// resolveNode finds the file of a relative import, as require does; "" if there is none.
func resolveNode(dir, path string) (string, error) {
	for _, ending := range []string{"", ".js", ".json", ".cjs", ".mjs", "/index.js"} {
		info, err := os.Stat(filepath.Join(dir, path+ending))
		switch {
		case err == nil && info.Mode().IsRegular():
			return filepath.ToSlash(path + ending), nil
		case err != nil && !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), "not a directory"):
			return "", fileError(path+ending, err)
		}
	}
	return "", nil
}
