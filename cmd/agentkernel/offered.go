package main

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/shellword"
	"agentkernel/internal/tool"
)

// localFolder is where local tools are.
const localFolder = "tools"

// offeredTools are the local tools of the working directory, once the user has accepted them as they are: somebody else may have written
// them, a model does what descriptions say, and what they do they do with the permissions of the task. A program that the user names
// himself may import them all the same.
func (a *app) offeredTools() (map[string]string, error) {
	modules := a.localToolsFor("")
	if len(modules) == 0 {
		return nil, nil
	}
	folder, content, err := localContent(localFolder, modules)
	if err != nil {
		return nil, err
	}
	ok, err := a.accepted("", tool.AsLocal, folder, content, func() { a.sayLocal(modules) })
	if err != nil {
		return nil, err
	}
	if !ok {
		a.con.Note("%s/ is not told to the model: you have not accepted it. Read it, then: agentkernel tools trust %s", localFolder, localFolder)
		return nil, nil
	}
	return modules, nil
}

// localContent is what is accepted of a folder of local tools: all of them, as they are.
func localContent(folder string, modules map[string]string) (path string, content []byte, err error) {
	if path, err = filepath.Abs(folder); err == nil {
		content, err = json.Marshal(modules) // in the order of their names
	}
	if err != nil {
		return "", nil, agentkernel.Errorf(agentkernel.CodeInvalid, "trust", "%s: %w", folder, err)
	}
	return path, content, nil
}

// sayLocal shows which local tools there are.
func (a *app) sayLocal(modules map[string]string) {
	a.con.Say("%s/ has local tools, which the model would be told of; they run in the sandbox, with the permissions of the task:", localFolder)
	names := slices.Sorted(maps.Keys(modules))
	for _, name := range names[:min(len(names), shownRules)] {
		a.con.Say("  %s", shellword.File(strings.ReplaceAll(name, ".", "/")+".py"))
	}
	if more := len(names) - shownRules; more > 0 {
		a.con.Say("  ... %s more: read them before you accept them", count(int64(more), "file"))
	}
}

// localTrusted is what `tools trust` accepts of a folder of local tools, and how it says so.
func (a *app) localTrusted(folder string) (path string, content []byte, says func(), err error) {
	if filepath.Base(folder) != localFolder {
		return "", nil, nil, agentkernel.Errorf(agentkernel.CodeInvalid, "trust", "%s is a directory, and not one of local tools, which is called %s", folder, localFolder)
	}
	modules, err := a.localModules(filepath.Dir(folder))
	if err != nil {
		return "", nil, nil, err
	}
	path, content, err = localContent(folder, modules)
	return path, content, func() {
		a.con.Note("accepted %s/ with the %s that it has now", folder, count(int64(len(modules)), "local tool"))
	}, err
}
