package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/journal"
)

// runResult is the one object that run --json and tools call --json print.
type runResult struct {
	PID *agentkernel.PID `json:"pid"` // null: nothing was started, or with unknown, that it was is not known
	// State is exited, failed, killed, paused, detached or refused; if the kernel was lost unfinished, or unknown if the PID is, too.
	State      string             `json:"state"`
	Result     json.RawMessage    `json:"result"`
	Stdout     string             `json:"stdout"`
	Stderr     string             `json:"stderr"`
	Error      *agentkernel.Error `json:"error"`
	DurationMS float64            `json:"duration_ms"`
	Syscalls   int64              `json:"syscalls"`
	Backend    string             `json:"backend"`
	Running    []agentkernel.PID  `json:"running,omitempty"` // children that go on, some of them
	Left       []string           `json:"left,omitempty"`    // files that went with the sandbox
	Moved      *agentkernel.Move  `json:"moved,omitempty"`   // from which backend it came there, and why
	ExitCode   int                `json:"exit_code"`
	Usage      *agentkernel.Usage `json:"usage,omitempty"`
	Files      *fileCounts        `json:"files,omitempty"`
	Past       []string           `json:"past,omitempty"` // of a rerun: where it went live, and what was not made again
}

// exitOf is the exit code with which a command reports the end of a process.
func exitOf(p agentkernel.Process) int {
	switch {
	case p.Paused && !p.State.Terminal():
		return agentkernel.ExitInterrupted
	case p.ExitCode != 0 || p.State == agentkernel.StateExited:
		return p.ExitCode
	case p.Error != nil:
		return p.Error.Code.ExitCode()
	case p.State == agentkernel.StateKilled:
		return agentkernel.ExitKilled
	}
	return agentkernel.ExitFailed
}

// report tells how a watched process ended, and gives the exit code.
func (w *watch) report(p agentkernel.Process, err error) error {
	if err == nil && p.State == agentkernel.StateUnfinished && !p.Paused { // found under its key
		err = w.k.lost(&p)
	}
	if w.a.cli.JSON {
		return w.reportJSON(p, err)
	}
	if w.look != nil {
		w.a.con.Err(w.look.rest())
	}
	switch {
	case errors.Is(err, errDetached) || errors.Is(err, errInterrupted):
		return w.left(err)
	case err != nil && w.process() != 0:
		return lostKernel(err, w.process())
	case err != nil:
		if w.k != nil {
			w.a.otherSettings(w.k)
		}
		return err
	case p.Paused && !p.State.Terminal():
		w.a.con.Say("%s", pausedLine(p))
		return exitCode(w.pausedExit())
	}
	running := w.withPrograms(&p)
	if e := w.withoutResult(p); e != nil {
		p.Error, p.ExitCode = e, agentkernel.ExitFailed
	}
	if p.Error != nil {
		w.a.reportError(w.a.ofRunningKernel(p.Error))
	}
	w.result(p)
	w.a.con.Note("%s", p.Receipt())
	w.mentionFiles(p)
	w.mentionRunning(running)
	folder := w.folderLine(p)
	if folder != "" {
		w.a.con.Note("%s", folder)
	}
	if left := p.LeftBehind(); left != "" {
		w.a.con.Note("%s", left)
	}
	w.mentionBoundary(p, folder != "")
	if w.spec != nil && w.k != nil {
		w.a.mentionAllow(w.k, w.spec)
	}
	w.mentionEngine(p)
	w.a.mentionUnfinished(w.k)
	if err := w.a.outputError(); err != nil {
		return err
	}
	if w.steps != nil && w.steps.saved != nil {
		if e := w.steps.saved.Error; e != nil {
			w.a.reportError(e)
			return exitCode(exitFor(e))
		}
		w.a.con.Say("%s", w.steps.saved.said())
	}
	return exitCode(exitOf(p))
}

