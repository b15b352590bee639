package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentkernel/cmd/agentkernel/internal/console"
)

// Text writes the report for a reader: the cause, where the time went, what to type next.
func (r *Report) Text(color bool) string {
	style := func(code, text string) string {
		if !color {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	state, reason, _ := strings.Cut(r.Cause.Sentence, ": ")
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", style(stateStyle(r.Cause.Kind), state), reason)
	for _, l := range r.details() {
		b.WriteString(style("2", "    "+l) + "\n")
	}
	if t := r.Time.Text(); t != "" {
		b.WriteString(console.Line(t) + "\n")
	}
	if r.Cause.Hint != "" {
		b.WriteString("hint: " + console.Line(r.Cause.Hint) + "\n")
	}
	for i, s := range r.Next {
		label := "next: "
		if i > 0 {
			label = "  or: "
		}
		line := label + style("1", console.Line(s.Command))
		if s.Why != "" {
			line += style("2", "      "+s.Why)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

func stateStyle(k Kind) string {
	switch k {
	case Finished:
		return "32;1"
	case Asking, Key, Waiting, Asleep, Running, Ready, Paused, Unfinished:
		return "33;1"
	}
	return "31;1"
}

// details are what does not fit into one sentence: the rest of a divergence, the last words of a server.
func (r *Report) details() []string {
	const most = 12
	var text string
	switch {
	case r.Cause.Kind == Diverged:
		_, text, _ = strings.Cut(r.Cause.Message, "\n")
	case strings.Contains(r.Cause.LastWord, "\n"):
		text = r.Cause.LastWord
	}
	if text = strings.TrimRight(text, "\n"); text == "" {
		return nil
	}
	lines := strings.Split(console.Clean(text), "\n")
	if len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	return lines
}

// Text is "3.1 s: 82% waiting for github, 12% asleep, 4% running, 2% queued"; "" for no time at all.
func (s *Split) Text() string {
	if s.Total <= 0 {
		return ""
	}
	running := "running"
	if !s.Exact {
		running = "running or queued"
	}
	parts := []part{{running, s.Running}, {"queued or starting", s.Queued}, {"asleep", s.Asleep}, {"paused", s.Paused}, {"without a kernel", s.Stopped}}
	servers := map[string]time.Duration{}
	for _, w := range s.Waiting {
		name := cmp.Or(w.Server, w.For)
		switch w.For {
		case "proc.wait":
			name = "its children"
		case "permission":
			name = "your answer"
		}
		servers[name] += w.Time
	}
	for name, d := range servers {
		parts = append(parts, part{"waiting for " + name, d})
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(b.d, a.d), cmp.Compare(a.what, b.what)) })
	const most = 6
	if len(parts) > most {
		rest := part{what: "other"}
		for _, p := range parts[most:] {
			rest.d += p.d
		}
		parts = append(parts[:most], rest)
	}
	var words []string
	for i, percent := range percents(parts) {
		if percent > 0 {
			words = append(words, fmt.Sprintf("%d%% %s", percent, parts[i].what))
		}
	}
	return console.Clean(console.Span(s.Total) + ": " + strings.Join(words, ", "))
}

// part is a share of the time of a process.
type part struct {
	what string
	d    time.Duration
}

// percents rounds the shares so that they add up to 100: what rounding down leaves goes to those that lost most by it.
func percents(parts []part) []int {
	var total time.Duration
	for _, p := range parts {
		total += p.d
	}
	out, order := make([]int, len(parts)), make([]int, len(parts))
	if total <= 0 {
		return out
	}
	share := func(i int) float64 { return 100 * float64(parts[i].d) / float64(total) }
	left := 100
	for i := range parts {
		out[i], order[i] = int(share(i)), i
		left -= out[i]
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(share(b)-float64(out[b]), share(a)-float64(out[a]))
	})
	for _, i := range order[:left] {
		out[i]++
	}
	return out
}
