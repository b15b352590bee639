package packages

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"agentkernel"
	"agentkernel/internal/clip"
)

// Request is what a program needs.
type Request struct {
	With []string // requirements
	// Build lets packages be built from their sources, which runs their code as the user.
	Build bool
	// Script is what the program says of itself.
	Script Script
}

// Get gives the environment for a request, building it if it is not there: CodeInvalid, what was asked for is no
// requirement, or nothing fulfils it; CodeUnavailable, there is no interpreter, no pip, or no network.
func (s *Store) Get(ctx context.Context, r Request) (Environment, error) {
	with, err := Requirements(slices.Concat(r.With, r.Script.With))
	if err != nil {
		return Environment{}, err
	}
	base, err := s.interpreter(ctx)
	if err != nil {
		return Environment{}, err
	}
	if ok, err := r.Script.Accepts(base.Version); err != nil || !ok {
		return Environment{}, cmp.Or(err, error(wrongPython(r.Script.Python, base)))
	}
	key := digest(base.identity(), fmt.Sprint(r.Build), strings.Join(with, "\n"))
	if env, ok := s.known(key); ok {
		return env, nil
	}
	unlock, err := s.lock(ctx, key)
	if err != nil {
		return Environment{}, err
	}
	defer unlock()
	if env, ok := s.known(key); ok { // built while we waited
		return env, nil
	}
	s.sweep(key)
	return s.build(ctx, base, key, with, r.Build)
}

// Check says whether the interpreter is one that a program accepts.
func (s *Store) Check(ctx context.Context, r Request) error {
	base, err := s.interpreter(ctx)
	if err != nil {
		return err
	}
	if ok, err := r.Script.Accepts(base.Version); err != nil || !ok {
		return cmp.Or(err, error(wrongPython(r.Script.Python, base)))
	}
	return nil
}

func wrongPython(wants string, base python) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeUnsupported, op, "the program requires Python %s, and %s is %s", wants, base.Executable, base.Version).
		WithHint("set `python` to an interpreter that it accepts")
}

// python is an interpreter without any packages of an environment.
type python struct {
	Executable string `json:"executable"` // at the end of all links: no virtual environment's
	Version    string `json:"version"`
	Platform   string `json:"platform"`
	Tag        string `json:"tag"`
}

func (p python) identity() string {
	return strings.Join([]string{p.Executable, p.Version, p.Platform, p.Tag}, "\n")
}

const askPython = `import json, os, sys, sysconfig
print(json.dumps(dict(executable=os.path.realpath(sys.executable), version="%d.%d.%d" % sys.version_info[:3],
    platform=sysconfig.get_platform(), tag=sys.implementation.cache_tag)))`

func (s *Store) interpreter(ctx context.Context) (python, error) {
	name := cmp.Or(s.cfg.Python, "python3")
	var p python
	path, err := s.find(name)
	if err == nil {
		cmd := exec.CommandContext(ctx, path, "-I", "-S", "-c", askPython)
		// Not here: the folder may be from elsewhere, and the name may be a script of a version manager, which reads files of its directory.
		cmd.Env, cmd.Dir, cmd.WaitDelay = s.environment(), "/", time.Second
		var out []byte
		if out, err = cmd.Output(); err == nil {
			err = json.Unmarshal(out, &p)
		}
	}
	if err != nil {
		return p, agentkernel.Errorf(agentkernel.CodeUnavailable, op, "Python does not run (%s): %w", name, err).
			WithHint("install it (apt install python3), or name one with the setting `python`")
	}
	return p, nil
}

// find is the absolute path of a command. What a PATH has that is relative leads into whatever folder this is, and is passed over.
func (s *Store) find(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	if strings.ContainsRune(name, filepath.Separator) {
		return filepath.Abs(name) // the user has named it
	}
	search := os.Getenv("PATH")
	for _, v := range s.cfg.Env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			search = value
		}
	}
	for _, dir := range filepath.SplitList(search) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// build makes the environment beside the others and moves it among them when it is whole.
