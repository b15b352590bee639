package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"agentkernel"
)

// follower runs or follows a process and reports its events; Kernel.Run is one.
type follower func(ctx context.Context, fn func(agentkernel.Event) error) (agentkernel.Process, error)

// watch is a command that stands before a running process: it passes the output on, asks the questions,
// shows progress, and turns Ctrl-C and SIGTERM into signals to the process.
type watch struct {
	a    *app
	k    *session
	hold bool              // keep the output for --json instead of writing it
	spec *agentkernel.Spec // of the program, if this command made it
	said string            // the end of what it wrote to stderr
	look *look             // how a task is shown; nil: it is another program
	// steps are those that a task tells in its log; nil: nobody wants them.
	steps *steps
	// talks says that it is a conversation: Ctrl-C interrupts what it does, and with --json each event is a line.
	talks bool
	rerun bool // it has a past, which has paid some of what it says that it has cost
	auto  bool // the kernel chooses where the program runs, and nothing in its Spec speaks against Monty
	// unasked says that this command shows no questions: that one waits is told.
	unasked bool
	// seen is what a command of the system sees of the folder in which people are, and expect it to be.
	seen seen

	mu         sync.Mutex
	pid        agentkernel.PID
	known      func() // what to do when the process is known; nil: nothing
	halted     string // what was halted when the process was heard of last
	interrupts int
	first      time.Time     // of the interrupts
	again      chan struct{} // closed by the second
	settled    bool          // the process stays paused: a further interrupt comes too late
	stdout     strings.Builder
	stderr     strings.Builder
	files      *agentkernel.Changes
	unknown    *agentkernel.Error    // why it is not known what it did to files
	below      []agentkernel.Changes // those of its children that have something to be applied
	children   []agentkernel.Process // all that it has, once they were listed; nil: they were not, or are too many
	past       []string              // what was told about the past of a rerun
	asks       chan agentkernel.Event
	always     *always
}

// Why a watch ended before its process did.
var (
	errDetached    = errors.New("detached")
	errInterrupted = errors.New("interrupted")
)

// exitTerminated is 128 + SIGTERM: the command was told to end and the process was left as it is.
const exitTerminated = 143

// detachPatience is how long a kernel inside this command waits for the program to reach a call when the
// command is told to end.
const detachPatience = 2 * time.Second

