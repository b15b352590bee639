package process

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/sandbox/confine"
)

// Programs in Go are built by the machine's own toolchain, in a sandbox too: without network and without cgo, so that
// nothing of the program runs, and with nothing to see but the toolchain and, for a module, the module cache. What
// was built is kept, by its content.
const (
	goSourceDir = programDir + "/src"
	goModDir    = "/agentkernel/gomod"
	goBuildWait = 5 * time.Minute
	goMemory    = 2 << 30
	goTmp       = 1 << 30
	goSaid      = 64 << 10 // bytes of the compiler's messages that are kept
)

// golang is the toolchain.
type golang struct {
	launch Launcher
	cache  string // directory for what was built; "": nothing can be built

	mu  sync.Mutex // one build at a time: each takes all processors
	env *goEnv     // nil until it was asked
}

type goEnv struct{ GOROOT, GOVERSION, GOMODCACHE string }

func noGo(format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeUnavailable, "go", format, args...).
		WithHint("install Go (go.dev/dl, or apt install golang), so that `go` is on the PATH")
}

// look asks the toolchain where it is; g.mu is held.
func (g *golang) look() (*goEnv, error) {
	if g.env != nil {
		return g.env, nil
	}
	file, err := exec.LookPath("go")
	if err != nil {
		return nil, noGo("%w, and the program is in Go", agentkernel.NotOnPath("go"))
	}
	var out, said bytes.Buffer
	cmd := exec.Command(file, "env", "-json", "GOROOT", "GOVERSION", "GOMODCACHE")
	cmd.Env, cmd.Dir = append(probeEnv(), "GOTOOLCHAIN=local"), "/"
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &said, exitWait
	if err := g.launch.Start(cmd); err != nil {
		return nil, noGo("%s does not start: %w", file, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeWait)
	defer cancel()
	defer context.AfterFunc(ctx, func() { g.launch.Kill(cmd) })()
	err = cmd.Wait()
	g.launch.Kill(cmd) // its record
	var env goEnv
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &env)
	}
	if err != nil || !filepath.IsAbs(env.GOROOT) {
		return nil, noGo("%s does not answer as Go does: %v: %s", file, err, lastLine(said.String()))
	}
	g.env = &env
	return g.env, nil
}

// goRecipe runs a program in Go, building it if that was not done before.
func (b *Backend) goRecipe(p agentkernel.Program) (*recipe, error) {
	if b.cfg.Spawner == nil {
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "process", "without walls only Python programs run")
	}
	file, err := b.golang.built(b, p)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(baseName(p, "program"), ".go")
	r := &recipe{profile: confine.ProfileGeneric, mounts: []confine.Mount{{Source: file, Target: programDir + "/" + name}}}
	r.program = confine.Program{Path: programDir + "/" + name, Args: append([]string{name}, p.Args...), Env: environment()}
	return r, nil
}

// built gives the executable of a program.
func (g *golang) built(b *Backend, p agentkernel.Program) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	env, err := g.look()
	if err != nil {
		return "", err
	}
	if g.cache == "" {
		return "", agentkernel.Errorf(agentkernel.CodeUnavailable, "go", "there is no directory in which programs in Go could be built").
			WithHint("set HOME or XDG_CACHE_HOME")
	}
	key := keyOf(agentkernel.Program{Name: env.GOVERSION + runtime.GOARCH, Source: p.Source, Modules: p.Modules})
	file := filepath.Join(g.cache, "programs", hex.EncodeToString(key[:16]))
	if st, err := os.Lstat(file); err == nil && st.Mode().IsRegular() {
		return file, nil
	}
	for _, dir := range []string{"programs", "build"} {
		if err := os.MkdirAll(filepath.Join(g.cache, dir), 0o700); err != nil {
			return "", agentkernel.AsError(err, agentkernel.CodeStorage, "go")
		}
	}
	out, err := os.MkdirTemp(g.cache, "out-")
	if err != nil {
		return "", agentkernel.AsError(err, agentkernel.CodeStorage, "go")
	}
	defer func() { _ = os.RemoveAll(out) }() // what stays is in nobody's way
	if err := g.build(b, p, env, out); err != nil {
		return "", err
	}
	made := filepath.Join(out, "program")
	if st, err := os.Lstat(made); err != nil || !st.Mode().IsRegular() {
		return "", agentkernel.Errorf(agentkernel.CodeCrashed, "go", "the build made no program")
	}
	if err := errors.Join(os.Chmod(made, 0o755), os.Rename(made, file)); err != nil { //nolint:gosec // an executable
		return "", agentkernel.AsError(err, agentkernel.CodeStorage, "go")
	}
	return file, nil
}

