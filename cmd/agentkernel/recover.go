package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/datadir"
	"agentkernel/userland/agent"
)

type recoverCmd struct {
	PID  optionalPID `arg:"" optional:"" help:"Only this process; without it all that are unfinished."`
	Wait bool        `short:"w" help:"Wait until they have ended (always with --embedded)."`

	AcceptLoss bool `help:"Continue without what is lost, if the log of the database was damaged; processes that may have lost the end of their journals are paused."`
}

func (recoverCmd) Help() string {
	return `A kernel that was killed leaves its processes unfinished, not lost. Each is brought back to where its journal
ends: what it did is read, not repeated. A write that was cut off is never repeated; the program gets
OutcomeUnknown, or is paused (--on-unknown).

If the log of the database was damaged, no kernel starts: what is lost would be done again. --accept-loss keeps a
copy of the log, pauses the processes that may have lost the end of their journals, and continues.

` + examples("agentkernel recover", "agentkernel recover 12 --wait", "agentkernel recover --accept-loss")
}

func (c *recoverCmd) Run(a *app) error {
	var pid agentkernel.PID
	var err error
	if c.PID != "" {
		if pid, err = agentkernel.ParsePID(string(c.PID)); err != nil {
			return err
		}
	}
	if c.AcceptLoss {
		if err := a.acceptLoss(); err != nil {
			return err
		}
	}
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	var list []agentkernel.Process
	err = a.withProgress(a.ctx, "recovering", func(ctx context.Context) error {
		list, err = k.Recover(ctx, pid)
		return err
	})
	if err != nil {
		return err
	}
	r := sortRecovered(list)
	text := recoveredText(r.taken)
	if pid != 0 && len(list) == 0 { // serve, or another command, was sooner
		if r, text, err = a.carried(k, pid); err != nil {
			return err
		}
	}
	if !a.cli.JSON && (len(r.taken) > 0 || len(r.left)+len(r.ended) == 0) {
		a.con.Say("%s", text)
	}
	a.each(r.left, func(p *agentkernel.Process) { a.con.Say("%s", leftText(p)) })
	if !a.cli.JSON {
		a.each(r.ended, func(p *agentkernel.Process) { a.con.Say("%s", endedText(p)) })
	}
	if c.Wait || k.inProcess {
		err = a.awaitAll(k, append(r.ended, r.taken...), r.left)
	} else if err = a.listRecovered(append(append(r.taken, r.ended...), r.left...)); err == nil {
		for i := 0; i < len(r.ended) && err == nil; i++ {
			err = exitError(exitOf(r.ended[i]))
		}
	}
	if err == nil && len(r.left) > 0 {
		err = exitCode(r.left[0].Error.Code.ExitCode())
	}
	return err
}

// shownRecovered is how many processes are told of one by one; --json has all.
const shownRecovered = 50

// leftText says of a process that cannot go on why.
func leftText(p *agentkernel.Process) string {
	return fmt.Sprintf("process %d cannot be taken up: %s", p.PID, p.PauseNote)
}

// each lets say be said of each process, up to a bound.
func (a *app) each(list []agentkernel.Process, say func(*agentkernel.Process)) {
	for i := range list {
		if i == shownRecovered {
			a.con.Say("%d more: agentkernel ps -a --limit 0 lists all", len(list)-i)
			return
		}
		say(&list[i])
	}
}

// firstFew joins what is said of each process, up to a bound.
func firstFew(list []string, sep string) string {
	if len(list) <= shownRecovered {
		return strings.Join(list, sep)
	}
	return fmt.Sprintf("%s (and %d more: agentkernel ps)", strings.Join(list[:shownRecovered], sep), len(list)-shownRecovered)
}

// carried is a process that a kernel has taken up already, and what is said of it.
func (a *app) carried(k *session, pid agentkernel.PID) (r recovered, text string, err error) {
	p, err := k.Process(a.ctx, pid)
	if err != nil {
		return r, "", err
	}
	r = sortRecovered([]agentkernel.Process{p})
	if p.Paused || p.Halted != "" {
		return r, recoveredText(r.taken), nil
	}
	return r, fmt.Sprintf("process %d goes on already", pid), nil
}

