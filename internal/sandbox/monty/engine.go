package monty

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"agentkernel"
	"agentkernel/internal/lazy"
	"agentkernel/internal/sandbox/confine"
)

// EngineVersion is the version of Monty that this backend speaks with. The worker protocol and the form of
// images belong to it: another version is refused.
const EngineVersion = "0.0.23"

// EnginePackage is the npm package that holds the engine for the platform it was tested on.
const EnginePackage = "@pydantic/monty-linux-x64-gnu"

// versionWait bounds `monty --version`, which takes milliseconds.
const versionWait = 10 * time.Second

// engine finds the executable and checks its version once for each file it finds.
type engine struct {
	path       string   // configured; "" means PATH, then candidates
	candidates []string // where setup puts it
	cache      string   // file that keeps what was checked, for the next kernel; "" keeps nothing
	launch     Launcher
	clock      Clock

	tidied  sync.WaitGroup // what became of `monty --version`
	mu      sync.Mutex
	checked string // identity of the file that was checked
	heard   bool   // from the cache
	verdict error
}

// sound is what the cache holds: an executable that said it is the version that this program works with.
type sound struct {
	Engine  string `json:"engine"` // its identity
	Version string `json:"version"`
}

// find gives the path of the executable. CodeUnavailable, with the command that installs it.
func (e *engine) find() (string, error) {
	if e.path != "" {
		if usable(e.path) {
			return e.path, nil
		}
		return "", e.missing("the configured engine %s is not an executable file", e.path)
	}
	if p, err := exec.LookPath("monty"); err == nil {
		return p, nil
	}
	for _, p := range e.candidates {
		if usable(p) {
			return p, nil
		}
	}
	return "", e.missing("the Monty engine is not installed")
}

func usable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0
}

func (e *engine) missing(format string, args ...any) error {
	return agentkernel.Errorf(agentkernel.CodeUnavailable, "monty", format, args...).WithHint(
		"run: agentkernel setup. Without Node: download the npm package %s %s as a tarball, and put its file `monty` on PATH or name it as the engine in the configuration",
		EnginePackage, EngineVersion)
}

// check asks the executable for its version. The answer is kept until the file changes, also by kernels to come if it
// is the right one: asking takes as long as starting a worker.
func (e *engine) check(ctx context.Context, path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return e.missing("the engine %s is gone: %w", path, err)
	}
	id := fmt.Sprint(path, " ", st.Size(), " ", st.ModTime().UnixNano())
	if s, ok := st.Sys().(*syscall.Stat_t); ok { // packages give all their files the same time
		id = fmt.Sprint(id, " ", s.Dev, " ", s.Ino, " ", changed(s))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.checked == id {
		return e.verdict
	}
	if e.kept() == (sound{id, EngineVersion}) {
		e.checked, e.heard, e.verdict = id, true, nil
		return nil
	}
	return e.examine(ctx, path, id)
}

// doubt asks again if a verdict was only heard of: a worker has failed that its engine should have carried. What the
// engine says is the better explanation.
func (e *engine) doubt(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	path, err := e.find()
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.heard {
		return nil
	}
	return e.examine(ctx, path, e.checked)
}

// examine runs the executable. e.mu is held.
func (e *engine) examine(ctx context.Context, path, id string) error {
	var out string
	var err error
	for range wallTries { // one that is killed from outside says nothing about the engine
		if out, err = e.ask(ctx, path); err == nil || ctx.Err() != nil || !struckAs(err) {
			break
		}
	}
	if ctx.Err() != nil {
		return ctx.Err() // says nothing about the engine
	}
	e.checked, e.heard, e.verdict = id, false, nil
	found := engineVersion().FindString(out)
	switch {
	case err != nil:
		e.checked = "" // it may have been killed, or there was no memory: the next start asks again
		e.verdict = agentkernel.Errorf(agentkernel.CodeUnavailable, "monty",
			"the engine %s does not run: %w%s", path, err, strings.TrimSuffix(": "+strings.TrimSpace(out), ": ")).
			WithHint("agentkernel setup --force installs it again; one on PATH or in the setting `engine` goes before that, so take it away")
		e.verdict = confine.WithShortage(agentkernel.AsError(e.verdict, "", ""))
	case found != EngineVersion || !strings.Contains(out, "monty"):
		e.verdict = agentkernel.Errorf(agentkernel.CodeUnavailable, "monty", // as a missing one: programs that may run elsewhere do
			"the engine %s says it is %q; this AgentKernel works with Monty %s only", path, strings.TrimSpace(out), EngineVersion).
			WithHint("agentkernel setup installs %s; one on PATH or in the setting `engine` goes before that, so take it away", EngineVersion)
	case !isScript(path): // what a script starts may change without it
		e.keep(sound{id, EngineVersion})
	}
	return e.verdict
}

func isScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return true
	}
	defer func() { _ = f.Close() }()
	var head [2]byte
	_, err = io.ReadFull(f, head[:])
	return err != nil || string(head[:]) == "#!"
}

func (e *engine) kept() (s sound) {
	if e.cache == "" {
		return s
	}
	if b, err := os.ReadFile(e.cache); err != nil || json.Unmarshal(b, &s) != nil {
		return sound{}
	}
	return s
}

// keep may fail: the next kernel asks again.
func (e *engine) keep(s sound) {
	if e.cache == "" {
		return
	}
	if b, err := json.Marshal(s); err == nil {
		_ = os.WriteFile(e.cache, b, 0o600)
	}
}

var engineVersion = lazy.Regexp(`\d+\.\d+\.\d+\S*`)

func (e *engine) ask(ctx context.Context, path string) (string, error) {
	var out bytes.Buffer
	var late atomic.Bool
	cmd := exec.Command(path, "--version")
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = exitWait
	if err := e.launch.Start(cmd); err != nil {
		return "", err
	}
	defer e.tidied.Go(func() { e.launch.Kill(cmd) }) // its record; nobody waits for it
	defer context.AfterFunc(ctx, func() { e.launch.Kill(cmd) })()
	defer e.clock.AfterFunc(versionWait, func() { late.Store(true); e.launch.Kill(cmd) }).Stop()
	err := cmd.Wait()
	if err != nil && late.Load() {
		err = fmt.Errorf("%w to --version within %s", errLate, versionWait)
	}
	return out.String(), err
}

// struckAs says whether err is that of a command which a signal has ended with which no engine crashes.
func struckAs(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || errors.Is(err, errLate) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && (status.Signal() == syscall.SIGKILL || status.Signal() == syscall.SIGTERM)
}

// problem is what Info reports: the last verdict, without running anything.
func (e *engine) problem() error {
	if _, err := e.find(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.verdict
}
