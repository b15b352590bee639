package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/config"
	"agentkernel/internal/datadir"
	"agentkernel/internal/setup"
	"agentkernel/internal/tool"
)

type setupCmd struct {
	Force bool `help:"Install again, even if the engine is there and right."`
}

func (setupCmd) Help() string {
	return `Installs the Monty engine once for all data directories of yours, in ~/.local/share/agentkernel/engine ($XDG_DATA_HOME), by npm,
checked against recorded hashes. Without Node: docs/getting-started.md says how.

` + examples("agentkernel setup", "XDG_DATA_HOME=/var/lib agentkernel setup")
}

func (c setupCmd) Run(a *app) error {
	home, err := a.home()
	if err != nil {
		return err
	}
	var r setup.Result
	err = a.withProgress(a.ctx, "installing", func(ctx context.Context) error {
		r, err = setup.Install(ctx, setup.Options{Home: home, Shared: setup.UserEngines(), Force: c.Force, Out: noteWriter{a}})
		return err
	})
	if err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(r)
	}
	verb := "installed"
	if r.Already {
		verb = "already there"
	}
	a.con.Out(verb + ": " + r.Engine + ", " + r.Path + "\n")
	if r.Shadowed != "" {
		a.con.Say("the engine on PATH goes before it: %s", r.Shadowed)
	}
	return a.outputError()
}

// noteWriter shows the steps of the installation.
type noteWriter struct{ a *app }

func (w noteWriter) Write(p []byte) (int, error) {
	w.a.con.Err(string(p))
	return len(p), nil
}

type doctorCmd struct{ toolFiles }

func (doctorCmd) Help() string {
	return "Changes nothing and starts no kernel. The exit code is 0 if nothing is marked FAIL, else 69.\n\n" +
		examples("agentkernel doctor", "agentkernel doctor --tools mcp.json      also starts each tool server once", "agentkernel doctor --json | jq '.findings[] | select(.status != \"ok\")'")
}

