package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"agentkernel"
	"agentkernel/internal/sandbox/workspace"
	"agentkernel/internal/shellword"
	"agentkernel/internal/tool"
)

const (
	// rulesFile is what a folder has for agents that work in it.
	rulesFile = "AGENTS.md"
	// maxRules is how large it may be, in bytes: each turn sends it once more.
	maxRules = 32 << 10
	// shownRules is how many of its lines are shown to who is asked whether it counts.
	shownRules = 12
)

// rulesOf is what AGENTS.md says in the folder of a task, once the user has accepted it with the content that it has: somebody else may have
// written it, and a model does what it says. "": there is none, or it does not count.
func (a *app) rulesOf(spec *agentkernel.Spec) (string, error) {
	if spec.Workspace == nil {
		return "", nil
	}
	folder, err := os.OpenRoot(spec.Workspace.Path)
	if err != nil { // whoever makes the workspace says so
		return "", nil
	}
	defer folder.Close()
	unasked, err := workspace.NewUnasked(folder, spec.Tools)
	if err != nil {
		return "", nil //nolint:nilerr // as above
	}
	content, err := unasked.Read(rulesFile, maxRules)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		a.con.Note("%s of the folder is not told to the model: %v", rulesFile, err)
		return "", nil
	}
	file := filepath.Join(spec.Workspace.Path, rulesFile)
	ok, err := a.accepted("", tool.AsRules, file, content, func() { a.sayRules(file, string(content)) })
	if err != nil {
		return "", err
	}
	if !ok {
		a.con.Note("%s is not told to the model: you have not accepted it. Read it, then: agentkernel tools trust %s", rulesFile, shellword.File(a.relative(file)))
		return "", nil
	}
	return string(content), nil
}

// sayRules shows how the rules of a folder begin.
func (a *app) sayRules(file, content string) {
	lines := strings.Split(strings.TrimRight(content, "\n"), "\n")
	a.con.Say("the folder has %s, which the model would follow:", a.relative(file))
	for _, line := range lines[:min(len(lines), shownRules)] {
		a.con.Say("  %s", line)
	}
	if more := len(lines) - shownRules; more > 0 {
		a.con.Say("  ... %s more: read them before you accept them", count(int64(more), "line"))
	}
}
