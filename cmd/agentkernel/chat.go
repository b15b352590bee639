package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/userland/agent"
)

type chatCmd struct {
	Model  string `placeholder:"ALIAS" help:"Which model answers and writes the programs: an alias of the setting models (default: the first one)."`
	Turns  int    `placeholder:"N" help:"How many answers of the model each thing that you say may take (default 20)."`
	Resume string `placeholder:"PID" help:"Go on with an earlier conversation."`
	Piped  bool   `name:"piped-commands" help:"Do /save and /image also where standard input is no terminal."`
	boundFlags
	specFlags
}

func (chatCmd) Help() string {
	return `A conversation: what you say next is done with all that was said, and with the variables of the programs so far. Each line is one thing to
say. Piped, the answers alone are on standard output; all else is on standard error. /save and /image are not done then, since the
lines may be of a file that somebody else wrote, unless --piped-commands says so.

Ctrl-C interrupts what is being done, and that is forgotten; a second Ctrl-C leaves. Ctrl-D or /quit ends the conversation; /cost says what it
has cost, /image FILE shows a picture, /save NAME keeps a program as a skill, /help has all. When the terminal is closed, or the kernel dies, it is left as it is: --resume PID goes on.

Tools, permissions, bounds and --workspace are those of agentkernel do. Programs run in the process of the conversation, in CPython.

` + examples(
		"agentkernel chat",
		"agentkernel chat --tools mcp.json --model smart",
		"agentkernel chat --workspace . --budget-usd 2",
		"agentkernel chat --resume 12",
		"printf 'What is 15%% of 240?\\nAnd of 300?\\n' | agentkernel chat",
	)
}

func (c *chatCmd) Run(a *app) error {
	if c.Resume != "" {
		pid, err := agentkernel.ParsePID(c.Resume)
		if err != nil {
			return err
		}
		return c.talk(a, func(t *talk) error { return t.resume(pid) })
	}
	spec, err := c.spec(a)
	if err != nil {
		return a.refuse(err)
	}
	return c.talk(a, func(t *talk) error { return t.begin(spec) })
}

// spec is the process of a new conversation.
func (c *chatCmd) spec(a *app) (agentkernel.Spec, error) {
	modules, err := a.offeredTools()
	if err != nil {
		return agentkernel.Spec{}, err
	}
	spec, err := a.spec(&c.specFlags, agentkernel.Program{Language: agentkernel.Python, Modules: modules})
	if err != nil {
		return spec, err
	}
	if err := c.set(&spec); err != nil { // a flag that cannot be is said first, as everywhere
		return spec, err
	}
	models, _, err := a.loadModels()
	if err == nil && len(models) == 0 && len(c.BringModel) == 0 {
		err = agentkernel.Errorf(agentkernel.CodeUnavailable, "chat", "no model is configured").WithHint("%s", a.declareModel())
	}
	if err == nil {
		err = a.knownModel(c.Model, models, c.BringModel)
	}
	if err != nil {
		return spec, err
	}
	task := agent.Task{Model: c.Model, Turns: c.Turns, Watched: a.watched() && a.con.OutTTY()}
	if err := a.addTask(&spec, task, true, &listedTools{a: a}); err != nil {
		return spec, err
	}
	if spec.Backend == "" || spec.Backend == "auto" {
		spec.Backend = "process"
	}
	spec.Interactive = a.askTTY != nil
	if spec.OnBudget == "" {
		spec.OnBudget = agentkernel.BudgetRaise
	}
	return spec, spec.Validate()
}

// talk is a conversation at this command.
type talk struct {
	a    *app
	k    *session
	pid  agentkernel.PID
	look *look

	always   *always         // for all that is said until this command ends
	pictures []agent.Picture // that are shown with what is said next

	lines *bufio.Reader
	trust bool // whoever writes the lines may have files read and skills kept
	typed bool // what is said is typed at a terminal, and is asked for

	interrupted time.Time // when Ctrl-C was last pressed: a second one leaves
}

func (c *chatCmd) talk(a *app, begin func(*talk) error) error {
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	t := &talk{a: a, k: k, look: a.newLook(), always: &always{}, lines: bufio.NewReader(a.in), trust: a.inTTY || c.Piped, typed: a.inTTY && a.con.Interactive()}
	if err := begin(t); err != nil {
		return err
	}
	return t.loop()
}

// known notes which conversation it is, and says so where somebody is there.
func (t *talk) known(pid agentkernel.PID) {
	if t.pid = pid; t.typed {
		t.a.con.Note("conversation %d · Ctrl-D ends it, /help says what else there is", pid)
	}
}

func (t *talk) begin(spec agentkernel.Spec) error {
	t.a.warnUnconfined(&spec)
	t.a.mentionModels(&spec)
	p, err := t.k.Spawn(t.a.ctx, spec)
	if err != nil {
		return err
	}
	t.known(p.PID)
	return t.turn(t.atRest)
}