// build runs the toolchain; the program is out/program then.
func (g *golang) build(b *Backend, p agentkernel.Program, env *goEnv, out string) error {
	r := &recipe{}
	main := baseName(p, "main.go")
	if !strings.HasSuffix(main, ".go") {
		main += ".go"
	}
	if err := r.addSources(goSourceDir, main, p); err != nil {
		return err
	}
	mounts := confine.SystemRuntime()
	if !confine.InSystem(env.GOROOT) {
		mounts = append(mounts, confine.Mount{Source: env.GOROOT})
	}
	targets := []string{main}
	if _, module := p.Modules["go.mod"]; module {
		targets = []string{"."}
		if st, err := os.Stat(env.GOMODCACHE); err == nil && st.IsDir() {
			mounts = append(mounts, confine.Mount{Source: env.GOMODCACHE, Target: goModDir})
		}
	} else {
		for name := range p.Modules {
			if strings.HasSuffix(name, ".go") && !strings.Contains(name, "/") {
				targets = append(targets, name)
			}
		}
		slices.Sort(targets)
	}
	cell, err := b.cfg.Spawner.Prepare(confine.Config{
		Kind: confine.Whole, Runtime: mounts, Files: r.files, Masked: b.cfg.Masked, FullProc: true, TmpBytes: goTmp, TmpInodes: 1 << 18,
		Volumes: []confine.Volume{{Name: "build", Source: filepath.Join(g.cache, "build")}, {Name: "out", Source: out}},
		Limits:  confine.Limits{Memory: goMemory, CPUs: float64(runtime.NumCPU()), Pids: 2048, CPUTime: goBuildWait * 4},
		Program: confine.Program{Path: env.GOROOT + "/bin/go", Dir: goSourceDir,
			Args: append([]string{"go", "build", "-trimpath", "-buildvcs=false", "-o", confine.VolumesDir + "/out/program"}, targets...),
			Env: []string{"PATH=" + systemPath, "HOME=" + confine.TmpDir, "GOTMPDIR=" + confine.TmpDir, "GOROOT=" + env.GOROOT, "GOCACHE=" + confine.VolumesDir + "/build",
				"GOMODCACHE=" + goModDir, "GOPROXY=off", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOENV=off", "GOWORK=off", "GOFLAGS=-mod=readonly", "CGO_ENABLED=0",
				"GOTELEMETRY=off", "GO111MODULE=auto", "GOPATH=" + confine.TmpDir + "/go"}},
	})
	if err != nil {
		return err
	}
	said, exit, err := b.runBuild(cell)
	switch {
	case err != nil:
		return err
	case exit.Limit != "":
		return limitError(strings.ReplaceAll(exit.Limit, " ", "_"), "building the program in Go needed more %s than there is for it", exit.Limit)
	case !exit.Known || exit.Status.ExitStatus() != 0:
		return notBuilt(nameOf(p), said)
	}
	return nil
}

// runBuild runs a cell to its end and gives what it said.
func (b *Backend) runBuild(cell *confine.Cell) (string, confine.Exit, error) {
	ctx, cancel := context.WithTimeout(context.Background(), goBuildWait)
	defer cancel()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return "", confine.Exit{}, errors.Join(err, cell.Close())
	}
	defer func() { _ = null.Close() }()
	ours, theirs, err := pipe(true)
	if err != nil {
		return "", confine.Exit{}, errors.Join(err, cell.Close())
	}
	defer func() { _ = ours.Close() }()
	process, err := b.cfg.Spawner.Start(ctx, cell, []*os.File{null, theirs, theirs})
	_ = theirs.Close() // the build has its own
	if err != nil {
		return "", confine.Exit{}, err
	}
	defer context.AfterFunc(ctx, process.Kill)()
	said, _ := io.ReadAll(io.LimitReader(ours, goSaid)) // until everybody who could say something is dead
	_, _ = io.Copy(io.Discard, ours)
	exit, err := process.Wait(context.Background())
	if ctx.Err() != nil {
		err = agentkernel.Errorf(agentkernel.CodeTimeout, "go", "the program was not built within %s", goBuildWait)
	}
	return string(said), exit, err
}

// notBuilt is the error for a program that does not compile, in the compiler's words.
func notBuilt(name, said string) error {
	var lines []string
	for line := range strings.Lines(said) {
		if line = strings.TrimRight(line, "\n"); !strings.HasPrefix(line, "# ") {
			lines = append(lines, strings.TrimPrefix(strings.ReplaceAll(line, goSourceDir+"/", ""), "./"))
		}
	}
	text := strings.TrimSpace(strings.ToValidUTF8(strings.Join(lines, "\n"), "�"))
	first, _, _ := strings.Cut(text, "\n")
	e := agentkernel.Errorf(agentkernel.CodeSyntax, "check", "%s does not compile: %s", name, first)
	e.Traceback, e.Exception = text, "CompileError"
	if strings.Contains(text, "GOPROXY=off") || strings.Contains(text, "missing go.sum") || strings.Contains(text, "no required module") {
		return e.WithHint("a build has no network: get the modules first (go mod download), or keep them with the program (go mod vendor)")
	}
	return e
}