// follow shows the process until it has ended or is paused. The error is errDetached or errInterrupted if
// the user left first.
func (w *watch) follow(f follower) (agentkernel.Process, error) {
	ctx, cancel := context.WithCancelCause(w.a.ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel(nil)
	w.asks, w.again = make(chan agentkernel.Event, 64), make(chan struct{})
	if w.always == nil {
		w.always = &always{}
	}
	signals, stop := w.a.signals()
	defer stop()
	tasks.Go(func() { w.signalLoop(ctx, cancel, signals) })
	tasks.Go(func() { w.tell(ctx) })
	if w.isTask() && !w.a.cli.quiet() {
		tasks.Go(func() { w.tellPaused(ctx) })
	}
	if w.a.askTTY != nil {
		// Not waited for: it may sit in a read that only the human can end.
		go w.askLoop(ctx)
	}
	p, err := f(ctx, w.event)
	w.a.con.Unasked()
	if err == nil && p.Paused && !p.State.Terminal() && !w.talks {
		p, err = w.settle(ctx, p)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil && w.a.ctx.Err() == nil {
		err = cause
	}
	return p, err
}

func (w *watch) event(e agentkernel.Event) error {
	w.mu.Lock()
	known := w.known
	if w.pid == 0 { // the first event is its own
		w.pid = e.PID
	}
	w.known = nil
	w.mu.Unlock()
	if known != nil {
		known()
	}
	if w.talks && w.a.cli.JSON {
		if err := w.a.printEvent(e); err != nil {
			return err
		}
		if e.Kind != agentkernel.EventAsk {
			return nil
		}
	}
	switch e.Kind {
	case agentkernel.EventOutput:
		if w.seen == seenHere && e.Stream == "stderr" && strings.HasPrefix(e.Text, agentkernel.NotShown) {
			w.seen = seenNamed // that line has said it
		}
		w.output(e)
	case agentkernel.EventLog:
		if w.steps != nil {
			return w.steps.take(w, e)
		}
	case agentkernel.EventPast: // also when it is to be quiet: what is made again is never kept to itself
		w.past = append(w.past, e.Text)
		w.a.con.Say("%s", e.Text)
	case agentkernel.EventBudget:
		w.a.con.Say("process %d: %s", e.PID, e.Text)
	case agentkernel.EventState:
		w.stands(e.Process)
	case agentkernel.EventAsk:
		switch {
		case e.Ask == nil:
		case w.a.askTTY == nil: // whoever was asked before has gone
			return unanswerable("ask", e.PID, e.Ask.Call)
		default:
			w.asks <- e
		}
	}
	return nil
}

// stands says that the process stands still with what is halted, and that it goes on.
func (w *watch) stands(p *agentkernel.Process) {
	if p == nil || p.Halted == w.halted {
		return
	}
	if p.Halted == "" {
		w.a.con.Say("process %d goes on: %s is halted no longer", p.PID, w.halted)
	} else {
		w.a.con.Say("process %d stands still: %s is halted · agentkernel ps says since when, why, and how it goes on", p.PID, p.Halted)
	}
	w.halted = p.Halted
}

// saidAtMost is how much of the end of stderr may explain a failure.
const saidAtMost = 4 << 10

func (w *watch) output(e agentkernel.Event) {
	if e.Stream == "stderr" {
		w.said += e.Text
		w.said = w.said[max(0, len(w.said)-saidAtMost):]
	}
	switch {
	case w.hold && e.Stream == "stderr":
		w.stderr.WriteString(e.Text)
	case w.hold:
		w.stdout.WriteString(e.Text)
	case w.look != nil && e.Stream == "stderr":
		w.a.con.Err(w.look.stderr(e.Text))
	case w.isTask(): // a program that runs in the task's own process may write to its output, too: the result is what it ends with
	case w.look != nil:
		w.a.con.Out(w.look.stdout(e.Text))
	case e.Stream == "stderr":
		w.a.con.Err(e.Text)
	default:
		w.a.con.Out(e.Text)
	}
}

// isTask says that the process does a task, whose result is the value with which it ends.
func (w *watch) isTask() bool { return w.look != nil && !w.talks }

// withoutResult is the error of a task that has ended well, as it says, and has no result; nil: it has one, or it is no task.
func (w *watch) withoutResult(p agentkernel.Process) *agentkernel.Error {
	if !w.isTask() || p.State != agentkernel.StateExited || p.ExitCode != 0 || string(plain(p.Result)) != "null" {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeTool, "do", "the task has ended without a result").WithPID(p.PID).
		WithHint("a program that the model wrote may have ended it: agentkernel trace %d", p.PID)
}

// result shows the result of a task.
func (w *watch) result(p agentkernel.Process) {
	if !w.isTask() || p.State != agentkernel.StateExited || p.ExitCode != 0 {
		return
	}
	value := plain(p.Result)
	var text string
	if json.Unmarshal(value, &text) != nil {
		var b bytes.Buffer
		_ = json.Indent(&b, value, "", "  ") // it is JSON
		text = b.String()
	}
	w.a.con.Out(w.look.stdout(text + "\n"))
}

func (w *watch) process() agentkernel.PID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pid
}

// status is what the progress line says.
func (w *watch) status(ctx context.Context) string {
	pid := w.process()
	if pid == 0 {
		return "starting"
	}
	p, err := w.k.Process(ctx, pid)
	if err != nil {
		return ""
	}
	if p.Halted != "" {
		return "it stands still: " + p.Halted + " is halted"
	}
	if len(p.WaitsFor) == 0 {
		return fmt.Sprintf("pid %d %s", pid, p.State)
	}
	text := waitingFor(&p)
	if n := len(p.WaitsFor) - 1; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	if w.look != nil {
		text = w.look.status(text)
	}
	return text
}

func (w *watch) signalLoop(ctx context.Context, cancel context.CancelCauseFunc, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-signals:
			if s == os.Interrupt {
				w.interrupt(ctx, cancel)
			} else {
				w.detach(ctx, cancel)
			}
		}
	}
}

// interrupt is Ctrl-C: the first pauses the process, the second kills it, the third leaves at once.
func (w *watch) interrupt(ctx context.Context, cancel context.CancelCauseFunc) {
	if w.talks {
		w.interruptTurn(ctx, cancel)
		return
	}
	pauses := func() {
		pid, again := w.process(), ""
		if w.a.errTTY {
			again = " (Ctrl-C again kills it)"
		}
		w.a.con.Say("interrupting process %d …%s", pid, again)
		w.signal(ctx, pid, agentkernel.SignalPause)
	}
	w.mu.Lock()
	if w.settled {
		w.mu.Unlock()
		return
	}
	w.interrupts++
	pid, n := w.pid, w.interrupts
	switch n {
	case 1:
		w.first = time.Now()
	case 2:
		defer close(w.again) // when it is said
	}
	if pid == 0 && n == 1 { // it may be on its way, and would go on without being known
		w.known = pauses
	}
	w.mu.Unlock()
	w.a.con.Echoed()
	switch {
	case pid == 0 && n == 1:
		time.AfterFunc(knownPatience, func() {
			if w.process() == 0 {
				cancel(errInterrupted)
			}
		})
	case pid == 0 || n > 2:
		cancel(errInterrupted)
	case n == 1:
		pauses()
	default:
		w.a.con.Say("killing process %d …", pid)
		w.signal(ctx, pid, agentkernel.SignalKill)
	}
}

