package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/datadir"
	"agentkernel/internal/packages"
)

// packageFlags say which packages a program in Python has.
type packageFlags struct {
	With       []string `sep:"none" placeholder:"PACKAGE" group:"packages" help:"Package from the user's pip, such as 'polars>=1'; repeatable. Wheels only; the environment is built once and kept."`
	AllowBuild bool     `group:"packages" help:"Build packages from source where there is no wheel: that runs their code as you, outside the sandbox."`
	Python     string   `placeholder:"VENV" group:"packages" help:"A virtual environment that is there already."`
}

// addPackages gives a program the environment that flags or its own first comments (PEP 723) ask for, building it if
// need be.
func (a *app) addPackages(f *packageFlags, p *agentkernel.Program) error {
	if p.Language != agentkernel.Python && p.Language != "" {
		if len(f.With) > 0 || f.Python != "" {
			return agentkernel.Errorf(agentkernel.CodeInvalid, "packages", "--with and --python are for programs in Python; this one is %s", p.Language)
		}
		return nil
	}
	if f.Python != "" {
		return a.useVenv(f, p)
	}
	host, err := a.environmentFor(a.ctx, p.Source, f.With, f.AllowBuild)
	if err == nil && host != "" {
		p.Host = host
	}
	return err
}

// buildTime bounds how long an environment may take that a model asked for.
const buildTime = 10 * time.Minute

// packagesFor gives environmentFor for whoever may not have packages built from their sources, nor more than one
// environment at a time.
func (a *app) packagesFor() func(ctx context.Context, source string, with []string) (host string, err error) {
	slot := make(chan struct{}, 1)
	return func(ctx context.Context, source string, with []string) (string, error) {
		script, err := packages.ReadScript(source)
		if err != nil {
			return "", err
		}
		request := packages.Request{With: with, Script: script}
		if len(with)+len(script.With) == 0 {
			return a.environment(ctx, request) // nothing is installed
		}
		ctx, cancel := context.WithTimeoutCause(ctx, buildTime, agentkernel.Errorf(agentkernel.CodeTimeout, "packages", "the packages were not installed within %s", buildTime))
		defer cancel()
		select {
		case slot <- struct{}{}:
			defer func() { <-slot }()
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		return a.environment(ctx, request)
	}
}

// environmentFor gives the environment with the packages that are named, and those that a program names itself, building
// it if need be; "": none is needed.
func (a *app) environmentFor(ctx context.Context, source string, with []string, build bool) (host string, err error) {
	script, err := packages.ReadScript(source)
	if err != nil {
		return "", err
	}
	return a.environment(ctx, packages.Request{With: with, Build: build, Script: script})
}

// environment is environmentFor, of a script that has been read.
func (a *app) environment(ctx context.Context, request packages.Request) (host string, err error) {
	install := len(request.With)+len(request.Script.With) > 0
	if !install && request.Script.Python == "" {
		return "", nil
	}
	dir, err := a.dataDir()
	if err != nil {
		return "", err
	}
	store, err := a.environments(dir.Environments())
	if err != nil {
		return "", err
	}
	if !install {
		return "", store.Check(ctx, request) // the version alone: no packages, no environment
	}
	env, err := store.Get(ctx, request)
	return env.Path, err
}

// useVenv takes a virtual environment of the user's.
func (a *app) useVenv(f *packageFlags, p *agentkernel.Program) error {
	if len(f.With) > 0 {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "packages", "--with and --python exclude one another").
			WithHint("install the packages into %s, or leave --python out", f.Python)
	}
	path, err := filepath.Abs(f.Python)
	if err != nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "packages", "%w", err)
	}
	if base := filepath.Base(filepath.Dir(path)); base == "bin" {
		path = filepath.Dir(filepath.Dir(path)) // the interpreter of an environment stands for the environment
	}
	if _, err := os.Stat(filepath.Join(path, "pyvenv.cfg")); err != nil {
		return missingNamed(agentkernel.Errorf(agentkernel.CodeNotFound, "packages", "%s is no virtual environment: it has no pyvenv.cfg", f.Python)).
			WithHint("name one, as python3 -m venv makes it; another interpreter is chosen with the setting `python`")
	}
	if _, err := os.Stat(filepath.Join(path, "bin", "python")); err != nil {
		return missingNamed(agentkernel.Errorf(agentkernel.CodeNotFound, "packages", "the virtual environment %s has no interpreter: %s is not there, or the Python that it was made with is gone", f.Python, filepath.Join("bin", "python"))).
			WithHint("make it anew: python3 -m venv --clear %s", f.Python)
	}
	// Links to the environment are not followed by the sandbox.
	if p.Host, err = filepath.EvalSymlinks(path); err != nil {
		return missingNamed(agentkernel.Errorf(agentkernel.CodeNotFound, "packages", "%s: %w", f.Python, unwrapPath(err)))
	}
	return nil
}

// environments opens the store of environments.
func (a *app) environments(dir string) (*packages.Store, error) {
	c, err := a.settings()
	if err != nil {
		return nil, err
	}
	return packages.New(packages.Config{Dir: dir, Python: c.Python, Env: a.env, Progress: a.building}), nil
}