func (s *Store) build(ctx context.Context, base python, key string, with []string, sources bool) (Environment, error) {
	s.cfg.Progress("building an environment with " + strings.Join(with, ", "))
	dir, err := os.MkdirTemp(s.cfg.Dir, staging+key+"-")
	if err != nil {
		return Environment{}, storage(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	venv, report := filepath.Join(dir, "env"), filepath.Join(dir, "report.json")
	if out, err := s.run(ctx, base.Executable, "-I", "-m", "venv", "--without-pip", "--symlinks", venv); err != nil {
		return Environment{}, pipFailed(ctx, "making a virtual environment", out, err, sources)
	}
	if len(with) > 0 {
		args := []string{"-m", "pip", "--python", filepath.Join(venv, "bin", "python"), "--disable-pip-version-check", "install", "--no-input", "--progress-bar", "off",
			"--no-warn-script-location", "--report", report}
		if !sources {
			args = append(args, "--only-binary", ":all:")
		}
		if out, err := s.run(ctx, base.Executable, append(append(args, "--"), with...)...); err != nil {
			return Environment{}, pipFailed(ctx, strings.Join(with, ", "), out, err, sources)
		}
	}
	packages, content, err := installed(report, len(with) > 0)
	if err != nil {
		return Environment{}, err
	}
	env := Environment{ID: digest(base.identity(), content)[:16], Python: base.Version, Requested: with, Packages: packages, Built: sources, Created: s.cfg.Now()}
	if env.Bytes, err = readable(venv); err != nil {
		return Environment{}, storage(err)
	}
	return s.place(env, venv, key)
}

// place moves a whole environment to its place. One that is there already has the same in it.
func (s *Store) place(env Environment, venv, key string) (Environment, error) {
	b, err := json.Marshal(env)
	if err != nil {
		return env, agentkernel.Errorf(agentkernel.CodeInternal, op, "%w", err)
	}
	if err := os.WriteFile(filepath.Join(venv, manifest), b, 0o644); err != nil {
		return env, storage(err)
	}
	err = os.Rename(venv, filepath.Join(s.cfg.Dir, env.ID))
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return env, storage(err)
	}
	// The request is the last to be written, in one step: who finds it finds a whole environment.
	request := filepath.Join(s.cfg.Dir, requestsDir, key)
	if err := os.WriteFile(request+".new", []byte(env.ID), 0o644); err != nil {
		return env, storage(err)
	}
	if err := os.Rename(request+".new", request); err != nil {
		return env, storage(err)
	}
	return s.read(env.ID)
}

// installed reads what pip says it has installed: the packages for people, and all that makes one installation another.
func installed(report string, asked bool) (packages []string, content string, err error) {
	if !asked {
		return []string{}, "", nil
	}
	b, err := os.ReadFile(report)
	if err != nil {
		return nil, "", agentkernel.Errorf(agentkernel.CodeUnavailable, op, "this pip does not say what it installed").
			WithHint("pip 22.3 or later is needed: python3 -m pip install --upgrade pip")
	}
	var r struct {
		Install []struct {
			Metadata struct{ Name, Version string } `json:"metadata"`
			Download struct {
				Archive struct {
					Hash   string            `json:"hash"`
					Hashes map[string]string `json:"hashes"`
				} `json:"archive_info"`
			} `json:"download_info"`
		} `json:"install"`
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, "", agentkernel.Errorf(agentkernel.CodeUnavailable, op, "what pip says it installed is not understood: %w", err)
	}
	var lines []string
	for _, p := range r.Install {
		name := p.Metadata.Name + "==" + p.Metadata.Version
		packages = append(packages, name)
		lines = append(lines, name+" "+p.Download.Archive.Hash+" "+p.Download.Archive.Hashes["sha256"])
	}
	slices.Sort(packages)
	slices.Sort(lines)
	return packages, strings.Join(lines, "\n"), nil
}

// readable lets every user read an environment, since sandboxes run as one of their own, and gives its size. The
// directory above keeps others out.
func readable(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !d.IsDir() {
			bytes += info.Size()
		}
		mode := info.Mode().Perm() | 0o444
		if d.IsDir() || mode&0o100 != 0 {
			mode |= 0o111
		}
		return os.Chmod(path, mode&^0o022)
	})
	return bytes, err
}

