package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"agentkernel"
	"agentkernel/internal/datadir"
)

type serveCmd struct {
	Background bool `hidden:"" help:"Started by another command: recover nothing, end when idle."`
	NoRecover  bool `help:"Leave unfinished processes as they are."`

	Log       string `placeholder:"FILE" help:"Write the log to this file instead of standard error (setting log.path)."`
	LogLevel  string `placeholder:"LEVEL" help:"debug, info, warn or error (setting log.level)."`
	LogFormat string `placeholder:"FORM" help:"text or json (setting log.format)."`

	Embeddings      string `placeholder:"URL" help:"Search tools by meaning, too, with vectors from this address (setting embeddings.url)."`
	EmbeddingsModel string `placeholder:"NAME" help:"The model that makes them (setting embeddings.model)."`
	EmbeddingsKey   string `placeholder:"WHERE" help:"Where the key is: env:VARIABLE or file:/PATH (setting embeddings.key)."`

	born  bool           // who started it in the background knows that it serves
	level *slog.LevelVar // of the log
}

func (serveCmd) Help() string {
	return `Commands in other terminals attach to this kernel by themselves. Without serve the first command that needs a
kernel starts one in the background, which ends when it has been idle for a while (setting idle_after). serve takes over
from such a kernel, and continues what it ran.

SIGHUP lets it read the files of settings again. allowances, log.level, secrets and storage count from then on; the log says what has
changed, and what counts only when the kernel is started again. If a file cannot be used, nothing changes. Processes go on.

` + examples("agentkernel serve", "agentkernel serve --home /var/lib/agentkernel")
}

func (c *serveCmd) Run(a *app) error {
	if a.cli.Embedded {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "serve", "serve and --embedded exclude one another")
	}
	stop := make(chan os.Signal, 2)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(stop)
	err := c.serve(a, stop)
	if err != nil && c.Background && !c.born { // afterwards nobody listens, and the descriptor is another file's
		announce(birth{Error: asError(err)})
	}
	return err
}

func (c *serveCmd) serve(a *app, stop <-chan os.Signal) error {
	hup, gone := hangups()
	defer signal.Stop(hup)
	a.background = c.Background
	dir, err := a.dataDir()
	if err != nil {
		return err
	}
	log, closeLog, err := c.logger(a, dir)
	if err != nil {
		return err
	}
	defer closeLog()
	for _, w := range dir.Warnings() {
		log.Warn(w)
	}
	idle := never
	if c.Background {
		idle = a.cfg.IdleAfter
	}
	k, err := c.open(a, dir, log)
	if err != nil {
		return err
	}
	door, err := a.listen(a.ctx, listenConfig{kernel: k, socket: dir.Socket(), idle: idle, log: log, task: a.tasksOf()})
	if err != nil {
		_ = k.Close()
		return err
	}
	if c.Background {
		announce(birth{Ready: true})
		c.born = true
	} else if err := c.greet(a, k, dir, stop); err != nil {
		_ = door.Close()
		_ = k.Close()
		return err
	}
	var broken <-chan struct{}
	failing, ok := k.(breakable)
	if ok {
		broken = failing.Broken()
	}
	look := time.NewTicker(placeLooks)
	defer look.Stop()
	for has, samePlace := a.inForce(), dir.SamePlace(); ; {
		select {
		case <-look.C: // a kernel that nobody finds would make calls that nobody sees, beside the next one at this place
			if samePlace() {
				continue
			}
			err := agentkernel.Errorf(agentkernel.CodeStorage, "serve", "the data directory %s was moved or removed while this kernel ran, which has ended", dir.Path()).
				WithHint("if it lies elsewhere now: agentkernel --home DIR recover continues what is unfinished")
			log.Error(err.Message())
			_ = c.stop(a, k, dir, door, stop)
			return err
		case s := <-hup:
			if gone() {
				log.Info("stopping", "signal", s.String())
				return c.stop(a, k, dir, door, stop)
			}
			has = c.reload(a, k, has, log)
		case s := <-stop:
			log.Info("stopping", "signal", s.String())
			return c.stop(a, k, dir, door, stop)
		case <-door.Done():
			log.Info("stopping", "reason", "idle, or asked to")
			return c.stop(a, k, dir, door, stop)
		case <-broken: // to stay would keep the data directory from a kernel that can write again
			_ = c.stop(a, k, dir, door, stop) // fails in the same way
			return failing.Failure()
		}
	}
}

