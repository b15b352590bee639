package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/shellword"
	"agentkernel/userland/agent"
)

type killCmd struct {
	PIDs   []string `arg:"" optional:"" name:"pid" help:"Processes."`
	All    bool     `help:"All that have not ended. You are asked, unless --yes says that you mean it."`
	Yes    bool     `short:"y" help:"With --all: do not ask."`
	Signal string   `short:"s" default:"kill" placeholder:"SIGNAL" help:"kill (default), stop, interrupt, pause or resume."`
	Tree   bool     `help:"Also the children that were detached."`
}

func (killCmd) Help() string {
	return `kill ends a process and its children at once, but for those that it has detached. stop asks first: see agentkernel stop.

` + examples("agentkernel kill 12", "agentkernel kill --tree 12", "agentkernel kill --all")
}

func (c *killCmd) Run(a *app) error {
	if known, ok := unixSignal(c.Signal); ok {
		c.Signal = string(known)
	}
	switch {
	case c.All && len(c.PIDs) > 0:
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--all is all processes; leave the PIDs out")
	case c.All:
		return c.killAll(a)
	case len(c.PIDs) == 0:
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "missing: PID").WithHint("agentkernel kill --help")
	}
	return a.signalAll(c.PIDs, sending{Signal: agentkernel.Signal(c.Signal), SignalOptions: agentkernel.SignalOptions{Tree: c.Tree}})
}

// killAll signals the processes that have not ended and that nobody unfinished has started: the others go with those, also
// what they have detached.
func (c *killCmd) killAll(a *app) error {
	k, _, err := a.readable()
	if isNothingYet(err) {
		err, k = nil, nil
	}
	if err != nil {
		return err
	}
	parents := map[agentkernel.PID]agentkernel.PID{} // of those that are there
	if k != nil {
		for page, perr := range agentkernel.Pages(a.ctx, k, agentkernel.Filter{Unfinished: true}) {
			for i := range page {
				parents[page[i].PID] = page[i].Parent
			}
			err = perr
		}
		if err = errors.Join(err, k.Close()); err != nil {
			return err
		}
	}
	each := agentkernel.Signal(c.Signal) == agentkernel.SignalInterrupt // which reaches no other
	var pids []string
	for _, pid := range slices.Backward(slices.Sorted(maps.Keys(parents))) {
		_, there := parents[parents[pid]]
		if !there || each {
			pids = append(pids, pid.String())
		}
	}
	if len(pids) == 0 {
		a.con.Note("nothing runs")
		return nil
	}
	named := strings.Join(pids[:min(len(pids), namedRunning)], ", ")
	if more := len(pids) - namedRunning; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	if err := c.meant(a, len(parents), named); err != nil {
		return err
	}
	return a.signalAll(pids, sending{Signal: agentkernel.Signal(c.Signal), SignalOptions: agentkernel.SignalOptions{Tree: !each}, brief: len(pids) > namedRunning})
}

// meant asks whether all processes are meant.
func (c *killCmd) meant(a *app, n int, pids string) error {
	if c.Yes {
		return nil
	}
	refused := agentkernel.Errorf(agentkernel.CodeDenied, "kill", "--all would %s %d processes (pid %s); nothing was done", c.Signal, n, pids)
	if a.askTTY == nil {
		return refused.WithHint("--yes says that you mean it")
	}
	tty, err := a.askTTY()
	if err != nil {
		return refused.WithHint("--yes says that you mean it")
	}
	defer tty.Close()
	line, err := a.human(tty).ask(fmt.Sprintf("%s %d processes (pid %s)? [y]es, [N]o ", c.Signal, n, pids))
	if answer, known := parseAnswer(line); err != nil || !known || answer != agentkernel.AnswerYes {
		return refused
	}
	return nil
}

type pauseCmd struct {
	PIDs []string `arg:"" name:"pid" help:"Processes."`
	Tree bool     `help:"Also the children that were detached."`
}

func (pauseCmd) Help() string {
	return `A process stops with everything below it: the programs that it has spawned, and theirs. resume lets go what was
stopped with it; a child that was paused by its own PID stays so until it is resumed by that.

` + examples("agentkernel pause 12", "agentkernel resume 12")
}

