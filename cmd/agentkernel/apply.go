package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/shellword"
)

type applyCmd struct {
	PID   string    `arg:"" optional:"" help:"A process that worked in a folder and has ended; without one, those are listed that wait with changes."`
	Paths []rawText `arg:"" optional:"" name:"path" help:"Files and directories to apply; all else waits. Without any: all but what is withheld."`
	Force bool      `help:"Replace also what has changed in the folder meanwhile."`
	Tree  bool      `help:"Apply the changes of all processes below it, too: of a task with sub-agents, the task's first, then those of each in the order in which they were started."`
}

func (applyCmd) Help() string {
	return `Writes what the process changed to the folder. First all new files are written beside their places, then all is put in
place. If anything that would be replaced has changed in the folder since the process was created, nothing is written
and the conflicts are listed. An apply that was cut off is finished by the next one.

Files that this machine acts on by itself (.git/hooks, .envrc, CI files, settings of editors and assistants) are
withheld until you name them: read them before. Symbolic links that lead out of the folder, pipes and sockets are left
out and told. Files never get setuid bits, and nobody else may write them who could not before.

` + examples("agentkernel apply               lists the runs that wait with changes", "agentkernel apply 12", "agentkernel apply 12 --force", "agentkernel apply --tree 12            a task and its sub-agents", "agentkernel apply 12 .envrc src/app     these alone",
		"agentkernel diff 12 --patch             look first")
}

func (c *applyCmd) Run(a *app) error {
	if c.PID == "" {
		return a.listWaiting("apply")
	}
	pid, err := agentkernel.ParsePID(c.PID)
	if err != nil {
		return a.whichPID("apply", err)
	}
	var paths []string
	for _, p := range c.Paths {
		name, err := agentkernel.ParseFileName(string(p))
		if err != nil {
			return err
		}
		paths = append(paths, name.String())
	}
	if c.Tree && len(paths) > 0 {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--tree applies all that waits, and %s names one file", fileText(paths[0])).
			WithHint("leave one of them out")
	}
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	if _, err := a.find(k, pid); err != nil {
		return err
	}
	if c.Tree {
		return c.applyTree(a, k, pid)
	}
	done, err := k.Apply(a.ctx, pid, agentkernel.ApplyOptions{Force: c.Force, Paths: paths, GitConfigs: a.gitConfigs()})
	if err != nil {
		return a.oneAtATime(k, pid, paths, err)
	}
	if a.cli.JSON {
		return a.printJSON(done)
	}
	a.sayApplied(pid, &done)
	return a.outputError()
}

// gitConfigs are the configs that git reads because the environment of the command names them: that of the kernel may be another.
func (a *app) gitConfigs() (list []string) {
	for _, file := range agentkernel.GitConfigs(a.getenv) {
		if file, err := filepath.Abs(file); err == nil {
			list = append(list, file)
		}
	}
	slices.Sort(list)
	return list
}

// sayApplied says what an apply did.
func (a *app) sayApplied(pid agentkernel.PID, done *agentkernel.Applied) {
	where := "the volumes of process " + pid.String()
	if done.Folder != "" {
		where = a.relative(done.Folder)
	}
	a.con.Note("%s in %s · %s written", countText(done.Added, done.Changed, done.Deleted), where, console.Bytes(done.Bytes))
	for i := range done.LeftOut {
		a.con.Say("left out: %s, %s", fileText(done.LeftOut[i].Name()), done.LeftOut[i].LeftOut)
	}
	if done.Waiting > 0 {
		a.con.Note("%s: agentkernel diff %d", counted(int64(done.Waiting), "change waits", "changes wait"), pid)
	}
	for _, line := range withheldLines(pid, done.Withheld) {
		a.con.Say("%s", line)
	}
	if done.Hint != "" {
		a.con.Say("%s", done.Hint)
	}
}

// shownWithheld is how many files are named that wait to be named.
const shownWithheld = 10

// withheldLines say what was not applied, why, and how it is.
func withheldLines(pid agentkernel.PID, list []agentkernel.Change) (lines []string) {
	var names []string
	for i := range list {
		c := &list[i]
		if c.Type == agentkernel.TypeDir { // its files are named
			continue
		}
		if len(names) == shownWithheld {
			lines = append(lines, "withheld: "+fmt.Sprintf("%d more", len(list)-i))
			break
		}
		lines = append(lines, "withheld: "+fileText(c.Name())+", "+c.Withheld)
		names = append(names, shellword.File(c.Name()))
	}
	if len(names) > 0 {
		lines = append(lines, fmt.Sprintf("read them first: agentkernel diff %d --patch · then: agentkernel apply %d %s", pid, pid, strings.Join(names, " ")))
	}
	return lines
}