// mentionEngine says that a program ran in CPython only because the engine that is meant for it does not work.
func (w *watch) mentionEngine(p agentkernel.Process) {
	if !w.auto || p.Backend != "process" || w.a.cli.quiet() {
		return
	}
	info, err := w.k.Info(w.a.ctx)
	if err != nil {
		return
	}
	for _, b := range info.Backends {
		if b.Name != "monty" || b.Available {
			continue
		}
		mends := "agentkernel doctor"
		if strings.Contains(b.Problem, "not installed") || strings.Contains(b.Fix, "agentkernel setup installs") {
			mends = "agentkernel setup"
		}
		if p.Moved != nil { // the receipt says why
			w.a.con.Note("ran in CPython, where small programs start ten times slower: %s", mends)
			continue
		}
		w.a.con.Note("ran in CPython, where small programs start ten times slower: %s · %s", console.Line(b.Problem), mends)
	}
}

// mentionBoundary explains the failure of a program that raises nothing, a script or a command, by what it said on stderr. told says that a
// line has told of the folder that it saw.
func (w *watch) mentionBoundary(p agentkernel.Process, told bool) {
	if w.spec == nil || p.Error != nil || p.ExitCode == 0 {
		return
	}
	if hint := w.spec.Boundary(w.said); hint != "" && !(told && strings.Contains(hint, "--workspace")) {
		w.a.con.Hint(hint)
	}
}

// lostKernel adds to an error that cut a watch short how the process can be found again.
func lostKernel(err error, pid agentkernel.PID) error {
	e := asError(err)
	recovers := e.WithRecover(pid)
	switch {
	case e.Code == agentkernel.CodeConflict || e.Code == agentkernel.CodeNotFound: // that is an answer of the kernel, which is not lost
		return e
	case e.Hint == "":
		return recovers
	case e.PID == 0: // what it says to do is for any process
		return recovers.WithHint("%s · %s", e.Hint, recovers.Hint)
	}
	return e
}

// findsOrStarts is what a command does that is run again under the idempotency key of its process.
const findsOrStarts = "under its key it finds the program, or starts it if it never began"

// underKey is an error of starting what has an idempotency key, or a prefix of some: where the kernel went away before it said what has begun,
// to start it again is safe, which who wrote the hint could not know. again is what that does.
func underKey(err error, key, again string) error {
	if key == "" || !agentkernel.KernelGone(err) || asError(err).PID != 0 {
		return err
	}
	return asError(err).WithHint("run the same command again: %s; `agentkernel recover` continues what is unfinished", again)
}

// pausedLine says how a process that somebody has watched goes on, so that they see the rest of its output, too.
func pausedLine(p agentkernel.Process) string {
	return pausedFor(p, fmt.Sprintf("agentkernel resume -f %d", p.PID), fmt.Sprintf("agentkernel logs -f %d shows the rest", p.PID))
}

// pausedFor is pausedLine for what is continued, and seen further once it goes on, in ways of its own.
func pausedFor(p agentkernel.Process, resume, rest string) string {
	line := fmt.Sprintf("paused · pid %d", p.PID)
	if p.PauseNote != "" {
		line += " · " + console.Line(p.PauseNote)
	}
	if raise := p.RaiseBudget(); raise != "" {
		return line + fmt.Sprintf(" · continue: %s, and %s · end it: agentkernel kill %d", raise, rest, p.PID)
	}
	if p.AllowanceAgain() != "" {
		return line + fmt.Sprintf(" · then it goes on by itself, and %s · end it: agentkernel kill %d", rest, p.PID)
	}
	return line + fmt.Sprintf(" · continue: %s · end it: agentkernel kill %d", resume, p.PID)
}

