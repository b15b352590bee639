package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"agentkernel"
	"agentkernel/internal/regular"
	"agentkernel/internal/shellword"
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
	content, err := regular.ReadIn(folder, rulesFile, maxRules)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		a.con.Note("%s of the folder is not told to the model: %v", rulesFile, err)
		return "", nil
	}
	dir, err := a.dataDir()
	if err != nil {
		return "", err
	}
	file := filepath.Join(spec.Workspace.Path, rulesFile)
	ok, err := a.trusted(dir.Path(), file, content)
	if err == nil && !ok && a.askTTY != nil && a.askRules(file, string(content)) {
		ok, err = true, a.trust(dir.Path(), file, content)
	}
	if err != nil {
		return "", err
	}
	if !ok {
		a.con.Note("%s is not told to the model: you have not accepted it. Read it, then: agentkernel tools trust %s", rulesFile, shellword.File(a.relative(file)))
		return "", nil
	}
	return string(content), nil
}

// askRules asks whether the rules of a folder count, and shows how they begin.
func (a *app) askRules(file, content string) bool {
	tty, err := a.askTTY()
	if err != nil {
		return false
	}
	defer tty.Close()
	lines := strings.Split(strings.TrimRight(content, "\n"), "\n")
	a.con.Say("the folder has %s, which the model would follow:", a.relative(file))
	for _, line := range lines[:min(len(lines), shownRules)] {
		a.con.Say("  %s", line)
	}
	if more := len(lines) - shownRules; more > 0 {
		a.con.Say("  ... %s more", count(int64(more), "line"))
	}
	line, err := a.human(tty).ask("Accept it, as it is now? [y]es, [N]o ")
	answer, known := parseAnswer(line)
	return err == nil && known && answer == agentkernel.AnswerYes
}