func (c *pauseCmd) Run(a *app) error {
	return a.signalAll(c.PIDs, sending{Signal: agentkernel.SignalPause, SignalOptions: agentkernel.SignalOptions{Tree: c.Tree}})
}

type resumeCmd struct {
	PIDs   []string `arg:"" name:"pid" help:"Processes."`
	Follow bool     `short:"f" help:"Show the output from here on and wait for the end (one process)."`
}

func (resumeCmd) Help() string {
	return `A process goes on with the children that were paused with it. One whose kernel has stopped since is continued
first, and so is what is unfinished below it. With --embedded the command waits for the
end, since the process has no other kernel.

` + examples("agentkernel resume 12", "agentkernel resume -f 12")
}

func (c *resumeCmd) Run(a *app) error {
	if !c.Follow && !a.cli.Embedded {
		return a.signalAll(c.PIDs, sending{Signal: agentkernel.SignalResume})
	}
	if !c.Follow || a.askTTY == nil {
		if err := a.nothingAsked(c.PIDs); err != nil {
			return err
		}
	}
	if len(c.PIDs) != 1 {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "resume", "one process can be followed at a time, not %d", len(c.PIDs))
	}
	pid, err := agentkernel.ParsePID(c.PIDs[0])
	if err != nil {
		return err
	}
	return a.followFrom(pid, func(ctx context.Context, k agentkernel.Kernel) error {
		return k.Signal(ctx, pid, agentkernel.SignalResume)
	})
}

// nothingAsked refuses to resume a process that was paused at a question where nobody would be asked it.
func (a *app) nothingAsked(words []string) error {
	pids, err := parsePIDs(words)
	if err != nil {
		return err
	}
	k, _, err := a.readable() // what is wrong with it, the command itself says
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	defer k.Close()
	for _, pid := range pids {
		p, err := k.Process(a.ctx, pid)
		if err != nil || !p.Paused {
			continue
		}
		if call := p.Asks(); call != "" {
			return unanswerable("resume", pid, call)
		}
	}
	return nil
}

// unanswerable says that a process waits for an answer that nobody can give here.
func unanswerable(op string, pid agentkernel.PID, call string) error {
	return agentkernel.Errorf(agentkernel.CodeConflict, op, "process %d waits for your answer whether it may call %s", pid, call).WithPID(pid).
		WithHint("at a terminal, `%s` asks again; without one, agentkernel kill %d, and run the program with --allow %s", resumes(pid, call), pid, shellword.Quoted(call))
}

// resumes is the command with which a paused process goes on. asks is the call about which somebody has to be there to answer.
func resumes(pid agentkernel.PID, asks string) string {
	if asks == "" {
		return "agentkernel resume " + pid.String()
	}
	return "agentkernel resume -f " + pid.String()
}

// signalled is what kill, pause and resume --json print for each process.
type signalled struct {
	PID    agentkernel.PID    `json:"pid"`
	Signal agentkernel.Signal `json:"signal"`
	Error  *agentkernel.Error `json:"error,omitempty"`
	// State and ExitCode are those with which a process has ended that stop has waited for.
	State    agentkernel.State `json:"state,omitempty"`
	ExitCode *int              `json:"exit_code,omitempty"`
	// Paused is why it is paused all the same, although it was resumed.
	Paused string `json:"paused,omitempty"`

	needless bool // it was not paused when it was resumed
}

// resumed notes what is to be said of a resume beside that the process goes on. was is the process before.
func (s *signalled) resumed(ctx context.Context, k agentkernel.Kernel, was agentkernel.Process) {
	if was.State == agentkernel.StateUnfinished || was.Shortage() != nil { // no kernel ran it, or too little is left of a budget
		s.Paused = staysPaused(ctx, k, s.PID)
	}
	s.needless = !was.Paused && was.Halted == "" && was.State != agentkernel.StateUnfinished && !was.State.Terminal()
}

// sending is a signal that a command sends.
type sending struct {
	agentkernel.Signal
	agentkernel.SignalOptions
	await bool // the end of a process that is asked to stop
	brief bool // many are told of with one line, and not by name: nobody has named them
}

