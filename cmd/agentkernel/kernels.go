package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"agentkernel"
	"agentkernel/client"
	"agentkernel/embedded"
	"agentkernel/internal/api/wire"
	"agentkernel/internal/datadir"
	"agentkernel/internal/setup"
	"agentkernel/internal/tool"
)

// parts are the constructors of what commands use. Tests of this package put fakes in their place; wire.go
// has the real ones.
type parts struct {
	dial       func(ctx context.Context, socket string) (agentkernel.Kernel, error)
	stop       func(ctx context.Context, socket string) error // of whatever version
	open       func(ctx context.Context, cfg embedded.Config) (agentkernel.Kernel, error)
	openReader func(ctx context.Context, home string) (agentkernel.Kernel, error)
	acceptLoss func(ctx context.Context, home string) (*embedded.AcceptedLoss, error)
	// listen serves a kernel on a socket until ctx ends, someone asks it to stop, or it is idle.
	listen       func(ctx context.Context, cfg listenConfig) (listener, error)
	start        func(ctx context.Context, a *app, dir *datadir.Dir) error
	localModules func(dir string) (map[string]string, error)
	localTools   func(modules map[string]string) []agentkernel.Tool
	trusted      func(home, project string, as tool.Kind, file string, content []byte) (bool, error)
	trust        func(home, project string, as tool.Kind, file string, content []byte) error
	mcp          func(ctx context.Context, k agentkernel.Kernel, cfg mcpConfig) error
}

// never is the idle time of a kernel that does not end by itself.
const never = time.Duration(-1)

type listenConfig struct {
	kernel agentkernel.Kernel
	socket string
	idle   time.Duration // 0: the default; below 0: never idle
	log    *slog.Logger
	task   func(context.Context, agentkernel.Kernel, *wire.TaskRequest) (wire.TaskProgram, error) // as in api.Config
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
	hidden    *agentkernel.Error // a kernel runs that cannot be asked, and the database is read instead; nil: there is none
}

// uncarried says of an unfinished process why nothing is heard of it, and what to do.
func (s *session) uncarried(p *agentkernel.Process) (why, do string) {
	if s.hidden != nil {
		return fmt.Sprintf("process %d may be run by a kernel that cannot be asked: %s", p.PID, s.hidden.Message()), s.hidden.Hint
	}
	return fmt.Sprintf("process %d is unfinished and no kernel carries it on", p.PID), takenUp(p)
}