func (w *watch) reportJSON(p agentkernel.Process, err error) error {
	r := runResult{State: string(p.State), Stdout: w.stdout.String(), Stderr: w.stderr.String(), Past: w.past, Files: w.fileCounts()}
	if pid := w.process(); pid != 0 {
		r.PID = &pid
	}
	switch {
	case errors.Is(err, errDetached):
		r.State, r.ExitCode = "detached", exitTerminated
	case errors.Is(err, errInterrupted):
		r.State, r.ExitCode = "detached", agentkernel.ExitInterrupted
	case err != nil:
		r.Error = w.a.ofRunningKernel(asError(err))
		if r.PID != nil {
			r.Error, r.State = asError(lostKernel(err, *r.PID)), string(agentkernel.StateUnfinished)
		}
		r.ExitCode = exitFor(r.Error)
		if r.PID == nil {
			r.State = withoutPID(err)
		}
	default:
		r.Running = pidsOf(w.withPrograms(&p))
		if e := w.withoutResult(p); e != nil {
			p.Error, p.ExitCode = e, agentkernel.ExitFailed
		}
		r.fill(p)
		r.Error = w.a.ofRunningKernel(r.Error)
		if p.Paused && !p.State.Terminal() {
			r.State, r.ExitCode = "paused", w.pausedExit()
		}
	}
	r.Error = w.a.hinted(r.Error)
	if w.steps == nil {
		return cmp.Or(w.a.printJSON(r), error(exitCode(r.ExitCode)))
	}
	if saved := w.steps.saved; saved != nil && saved.Error != nil {
		r.ExitCode = exitFor(saved.Error)
	}
	return cmp.Or(w.a.printJSON(w.end(r)), error(exitCode(r.ExitCode)))
}

// withoutPID is the state of a program of which no PID is known, because of an error.
func withoutPID(err error) string {
	if agentkernel.KernelGone(err) { // it may have begun before
		return "unknown"
	}
	return "refused"
}

func (r *runResult) fill(p agentkernel.Process) {
	r.Result, r.Error, r.Backend, r.ExitCode = plain(p.Result), p.Error, p.Backend, exitOf(p)
	r.Syscalls, r.Usage, r.Moved, r.Left = p.Usage.Syscalls, &p.Usage, p.Moved, p.Left
	end := p.Ended
	if end.IsZero() {
		end = time.Now()
	}
	r.DurationMS = float64(end.Sub(p.Created).Microseconds()) / 1000
}

// plain is a value as the world outside the sandbox reads it (docs/values.md, plain form).
func plain(v json.RawMessage) json.RawMessage {
	if len(v) == 0 {
		return json.RawMessage("null")
	}
	if out, err := journal.Plain(v); err == nil {
		return out
	}
	return v
}

// warnUnconfined says what was asked for, also to those who want no receipt.
func (a *app) warnUnconfined(s *agentkernel.Spec) {
	if s.Isolation == agentkernel.IsolationNone {
		a.con.Say("warning: --isolation none: where no walls can stand, this program may do all that you may, with your files, your processes and your network")
	}
}

// runProgram runs a program to its end and reports it: what run and tools call do.
func (a *app) runProgram(spec agentkernel.Spec, ended func(agentkernel.Kernel, *agentkernel.Process)) error {
	return a.runShown(spec, &watch{}, ended)
}

// runShown is runProgram for what is shown in a way of its own, as w says.
func (a *app) runShown(spec agentkernel.Spec, w *watch, ended func(agentkernel.Kernel, *agentkernel.Process)) error {
	w.a, w.hold, w.spec, w.rerun = a, a.cli.JSON, &spec, spec.Past != nil
	w.auto = spec.Program.Language == agentkernel.Python && (spec.Backend == "" || spec.Backend == "auto") && !spec.NeedsFiles()
	k, err := a.kernel()
	if err != nil {
		return w.report(agentkernel.Process{}, err)
	}
	defer k.Close()
	w.k = k
	a.warnUnconfined(&spec)
	a.tellUnpriced(&spec)
	a.mentionVariables(k, &spec)
	a.mentionModels(&spec)
	spec.Interactive = a.askTTY != nil
	w.seen = seenFolder(&spec)
	w.costs()
	p, err := w.follow(func(ctx context.Context, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
		return k.Run(ctx, spec, fn)
	})
	if err == nil {
		w.mu.Lock()
		w.pid = p.PID
		w.mu.Unlock()
		w.noteFiles(&spec, p)
		if w.steps != nil {
			w.steps.keep(a, k, p)
		}
		if ended != nil {
			ended(k, &p)
		}
	}
	if err != nil {
		err = underKey(a.fileMeant(err, &spec), spec.IdempotencyKey, findsOrStarts)
	} else if p.Error != nil {
		p.Error = asError(a.fileMeant(p.Error, &spec))
	}
	return w.report(p, err)
}