// signalAll sends a signal to each process. One that cannot have it keeps it from no other; the exit code is that of the first
// of them.
func (a *app) signalAll(words []string, send sending) error {
	s := send.Signal
	if _, err := send.Of(s); err != nil {
		return err
	}
	pids, err := parsePIDs(words)
	if err != nil {
		return err
	}
	refused, before, err := a.notSignalled(pids, s)
	if err != nil {
		return err
	}
	if len(pids) == 1 && refused[pids[0]] != nil {
		return refused[pids[0]]
	}
	var k *session
	if len(refused) < len(pids) { // else none is started for it
		if k, err = a.kernel(); err != nil {
			return err
		}
		defer k.Close()
	}
	if send.await { // all are asked before one is waited for
		for _, pid := range pids {
			if refused[pid] == nil {
				if err := k.Signal(a.ctx, pid, s, send.SignalOptions); err != nil {
					refused[pid] = err
				}
			}
		}
	}
	code, untold := agentkernel.ExitOK, 0
	for _, pid := range pids {
		err := refused[pid]
		var end *agentkernel.Process
		if err == nil {
			end, err = a.signal(k, pid, send)
		}
		if err != nil && len(pids) == 1 {
			return err
		}
		if send.brief && err == nil && !a.cli.JSON {
			untold++
			continue
		}
		line := signalled{PID: pid, Signal: s}
		resumed := s == agentkernel.SignalResume && err == nil
		if resumed {
			line.resumed(a.ctx, k, before[pid])
		}
		if err := a.reportSignal(line, end, err, &code); err != nil {
			return err
		}
		if resumed {
			a.noteHalted(k, pid)
		}
	}
	if untold > 0 {
		a.con.Note("%s", manySignalled(untold, s))
	}
	if code != agentkernel.ExitOK {
		return exitCode(code)
	}
	return nil
}

// manySignalled says that many processes were sent a signal.
func manySignalled(n int, s agentkernel.Signal) string {
	switch s {
	case agentkernel.SignalKill:
		return fmt.Sprintf("killed %d processes, with all below them", n)
	case agentkernel.SignalStop:
		return fmt.Sprintf("%d processes are asked to stop, with all below them", n)
	}
	return fmt.Sprintf("sent %s to %d processes", s, n)
}

// signal sends a signal; one that ends the process has ended it then. end is the process that stop has waited for.
func (a *app) signal(k *session, pid agentkernel.PID, send sending) (end *agentkernel.Process, err error) {
	if send.await {
		if p, ended := awaitDeath(a.ctx, k, pid, time.Duration(send.Grace)+endPatience); ended {
			return &p, nil
		}
		if a.ctx.Err() != nil {
			a.con.Note("process %d is asked to stop, and is killed if it does not", pid)
		}
		return nil, a.ctx.Err()
	}
	if err := k.Signal(a.ctx, pid, send.Signal, send.SignalOptions); err != nil {
		return nil, err
	}
	if send.Signal == agentkernel.SignalKill {
		awaitDeath(a.ctx, k, pid, deathPatience)
	}
	return nil, nil
}

// reportSignal says that a process was sent a signal, or why not.
// end is how it has ended; nil: nobody has waited for that.
func (a *app) reportSignal(line signalled, end *agentkernel.Process, failed error, code *int) error {
	pid, s := line.PID, line.Signal
	if end != nil {
		line.State, line.ExitCode = end.State, &end.ExitCode
	}
	if failed != nil {
		line.Error = a.ofRunningKernel(asError(failed))
		if !strings.Contains(line.Error.Message(), pid.String()) {
			line.Error.Err = fmt.Errorf("pid %d: %w", pid, line.Error.Err)
		}
		*code = cmp.Or(*code, exitFor(line.Error))
	}
	switch {
	case a.cli.JSON:
		return a.printJSON(line)
	case failed != nil:
		a.reportError(line.Error)
	case line.Paused != "":
		a.con.Note("process %d is paused · %s", pid, console.Line(line.Paused))
	case line.needless:
		a.con.Note("process %d was not paused · follow: agentkernel logs -f %d", pid, pid)
	case end != nil:
		a.con.Note("%s", endNote(end))
	default:
		a.con.Note("%s", signalNote(pid, s))
	}
	return nil
}