// interruptTurn is Ctrl-C in a conversation: the first ends what is being done, the second leaves.
func (w *watch) interruptTurn(ctx context.Context, cancel context.CancelCauseFunc) {
	w.a.con.Echoed()
	w.mu.Lock()
	w.interrupts++
	n := w.interrupts
	if n == 1 {
		w.first = time.Now()
	}
	w.mu.Unlock()
	if n > 1 {
		cancel(errInterrupted)
		return
	}
	w.a.con.Say("interrupting … (Ctrl-C again leaves)")
	w.signal(ctx, w.process(), agentkernel.SignalInterrupt)
}

// interruptedAt is when Ctrl-C was pressed first; zero: it was not.
func (w *watch) interruptedAt() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.first
}

// againPatience is how long a second Ctrl-C is waited for after the first: a program pauses in milliseconds, in which nobody
// presses a key twice.
const againPatience = time.Second

// settle waits, where the user has paused the process at a terminal, for the second Ctrl-C that was promised to kill it. It
// returns the process as it is then.
func (w *watch) settle(ctx context.Context, p agentkernel.Process) (agentkernel.Process, error) {
	w.mu.Lock()
	n, left := w.interrupts, time.Until(w.first.Add(againPatience))
	w.mu.Unlock()
	if n == 1 && w.a.errTTY {
		select {
		case <-w.again:
		case <-time.After(left):
		case <-ctx.Done():
			return p, ctx.Err()
		}
	}
	w.mu.Lock()
	w.settled = w.interrupts < 2
	settled := w.settled
	w.mu.Unlock()
	if settled {
		return p, nil
	}
	<-w.again
	// The signal that Ctrl-C sends may have been too early, and its context ends with this command.
	if err := w.k.Signal(ctx, p.PID, agentkernel.SignalKill); err != nil && agentkernel.CodeOf(err) != agentkernel.CodeConflict {
		return p, err
	}
	if p, ok := awaitDeath(ctx, w.k, p.PID, deathPatience); ok {
		return p, nil
	}
	return p, errInterrupted
}

// knownPatience is how long the first Ctrl-C waits for the process that it is to pause.
const knownPatience = time.Second

// signal sends a signal without waiting, so that the next Ctrl-C is heard.
func (w *watch) signal(ctx context.Context, pid agentkernel.PID, s agentkernel.Signal) {
	go func() {
		err := w.k.Signal(ctx, pid, s)
		if err != nil && ctx.Err() == nil && agentkernel.CodeOf(err) != agentkernel.CodeConflict {
			w.a.con.Say("process %d could not be sent %s: %v", pid, s, err)
		}
	}()
}

// detach is SIGTERM or a closed terminal: the command ends, the process does not. A kernel that runs in this
// command ends with it, so the process is paused first, where its journal is complete.
func (w *watch) detach(ctx context.Context, cancel context.CancelCauseFunc) {
	pid := w.process()
	if pid == 0 || !w.k.inProcess {
		cancel(errDetached)
		return
	}
	w.mu.Lock()
	w.interrupts = -1 // the pause is not the user's
	w.mu.Unlock()
	w.signal(ctx, pid, agentkernel.SignalPause)
	time.AfterFunc(detachPatience, func() { cancel(errDetached) })
}

// left reports how a watch ended that the user left; it gives the exit code.
func (w *watch) left(err error) error {
	pid := w.process()
	switch {
	case pid == 0:
		w.a.con.Say("interrupted before the process was known; agentkernel ps shows whether it started")
	case w.k.inProcess && errors.Is(err, errDetached): // it was paused, and resume takes it up in either case
		w.a.con.Say("stopped · process %d is unfinished · continue: agentkernel resume -f %d", pid, pid)
	case w.k.inProcess:
		w.a.con.Say("stopped · process %d is unfinished · continue: agentkernel recover %d", pid, pid)
	case errors.Is(err, errDetached):
		w.a.con.Say("detached · process %d goes on · follow: agentkernel logs -f %d", pid, pid)
	default:
		w.a.con.Say("left · process %d may go on · see: agentkernel ps", pid)
	}
	switch {
	case errors.Is(err, errDetached):
		return exitCode(exitTerminated)
	case w.interruptCount() > 2:
		return exitCode(agentkernel.ExitKilled)
	}
	return exitCode(agentkernel.ExitInterrupted)
}

func (w *watch) interruptCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.interrupts
}

// pausedExit is the exit code for a process that stands paused: 143 if this command was told to end.
func (w *watch) pausedExit() int {
	if w.interruptCount() < 0 {
		return exitTerminated
	}
	return agentkernel.ExitInterrupted
}
