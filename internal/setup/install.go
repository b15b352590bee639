package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/datadir"
)

// Options say what to install and where.
type Options struct {
	Home    string        // data directory; made if it is not there and the engine goes into it
	Shared  string        // UserEngines: the engine goes there, for all data directories; "": into Home
	Force   bool          // install again, even if the engine is there and right
	Out     io.Writer     // progress, a line a step; nil: none
	Timeout time.Duration // for npm; 0: five minutes
	// Env is npm's environment; nil: this process's. Proxies and registries are npm's own settings.
	Env []string
	// LookPath finds npm; nil: exec.LookPath.
	LookPath func(name string) (string, error)
}

// Result is what Install did.
type Result struct {
	Version  string `json:"version"`
	Path     string `json:"path"` // the executable
	Package  string `json:"package"`
	Engine   string `json:"engine"`             // what the engine calls itself
	Already  bool   `json:"already"`            // it was there and right; nothing was changed
	Tested   bool   `json:"tested"`             // this platform is one that the project is tested on
	Shadowed string `json:"shadowed,omitempty"` // another engine that goes before this one: on PATH
}

// Install puts the pinned engine into <shared>/<version>, or <home>/engines/<version> where there is no shared directory or the data
// directory has an engine of its own, which goes first. It prepares everything in a directory next to it and renames once, so that a broken
// or interrupted installation leaves what was there. Errors:
// CodeUnavailable (no npm, no network), CodeUnsupported (no engine for this platform), CodeCorrupt (what
// arrived is not what was pinned), CodeStorage, CodeTimeout, and those of datadir.Open.
func Install(ctx context.Context, o Options) (Result, error) {
	p, err := here()
	if err != nil {
		return Result{}, err
	}
	engines, err := o.into(p)
	if err != nil {
		return Result{}, err
	}
	in := installer{Options: o.withDefaults(), platform: p, engines: engines, target: filepath.Join(engines, EngineVersion())}
	r := Result{Version: EngineVersion(), Path: p.executable(in.target), Package: p.Package, Tested: p.Tested}
	if other, err := in.LookPath("monty"); err == nil {
		r.Shadowed = other
	}
	if !o.Force {
		if says, err := Verify(ctx, r.Path, p); err == nil {
			r.Engine, r.Already = says, true
			return r, nil
		}
	}
	if r.Engine, err = in.install(ctx); err != nil {
		return Result{}, err
	}
	return r, nil
}

// into is the directory of engines that is to hold this one.
func (o Options) into(p Platform) (string, error) {
	if own := datadir.At(o.Home).Engines(); o.Shared != "" && !executable(p.executable(filepath.Join(own, EngineVersion()))) {
		return o.Shared, nil
	}
	dir, err := datadir.Open(o.Home)
	if err != nil {
		return "", err
	}
	return dir.Engines(), nil
}

func (o Options) withDefaults() Options {
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Minute
	}
	if o.LookPath == nil {
		o.LookPath = exec.LookPath
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	return o
}

type installer struct {
	Options
	platform Platform
	engines  string // <shared>, or <home>/engines
	target   string // <engines>/<version>
}

func (in *installer) say(format string, args ...any) { fmt.Fprintf(in.Out, format+"\n", args...) }

func (in *installer) install(ctx context.Context) (says string, err error) {
	npm, err := in.LookPath("npm")
	if err != nil {
		return "", agentkernel.Errorf(agentkernel.CodeUnavailable, "setup", "npm is not installed, and the engine arrives by npm").
			WithHint("install Node with npm (Debian, Ubuntu: apt install nodejs npm) and run agentkernel setup again. %s", withoutNode(in.engines))
	}
	if err := os.MkdirAll(in.engines, 0o700); err != nil {
		return "", storage(err)
	}
	in.sweep()
	tmp, err := os.MkdirTemp(in.engines, ".setup-")
	if err != nil {
		return "", storage(err)
	}
	defer os.RemoveAll(tmp)
	if err := lock(tmp); err != nil {
		return "", storage(err)
	}
	in.say("installing Monty %s for %s/%s with %s (about 35 MB)", EngineVersion(), in.platform.GOOS, in.platform.GOARCH, npm)
	if !in.platform.Tested {
		in.say("note: this platform is untested; please report how it goes")
	}
	if err := in.fetch(ctx, npm, tmp); err != nil {
		return "", err
	}
	exe := in.platform.executable(tmp)
	if !executable(exe) {
		return "", agentkernel.Errorf(agentkernel.CodeCorrupt, "setup", "npm installed %s without an executable `monty`", in.platform.Package).
			WithHint("npm cache clean --force, then agentkernel setup")
	}
	if says, err = Verify(ctx, exe, in.platform); err != nil {
		return "", err
	}
	in.say("checked: it is what was pinned, and it starts (%s)", says)
	return says, in.publish(ctx, tmp)
}

// sweepAfter is how old a directory must be that is taken for one which an interrupted setup has left.
const sweepAfter = time.Minute

// sweep removes what interrupted setups have left: npm may write on for a moment when its setup was ended. One that still works holds a lock.
func (in *installer) sweep() {
	left, _ := filepath.Glob(filepath.Join(in.engines, ".setup-*")) // a pattern without an error
	for _, dir := range left {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < sweepAfter || lock(dir) != nil {
			continue
		}
		_ = os.RemoveAll(dir) // the next one tries it again
	}
}

// lock locks a directory until this process ends. It fails where another process has it.
func lock(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = unix.Close(fd)
		return err
	}
	return nil
}

// publish moves the finished directory to its place. Workers that run from the old one keep their files.
func (in *installer) publish(ctx context.Context, tmp string) error {
	err := os.Rename(tmp, in.target)
	if err == nil {
		return nil
	}
	old, mkErr := os.MkdirTemp(in.engines, ".old-")
	if mkErr != nil {
		return storage(errors.Join(err, mkErr))
	}
	defer os.RemoveAll(old)
	if err := os.Rename(in.target, filepath.Join(old, "engine")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return storage(err)
	}
	if err := os.Rename(tmp, in.target); err != nil {
		// Another setup may have been faster, with the same bytes.
		if _, verr := Verify(ctx, in.platform.executable(in.target), in.platform); verr != nil {
			return storage(err)
		}
	}
	return nil
}

func storage(err error) error {
	return agentkernel.Errorf(agentkernel.CodeStorage, "setup", "cannot write the engine: %w", err).
		WithHint("make room, or name another place with XDG_DATA_HOME")
}