// noteHalted says of a process that was resumed that it stands still all the same.
func (a *app) noteHalted(k agentkernel.Kernel, pid agentkernel.PID) {
	if p, err := k.Process(a.ctx, pid); err == nil && p.Halted != "" && !a.cli.JSON {
		a.con.Note("process %d stands still all the same: %s is halted · agentkernel ps says how to let it go on", pid, p.Halted)
	}
}

// endNote says how a process has ended that was asked to stop.
func endNote(p *agentkernel.Process) string {
	note := "process " + p.PID.String() + " has ended: " + stateText(*p)
	if p.Error != nil {
		note += " · " + console.Line(p.Error.Message())
	}
	return note
}

// staysPaused says why a process that was taken up again has paused at once: a call of which nobody knows what became of it. It waits
// for that until the process has done again what its journal says, and not long.
func staysPaused(ctx context.Context, k agentkernel.Kernel, pid agentkernel.PID) string {
	ctx, cancel := context.WithTimeout(ctx, replayPatience)
	defer cancel()
	tick := time.NewTicker(deathPoll)
	defer tick.Stop()
	for waits := 0; waits < settled; {
		p, err := k.Process(ctx, pid)
		switch {
		case err != nil || p.State.Terminal():
			return ""
		case p.Paused && p.PauseNote != "":
			return strings.TrimSuffix(p.PauseNote+" · "+p.EndsShortage(), " · ")
		case p.State == agentkernel.StateWaiting:
			waits++
		}
		select {
		case <-ctx.Done():
			return ""
		case <-tick.C:
		}
	}
	return ""
}

// How long kill looks whether the process has gone; a program that computes is stopped with its worker, which
// takes a moment.
const (
	deathPatience = 2 * time.Second
	endPatience   = 10 * time.Second // beyond the grace time of a stop
	deathPoll     = 5 * time.Millisecond

	replayPatience = 4 * time.Second // of a worker that begins on a slow machine
	settled        = 4               // a process that waits so many looks long is not about to pause
)

// awaitDeath returns when the process has ended, so that what follows kill in a script finds it so. It gives up after a while.
// (Kernel.Wait would return at once for a paused process.)
func awaitDeath(ctx context.Context, k agentkernel.Kernel, pid agentkernel.PID, patience time.Duration) (p agentkernel.Process, ended bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(deathPoll)
	defer tick.Stop()
	for {
		p, err := k.Process(ctx, pid)
		if ended := err == nil && p.State.Terminal(); ended || err != nil {
			return p, ended
		}
		select {
		case <-ctx.Done():
			return p, false
		case <-tick.C:
		}
	}
}

func signalNote(pid agentkernel.PID, s agentkernel.Signal) string {
	switch s {
	case agentkernel.SignalKill:
		return "killed process " + pid.String()
	case agentkernel.SignalStop:
		return "process " + pid.String() + " is asked to stop · follow: agentkernel logs -f " + pid.String()
	case agentkernel.SignalPause:
		return "process " + pid.String() + " pauses · continue: agentkernel resume " + pid.String()
	case agentkernel.SignalResume:
		return "process " + pid.String() + " goes on · follow: agentkernel logs -f " + pid.String()
	}
	return "sent " + string(s) + " to process " + pid.String()
}

// notSignalled says which processes cannot have a signal, before a kernel is started for them: those that are not there or have
// ended, and those that would go on with a question that nobody is asked. before is how each was.
func (a *app) notSignalled(pids []agentkernel.PID, s agentkernel.Signal) (refused map[agentkernel.PID]error, before map[agentkernel.PID]agentkernel.Process, err error) {
	k, _, err := a.readable() // who needs the kernel says that it does not answer
	if err != nil {
		return nil, nil, err
	}
	defer k.Close()
	var reruns map[agentkernel.PID]agentkernel.PID
	refused, before = map[agentkernel.PID]error{}, map[agentkernel.PID]agentkernel.Process{}
	for _, pid := range pids {
		p, err := k.Process(a.ctx, pid)
		before[pid] = p
		switch {
		case err != nil:
			refused[pid] = err
		case p.State.Terminal() && !a.livesBelow(k, pid, s):
			ended := agentkernel.Errorf(agentkernel.CodeConflict, string(s), "process %d has ended already: %s", pid, stateText(p))
			if reruns == nil {
				reruns = a.reruns(k)
			}
			if rerun := reruns[pid]; rerun != 0 { // which has the PID of this one in what it prints
				ended = ended.WithHint("process %d is its rerun: %s", rerun, signalCommand(rerun, s))
			}
			refused[pid] = ended
		case s == agentkernel.SignalResume && p.Paused && p.Asks() != "":
			refused[pid] = unanswerable("resume", pid, p.Asks())
		}
	}
	return refused, before, nil
}

