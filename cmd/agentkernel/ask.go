package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/asktext"
)

const askWidth = 400

// always are the calls to which the human has said "always", by pattern: each is answered with a yes of its own, so that the promise ends with
// this command. To the kernel "always" means as long as the process lives, which may be longer than anybody is there.
type always struct {
	mu       sync.Mutex
	patterns map[string]bool
}

func (a *always) allows(pattern string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.patterns[pattern]
}

func (a *always) allow(pattern string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.patterns == nil {
		a.patterns = map[string]bool{}
	}
	if pattern != "" { // else nothing but this call is allowed by it
		a.patterns[pattern] = true
	}
}

// human is whoever types at a terminal.
type human struct {
	con   *console.Console
	tty   io.Reader
	lines *bufio.Reader
	typed chan typed // what else reads lines; nil: nothing
	early []typed    // that no question was asked for yet
}

func (a *app) human(tty io.Reader) *human {
	return &human{con: a.con, tty: tty, lines: bufio.NewReader(tty)}
}

// ask shows a question and returns the line that is typed then. What was typed before is no answer to it: a program
// can print a question of its own and make the call when the user has answered that. Answers that come through
// something else than a terminal may be there already.
func (h *human) ask(question string) (string, error) {
	return h.askWhile(question, func() bool { return true })
}

// errUnasked says that a question was not answered here, since it is not asked any more.
var errUnasked = errors.New("it is not asked any more")

// askWhile is ask for a question that may be answered elsewhere; asked is called again and again until a line is typed.
func (h *human) askWhile(question string, asked func() bool) (string, error) {
	var shown time.Time
	done := h.con.Prompt(question, func() {
		if discardTyped(h.tty) && h.typed == nil {
			h.lines.Reset(h.tty)
		}
		shown = time.Now()
	})
	defer done()
	line, err := h.line(shown, asked)
	if errors.Is(err, errUnasked) {
		h.con.Unasked()
	}
	return line, err
}

// line is the next one that is typed, as long as it is asked for.
func (h *human) line(shown time.Time, asked func() bool) (string, error) {
	if h.typed != nil {
		return h.answer(shown, asked)
	}
	if f, ok := h.tty.(*os.File); ok { // else it cannot be looked at
		for h.lines.Buffered() == 0 && !lineWaits(int(f.Fd()), lookFor) {
			if !asked() {
				return "", errUnasked
			}
		}
	}
	return h.lines.ReadString('\n')
}

// askLoop puts the questions of the process to the human, one after another, and tells a task what else is typed. It ends with ctx, or
// with the first read that fails.
func (w *watch) askLoop(ctx context.Context) {
	var human *human
	var said chan typed
	if tty, err := w.a.askTTY(); err == nil {
		defer tty.Close()
		human = w.a.human(tty)
		if f := w.steers(tty); f != nil {
			human.steerable(ctx, f)
			said = human.typed
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case t, more := <-said:
			if w.steer(ctx, t); !more {
				said = nil
			}
		case e := <-w.asks:
			q := e.Ask
			answer := agentkernel.AnswerYes
			if !w.always.allows(q.Pattern) {
				answer = w.question(ctx, human, e.PID, q)
			}
			if human != nil {
				w.steer(ctx, human.early...)
				human.early = nil
			}
			switch answer {
			case elsewhere:
				continue
			case "": // nobody is there any more, which is no answer: it asks again when it is resumed
				w.signal(ctx, w.process(), agentkernel.SignalPause)
				return
			case agentkernel.AnswerAlways:
				w.always.allow(q.Pattern)
				answer = agentkernel.AnswerYes
			}
			w.answer(ctx, e.PID, q, answer)
		}
	}
}

// discardTyped drops what waits to be read, and says whether r is a terminal.
func discardTyped(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	var flushed error
	err = conn.Control(func(fd uintptr) { flushed = flushInput(int(fd)) }) //nolint:gosec // a descriptor
	return err == nil && flushed == nil
}

// elsewhere is the human's answer to a question that somebody else has answered.
const elsewhere agentkernel.Answer = "elsewhere"