// open opens the kernel. One in the background that holds the directory is ended first: it was started for a command while nobody
// served, recovers nothing, and would keep from being served whoever asked for that. What it runs is continued here.
func (c *serveCmd) open(a *app, dir *datadir.Dir, log *slog.Logger) (agentkernel.Kernel, error) {
	if c.Background {
		return a.openKernel(dir, background, false, log)
	}
	ctx, cancel := context.WithTimeout(a.ctx, startPatience)
	defer cancel()
	for {
		if err := a.endBackground(ctx, dir); err != nil {
			return nil, err
		}
		k, err := a.openKernel(dir, "serve", !c.NoRecover, log)
		if h, held := dir.Held(); err == nil || !held || h.Mode != background || ctx.Err() != nil { // else a command was quicker
			return k, err
		}
	}
}

// endBackground ends a kernel in the background that holds the directory, if there is one.
func (a *app) endBackground(ctx context.Context, dir *datadir.Dir) error {
	h, held := dir.Held()
	if !held || h.Mode != background {
		return nil
	}
	a.con.Say("taking over from the kernel in the background (os process %d)", h.OSPID)
	for {
		err := a.stopKernel(dir)
		if h, held := dir.Held(); err == nil || !held || h.Mode != background {
			return nil
		}
		switch {
		case silent(err) || ctx.Err() != nil:
			return a.unanswered(dir, silent(err))
		case !notThere(err):
			return err
		}
		select { // it is about to listen, or to end
		case <-ctx.Done():
		case <-time.After(dialPause):
		}
	}
}

// placeLooks is how often a kernel looks whether its directory is still where it was.
const placeLooks = 2 * time.Second

// breakable is a kernel whose store may fail, after which it can do nothing more.
type breakable interface {
	Broken() <-chan struct{}
	Failure() error
}

// greet says where the kernel is and continues what an earlier one left.
func (c *serveCmd) greet(a *app, k agentkernel.Kernel, dir *datadir.Dir, stop <-chan os.Signal) error {
	a.con.Say("kernel %s serves %s (ctrl-c stops it; processes stand where their journals say)", version, dir.Socket())
	if c.NoRecover {
		a.mentionUnfinished(k)
		return nil
	}
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	done := make(chan error, 1)
	var list []agentkernel.Process
	go func() {
		var err error
		list, err = k.Recover(ctx, 0)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			// A process that cannot be continued must not keep the others from being served.
			a.con.Error("recovery: "+asError(err).Message(), asError(err).Hint)
		}
		a.each(list, func(p *agentkernel.Process) {
			switch {
			case p.NotTakenUp():
				a.con.Error(leftText(p), "")
			case p.State.Terminal():
				a.con.Error(endedText(p), "")
			default:
				a.con.Say("continuing process %d %s%s", p.PID, p.Name, stillSuffix(*p))
			}
		})
		return nil
	case s := <-stop:
		return agentkernel.Errorf(agentkernel.CodeCanceled, "serve", "stopped by %s while recovering", s)
	}
}

// stillSuffix says why a process that is taken up does not go on, and how it does.
func stillSuffix(p agentkernel.Process) string {
	switch {
	case p.Paused:
		return " (paused: " + goesOn(&p) + ")"
	case p.Halted != "":
		return " (it stands still: " + p.Halted + " is halted)"
	}
	return ""
}

// stop ends in order: no new callers, then the kernel. A second signal does not wait.
func (c *serveCmd) stop(a *app, k agentkernel.Kernel, dir *datadir.Dir, door listener, again <-chan os.Signal) error {
	done := make(chan error, 1)
	go func() {
		_ = door.Close() // callers learn of the end by their connections
		done <- k.Close()
	}()
	select {
	case err := <-done:
		if err == nil && !c.Background && !a.cli.JSON {
			if _, how := a.leftUnfinished(dir); how != "" {
				a.con.Say("%s", how)
			}
		}
		return err
	case <-again:
		a.con.Say("stopping at once; unfinished processes: agentkernel recover")
		return exitCode(exitTerminated)
	}
}

type shutdownCmd struct{}

func (shutdownCmd) Help() string {
	return `Processes that run are left where their journals say; agentkernel recover continues them.

` + examples("agentkernel shutdown")
}

func (shutdownCmd) Run(a *app) error {
	home, err := a.home()
	if err != nil {
		return err
	}
	dir, err := datadir.OpenToRead(home)
	if err != nil {
		return err
	}
	k, err := a.dial(a.ctx, dir.Socket())
	switch {
	case silent(err):
		return a.unanswered(dir, true)
	case notThere(err) && kernelHolds(dir):
		return a.shutdownUnheard(dir)
	case notThere(err):
		if a.cli.JSON {
			return a.printJSON(stopped{})
		}
		a.con.Note("no kernel runs on %s", dir.Path())
		return nil
	case err == nil:
		_ = k.Close()
	case agentkernel.CodeOf(err) != agentkernel.CodeVersion:
		return err
	}
	if err := a.stopKernel(dir); err != nil {
		return err
	}
	return a.sayStopped(dir)
}