// building says what a build is about: steps on one line at a terminal, else only its beginning.
func (a *app) building(step string) {
	switch {
	case a.cli.quiet():
	case a.con.Interactive():
		a.con.Progress(step)
	case strings.HasPrefix(step, "building ") || strings.HasPrefix(step, "waiting "):
		a.con.Note("%s", step)
	}
}

type envCmd struct {
	Ls    envLsCmd    `cmd:"" help:"List the environments of packages that were built."`
	Build envBuildCmd `cmd:"" help:"Build an environment before a program asks for it, and print where it is."`
	Rm    envRmCmd    `cmd:"" help:"Delete environments; they are built again when they are asked for."`
}

func (envCmd) Help() string {
	return `run --with PACKAGE, and the first comments of a program (PEP 723), have an environment built once. It is kept in the
data directory, and programs see it read-only.

` + examples(
		"agentkernel env ls",
		"agentkernel env rm 3f2a",
		"agentkernel env rm --all",
	)
}

type envBuildCmd struct {
	Packages   []string `arg:"" name:"package" help:"Packages, as pip writes them: 'polars>=1'."`
	AllowBuild bool     `help:"Build packages from source where there is no wheel: that runs their code as you, outside the sandbox."`
}

func (envBuildCmd) Help() string {
	return `The same packages have one environment, whoever asks for it. SDKs use this for programs with packages.

` + examples("agentkernel env build 'polars>=1' rich", "agentkernel run --python $(agentkernel env build rich) report.py")
}

func (c *envBuildCmd) Run(a *app) error {
	path, err := a.environmentFor(a.ctx, "", c.Packages, c.AllowBuild)
	if err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(map[string]string{"path": path})
	}
	a.con.Out(path + "\n")
	return a.outputError()
}

type envLsCmd struct{}

func (envLsCmd) Help() string {
	return examples("agentkernel env ls", "agentkernel env ls --json | jq '.[].packages'")
}

func (c *envLsCmd) Run(a *app) error {
	store, err := a.builtEnvironments()
	if err != nil {
		return err
	}
	all, err := store.List()
	if err != nil {
		return err
	}
	if a.cli.JSON {
		if all == nil {
			all = []packages.Environment{}
		}
		return a.printJSON(all)
	}
	if len(all) == 0 {
		a.con.Note("no environments: run --with PACKAGE builds one")
		return nil
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tPYTHON\tSIZE\tUSED\tPACKAGES")
	for _, e := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", e.ID, e.Python, console.Bytes(e.Bytes), e.Used.Local().Format("2006-01-02 15:04"), strings.Join(e.Packages, " "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.con.Out(console.Clean(out.String()))
	return a.outputError()
}

type envRmCmd struct {
	ID  []string `arg:"" optional:"" help:"Environments, by the beginning of their IDs."`
	All bool     `help:"All of them."`
}

func (envRmCmd) Help() string {
	return `An environment that a process uses which has not ended is kept.

` + examples("agentkernel env rm 3f2a", "agentkernel env rm --all")
}

func (c *envRmCmd) Run(a *app) error {
	store, err := a.builtEnvironments()
	if err != nil {
		return err
	}
	all, err := store.List()
	switch {
	case err != nil:
		return err
	case len(c.ID) == 0 && !c.All:
		return agentkernel.Errorf(agentkernel.CodeInvalid, "env", "no environment was named").WithHint("agentkernel env ls shows them; --all deletes all")
	case len(c.ID) > 0:
		all = nil
		for _, id := range c.ID {
			e, err := store.Find(id)
			if err != nil {
				return err
			}
			all = append(all, e)
		}
	}
	users, err := a.environmentUsers()
	if err != nil {
		return err
	}
	removed := []string{}
	for _, e := range all {
		if pid := users[e.Path]; pid != 0 {
			return agentkernel.Errorf(agentkernel.CodeConflict, "env", "process %d, which has not ended, uses the environment %s", pid, e.ID).
				WithHint("agentkernel wait %d, or agentkernel kill %d", pid, pid)
		}
		if err := store.Remove(e); err != nil {
			return err
		}
		removed = append(removed, e.ID)
	}
	if a.cli.JSON {
		return a.printJSON(map[string]any{"removed": removed})
	}
	for _, id := range removed {
		a.con.Out("removed " + id + "\n")
	}
	return a.outputError()
}

// builtEnvironments opens the store of a data directory that may not be there.
func (a *app) builtEnvironments() (*packages.Store, error) {
	home, err := a.home()
	if err != nil {
		return nil, err
	}
	return a.environments(datadir.At(home).Environments())
}

// environmentUsers are processes that have not ended, by the environment that they use.
func (a *app) environmentUsers() (map[string]agentkernel.PID, error) {
	k, err := a.reading()
	if isNothingYet(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer k.Close()
	users := map[string]agentkernel.PID{}
	var errs []error
	for page, err := range agentkernel.Pages(a.ctx, k, agentkernel.Filter{Unfinished: true}) {
		if err != nil {
			return nil, err
		}
		for i := range page {
			spec, err := k.Spec(a.ctx, page[i].PID)
			if err != nil {
				errs = append(errs, err)
			}
			users[spec.Program.Host] = page[i].PID
		}
	}
	return users, errors.Join(errs...)
}