// recovered are processes by what became of them when they were to be taken up.
type recovered struct {
	taken []agentkernel.Process // they go on, or stand where they stood
	ended []agentkernel.Process // they could not be continued, or have ended by now
	left  []agentkernel.Process // they were left as they were
}

func sortRecovered(list []agentkernel.Process) (r recovered) {
	for _, p := range list {
		switch {
		case p.NotTakenUp():
			r.left = append(r.left, p)
		case p.State.Terminal():
			r.ended = append(r.ended, p)
		default:
			r.taken = append(r.taken, p)
		}
	}
	return r
}

// endedText says of a process that it has ended instead of going on.
func endedText(p *agentkernel.Process) string {
	if exitOf(*p) == 0 {
		return fmt.Sprintf("process %d has ended", p.PID)
	}
	text := fmt.Sprintf("process %d does not go on: it is %s", p.PID, p.State)
	if p.Error != nil {
		text += ": " + p.Error.Message()
	}
	return text
}

// exitError is the end of a command with an exit code; nil: it ends well.
func exitError(code int) error {
	if code == 0 {
		return nil
	}
	return exitCode(code)
}

// acceptLoss makes a data directory usable whose log was damaged, and says what it did.
func (a *app) acceptLoss() error {
	home, err := a.home()
	if err != nil {
		return err
	}
	loss, err := a.parts.acceptLoss(a.ctx, home)
	switch {
	case agentkernel.CodeOf(err) == agentkernel.CodeConflict && kernelHolds(datadir.At(home)):
		loss = nil // it would not run on a damaged one
	case err != nil:
		return err
	}
	if loss == nil {
		a.con.Say("the log is not damaged: there is no loss to accept")
		return nil
	}
	a.con.Say("%s", loss.What)
	for _, path := range loss.Copies {
		a.con.Say("what it was is kept: %s", path)
	}
	a.con.Say("paused: %s; which other processes are lost, or have ended, is not known", processCount(loss.Paused))
	if loss.Paused > 0 {
		a.con.Say("agentkernel trace PID shows how far a journal goes · agentkernel resume PID does again what is lost · agentkernel kill PID does not")
	}
	return nil
}

func processCount(n int) string {
	switch n {
	case 0:
		return "nothing, since no process is unfinished"
	case 1:
		return "1 process that may have lost the end of its journal"
	}
	return fmt.Sprintf("%d processes that may have lost the ends of their journals", n)
}

// recoveredText says what goes on, and what is taken up again but stays paused until somebody resumes it.
func recoveredText(list []agentkernel.Process) string {
	var stays, asked, short, gone, over []string
	halted := 0
	for _, p := range list {
		switch {
		case p.Paused && p.Asks() != "":
			asked = append(asked, resumes(p.PID, p.Asks()))
		case p.RaiseBudget() != "":
			short = append(short, p.RaiseBudget())
		case p.Paused && strings.Contains(p.PauseNote, agentkernel.OfProgram):
			gone = append(gone, p.PID.String())
		case p.Paused:
			stays = append(stays, p.PID.String())
		case p.Halted != "":
			if halted++; !slices.Contains(over, p.Halted) {
				over = append(over, p.Halted)
			}
		}
	}
	paused := len(stays)
	var parts []string
	switch n := len(list) - paused - len(asked) - len(short) - len(gone) - halted; {
	case len(list) == 0:
		return "nothing is left to recover"
	case n == 1:
		parts = append(parts, "1 process goes on")
	case n > 1:
		parts = append(parts, fmt.Sprintf("%d processes go on", n))
	}
	if halted > 0 {
		parts = append(parts, fmt.Sprintf("%s still, since %s is halted: agentkernel ps says how it goes on", counted(int64(halted), "stands", "stand"), strings.Join(over, ", and ")))
	}
	switch {
	case paused == 1:
		parts = append(parts, "1 stays paused: agentkernel resume "+stays[0])
	case paused > 1:
		parts = append(parts, fmt.Sprintf("%d stay paused: agentkernel resume %s", paused, firstFew(stays, " ")))
	}
	if len(asked) > 0 {
		parts = append(parts, fmt.Sprintf("%d waiting for your answer: %s", len(asked), firstFew(asked, ", ")))
	}
	if len(short) > 0 {
		parts = append(parts, fmt.Sprintf("%d paused at the end of a budget: %s", len(short), firstFew(short, ", ")))
	}
	if len(gone) > 0 {
		parts = append(parts, fmt.Sprintf("%d paused, whose tools are functions of a program that has ended: agentkernel kill %s ends them, resume lets them go on without", len(gone), firstFew(gone, " ")))
	}
	return strings.Join(parts, ", ")
}

