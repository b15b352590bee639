package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/datadir"
)

// parts are the constructors of what commands use. Tests of this package put fakes in their place; wire.go
// has the real ones.
type parts struct {
	dial       func(ctx context.Context, socket string) (agentkernel.Kernel, error)
	stop       func(ctx context.Context, socket string) error // of whatever version
	open       func(ctx context.Context, cfg embedded.Config) (agentkernel.Kernel, error)
	openReader func(ctx context.Context, home string) (agentkernel.Kernel, error)
	// listen serves a kernel on a socket until ctx ends, someone asks it to stop, or it is idle.
	listen       func(ctx context.Context, cfg listenConfig) (listener, error)
	start        func(ctx context.Context, a *app, dir *datadir.Dir) error
	localModules func(dir string) (map[string]string, error)
	trusted      func(home, file string, content []byte) (bool, error)
	trust        func(home, file string, content []byte) error
	mcp          func(ctx context.Context, k agentkernel.Kernel, cfg mcpConfig) error
}

// never is the idle time of a kernel that does not end by itself.
const never = time.Duration(-1)

type listenConfig struct {
	kernel agentkernel.Kernel
	socket string
	idle   time.Duration // 0: the default; below 0: never idle
	log    *slog.Logger
}

// listener is a kernel's front door.
type listener interface {
	// Done is closed when the front door has been closed from inside: idle, or asked to stop.
	Done() <-chan struct{}
	// Close stops listening and ends the connections.
	Close() error
}

// background is the mode of a kernel that a command started.
const background = "background"

// session is a kernel as a command holds it.
type session struct {
	agentkernel.Kernel
	inProcess bool // it ends with this command
	closers   []func() error
}

// Close ends the connection, or the kernel if it runs here.
func (s *session) Close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	return errors.Join(errs...)
}

// dataDir is the data directory, made if it was not there.
func (a *app) dataDir() (*datadir.Dir, error) {
	home, err := a.home()
	if err != nil {
		return nil, err
	}
	return datadir.Open(home)
}

// kernel is what a command that runs something uses: with --embedded a kernel of its own, else the one that
// runs, else one that is started in the background.
func (a *app) kernel() (*session, error) {
	dir, err := a.dataDir()
	if err != nil {
		return nil, err
	}
	if a.cli.Embedded {
		return a.embed(dir)
	}
	k, err := a.attach(dir)
	if err != nil {
		return nil, err
	}
	return &session{Kernel: k, closers: []func() error{k.Close}}, nil
}

// How long a command waits for a kernel to come up, or for the one that is going down to make room.
const (
	startPatience = 15 * time.Second
	dialPause     = 5 * time.Millisecond
	startPause    = 200 * time.Millisecond
)

// attach connects to the kernel of the directory, starting one if there is none. Of two commands that start
// one at the same time the directory's lock lets one win; the other attaches to it.
func (a *app) attach(dir *datadir.Dir) (agentkernel.Kernel, error) {
	ctx, cancel := context.WithTimeout(a.ctx, startPatience)
	defer cancel()
	k, err := a.dial(ctx, dir.Socket())
	for notThere(err) {
		if serr := a.start(ctx, a, dir); serr != nil && agentkernel.CodeOf(serr) != agentkernel.CodeConflict {
			return nil, serr
		}
		// Another kernel may hold the lock: it is about to listen, or about to end.
		for again := time.Now().Add(startPause); ; {
			if k, err = a.dial(ctx, dir.Socket()); !notThere(err) || time.Now().After(again) {
				break
			}
			select {
			case <-ctx.Done():
				return nil, a.silentKernel(dir)
			case <-time.After(dialPause):
			}
		}
	}
	return k, err
}

func (a *app) silentKernel(dir *datadir.Dir) error {
	if a.ctx.Err() != nil {
		return a.ctx.Err()
	}
	e := agentkernel.Errorf(agentkernel.CodeUnavailable, "attach", "the kernel of %s does not answer on %s", dir.Path(), dir.Socket())
	if h, ok := dir.Holder(); ok {
		return e.WithHint("its lock is held by os process %d (%s, since %s); if that hangs, end it with: kill %d",
			h.OSPID, h.Mode, h.Started.Local().Format(time.DateTime), h.OSPID)
	}
	return e.WithHint("its log is %s", a.logConfig(dir).Path)
}