// signalCommand is the command that sends a signal to a process.
func signalCommand(pid agentkernel.PID, s agentkernel.Signal) string {
	switch s {
	case agentkernel.SignalUser:
		return fmt.Sprintf("agentkernel signal %d user ...", pid)
	case agentkernel.SignalInterrupt:
		return fmt.Sprintf("agentkernel signal %d interrupt", pid)
	}
	return fmt.Sprintf("agentkernel %s %d", s, pid)
}

// livesBelow says whether a signal that reaches the children of a process finds some that have not ended.
func (a *app) livesBelow(k agentkernel.Kernel, pid agentkernel.PID, s agentkernel.Signal) bool {
	if s == agentkernel.SignalInterrupt || s == agentkernel.SignalUser {
		return false
	}
	n, err := k.Count(a.ctx, agentkernel.Filter{Parent: pid, Unfinished: true})
	return err == nil && n > 0
}

// followFrom starts something about a process and shows its events from then on, like run.
func (a *app) followFrom(pid agentkernel.PID, begin func(context.Context, agentkernel.Kernel) error) error {
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	w := &watch{a: a, k: k, pid: pid, hold: a.cli.JSON}
	if spec, err := k.Spec(a.ctx, pid); err == nil && agent.Talks(&spec.Program) {
		return agentkernel.Errorf(agentkernel.CodeConflict, "resume", "process %d is a conversation: what is typed here would not reach it", pid).WithPID(pid).
			WithHint("agentkernel chat --resume %d", pid)
	} else if err == nil && agent.Does(&spec.Program) {
		w.look, w.rerun = a.newLook(), spec.Past != nil // and its terminal tells the task what is typed
		w.costs()
	}
	p, err := w.follow(func(ctx context.Context, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
		p, err := k.Process(ctx, pid)
		if err != nil {
			return p, err
		}
		if p.Paused { // if its kernel has ended, it stays so
			if _, err := k.Recover(ctx, pid); err != nil {
				return p, err
			}
		}
		entries, err := k.Journal(ctx, pid, 1, 0)
		if err != nil {
			return p, err
		}
		last := int64(len(entries))
		if !p.Paused {
			if err := begin(ctx, k); err != nil {
				return p, err
			}
			return followEvents(ctx, k, pid, last+1, fn)
		}
		// What it asks as soon as it goes on is to find somebody who can answer: the first event says that we are there.
		begun := false
		return followEvents(ctx, k, pid, 1, func(e agentkernel.Event) error {
			if !begun {
				begun = true
				if err := begin(ctx, k); err != nil {
					return err
				}
			}
			if e.Seq <= last && e.Kind != agentkernel.EventAsk {
				return errKnown
			}
			return fn(e)
		})
	})
	return w.report(p, err)
}

// errKnown is the answer to an event that was shown before.
var errKnown = errors.New("known")

// followEvents reports events until the process ends or pauses, as Kernel.Run does.
func followEvents(ctx context.Context, k agentkernel.Kernel, pid agentkernel.PID, from int64, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var last agentkernel.Process
	ended := false
	err := k.Events(ctx, pid, from, true, func(e agentkernel.Event) error {
		switch err := fn(e); {
		case errors.Is(err, errKnown):
			return nil
		case err != nil:
			return err
		}
		if e.Process != nil {
			last = *e.Process
			ended = e.Kind == agentkernel.EventEnd || e.Kind == agentkernel.EventState && last.Paused
		}
		if ended {
			cancel()
		}
		return nil
	})
	if ended {
		return last, nil
	}
	if err != nil {
		return last, err
	}
	return k.Process(ctx, pid)
}