func (a *app) listRecovered(list []agentkernel.Process) error {
	if a.cli.JSON {
		return a.printProcesses(list)
	}
	if len(list) > 0 {
		a.con.Out(processTable(list[:min(len(list), shownRecovered)], time.Now()))
	}
	if more := len(list) - shownRecovered; more > 0 {
		a.con.Note("%d more: agentkernel ps -a --limit 0 lists all", more)
	}
	return a.outputError()
}

// awaitAll waits for the recovered processes; the exit code is that of the first that did not end well. left were not taken up.
func (a *app) awaitAll(k *session, list, left []agentkernel.Process) error {
	code := 0
	tasks, sessions := map[agentkernel.PID]*agentkernel.Spec{}, map[agentkernel.PID]bool{}
	for _, p := range list {
		spec, err := k.Spec(a.ctx, p.PID)
		switch {
		case err == nil && agent.Does(&spec.Program):
			tasks[p.PID] = &spec
		case err == nil && spec.Program.Session:
			sessions[p.PID] = true
		}
	}
	for i, p := range list {
		if sessions[p.PID] && !p.State.Terminal() {
			a.con.Say("process %d is a session, which goes on as long as a client may come back to it, and is not waited for · agentkernel kill %d ends it", p.PID, p.PID)
			continue
		}
		var end agentkernel.Process
		said := p.Halted
		if a.cli.JSON {
			said = ""
		}
		err := a.whileAwaited(a.ctx, k, p.PID, said, func() (err error) {
			end, err = k.Wait(a.ctx, p.PID)
			return err
		})
		if err != nil {
			return err
		}
		list[i] = end
		if tasks[p.Parent] != nil { // the task tells what became of its programs
			continue
		}
		ended := exitOf(end)
		switch {
		case a.cli.JSON:
		case tasks[p.PID] != nil:
			if ended, err = a.reportTask(k, end, tasks[p.PID]); err != nil {
				return err
			}
		default:
			a.reportEnded(k, end)
		}
		if code == 0 {
			code = ended
		}
	}
	if a.cli.JSON {
		if err := a.printProcesses(append(list, left...)); err != nil {
			return err
		}
	}
	return exitError(code)
}

// reportTask tells how a task that was recovered has ended, as do tells it, and returns the exit code.
func (a *app) reportTask(k *session, p agentkernel.Process, spec *agentkernel.Spec) (int, error) {
	w := &watch{a: a, k: k, pid: p.PID, look: a.newLook(), spec: spec, rerun: spec.Past != nil}
	if p.State == agentkernel.StateExited && p.ExitCode != 0 {
		err := k.Events(a.ctx, p.PID, 0, false, func(e agentkernel.Event) error {
			if e.Kind == agentkernel.EventOutput && e.Stream == "stderr" {
				w.said = (w.said + e.Text)[max(0, len(w.said)+len(e.Text)-saidAtMost):]
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		lines := strings.Split(strings.TrimSpace(w.said), "\n")
		a.con.Say("%s", lines[len(lines)-1]) // why it is not done
	}
	var code exitCode
	if err := w.report(p, nil); !errors.As(err, &code) {
		return 0, err
	}
	return int(code), nil
}

func (a *app) printProcesses(list []agentkernel.Process) error {
	out := make([]printed, len(list))
	for i, p := range list {
		out[i] = public(p)
	}
	return a.printJSON(out)
}