// lost is the error for an unfinished process that no kernel carries, the same whether that went away just now or long ago.
func (s *session) lost(p *agentkernel.Process) error {
	why, do := s.uncarried(p)
	return agentkernel.Errorf(agentkernel.CodeUnavailable, agentkernel.OpKernel, "%s", why).WithPID(p.PID).WithHint("%s", do)
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
// runs, else one that is started in the background. Closing it leaves alone one that is held.
func (a *app) kernel() (*session, error) {
	if a.held != nil {
		return &session{Kernel: a.held.Kernel, inProcess: a.held.inProcess}, nil
	}
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

// hold has all that this command asks a kernel from now on asked the same one, until the command ends: to open one of its own each time takes
// long, and tool servers would be started again.
func (a *app) hold() (*session, error) {
	if a.held == nil {
		k, err := a.kernel()
		if err != nil {
			return nil, err
		}
		a.held = k
	}
	return a.held, nil
}

// letGo closes the kernel that is held.
func (a *app) letGo() {
	if a.held != nil {
		_ = a.held.Close()
	}
}

// attached is attach to the kernel of the command's data directory.
func (a *app) attached() (*datadir.Dir, agentkernel.Kernel, error) {
	dir, err := a.dataDir()
	if err != nil {
		return nil, nil, err
	}
	k, err := a.attach(dir)
	return dir, k, err
}

// How long a command waits for a kernel to come up, or for the one that is going down to make room.
const (
	startPatience = 15 * time.Second
	dialPause     = 5 * time.Millisecond
	startPause    = 200 * time.Millisecond
	// readPatience is how long those who can do without wait for a kernel that is about to listen, or to end.
	readPatience = 500 * time.Millisecond
)

// attach connects to the kernel of the directory, starting one if there is none. Of two commands that start
// one at the same time the directory's lock lets one win; the other attaches to it.
func (a *app) attach(dir *datadir.Dir) (agentkernel.Kernel, error) {
	ctx, cancel := context.WithTimeout(a.ctx, startPatience)
	defer cancel()
	var again time.Time // before that none is started
	var lost error      // what the last one said that was started and did not stay
	for {
		k, err := a.dial(ctx, dir.Socket())
		if err != nil && errors.Is(err, ctx.Err()) {
			return nil, a.noKernel(dir, silent(err), lost)
		}
		if crowded(err) { // no limit of a program was hit
			e := *asError(err)
			e.Code = agentkernel.CodeUnavailable
			return nil, &e
		}
		if !notThere(err) {
			return k, err
		}
		// One that is started where another holds the lock ends at once. That one is about to listen, or about to end.
		if !silent(err) && !time.Now().Before(again) && !isHeld(dir) {
			if a.broken != nil { // that kernel would run with other settings than the user's
				return nil, a.broken
			}
			if lost = a.start(ctx, a, dir); lost != nil && agentkernel.CodeOf(lost) != agentkernel.CodeConflict {
				return nil, lost
			}
			again = time.Now().Add(startPause)
			continue
		}
		select {
		case <-ctx.Done():
			return nil, a.noKernel(dir, silent(err), lost)
		case <-time.After(dialPause):
		}
	}
}

func isHeld(dir *datadir.Dir) bool {
	_, held := dir.Held()
	return held
}

// noKernel is the error of attach when its patience has ended.
func (a *app) noKernel(dir *datadir.Dir, silent bool, lost error) error {
	switch {
	case a.ctx.Err() != nil:
		return a.ctx.Err()
	case lost != nil && !isHeld(dir): // it was not the lock that ended the kernels that were started
		return lost
	}
	return a.unanswered(dir, silent)
}

// unanswered says who holds the directory and does not answer (silent), or does not even listen.
func (a *app) unanswered(dir *datadir.Dir, silent bool) *agentkernel.Error {
	e := agentkernel.Errorf(agentkernel.CodeUnavailable, "attach", "the kernel of %s does not answer on %s", dir.Path(), dir.Socket())
	h, held := dir.Held()
	if !held {
		return e.WithHint("its log is %s", a.logConfig(dir).Path)
	}
	who := fmt.Sprintf("os process %d (%s, since %s) holds the directory", h.OSPID, h.Mode, h.Started.Local().Format(time.DateTime))
	switch {
	case !serves(h):
		return e.WithHint("%s: wait until it has ended; if it hangs: kill -9 %d, then: agentkernel recover", who, h.OSPID)
	case silent: // it may be stopped, and then no other signal reaches it
		return e.WithHint("%s; if it hangs or is stopped, end it: kill -9 %d, then: agentkernel recover", who, h.OSPID)
	}
	e = agentkernel.Errorf(agentkernel.CodeUnavailable, "attach", "the kernel of %s does not listen on %s", dir.Path(), dir.Socket())
	return e.WithHint("%s; if its socket was deleted, end it: agentkernel shutdown (or kill -9 %d), then: agentkernel recover", who, h.OSPID)
}

// serves says whether the holder is a kernel for others and nothing else: SIGTERM ends it in good order.
func serves(h datadir.Holder) bool { return h.Mode == background || h.Mode == "serve" }

// kernelHolds says whether a kernel holds the directory, not a backup or a restore.
func kernelHolds(dir *datadir.Dir) bool {
	h, held := dir.Held()
	return held && (serves(h) || h.Mode == "embedded")
}

// notThere says that nobody listens, or answers, as against a kernel that answers with an error.
func notThere(err error) bool { return agentkernel.CodeOf(err) == agentkernel.CodeUnavailable }

// crowded says that the kernel takes no connection more.
func crowded(err error) bool { return agentkernel.CodeOf(err) == agentkernel.CodeLimit }

// silent says that somebody listens and does not answer.
func silent(err error) bool { return errors.Is(err, client.ErrSilent) }

// embed runs a kernel in this command. It serves the socket too, so that other terminals can look.
func (a *app) embed(dir *datadir.Dir) (*session, error) {
	log, closeLog := a.fileLog(dir)
	k, err := a.openKernel(dir, "embedded", false, log)
	if err != nil {
		return nil, err
	}
	s := &session{Kernel: k, inProcess: true, closers: []func() error{closeLog, k.Close}}
	l, err := a.listen(a.ctx, listenConfig{kernel: k, socket: dir.Socket(), idle: never, log: log, task: a.tasksOf()})
	if err != nil {
		// The program can run without being looked at.
		a.con.Note("other terminals cannot attach to this kernel: %v", err)
		return s, nil
	}
	var ended atomic.Bool
	go func() {
		if <-l.Done(); !ended.Load() && a.ctx.Err() == nil { // somebody wants the kernel to end, which is this command
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		}
	}()
	s.closers = append(s.closers, func() error { ended.Store(true); return l.Close() })
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

// openKernel opens a kernel on the directory; recovers: whoever opens it will continue all that is unfinished.
func (a *app) openKernel(dir *datadir.Dir, mode string, recovers bool, log *slog.Logger) (agentkernel.Kernel, error) {
	c, err := a.settings()
	if err != nil {
		return nil, err
	}
	if a.broken != nil {
		return nil, a.broken
	}
	k, err := a.open(a.ctx, embedded.Config{Home: dir.Path(), Mode: mode, Recovers: recovers, Version: version, Workers: c.Workers, Engine: a.engine(),
		Python: c.Python, Sandboxes: true, Secrets: c.Secrets, Shares: c.Shares, Allowances: c.Allowances, Models: c.Models, Prices: c.Prices, ModelShares: c.ModelShares, Embeddings: embedded.Embeddings(c.Embeddings), Quota: c.Quota, NeverUnconfined: c.IsolationNone == "never", Keep: c.Keep, KeepFailed: c.KeepFailed == "yes", Settings: a.kernelSettings(), Logger: log})
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
	k, hidden, err := a.readable()
	if err == nil && hidden != nil {
		a.con.Say("%s: what it runs is shown as unfinished", hidden.Message())
		a.con.Say("%s", hidden.Hint)
	}
	return k, err
}

// readable is reading, without a word. hidden says that a kernel holds the directory and does not answer, or is of another version, so
// that the database does not say what it is doing.
func (a *app) readable() (s *session, hidden *agentkernel.Error, err error) {
	home, err := a.home()
	if err != nil {
		return nil, nil, err
	}
	if _, err := os.Stat(home); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errNothingYet(home)
	}
	dir, err := datadir.OpenToRead(home)
	if err != nil {
		return nil, nil, err
	}
	k, derr := a.dialToRead(dir)
	if derr == nil {
		return &session{Kernel: k, closers: []func() error{k.Close}}, nil, nil
	}
	switch {
	case silent(derr) || notThere(derr) && kernelHolds(dir):
		hidden = a.unanswered(dir, silent(derr))
	case agentkernel.CodeOf(derr) == agentkernel.CodeVersion, crowded(derr):
		hidden = asError(derr)
	}
	if !dir.Begun() {
		return nil, nil, errNothingYet(home)
	}
	if k, err = a.openReader(a.ctx, home); err != nil {
		return nil, nil, err
	}
	if info, err := k.Info(a.ctx); err == nil && info.Store.Damage != nil {
		a.sayDamaged(info.Store.Damage)
	}
	return &session{Kernel: k, inProcess: true, closers: []func() error{k.Close}, hidden: hidden}, hidden, nil
}

// sayDamaged says that what is about to be shown may not be all.
func (a *app) sayDamaged(damage *agentkernel.Error) {
	a.con.Say("%s; what is shown is what is left", damage.Message())
	a.con.Say("%s", damage.Hint)
}

// dialToRead connects to the kernel that runs. One that holds the directory and does not listen yet is given a moment.
func (a *app) dialToRead(dir *datadir.Dir) (agentkernel.Kernel, error) {
	end := time.Now().Add(readPatience)
	for {
		k, err := a.dial(a.ctx, dir.Socket())
		if !notThere(err) || silent(err) || !kernelHolds(dir) || time.Now().After(end) {
			return k, err
		}
		select {
		case <-a.ctx.Done():
			return nil, a.ctx.Err()
		case <-time.After(dialPause):
		}
	}
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
	a.mentionSettings(&info)
	if info.Unfinished > 0 {
		a.con.Note("%s", a.goesOnUnfinished(k, info.Unfinished))
	}
	if text := info.Storage.Warning(); text != "" {
		a.con.Say("%s · make room: agentkernel prune --older 30d", text)
	}
}

// goesOnUnfinished says how the n processes go on that a kernel has left unfinished. If all of them are paused, recover continues none.
func (a *app) goesOnUnfinished(k agentkernel.Kernel, n int) string {
	text := fmt.Sprintf("%d unfinished: agentkernel recover", n)
	switch paused := setup.AllPaused(a.ctx, k, n); len(paused) {
	case 0:
		return text
	case 1:
		return "1 unfinished, and paused: " + takenUp(&paused[0])
	}
	return fmt.Sprintf("%d unfinished, and all of them paused: agentkernel ps says with which command each goes on", n)
}

// shortSetting is how long both values of a setting may be that are shown where nobody has asked for them.
const shortSetting = 80

// otherSettings says of what a kernel has answered that it has other settings than this command.
func (a *app) otherSettings(k agentkernel.Kernel) {
	if a.cli.JSON || a.cli.quiet() {
		return
	}
	if info, err := k.Info(a.ctx); err == nil {
		a.mentionSettings(&info)
	}
}

// mentionSettings says which settings of this command count for nothing, since the kernel that runs was started with others.
func (a *app) mentionSettings(info *agentkernel.KernelInfo) {
	var differ []string
	for key, value := range a.cfg.Kernel() {
		if has := info.Settings[key]; has != value {
			text := settingText(key, value, has)
			if len(text) > shortSetting {
				text = key
			}
			differ = append(differ, text)
		}
	}
	if len(differ) > 0 {
		slices.Sort(differ)
		a.con.Note("the kernel that runs was started with other settings: %s · agentkernel doctor compares them; agentkernel shutdown, and the next command starts one with these", strings.Join(differ, "; "))
	}
}