// resume goes on with a conversation, when what was being done is done.
func (t *talk) resume(pid agentkernel.PID) error {
	spec, err := t.k.Spec(t.a.ctx, pid)
	if err != nil {
		return err
	}
	if !agent.Talks(&spec.Program) {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "chat", "process %d is no conversation", pid).WithPID(pid).WithHint("agentkernel ps -a lists them: they are called chat")
	}
	p, err := t.k.Process(t.a.ctx, pid)
	if err == nil && p.State.Terminal() {
		err = agentkernel.Errorf(agentkernel.CodeConflict, "chat", "conversation %d has ended: %s", pid, stateText(p)).WithPID(pid).WithHint("agentkernel chat begins another")
	}
	if err == nil {
		_, err = t.k.Recover(t.a.ctx, pid)
	}
	if err == nil {
		p, err = t.k.Process(t.a.ctx, pid)
	}
	if err != nil {
		return err
	}
	t.known(pid)
	if p.Paused && p.Asks() == "" {
		if err := t.k.Signal(t.a.ctx, pid, agentkernel.SignalResume); err != nil {
			return err
		}
	}
	return t.turn(t.atRest)
}

// restPoll is how often a conversation that is taken up is asked whether it waits for the user.
const restPoll = 20 * time.Millisecond

// atRest shows what the conversation does until it waits for the user.
func (t *talk) atRest(ctx context.Context, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
	entries, err := t.k.Journal(ctx, t.pid, 1, 0)
	if err != nil {
		return agentkernel.Process{}, err
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	var last agentkernel.Process
	followed := make(chan error, 1)
	go func() {
		followed <- t.k.Events(following, t.pid, int64(len(entries))+1, true, fn)
	}()
	tick := time.NewTicker(restPoll)
	defer tick.Stop()
	for {
		last, err = t.k.Process(ctx, t.pid)
		if err != nil || last.State.Terminal() || last.Paused && last.Asks() == "" || slices.Contains(last.WaitsFor, "proc.next") {
			break
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
			err = ctx.Err()
		case err = <-followed:
			return last, err
		}
		break
	}
	stop()
	if failed := <-followed; err == nil && failed != nil && !errors.Is(failed, context.Canceled) {
		err = failed
	}
	return last, err
}

// loop takes what the user says, one line after the other, until there is no more.
func (t *talk) loop() error {
	for {
		said, err := t.next()
		switch {
		case errors.Is(err, io.EOF):
			return t.end()
		case err != nil:
			return err
		case said == "":
			continue
		case strings.HasPrefix(said, "/"):
			if over, err := t.command(said); over || err != nil {
				return err
			}
			continue
		}
		if err := t.say(said); err != nil {
			return err
		}
	}
}

// next is what the user says next. At a terminal Ctrl-C says nothing, and leaves the conversation if one was pressed just before, here
// or while something was done; so does a closed terminal, or SIGTERM.
func (t *talk) next() (string, error) {
	if !t.typed {
		return t.line()
	}
	signals, stop := t.a.signals()
	defer stop()
	type read struct {
		line string
		err  error
	}
	lines := make(chan read, 1)
	done := t.a.con.Prompt("> ", nil)
	defer func() { done() }()
	go func() {
		line, err := t.line()
		lines <- read{line, err}
	}()
	for {
		select {
		case r := <-lines:
			if errors.Is(r.err, io.EOF) {
				t.a.con.Echoed()
			}
			return r.line, r.err
		case s := <-signals:
			if s != os.Interrupt {
				return "", t.left(errDetached)
			}
			if time.Since(t.interrupted) < againPatience {
				t.a.con.Echoed()
				return "", t.left(errInterrupted)
			}
			t.interrupted = time.Now()
			done()
			t.a.con.Echoed()
			t.a.con.Note("Ctrl-C again leaves the conversation, Ctrl-D ends it")
			done = t.a.con.Prompt("> ", nil)
		case <-t.a.ctx.Done():
			return "", t.a.ctx.Err()
		}
	}
}

func (t *talk) line() (string, error) {
	line, err := t.lines.ReadString('\n')
	if line = strings.TrimSpace(line); line != "" {
		err = nil // what comes next says that there is no more
	}
	return line, err
}

// command does what begins with a slash; over says that the conversation is.
func (t *talk) command(said string) (over bool, err error) {
	said, name, _ := strings.Cut(said, " ")
	if !t.trust && (said == "/image" || said == "/save") {
		t.a.con.Say("%s is not done: standard input is no terminal, and --piped-commands was not given", said)
		return false, nil
	}
	switch name = strings.TrimSpace(name); said {
	case "/quit", "/exit":
		return true, t.end()
	case "/cost":
		u, err := t.k.ModelUsage(t.a.ctx, agentkernel.UsageQuery{Tree: t.pid})
		if err != nil {
			return false, t.lost(err)
		}
		t.a.con.Say("$%.4f so far · calls to models: %d", float64(u.Total.USD)/1e9, u.Total.Calls)
	case "/image":
		return false, t.show(name)
	case "/save":
		return false, t.save(name)
	case "/help":
		t.a.con.Say("/cost        what it has cost so far\n/image FILE  shows a picture with what is said next\n/save NAME   keeps the last program that has a function as a skill\n/quit        ends the conversation, as Ctrl-D does\nCtrl-C interrupts what is being done; a second one leaves")
	default:
		t.a.con.Say("there is no %s: there are /cost, /image, /save, /help and /quit", said)
	}
	return false, nil
}

// show keeps a picture for what is said next. That it cannot be shown ends no conversation.
func (t *talk) show(path string) error {
	pictures, err := readPictures(append(pathsOf(t.pictures), path))
	if err != nil {
		t.a.reportError(asError(err))
		return nil
	}
	t.pictures = pictures
	t.a.con.Say("%s is shown with what you say next", path)
	return nil
}

func pathsOf(pictures []agent.Picture) (paths []string) {
	for _, p := range pictures {
		paths = append(paths, p.Name)
	}
	return paths
}

// save keeps the last program that ended well, and has a function, as a skill.
func (t *talk) save(name string) error {
	spec, err := t.k.Spec(t.a.ctx, t.pid)
	if err != nil {
		return t.lost(err)
	}
	end, err := t.k.Feed(t.a.ctx, t.pid, agentkernel.Cell{Name: "save", Source: agent.LastProgram}, func(agentkernel.Event) error { return nil })
	if err != nil {
		return t.lost(err)
	}
	var code string
	_ = json.Unmarshal(plain(end.Result), &code) // null: there is none
	if code == "" {
		t.a.con.Say("no program that has ended well has a function at its top")
		return nil
	}
	saved, err := t.k.SaveSkill(t.a.ctx, agentkernel.Skill{Namespace: spec.Namespace, Name: name, Code: code})
	if err != nil {
		t.a.reportError(asError(err))
		return nil
	}
	t.a.con.Say("%s", (&savedSkill{Name: saved.Name, Version: saved.Version, Functions: saved.Functions}).said())
	return nil
}

// say hands over what the user says, and shows what is done until there is an answer.
func (t *talk) say(said string) error {
	entries, err := t.k.Journal(t.a.ctx, t.pid, 1, 0)
	if err != nil {
		return t.lost(err)
	}
	u, err := t.k.ModelUsage(t.a.ctx, agentkernel.UsageQuery{Tree: t.pid})
	if err != nil {
		return t.lost(err)
	}
	cell := agentkernel.Cell{Name: fmt.Sprintf("said %d", len(entries)), Source: agent.Said(said, u.Total.USD, t.pictures...)}
	t.pictures = nil
	return t.turn(func(ctx context.Context, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
		end, err := t.k.Feed(ctx, t.pid, cell, fn)
		switch {
		case err != nil || end.Error == nil || end.Ended:
		case end.Error.Code == agentkernel.CodeInterrupted:
			t.a.con.Say("interrupted: this is forgotten; what programs have changed stays")
		default:
			before, hint, _ := agentkernel.PassedOn(end.Error.Message())
			t.a.con.Say("no answer: %s", strings.TrimSpace(before))
			t.a.con.Hint(t.a.keyAdvice(hint))
		}
		return end.Process, err
	})
}

// turn follows the conversation as long as f does. The error is one with which the command ends.
func (t *talk) turn(f follower) error {
	w := &watch{a: t.a, k: t.k, pid: t.pid, look: t.look, talks: true, always: t.always}
	p, err := w.follow(f)
	t.interrupted = w.interruptedAt()
	t.a.con.Err(t.look.rest())
	switch {
	case errors.Is(err, errDetached), errors.Is(err, errInterrupted):
		return t.left(err)
	case err != nil:
		return t.lost(err)
	case p.State.Terminal():
		return w.report(p, nil)
	case p.Paused:
		resume := fmt.Sprintf("agentkernel chat --resume %d", t.pid) // no other command has both sides of it
		t.a.con.Say("%s", pausedFor(p, resume, resume))
		return exitCode(w.pausedExit())
	}
	return t.a.outputError()
}

// lost is an error of a kernel that may have gone: the conversation has not.
func (t *talk) lost(err error) error {
	e := asError(err)
	if agentkernel.KernelGone(err) || e.Code == agentkernel.CodeUnavailable {
		return e.WithPID(t.pid).WithHint("it is left as it was: agentkernel chat --resume %d", t.pid)
	}
	return e
}

// left says how a conversation goes on that is left as it is.
func (t *talk) left(why error) error {
	t.a.con.Say("left · go on: agentkernel chat --resume %d", t.pid)
	if errors.Is(why, errDetached) {
		return exitCode(exitTerminated)
	}
	return exitCode(agentkernel.ExitInterrupted)
}

// end ends the conversation.
func (t *talk) end() error {
	p, err := t.k.EndSession(t.a.ctx, t.pid)
	if err != nil {
		return t.lost(err)
	}
	spec, err := t.k.Spec(t.a.ctx, t.pid)
	if err != nil {
		return err
	}
	w := &watch{a: t.a, k: t.k, pid: t.pid, talks: true}
	w.noteFiles(&spec, p)
	if t.a.cli.JSON {
		return t.a.printJSON(public(p))
	}
	return w.report(p, nil)
}
