package trace

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
)

// Options say how much is shown, and how.
type Options struct {
	Full  bool // nothing cut, every line of output
	Color bool
	Now   time.Time // for what has not ended
}

const (
	argsWidth   = 72
	resultWidth = 60
)

// Render writes the tree: one line a step, times counted from the creation of the process, and a summary
// of what was waited for.
func Render(w io.Writer, t *Tree, o Options) error {
	r := &renderer{o: o}
	r.process(t, "")
	_, err := io.WriteString(w, r.b.String())
	return err
}

type renderer struct {
	o Options
	b strings.Builder
}

func (r *renderer) process(t *Tree, indent string) {
	p := t.Process
	head := oneLine(join(fmt.Sprintf("pid %d", p.PID), p.Name, p.Backend, r.life(p)))
	r.b.WriteString(r.style("1", head) + "\n")
	all := steps(t)
	shown, folded := all, folds{}
	if !r.o.Full {
		shown = folded.fold(all)
	}
	r.steps(shown, indent, p.Created)
	if text := folded.text(p.PID); text != "" {
		r.b.WriteString(indent + r.style("2", text) + "\n")
	}
	if waited := waits(all); waited != "" {
		r.b.WriteString(indent + r.style("2", "waited: "+oneLine(waited)) + "\n")
	}
}

func (r *renderer) life(p agentkernel.Process) string {
	state := string(p.State)
	if p.Paused && !p.State.Terminal() {
		state += ", paused"
	}
	end := p.Ended
	if end.IsZero() {
		end = r.o.Now
	}
	return join(state, span(p.Created, end))
}

func (r *renderer) steps(list []*step, indent string, zero time.Time) {
	for i, s := range list {
		branch, below := "├─ ", "│  "
		if i == len(list)-1 {
			branch, below = "└─ ", "   "
		}
		lines := r.lines(s)
		offset := fmt.Sprintf("%9s  ", "+"+console.Span(max(0, s.at.Sub(zero))))
		r.b.WriteString(r.style("2", indent+branch+offset) + lines[0] + "\n")
		inner := indent + below
		for _, l := range lines[1:] {
			r.b.WriteString(r.style("2", inner+strings.Repeat(" ", 11)) + l + "\n")
		}
		r.steps(s.children, inner, zero)
		if s.child != nil {
			r.b.WriteString(r.style("2", inner+"└─ "))
			r.process(s.child, inner+"   ")
		}
	}
}

// lines is a step as text: its line, and further ones with --full.
func (r *renderer) lines(s *step) []string {
	switch s.kind {
	case stepGroup:
		return []string{r.style("1", join(fmt.Sprintf("%d calls in parallel", countCalls(s.children)), took(s)))}
	case stepOutput:
		return r.outputLines(s)
	case stepMark:
		return []string{r.mark(s, "── "+oneLine(s.mark)+" ──")}
	case stepEnd:
		return r.endLines(s)
	case stepFold:
		return []string{r.foldLine(s)}
	}
	return r.callLines(s)
}

func (r *renderer) callLines(s *step) []string {
	limit := argsWidth
	if r.o.Full {
		limit = 0
	}
	text := CallText(s.call.Op, s.call.Args, limit)
	var details []string
	if s.call.Effect.External() {
		details = append(details, string(s.call.Effect))
	}
	if place, ok := agentkernel.ParsePlace(s.call.Stream); ok && place.Lane != "" {
		details = append(details, "lane "+place.Lane)
	}
	details = append(details, took(s))
	switch {
	case r.o.Full: // which incarnation of a server answered: nothing for a first look
		details = append(details, s.note)
	case s.call.TakenOver(), s.call.Origin != nil && s.call.Effect.External(): // a rerun did not make it, or made it with the key of that one
		details = append(details, s.call.Origin.String())
	}
	line := text
	if d := join(details...); d != "" {
		line += "  " + r.style("2", oneLine(d))
	}
	outcome := r.outcome(s)
	if r.o.Full && (len(line)+len(outcome) > 120 || strings.Contains(outcome, "\n")) {
		return append([]string{line}, strings.Split(outcome, "\n")...)
	}
	return []string{strings.TrimRight(line+"  "+outcome, " ")}
}

