package main

import (
	"errors"
	"os"
	"path/filepath"

	"agentkernel"
	"agentkernel/internal/sandbox/workspace"
	"agentkernel/internal/tool"
)

// Files of the user's folder travel with a program though nobody named them on the command line: its imports, its module, its local
// tools. The folder may be a stranger's, so none travels in which keys lie.

// keysIn refuses a file that the file, or what else, `by` needs.
func keysIn(path, by string) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeDenied, "run", "%s, which %s needs, is a file in which keys or passwords usually lie, or do lie: it is not given to a program", path, by)
}

// localModules reads the local tools of a folder.
func localModules(dir string) (map[string]string, error) {
	var unasked *workspace.Unasked
	return tool.LocalModules(dir, func(root *os.Root, name string, limit int64) (text []byte, err error) {
		if unasked == nil {
			if unasked, err = workspace.NewUnasked(root, nil); err != nil {
				return nil, err
			}
		}
		text, err = unasked.Read(name, limit)
		if errors.Is(err, workspace.ErrKeys) {
			return nil, keysIn(filepath.Join(dir, name), "a local tool").WithHint("remove it; a local tool is code, and takes what is secret from its arguments or from a tool server")
		}
		return text, err
	})
}

// toolsFilesOf are the tools files that a process will have.
func (a *app) toolsFilesOf(p *programArgs) ([]string, error) {
	cfg, err := a.settings()
	if err != nil {
		return nil, err
	}
	dir, err := a.workingDir()
	if err != nil {
		return nil, err
	}
	files := append([]string(nil), cfg.Tools...)
	for _, file := range p.tools {
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		files = append(files, file)
	}
	return files, nil
}