// question gives the human's answer; "": there is none, since the terminal or this command has gone.
func (w *watch) question(ctx context.Context, human *human, pid agentkernel.PID, q *agentkernel.Ask) agentkernel.Answer {
	who, became, looked := w.asker(ctx, pid), "", time.Now()
	before, _ := w.k.Process(ctx, pid)
	asked := func() bool {
		if time.Since(looked) >= lookAgain {
			looked = time.Now()
			now, err := w.k.Process(ctx, pid)
			// One that waits for such a question and has issued no call since is not looked at further: journals are long.
			if err == nil && (now.Usage.Syscalls != before.Usage.Syscalls || !slices.Contains(now.WaitsFor, agentkernel.YourAnswer+q.Call)) {
				became, before = w.became(ctx, pid, q), now
			}
		}
		return became == ""
	}
	for human != nil {
		line, err := human.askWhile(fmt.Sprintf("%s%s(%s) changes things (%s). Allow? [y]es once, [a]lways for this run, [N]o ",
			who, asktext.Name(q.Call), asktext.Arguments(q.Args, askWidth), q.Effect), asked)
		if errors.Is(err, errUnasked) {
			w.a.con.Say("%s%s(...) %s", who, asktext.Name(q.Call), became)
			return elsewhere
		}
		answer, ok := parseAnswer(line)
		switch {
		case ctx.Err() != nil || err != nil && !(errors.Is(err, io.EOF) && human.there()):
			return ""
		case ok:
			return answer
		}
		w.a.con.Say("please answer y, a or n")
	}
	return ""
}

// lookAgain is how often is looked whether somebody else has answered a question that is shown.
const lookAgain = time.Second

// became says what has become of a call that somebody else was asked about, too; "": it is still asked, or that cannot be told.
func (w *watch) became(ctx context.Context, pid agentkernel.PID, q *agentkernel.Ask) string {
	entries, err := w.k.Journal(ctx, pid, 1, 0)
	if err != nil {
		return ""
	}
	for i := len(entries) - 1; i >= 0; i-- {
		switch e := &entries[i]; {
		case e.Kind != agentkernel.EntryCall || e.Call != q.ID:
		case e.Err == nil:
			return "was answered elsewhere: yes"
		case e.Err.Code == agentkernel.CodeDenied:
			return "was answered elsewhere: no"
		default:
			return "is not asked any more: " + e.Err.Message()
		}
	}
	return ""
}

// there says whether the terminal can still be read: one that was closed gives the same as Ctrl-D.
func (h *human) there() bool {
	f, ok := h.tty.(*os.File)
	return !ok || term.IsTerminal(int(f.Fd()))
}

// asker says which process asks, if it is one below that which this command follows: "process 14 (program-2.py): ".
func (w *watch) asker(ctx context.Context, pid agentkernel.PID) string {
	if pid == w.process() {
		return ""
	}
	name := ""
	if p, err := w.k.Process(ctx, pid); err == nil && p.Name != "" {
		name = " (" + asktext.Name(p.Name) + ")"
	}
	return "process " + pid.String() + name + ": "
}

func (w *watch) answer(ctx context.Context, pid agentkernel.PID, q *agentkernel.Ask, answer agentkernel.Answer) {
	err := w.k.Answer(ctx, pid, q.ID, answer)
	switch {
	case err == nil || ctx.Err() != nil:
	case agentkernel.CodeOf(err) == agentkernel.CodeNotFound:
		became := cmp.Or(w.became(ctx, pid, q), "was decided elsewhere, or is not asked any more")
		w.a.con.Say("the answer came too late: %s(...) %s", asktext.Name(q.Call), became)
	default:
		w.a.con.Say("the answer could not be given: %v", err)
	}
}

// parseAnswer reads what a human typed; an empty line is no.
func parseAnswer(line string) (agentkernel.Answer, bool) {
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return agentkernel.AnswerYes, true
	case "a", "always":
		return agentkernel.AnswerAlways, true
	case "", "n", "no":
		return agentkernel.AnswerNo, true
	}
	return "", false
}