// sayStopped says that a kernel has ended, and how those go on that are unfinished now. The database says which: what the kernel carried
// may have ended with it, and others nobody had taken up.
func (a *app) sayStopped(dir *datadir.Dir) error {
	unfinished, how := a.leftUnfinished(dir)
	if a.cli.JSON {
		return a.printJSON(stopped{true, unfinished})
	}
	a.con.Note("the kernel has stopped")
	if how != "" {
		a.con.Note("%s", how)
	}
	return nil
}

// shutdownUnheard ends a kernel that holds the directory and does not listen: it is coming or going, or its socket was deleted.
func (a *app) shutdownUnheard(dir *datadir.Dir) error {
	err := a.withProgress(a.ctx, "waiting for the kernel to end", func(ctx context.Context) error {
		// A second signal would cut off one that is ending already.
		if free, err := a.awaitEnd(ctx, dir, goingPatience); free || err != nil {
			return err
		}
		if tellToEnd(dir) {
			if free, err := a.awaitEnd(ctx, dir, stopPatience); free || err != nil {
				return err
			}
		}
		return a.unanswered(dir, true) // what is left is to kill it
	})
	if err != nil {
		return err
	}
	return a.sayStopped(dir)
}

// tellToEnd tells the kernel that holds the directory to end, if it is one that understands that and is certainly the one.
func tellToEnd(dir *datadir.Dir) bool {
	h, held := dir.Held()
	if !held || !serves(h) {
		return false
	}
	p, err := os.FindProcess(h.OSPID) // before it is looked at: the number may not become another's in between
	return err == nil && dir.HeldBy(h.OSPID) && p.Signal(syscall.SIGTERM) == nil
}

// awaitEnd waits until the directory is free, but not for longer than the patience.
func (a *app) awaitEnd(ctx context.Context, dir *datadir.Dir, patience time.Duration) (free bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = awaitFree(bounded, dir)
	if agentkernel.CodeOf(err) == agentkernel.CodeConflict {
		return false, ctx.Err()
	}
	return err == nil, err
}

// leftUnfinished reads from the database how many processes a kernel has left unfinished, and how they go on; 0 if that cannot be told.
func (a *app) leftUnfinished(dir *datadir.Dir) (n int, how string) {
	k, err := a.openReader(a.ctx, dir.Path())
	if err != nil {
		return 0, ""
	}
	defer k.Close()
	info, err := k.Info(a.ctx)
	if err != nil || info.Unfinished == 0 {
		return 0, ""
	}
	return info.Unfinished, a.goesOnUnfinished(k, info.Unfinished)
}

// stopped is what shutdown --json prints.
type stopped struct {
	Stopped    bool `json:"stopped"`
	Unfinished int  `json:"unfinished"` // processes that wait for recover now
}

const (
	// stopPatience is how long shutdown waits for calls under way to end.
	stopPatience = 15 * time.Second
	// goingPatience is how long shutdown takes a kernel that does not listen for one that is ending.
	goingPatience = 3 * time.Second
)

// stopKernel asks the kernel to end and waits until it has let the directory go.
func (a *app) stopKernel(dir *datadir.Dir) error {
	return a.withProgress(a.ctx, "waiting for calls under way", func(ctx context.Context) error {
		if err := a.stop(ctx, dir.Socket()); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, stopPatience)
		defer cancel()
		return awaitFree(ctx, dir)
	})
}

// awaitFree waits until nobody holds the directory. CodeConflict: somebody does still.
func awaitFree(ctx context.Context, dir *datadir.Dir) error {
	lock, err := dir.LockWait(ctx, datadir.Holder{OSPID: os.Getpid(), Version: version, Mode: "shutdown", Started: time.Now()})
	if err == nil {
		return lock.Unlock()
	}
	for errors.Is(err, syscall.EROFS) { // here alone, perhaps: the kernel may see it through another mount
		h, held := dir.Held()
		if !held {
			return nil
		}
		select {
		case <-ctx.Done():
			return agentkernel.Errorf(agentkernel.CodeConflict, "shutdown", "os process %d still holds %s", h.OSPID, dir.Path())
		case <-time.After(dialPause):
		}
	}
	return err
}