// run runs a command of the user's, in a group of its own that ends with ctx, and gives what it said.
func (s *Store) run(ctx context.Context, name string, args ...string) (string, error) {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	// Not here: python -m looks for modules in its directory first.
	cmd.Env, cmd.Dir = s.environment(), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out := io.MultiWriter(&said, &lines{tell: s.step})
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	return said.String(), err
}

// step shows what pip is about: "Collecting polars>=1".
func (s *Store) step(line string) {
	line = strings.TrimSpace(line)
	for _, word := range []string{"Collecting ", "Downloading ", "Using cached ", "Building ", "Installing "} {
		if strings.HasPrefix(line, word) {
			s.cfg.Progress(clip.Short(line))
		}
	}
}

// bent are variables that would make pip install somewhere else, or something else, than it is told.
var bent = []string{"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIRE_VIRTUALENV", "PIP_DRY_RUN", "PIP_REQUIREMENT", "PIP_EDITABLE",
	"PIP_PYTHON", "PIP_REPORT", "PIP_QUIET", "PIP_ONLY_BINARY", "PIP_NO_BINARY", "PIP_NO_DEPS", "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "VIRTUAL_ENV"}

func (s *Store) environment() []string {
	out := slices.DeleteFunc(slices.Clone(s.cfg.Env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(bent, name)
	})
	return append(out, "PYTHONNOUSERSITE=1", "PIP_USER=0", "PIP_DISABLE_PIP_VERSION_CHECK=1")
}

// lines tells each line that is written.
type lines struct {
	tell func(string)
	rest []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 {
			return len(p), nil
		}
		l.tell(string(l.rest[:i]))
		l.rest = l.rest[i+1:]
	}
}

// lastWords is how many lines of pip an error holds.
const lastWords = 4

// pipFailed says why there is no environment, in pip's own words.
func pipFailed(ctx context.Context, what, said string, err error, sources bool) error {
	if ctx.Err() != nil {
		return agentkernel.Errorf(agentkernel.CodeCanceled, op, "interrupted while building the environment; nothing of it is left")
	}
	said = withoutCredentials().ReplaceAllString(said, "://")
	e := agentkernel.Errorf(agentkernel.CodeUnavailable, op, "%s: %s", what, last(said, err))
	switch {
	case strings.Contains(said, "No module named pip") && hasUV():
		return e.WithHint("pip 22.3 or later is needed (python3 -m ensurepip --upgrade); or make an environment with your uv and name it: uv venv mine && uv pip install --python mine PACKAGE, then --python mine")
	case strings.Contains(said, "No module named pip"), strings.Contains(said, "no such option: --python"):
		return e.WithHint("pip 22.3 or later is needed: apt install python3-pip, or python3 -m ensurepip --upgrade")
	case strings.Contains(said, "No module named venv"), strings.Contains(said, "ensurepip is not available"):
		return e.WithHint("apt install python3-venv")
	case strings.Contains(said, "Failed to establish a new connection"), strings.Contains(said, "Temporary failure in name resolution"):
		return e.WithHint("pip could not reach its index; its settings (pip config list, PIP_INDEX_URL, PIP_FIND_LINKS) are yours")
	case strings.Contains(said, "No matching distribution found"), strings.Contains(said, "ResolutionImpossible"):
		e.Code = agentkernel.CodeInvalid
		if !sources {
			return e.WithHint("only wheels are installed; --allow-build builds packages from source, which runs their code as you, outside the sandbox")
		}
		return e.WithHint("pip index versions NAME lists what there is")
	}
	return e
}

// hasUV says whether the user has uv, for a hint.
func hasUV() bool {
	_, err := exec.LookPath("uv")
	return err == nil
}

// last is what pip said last, its errors before all else.
func last(said string, err error) string {
	var all, errs []string
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if all = append(all, line); strings.HasPrefix(line, "ERROR:") {
			errs = append(errs, strings.TrimSpace(strings.TrimPrefix(line, "ERROR:")))
		}
	}
	if len(errs) > 0 {
		all = errs
	}
	if len(all) == 0 {
		return err.Error()
	}
	return strings.Join(all[max(0, len(all)-lastWords):], "; ")
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d %s\n", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}
