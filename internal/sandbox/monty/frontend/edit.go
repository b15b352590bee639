package frontend

import (
	"slices"
	"strings"
)

// edit replaces text[start:end] of a source.
type edit struct {
	start, end int32
	order      int // among edits at one place
	text       string
}

// editor collects the edits of one file. Edits never change the number of lines.
type editor struct {
	*file
	b     *binder
	edits []edit
}

func (ed *editor) replace(start, end int32, text string) {
	ed.edits = append(ed.edits, edit{start, end, len(ed.edits), text})
}

// swap replaces the text of token t.
func (ed *editor) swap(t int32, text string) { ed.replace(ed.tok[t].start, ed.tok[t].end, text) }

// before inserts text in front of token t; insertions at one place stand in the order in which they were made.
func (ed *editor) before(t int32, text string) { ed.replace(ed.tok[t].start, ed.tok[t].start, text) }

// after inserts text behind token t.
func (ed *editor) after(t int32, text string) { ed.replace(ed.tok[t].end, ed.tok[t].end, text) }

// apply gives the text with all edits made.
func (ed *editor) apply() string {
	if len(ed.edits) == 0 {
		return ed.text
	}
	slices.SortFunc(ed.edits, func(a, b edit) int {
		if a.start != b.start {
			return int(a.start - b.start)
		}
		if a.end != b.end { // insertions stand before what is replaced at the same place
			return int(a.end - b.end)
		}
		return a.order - b.order
	})
	var out strings.Builder
	out.Grow(len(ed.text) + len(ed.text)/8)
	at := int32(0)
	for _, e := range ed.edits {
		if e.start < at {
			continue // inside something already replaced
		}
		out.WriteString(ed.text[at:e.start])
		out.WriteString(e.text)
		at = e.end
	}
	out.WriteString(ed.text[at:])
	return out.String()
}
