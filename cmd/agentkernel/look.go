package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/lazy"
)

// look is how a task is shown: at a terminal with colours, dim for programs and what they printed, bold for results.
type look struct {
	err, out bool // which streams have colours

	mu   sync.Mutex
	held string // the beginning of a line of which nobody knows yet what it is
	mid  bool   // the middle of a line is shown
	dims bool   // that line is dim
	turn string // the last one that was reported: "turn 2 · $0.0014"

	spent  func(said string) string // what the task has cost, with all below it and what was lost, given what it says itself: "$0.0014"; nil: that
	failed func(line string) string // the line that says why there is no result or answer, as it is shown
}

// newLook is how this command shows a task.
func (a *app) newLook() *look {
	return &look{err: a.con.ErrColor(), out: a.con.OutColor(), failed: a.notDoneText}
}

// notDone and noAnswer begin the lines with which a task and a conversation say why there is nothing; userland/agent writes them.
const (
	notDone  = "the task is not done: "
	noAnswer = "no answer: "
)

// notDoneText is that line with the hint in it, which the task could only pass on, in a line of its own.
func (a *app) notDoneText(line string) string {
	before, hint, after := agentkernel.PassedOn(line)
	if hint == "" {
		return line
	}
	e := a.ofRunningKernel(agentkernel.Errorf(agentkernel.CodeUnavailable, "do", "%s", strings.TrimSpace(before)).WithHint("%s", hint))
	return e.Message() + "\nhint: " + a.withTools(e.Hint) + after
}

// watched says that somebody looks on while a task is done.
func (a *app) watched() bool { return a.con.Interactive() && !a.cli.quiet() }

// Lines of a task that are not the model's words begin with one of these.
var ofTask = []string{"turn ", "  "}

// told begin lines that are looked at as a whole.
var told = append([]string{notDone, noAnswer}, ofTask...)

// turnLine is a report of a turn; the loop of userland/agent writes it.
var turnLine = lazy.Regexp(`^(turn \d+)(?: · .*)? · (\$\d+\.\d+)$`)

// stderr is text of the task as it is shown. What nobody can tell yet waits for more.
func (l *look) stderr(text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for text = l.held + text; text != ""; {
		l.held = ""
		line, rest, whole := strings.Cut(text, "\n")
		if !l.mid {
			if !whole && begins(line) {
				l.held = line
				break
			}
			l.dims = isOfTask(line)
		}
		if m := turnLine().FindStringSubmatch(line); m != nil && whole && !l.mid {
			cost := m[2]
			if l.spent != nil {
				cost = l.spent(cost)
				line = strings.TrimSuffix(line, m[2]) + cost
			}
			l.turn = m[1] + " · " + cost
		}
		if l.failed != nil && whole && !l.mid && (strings.HasPrefix(line, notDone) || strings.HasPrefix(line, noAnswer)) {
			line = l.failed(line)
		}
		if l.mid = !whole; whole {
			line += "\n"
		}
		b.WriteString(styled(line, "2", l.err && l.dims))
		text = rest
	}
	return b.String()
}

// rest is what still waits when there is no more text.
func (l *look) rest() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.held
	l.held = ""
	l.mid = l.mid || text != ""
	return text
}

