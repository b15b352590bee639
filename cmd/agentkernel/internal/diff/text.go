package diff

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/cmd/agentkernel/internal/trace"
)

// TextOptions say how a comparison is written.
type TextOptions struct {
	Color bool
	All   bool // each of the calls that are the same
	Full  bool // nothing cut
}

const width = 100

// Text writes the comparison for a reader: the calls side by side by number, then output and end.
func (d *Diff) Text(o TextOptions) string {
	w := &writer{o: o, a: len(fmt.Sprint(d.A.Calls)), b: len(fmt.Sprint(d.B.Calls))}
	w.a, w.b = max(w.a*2+1, 3), max(w.b*2+1, 3) // "8-14"
	w.line("31", "A  "+d.A.text())
	w.line("32", "B  "+d.B.text())
	for _, f := range d.Created {
		switch file, ok := strings.CutPrefix(f.Name, "tool_digests."); {
		case !ok:
			w.field("created with other "+f.Name, f, "")
		case len(f.A) > 0 && len(f.B) > 0: // else "tools" says that one of them had it alone
			w.line("33", "the tools file "+file+" had another content")
		}
	}
	w.pairs(d.Calls)
	for _, out := range d.Output {
		w.line("33", fmt.Sprintf("%s differs from line %d on", out.Stream, out.Line))
		x, y := w.apart(fmt.Sprintf("%q", out.A), fmt.Sprintf("%q", out.B))
		w.sides(x, y)
	}
	for _, f := range d.End {
		w.field("other "+f.Name, f, "(none)")
	}
	w.line("1", d.summary())
	return w.out.String()
}

func (s *Side) text() string {
	parts := []string{fmt.Sprintf("pid %d", s.PID), s.Name, s.State, plural(s.Calls)}
	if s.Duration > 0 {
		parts = append(parts, console.Span(s.Duration))
	}
	return strings.Join(parts, " · ")
}

func (d *Diff) summary() string {
	if d.Equal {
		return fmt.Sprintf("equal: %s, output and end", plural(len(d.Calls)))
	}
	parts := []string{plural(d.Counts[Same]) + " the same"}
	for _, p := range []struct {
		kind Kind
		text string
	}{{Arguments, "with other arguments"}, {Result, "with another result"}, {OnlyA, "only in A"}, {OnlyB, "only in B"}} {
		if n := d.Counts[p.kind]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, p.text))
		}
	}
	if len(d.Output) > 0 {
		parts = append(parts, "other output")
	}
	if len(d.End) > 0 {
		parts = append(parts, "another end")
	}
	if d.Approximate {
		parts = append(parts, "aligned roughly, because the journals are long and differ much")
	}
	return "different: " + strings.Join(parts, ", ")
}

type writer struct {
	o    TextOptions
	a, b int // columns of the call numbers
	out  strings.Builder
}

func (w *writer) line(style, text string) {
	text = console.Clean(text)
	if w.o.Color && style != "" && text != "" {
		text = "\x1b[" + style + "m" + text + "\x1b[0m"
	}
	w.out.WriteString(text + "\n")
}

// row is a mark, both numbers and a text.
func (w *writer) row(style, mark, a, b, text string) {
	w.line(style, strings.TrimRight(fmt.Sprintf("%s %-*s %-*s  %s", mark, w.a, a, w.b, b, text), " "))
}

// sides puts one line for each run below a row.
func (w *writer) sides(a, b string) {
	pad := strings.Repeat(" ", w.a+w.b+5)
	w.line("31", pad+"A "+a)
	w.line("32", pad+"B "+b)
}

func (w *writer) field(what string, f Field, none string) {
	w.line("33", what)
	value := func(v json.RawMessage) string {
		if len(v) == 0 {
			return cmp.Or(none, "(default)")
		}
		return trace.Value(v, 0)
	}
	x, y := w.apart(value(f.A), value(f.B))
	w.sides(x, y)
}

func (w *writer) pairs(list []Pair) {
	for i := 0; i < len(list); i++ {
		p := &list[i]
		switch p.Kind {
		case Same:
			last := i
			for !w.o.All && last+1 < len(list) && list[last+1].Kind == Same {
				last++
			}
			w.same(list[i : last+1])
			i = last
		case Arguments:
			w.row("33", "~", p.A.number(), p.B.number(), p.A.Name+"  other arguments")
			w.sides(w.arguments(p.A, p.B))
		case Result:
			w.row("33", "!", p.A.number(), p.B.number(), p.A.text(w.cut())+"  another result")
			x, y := w.apart(p.A.outcome(), p.B.outcome())
			w.sides(x, y)
		case OnlyA:
			w.row("31", "-", p.A.number(), "", p.A.text(w.cut()))
		case OnlyB:
			w.row("32", "+", "", p.B.number(), p.B.text(w.cut()))
		}
	}
}

func (w *writer) cut() int {
	if w.o.Full {
		return 0
	}
	return width
}

// same writes one line for calls that are the same.
func (w *writer) same(list []Pair) {
	first, last := list[0], list[len(list)-1]
	if len(list) == 1 {
		w.row("2", "=", first.A.number(), first.B.number(), first.A.text(w.cut()))
		return
	}
	w.row("2", "=", first.A.number()+"-"+last.A.number(), first.B.number()+"-"+last.B.number(), fmt.Sprintf("%d calls are the same", len(list)))
}

func (c *Call) number() string { return fmt.Sprint(c.Number) }

func (c *Call) text(limit int) string { return trace.CallText(c.call.Op, c.call.Args, limit) }

func (c *Call) outcome() string {
	switch {
	case c.Open:
		return "no result"
	case c.Err != nil:
		return "✗ " + string(c.Err.Code) + ": " + c.Err.Message()
	}
	return "→ " + trace.Value(c.Result, 0)
}

// arguments writes those arguments that differ.
func (w *writer) arguments(a, b *Call) (string, string) {
	pa, pb := trace.Arguments(a.call.Op, a.call.Args), trace.Arguments(b.call.Op, b.call.Args)
	find := func(list []trace.Pair, name string) (json.RawMessage, bool) {
		for _, p := range list {
			if p.Name == name {
				return p.Value, true
			}
		}
		return nil, false
	}
	var ta, tb []string
	for _, p := range pa {
		other, ok := find(pb, p.Name)
		switch {
		case !ok:
			ta = append(ta, p.Name+"="+w.short(trace.Value(p.Value, 0)))
		case !equal(p.Value, other):
			x, y := w.apart(trace.Value(p.Value, 0), trace.Value(other, 0))
			ta, tb = append(ta, p.Name+"="+x), append(tb, p.Name+"="+y)
		}
	}
	for _, p := range pb {
		if _, ok := find(pa, p.Name); !ok {
			tb = append(tb, p.Name+"="+w.short(trace.Value(p.Value, 0)))
		}
	}
	return cmp.Or(strings.Join(ta, ", "), "(without)"), cmp.Or(strings.Join(tb, ", "), "(without)")
}

func (w *writer) short(s string) string {
	if w.o.Full || utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:width-1]) + "…"
}

// apart cuts two texts so that the place where they begin to differ is seen.
func (w *writer) apart(a, b string) (string, string) {
	if w.o.Full {
		return a, b
	}
	x, y := []rune(a), []rune(b)
	same := 0
	for same < len(x) && same < len(y) && x[same] == y[same] {
		same++
	}
	const before = 20
	if from := same - before; from > 0 && (len(x) > width || len(y) > width) {
		return w.short("…" + string(x[from:])), w.short("…" + string(y[from:]))
	}
	return w.short(a), w.short(b)
}

func plural(n int) string {
	if n == 1 {
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
}