func (c *doctorCmd) Run(a *app) error {
	settings := a.settingsOrDefaults()
	files, problems := a.usableTools(&c.toolFiles)
	var unread []string
	if settings[0].Status != setup.OK {
		unread = a.unread(files)
	}
	home, err := a.home()
	if err != nil {
		return err
	}
	var r setup.Report
	err = a.withProgress(a.ctx, "examining", func(ctx context.Context) error {
		r = a.examine(ctx, home, files, a.examineModels, unread)
		for i := range r.Findings { // it was this command that looked
			r.Findings[i].Found = strings.ReplaceAll(r.Findings[i].Found, " "+agentkernel.OfRunningKernel, "")
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(files) == 0 && len(problems) > 0 { // there is a file, and nothing to try
		r.Findings = slices.DeleteFunc(r.Findings, func(f setup.Finding) bool { return f.Check == setup.CheckTools })
	}
	r.Add(append(settings, problems...)...)
	if settings[0].Status == setup.OK { // else they are not known
		r.Add(a.examineRunning()...)
		r.Add(a.examineAllowances()...)
	}
	for i := range r.Findings {
		r.Findings[i].Found, r.Findings[i].Fix = a.withHome(r.Findings[i].Found), a.withHome(r.Findings[i].Fix)
	}
	if a.cli.JSON {
		err = a.printJSON(r)
	} else {
		a.printReport(r)
		err = a.outputError()
	}
	if err == nil && !r.OK {
		return exitCode(agentkernel.ExitUnavailable)
	}
	return err
}

// settingsOrDefaults reads the settings for a report. Where they cannot be read that is a finding, and what variables set, which are stronger
// than files, is all that is known.
func (a *app) settingsOrDefaults() []setup.Finding {
	c, err := a.settings()
	if err == nil {
		found := []setup.Finding{{Check: "settings", Status: setup.OK, Found: settingsFiles(c)}}
		for _, note := range c.Notes() {
			found = append(found, setup.Finding{Check: "settings", Status: setup.Warn, Found: note})
		}
		return found
	}
	e := asError(err)
	found := []setup.Finding{{Check: "settings", Status: setup.Fail, Found: e.Message() + "; no program starts before this is right", Fix: e.Hint}}
	alone := func(env []string) error {
		c, err = config.Load(config.Options{Dir: string(filepath.Separator), Env: env})
		return err
	}
	if alone(slices.DeleteFunc(slices.Clone(a.env), func(v string) bool { return !strings.HasPrefix(v, "AGENTKERNEL_") })) != nil {
		var home []string
		if dir, ok := a.lookupEnv(datadir.EnvHome); ok {
			home = []string{datadir.EnvHome + "=" + dir}
		}
		if alone(home) != nil {
			c = &config.Config{}
		}
	}
	c.Home = cmp.Or(a.cli.Home, c.Home)
	a.cfg = c
	return found
}

// unread are the settings by which checks go that a file which cannot be read may set.
func (a *app) unread(tools []string) (names []string) {
	for _, name := range []string{"log.path", "engine", "python", "tools", "embeddings.url", "models"} {
		if known := a.cfg.Origin(name).Kind == config.Env || name == "tools" && len(tools) > 0; !known {
			names = append(names, name)
		}
	}
	return names
}

func settingsFiles(c *config.Config) string {
	switch {
	case c.UserFile != "" && c.ProjectFile != "":
		return c.UserFile + ", " + c.ProjectFile
	case c.UserFile+c.ProjectFile != "":
		return c.UserFile + c.ProjectFile
	}
	return "no settings file; defaults count, and variables AGENTKERNEL_..."
}

// usableTools are the tools files that may be tried; of each other one it is said why not.
func (a *app) usableTools(f *toolFiles) (files []string, problems []setup.Finding) {
	c := a.cfg
	if err := (&specFlags{Tools: f.Tools}).overlay(c); err != nil {
		e := asError(err)
		return nil, []setup.Finding{{Check: "tools file", Status: setup.Warn, Found: e.Message(), Fix: e.Hint}}
	}
	all := c.Tools
	for _, file := range all {
		c.Tools = []string{file}
		if _, err := a.toolDigests(c); err != nil {
			e := asError(err)
			problems = append(problems, setup.Finding{Check: "tools file", Status: setup.Warn, Found: e.Message(), Fix: e.Hint})
			continue
		}
		files = append(files, file)
	}
	c.Tools = all
	return files, problems
}

// examine runs all checks. files are tools files whose servers are started once; models looks at the models, nil: nothing does.
// unread are settings that cannot be read.
func (a *app) examine(ctx context.Context, home string, files []string, models func(context.Context) []setup.Finding, unread []string) setup.Report {
	return setup.Doctor(ctx, setup.DoctorOptions{Home: home, Shared: setup.UserEngines(), Version: version, Engine: a.engine(), Backend: a.cfg.Backend, Tools: files, Log: a.cfg.Log.Path,
		Python: a.cfg.Python, Quota: a.cfg.Quota, Unread: unread, Reader: embedded.OpenReader, Examine: examineStored, Dial: a.dial, ToolSource: toolSource, TryProcess: tryProcess, TryWalls: embedded.TryWalls,
		Models: models, Embeddings: a.cfg.Embeddings.URL, TryEmbeddings: func(ctx context.Context) (int, error) {
			return embedded.TryEmbeddings(ctx, embedded.Embeddings(a.cfg.Embeddings))
		}})
}

func examineStored(ctx context.Context, home string) (setup.Examined, error) {
	e, err := embedded.Examine(ctx, home)
	return setup.Examined(e), err
}

func tryProcess(ctx context.Context, python string) (setup.Trial, error) {
	t, err := embedded.TryProcess(ctx, python)
	return setup.Trial{Python: t.Python, Lacking: t.Lacking}, err
}

// examineAllowances says which allowances are nearly used up, as the running kernel counts; none, or no kernel: nothing.
func (a *app) examineAllowances() (found []setup.Finding) {
	k := a.shared()
	if k == nil {
		return nil
	}
	defer k.Close()
	states, err := k.Allowances(a.ctx, "")
	if err != nil {
		e := asError(err)
		return []setup.Finding{{Check: "allowances", Status: setup.Warn, Found: e.Message(), Fix: e.Hint}}
	}
	for _, s := range states {
		for _, r := range budgetRows(s.Limit, s.Spent, s.Held) {
			if r.limit == 0 || r.spent+r.held < r.limit-r.limit/10 {
				continue
			}
			found = append(found, setup.Finding{Check: "allowances", Status: setup.Warn,
				Found: fmt.Sprintf("that of namespace %s for the %s is nearly used up: %s", s.Namespace, s.Period, budgetLine(r.only(r.limit), r.only(r.spent), r.only(r.held))),
				Fix:   fmt.Sprintf("wait until it begins anew at %s, or raise it in the setting allowances", s.Until.UTC().Format("2006-01-02 15:04 UTC"))})
		}
	}
	return found
}

// toolSource gives tool servers to the doctor without a kernel.
func toolSource(files []string) (agentkernel.ToolSource, func() error, error) {
	hub, err := tool.New(tool.Config{Version: version})
	if err != nil {
		return nil, nil, err
	}
	source, err := hub.Set(files)
	if err != nil {
		_ = hub.Close()
		return nil, nil, err
	}
	return source, hub.Close, nil
}

func (a *app) printReport(r setup.Report) {
	for _, f := range r.Findings {
		mark := map[setup.Status]string{setup.OK: "ok  ", setup.Warn: "warn", setup.Fail: "FAIL"}[f.Status]
		if a.con.OutColor() {
			mark = map[setup.Status]string{setup.OK: "\x1b[32m", setup.Warn: "\x1b[33m", setup.Fail: "\x1b[31;1m"}[f.Status] + mark + "\x1b[0m"
		}
		a.con.Out(mark + "  " + f.Check + ": " + f.Found + "\n")
		if f.Fix != "" {
			a.con.Out("        fix: " + f.Fix + "\n")
		}
	}
	if r.OK {
		a.con.Out("\nprograms can run\n")
	} else {
		a.con.Out("\nnot all programs can run yet: mend what is marked FAIL\n")
	}
}

// home is the path of the data directory, which need not exist.
func (a *app) home() (string, error) {
	c, err := a.settings()
	if err != nil {
		return "", err
	}
	return datadir.Resolve(c.Home)
}
