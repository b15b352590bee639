package monty

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"

	"agentkernel"
	"agentkernel/internal/sandbox/confine"
)

// body is the process of a worker.
type body interface {
	// pid is the engine's own number on this machine; 0 if there is none any more.
	pid() int
	// kill ends it and all that it started. It need not wait, and does nothing after the end.
	kill()
	// wait returns when it has ended and its pipes are closed, with how: "exit status 1", "signal: killed".
	wait() string
	// bury clears away what is left after wait.
	bury()
	// walls says what stands between it and the machine.
	walls() []agentkernel.Wall
}

// start makes the process of a worker, with the ends of its pipes, which it does not close. wall bounds its memory.
type start func(ctx context.Context, engine string, in, out *os.File, said io.Writer, wall uint64) (body, error)

// plain is an engine without walls.
type plain struct {
	cmd    *exec.Cmd
	launch Launcher
	stand  []agentkernel.Wall // what there is instead
}

// plainFor starts engines without walls, for this reason.
func (w *walls) plainFor(why *agentkernel.Error) start {
	stand := plainWalls(why.Message())
	return func(_ context.Context, engine string, in, out *os.File, said io.Writer, wall uint64) (body, error) {
		return startPlain(&plain{cmd: exec.Command(engine, "subprocess"), launch: w.cfg.Launcher, stand: stand}, in, out, said, wall)
	}
}

func startPlain(p *plain, in, out *os.File, said io.Writer, wall uint64) (body, error) {
	p.cmd.Env = []string{} // deny by default: not even PATH
	p.cmd.Dir = "/"
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, out, said
	p.cmd.WaitDelay = exitWait
	if err := p.launch.Start(p.cmd); err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "monty worker", "cannot start %s: %w", p.cmd.Path, err).
			WithHint("agentkernel setup")
	}
	// Before it is waited for: until then its PID cannot mean another process.
	err := limitMemory(p.cmd.Process.Pid, wall)
	if err != nil && !errors.Is(err, syscall.ESRCH) { // if it ended already, settle learns why
		p.kill()
		_ = p.wait()
		p.bury()
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "monty worker", "cannot cap its memory: %w", err)
	}
	return p, nil
}

func (p *plain) pid() int { return p.cmd.Process.Pid }
func (p *plain) kill()    { p.launch.Kill(p.cmd) }
func (p *plain) bury()    { p.launch.Kill(p.cmd) } // whatever it left behind, and its record

func (p *plain) wait() string {
	_ = p.cmd.Wait() // how it ended is in ProcessState
	return p.cmd.ProcessState.String()
}

func (p *plain) walls() []agentkernel.Wall { return p.stand }

func plainWalls(why string) []agentkernel.Wall {
	return []agentkernel.Wall{{Name: "the operating system's walls", How: "none: " + why},
		{Name: "interpreter", On: true, How: "the language has no files, network or processes"},
		{Name: "memory limit", On: true, How: "of the engine's heap, and of its address space"}}
}

// walled is an engine in a sandbox of the operating system.
type walled struct {
	process *confine.Process
	engine  int
	copied  chan struct{} // closed when all that it said on stderr was read
}

func (w *walls) startWalled(ctx context.Context, engine string, in, out *os.File, said io.Writer, wall uint64) (body, error) {
	runtime, err := w.runtimeOf(engine)
	if err != nil {
		return nil, err
	}
	cell, err := w.cfg.Walls.Prepare(confine.Config{
		Kind: confine.Bare, Runtime: runtime, Masked: w.cfg.Masked, Limits: confine.Limits{Memory: int64(wall)}, //nolint:gosec // of int64s
		Program: confine.Program{Path: engineInside, Args: []string{"monty", "subprocess"}, Env: []string{}},
	})
	if err != nil {
		return nil, err
	}
	errs, theirs, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(agentkernel.AsError(err, agentkernel.CodeUnavailable, "monty worker"), cell.Close())
	}
	b := &walled{copied: make(chan struct{})}
	b.process, err = w.cfg.Walls.Start(ctx, cell, []*os.File{in, out, theirs})
	_ = theirs.Close() // the engine has its own
	if err != nil {
		_ = errs.Close()
		return nil, err
	}
	b.engine = b.process.ProgramPID()
	go func() {
		defer close(b.copied)
		_, _ = io.Copy(said, errs) // it breaks off with the engine
		_ = errs.Close()
	}()
	return b, nil
}

func (b *walled) pid() int { return b.engine }
func (b *walled) kill()    { b.process.Kill() }
func (b *walled) bury()    {} // nothing outlives the walls

func (b *walled) wait() string {
	exit, _ := b.process.Wait(context.Background()) // only its context could fail
	<-b.copied
	switch s := exit.Status; {
	case exit.Limit != "":
		return exit.String()
	case exit.Known && s.Exited():
		return "exit status " + agentkernel.PID(s.ExitStatus()).String()
	case exit.Known:
		return "signal: " + s.Signal().String()
	}
	return "signal: killed"
}

func (b *walled) walls() []agentkernel.Wall { return b.process.Walls() }
