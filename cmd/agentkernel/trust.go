package main

import (
	"os"
	"path/filepath"
	"strings"

	"agentkernel"
	"agentkernel/internal/config"
	"agentkernel/internal/shellword"
	"agentkernel/internal/tool"
)

// toolDigests reads the tools files and says what they hold: that is what counts, whatever is written to them
// while the program runs. A file that a project names counts only once the user has accepted its content: it
// starts commands as the user. At a terminal the user is asked.
func (a *app) toolDigests(c *config.Config) (map[string]string, error) {
	if len(c.Tools) == 0 {
		return nil, nil
	}
	digests := make(map[string]string, len(c.Tools))
	for _, file := range c.Tools {
		content, err := a.readTools(c, file)
		if err != nil {
			return nil, err
		}
		if byOthers(c) {
			if err := a.requireTrust(c, file, content); err != nil {
				return nil, err
			}
		}
		digests[file] = tool.Digest(content)
	}
	return digests, nil
}

// projectToolsFlag names tools files that others may write.
const projectToolsFlag = "--project-tools"

// byOthers says whether the tools files are those of a project, which others may write.
func byOthers(c *config.Config) bool {
	o := c.Origin("tools")
	return o.Kind == config.Project || o.Kind == config.Flag && o.Name == projectToolsFlag
}

// toolsFor is toolDigests for one program. One that speaks of no tool needs no tools file: where those of the settings cannot be used, they are
// left out, and nothing is asked.
func (a *app) toolsFor(c *config.Config, p *agentkernel.Program) (map[string]string, error) {
	if c.Origin("tools").Kind == config.Flag || p.Source == "" || speaksOfTools(p) {
		return a.toolDigests(c)
	}
	ask := a.askTTY
	a.askTTY = nil
	digests, err := a.toolDigests(c)
	a.askTTY = ask
	for _, file := range c.Tools {
		if err == nil {
			err = a.understood(file)
		}
	}
	if err != nil {
		a.con.Note("without tools, which this program does not import: %s", asError(err).Message())
		c.Tools = nil
		return nil, nil
	}
	return digests, nil
}

// understood says what is wrong with the text of a tools file.
func (a *app) understood(file string) error {
	content, err := tool.ReadFile(file)
	if err == nil {
		_, err = tool.Preview(file, content, a.lookupEnv)
	}
	return err
}

// speaksOfTools says whether a program may import tools or call them, or start a program that does. What stands in comments does
// not count.
func speaksOfTools(p *agentkernel.Program) bool {
	speaks := func(source string) bool {
		return strings.Contains(source, "tool") && (p.Language != agentkernel.Python || strings.Contains(pythonCode(source), "tool"))
	}
	if p.Language == agentkernel.Python { // its modules are local tools, which it imports by that word
		return speaks(p.Source)
	}
	for _, source := range p.Modules {
		if speaks(source) {
			return true
		}
	}
	return speaks(p.Source)
}

func (a *app) requireTrust(c *config.Config, file string, content []byte) error {
	project := ""
	if c.Origin("tools").Kind == config.Project {
		project = foreignTo(c.ProjectFile, file)
	}
	ok, err := a.accepted(project, tool.AsTools, file, content, func() {
		a.con.Say("%s names the tools file %s, which would start:", c.Origin("tools"), a.relative(file))
		a.sayServers(file, content)
	})
	if err != nil || ok {
		return err
	}
	refused := agentkernel.Errorf(agentkernel.CodeDenied, "trust", "%s names the tools file %s, which you have not accepted yet; it starts commands as you",
		c.Origin("tools"), a.relative(file))
	if filepath.Base(file) == rulesFile {
		return refused.WithHint("give it another name: what is called %s is accepted as what a model is told, and starts nothing", rulesFile)
	}
	return refused.WithHint("read it, then: agentkernel tools trust %s", shellword.File(a.relative(file)))
}

// foreignTo is the folder of the project whose agentkernel.toml names a tools file that is not its own: it lies elsewhere, if only behind a
// link, or in another project. What was accepted there has not been accepted here. "": it is the project's own.
func foreignTo(projectFile, file string) string {
	project, err1 := filepath.EvalSymlinks(filepath.Dir(projectFile))
	real, err2 := filepath.EvalSymlinks(file)
	if err1 != nil || err2 != nil {
		return filepath.Dir(projectFile)
	}
	for dir := filepath.Dir(real); within(dir, project); dir = filepath.Dir(dir) {
		if dir == project {
			return ""
		}
		if _, err := os.Lstat(filepath.Join(dir, filepath.Base(projectFile))); err == nil {
			break // another project in this one
		}
	}
	return project
}

// accepted says whether the user has accepted a file with this content as what it is to be. At a terminal he is asked, when show has said what that would mean.
func (a *app) accepted(project string, as tool.Kind, file string, content []byte, show func()) (bool, error) {
	dir, err := a.dataDir()
	if err != nil {
		return false, err
	}
	ok, err := a.trusted(dir.Path(), project, as, file, content)
	if err != nil || ok || a.askTTY == nil || !a.askAccept(show) {
		return ok, err
	}
	return true, a.trust(dir.Path(), project, as, file, content)
}

func (a *app) askAccept(show func()) bool {
	tty, err := a.askTTY()
	if err != nil {
		return false
	}
	defer tty.Close()
	show()
	line, err := a.human(tty).ask("Accept it, as it is now? [y]es, [N]o ")
	answer, known := parseAnswer(line)
	return err == nil && known && answer == agentkernel.AnswerYes
}

// sayServers shows what a tools file starts.
func (a *app) sayServers(file string, content []byte) {
	lines, err := tool.Preview(file, content, a.lookupEnv)
	if err != nil {
		a.con.Say("  (%v)", err)
	}
	for _, line := range lines {
		a.con.Say("  %s", line)
	}
}