// notThere says that nobody listens, as against a kernel that answers with an error.
func notThere(err error) bool { return agentkernel.CodeOf(err) == agentkernel.CodeUnavailable }

// embed runs a kernel in this command. It serves the socket too, so that other terminals can look.
func (a *app) embed(dir *datadir.Dir) (*session, error) {
	log, closeLog := a.fileLog(dir)
	k, err := a.openKernel(dir, "embedded", log)
	if err != nil {
		return nil, err
	}
	s := &session{Kernel: k, inProcess: true, closers: []func() error{closeLog, k.Close}}
	l, err := a.listen(a.ctx, listenConfig{kernel: k, socket: dir.Socket(), idle: never, log: log})
	if err != nil {
		// The program can run without being looked at.
		a.con.Note("other terminals cannot attach to this kernel: %v", err)
		return s, nil
	}
	s.closers = append(s.closers, l.Close)
	return s, nil
}

// engine is the path of the configured engine; a bare name is sought in PATH, and left as it is if it is not
// there: whoever needs the engine says so.
func (a *app) engine() string {
	name := a.cfg.Engine
	if name == "" || strings.ContainsRune(name, filepath.Separator) {
		return name
	}
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return name
}

func (a *app) openKernel(dir *datadir.Dir, mode string, log *slog.Logger) (agentkernel.Kernel, error) {
	c, err := a.settings()
	if err != nil {
		return nil, err
	}
	k, err := a.open(a.ctx, embedded.Config{Home: dir.Path(), Mode: mode, Version: version, Workers: c.Workers, Engine: a.engine(),
		Python: c.Python, Sandboxes: true, Secrets: c.Secrets, Quota: c.Quota, NeverUnconfined: c.IsolationNone == "never", Keep: c.Keep, KeepFailed: c.KeepFailed == "yes", Logger: log})
	if agentkernel.CodeOf(err) == agentkernel.CodeConflict && mode != background {
		// For a command that must have the directory to itself, a kernel that holds it is an absence. One in
		// the background has lost a race: the command that started it attaches to the winner.
		held := *asError(err)
		held.Code = agentkernel.CodeUnavailable
		return nil, &held
	}
	return k, err
}

// reading is a kernel to read from: the one that runs, else the database. It never starts anything.
func (a *app) reading() (*session, error) {
	home, err := a.home()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(home); errors.Is(err, fs.ErrNotExist) {
		return nil, errNothingYet(home)
	}
	dir, err := datadir.Open(home)
	if err != nil {
		return nil, err
	}
	if k, err := a.dial(a.ctx, dir.Socket()); err == nil {
		return &session{Kernel: k, closers: []func() error{k.Close}}, nil
	}
	if _, err := os.Stat(dir.Database()); errors.Is(err, fs.ErrNotExist) {
		return nil, errNothingYet(home)
	}
	k, err := a.openReader(a.ctx, home)
	if err != nil {
		return nil, err
	}
	return &session{Kernel: k, inProcess: true, closers: []func() error{k.Close}}, nil
}

// errNothingYet is the answer to questions about a directory in which nothing ever ran.
func errNothingYet(home string) error {
	return agentkernel.Errorf(agentkernel.CodeNotFound, nothingYet, "no process has run with the data directory %s", home).
		WithHint("agentkernel run -c 'print(6*7)' runs the first one")
}

const nothingYet = "nothing yet"

func isNothingYet(err error) bool {
	e, ok := errors.AsType[*agentkernel.Error](err)
	return ok && e.Op == nothingYet
}

// mentionUnfinished says that processes wait for recovery, since nobody pays for old work unasked, and that the quota
// is about to bite.
func (a *app) mentionUnfinished(k agentkernel.Kernel) {
	if a.cli.JSON || a.cli.quiet() {
		return
	}
	info, err := k.Info(a.ctx)
	if err != nil {
		return
	}
	if info.Unfinished > 0 {
		a.con.Note("%d unfinished: agentkernel recover", info.Unfinished)
	}
	if text := info.Storage.Warning(); text != "" {
		a.con.Say("%s · make room: agentkernel prune --older 30d", text)
	}
}