// took says how long a call or group lasted; for calls that only wait, that they did.
func took(s *step) string {
	switch {
	case s.instant || s.end.IsZero():
		return ""
	case s.kind == stepCall && !s.call.Effect.External():
		return "waited " + span(s.at, s.end)
	}
	return span(s.at, s.end)
}

func (r *renderer) outcome(s *step) string {
	switch {
	case s.err != nil:
		text := "✗ " + oneLine(string(s.err.Code)) + ": " + s.err.Message()
		if !r.o.Full {
			text = cut(firstLine(text), resultWidth+20)
		}
		return r.styleLines("31", console.Clean(text))
	case s.end.IsZero() && s.call.Reserve[agentkernel.AmountUnsent] > 0:
		return r.style("33", "… not sent")
	case s.end.IsZero():
		return r.style("33", "… no result")
	case string(s.result) == "null" || len(s.result) == 0:
		return ""
	}
	text := "→ " + Value(s.result, r.resultLimit())
	if len(s.result) > resultWidth {
		text += " (" + console.Bytes(int64(len(s.result))) + ")"
	}
	return text
}

func (r *renderer) resultLimit() int {
	if r.o.Full {
		return 0
	}
	return resultWidth
}

func (r *renderer) outputLines(s *step) []string {
	label := oneLine(cmp.Or(s.stream, "stdout"))
	lines := strings.Split(strings.TrimSuffix(s.text.String(), "\n"), "\n")
	if r.o.Full {
		out := []string{r.style("32", label)}
		for _, l := range lines {
			out = append(out, r.style("32", "│ ")+console.Clean(l))
		}
		return out
	}
	text := r.style("32", label) + "  " + quote(lines[0], resultWidth)
	if len(lines) > 1 {
		text += r.style("2", fmt.Sprintf("  %d lines, %s", len(lines), console.Bytes(int64(s.text.Len()))))
	}
	return []string{text}
}

func (r *renderer) endLines(s *step) []string {
	text := oneLine(s.mark)
	if len(s.result) > 0 && string(s.result) != "null" {
		text += " → " + Value(s.result, r.resultLimit())
	}
	if s.err == nil {
		return []string{r.mark(s, text)}
	}
	lines := []string{r.mark(s, oneLine(text+" · "+string(s.err.Code)+": "+firstLine(s.err.Message())))}
	if r.o.Full && s.err.Traceback != "" {
		for l := range strings.SplitSeq(strings.TrimRight(s.err.Traceback, "\n"), "\n") {
			lines = append(lines, console.Clean(l))
		}
	}
	return lines
}

func (r *renderer) mark(s *step, text string) string {
	if s.bad {
		return r.style("33", text)
	}
	return r.style("1", text)
}

// styleLines styles each line by itself, so that the tree between them keeps its own style.
func (r *renderer) styleLines(code, text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = r.style(code, lines[i])
	}
	return strings.Join(lines, "\n")
}

func (r *renderer) style(code, text string) string {
	if !r.o.Color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func countCalls(list []*step) int {
	n := 0
	for _, s := range list {
		if s.kind == stepCall {
			n++
		}
	}
	return n
}

// waits sums up what the process waited for, the longest first.
func waits(list []*step) string {
	total := map[string]time.Duration{}
	var sum func([]*step)
	sum = func(list []*step) {
		for _, s := range list {
			if s.kind == stepCall && !s.instant && !s.end.IsZero() {
				total[waitName(s)] += max(0, s.end.Sub(s.at))
			}
			sum(s.children)
		}
	}
	sum(list)
	names := make([]string, 0, len(total))
	for n := range total {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(total[b], total[a]), cmp.Compare(a, b))
	})
	const most = 5
	var parts []string
	for i, n := range names {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(names)-most))
			break
		}
		parts = append(parts, n+" "+console.Span(total[n]))
	}
	return strings.Join(parts, ", ")
}

func waitName(s *step) string {
	if name, _, ok := toolCall(s.call.Args); ok && s.call.Op == "tool.call" {
		return name
	}
	return s.call.Op
}

// oneLine is text from a journal that stays on its line and leaves the terminal alone.
func oneLine(s string) string { return strings.ReplaceAll(console.Clean(s), "\n", " ") }

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