// begins says that a line may yet become one of the task.
func begins(line string) bool {
	for _, prefix := range told {
		if strings.HasPrefix(prefix, line) || strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

func isOfTask(line string) bool {
	for _, prefix := range ofTask {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// stdout is a result as it is shown.
func (l *look) stdout(text string) string { return styled(text, "1", l.out) }

// styled gives text a style, line by line: none goes over the end of one.
func styled(text, style string, on bool) string {
	if !on {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		body, end := strings.TrimSuffix(line, "\n"), ""
		if len(body) < len(line) {
			end = "\n"
		}
		if body != "" {
			body = "\x1b[" + style + "m" + body + "\x1b[0m"
		}
		b.WriteString(body + end)
	}
	return b.String()
}

// status is what the progress line of a task says: the turn, what it has cost so far, and what is waited for.
func (l *look) status(waits string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turn == "" {
		return waits
	}
	return l.turn + " · " + waits
}

// spent is what the task has cost so far, by the journal: sub-agents and programs that ask models, and answers that were lost, count. said
// is what it says itself, which counts where it is more: it may say so before the journal has its last call. A rerun has not paid what it
// says.
func (w *watch) spent(said float64) float64 {
	pid := w.process()
	if w.k == nil || pid == 0 {
		return said
	}
	u, err := w.k.ModelUsage(w.a.ctx, agentkernel.UsageQuery{Tree: pid})
	if err != nil {
		return said
	}
	usd := float64(u.Total.USD) / 1e9
	if w.rerun {
		return usd
	}
	return max(usd, said)
}

// costs has a look show what the task has cost by the journal, as long as it is watched.
func (w *watch) costs() {
	if !w.isTask() {
		return
	}
	w.look.spent = func(said string) string {
		usd, err := strconv.ParseFloat(strings.TrimPrefix(said, "$"), 64)
		if err != nil {
			return said
		}
		return fmt.Sprintf("$%.4f", w.spent(usd))
	}
}

// silence is how long a model may be waited for before somebody is told who has no progress line.
const silence = 3 * time.Second

// patient says when it is time to tell what a model is waited for: after 3 seconds, after 6 and so on, each time twice as long.
type patient struct {
	call string
	told time.Duration
}

// tells says whether to tell of a wait that has lasted so long.
func (p *patient) tells(call string, lasted time.Duration) bool {
	if call != p.call {
		p.call, p.told = call, 0
	}
	if lasted < max(silence, 2*p.told) {
		return false
	}
	p.told = lasted
	return true
}

// tell says what is waited for until ctx ends: on a line of progress, or, of models, where there is none.
func (w *watch) tell(ctx context.Context) {
	switch {
	case w.a.cli.quiet():
	case w.look != nil && !w.a.con.Interactive():
		w.tellWaits(ctx)
	default:
		w.a.con.Spin(ctx, w.status)
	}
}

// tellWaits tells those who have no progress line what a model is waited for that does not answer.
func (w *watch) tellWaits(ctx context.Context) {
	var p patient
	advised := false
	each(ctx, time.Second, func() bool {
		proc, err := w.k.Process(ctx, w.process())
		if err != nil || len(proc.WaitsFor) == 0 || !ofModel(proc.WaitsFor[0]) || proc.WaitsSince.IsZero() {
			return true
		}
		call, _, _ := strings.Cut(proc.WaitsFor[0], ",")
		if lasted := time.Since(proc.WaitsSince); p.tells(call+proc.WaitsSince.String(), lasted) {
			line := waitingFor(&proc)
			if strings.Contains(line, refused) && !advised {
				advised = true
				line += " · agentkernel doctor looks where its server should be, agentkernel llm list names what is declared"
			}
			w.a.con.Note("  %s", line)
		}
		return true
	})
}

// refused is in what a call of a model waits for at whose server's address nothing listens.
const refused = "no answer yet, connection refused"

// ofModel says whether a model is waited for.
func ofModel(waits string) bool { return strings.HasPrefix(waits, "llm.") }

// waitingFor is what a process waits for, of a model without the names of calls: "waiting for fast, no answer yet, connection refused, tried 2 times, again in 4.1 s".
func waitingFor(p *agentkernel.Process) string {
	first := strings.TrimPrefix(p.WaitsFor[0], "tool.call ")
	if _, model, ok := strings.Cut(first, ", model "); ok && strings.HasPrefix(first, "stream.next ") {
		first = model
	}
	if ofModel(first) {
		if _, model, ok := strings.Cut(first, " "); ok {
			first = model
		}
		if !strings.Contains(first, ",") {
			first += ", no answer yet"
		}
	}
	return "waiting for " + first
}
