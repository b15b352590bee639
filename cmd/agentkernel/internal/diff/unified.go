package diff

import (
	"fmt"
	"strings"
)

// contextLines is how many lines that are the same stand around a difference.
const contextLines = 3

// Unified compares two texts line by line, in the format of diff -u, which patch reads. "" if they are equal.
func Unified(nameA, nameB, textA, textB string) string {
	if textA == textB && nameA != "/dev/null" && nameB != "/dev/null" {
		return ""
	}
	a, b := lines(textA), lines(textB)
	matches, _ := align(numbered(a, b))
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", nameA, nameB)
	for _, h := range hunks(edits(matches, len(a), len(b))) {
		writeHunk(&out, h, a, b)
	}
	return out.String()
}

// lines splits a text; the newline stays, so that a last line without one differs.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	l := strings.SplitAfter(text, "\n")
	if l[len(l)-1] == "" {
		l = l[:len(l)-1]
	}
	return l
}

// numbered gives equal lines equal numbers.
func numbered(a, b []string) (na, nb []int32) {
	known := map[string]int32{}
	number := func(list []string) []int32 {
		out := make([]int32, len(list))
		for i, line := range list {
			n, ok := known[line]
			if !ok {
				n = int32(len(known)) //nolint:gosec // there are not as many lines
				known[line] = n
			}
			out[i] = n
		}
		return out
	}
	return number(a), number(b)
}

// edit replaces lines [a, a+na) of one text by [b, b+nb) of the other.
type edit struct{ a, na, b, nb int }

// edits are what lies between the matches.
func edits(matches []match, na, nb int) []edit {
	var list []edit
	atA, atB := 0, 0
	for _, m := range append(matches, match{na, nb}) {
		if m.a > atA || m.b > atB {
			list = append(list, edit{atA, m.a - atA, atB, m.b - atB})
		}
		atA, atB = m.a+1, m.b+1
	}
	return list
}

// hunks puts edits together whose contexts touch.
func hunks(list []edit) [][]edit {
	var out [][]edit
	for _, e := range list {
		if n := len(out); n > 0 {
			last := out[n-1][len(out[n-1])-1]
			if e.a-(last.a+last.na) <= 2*contextLines {
				out[n-1] = append(out[n-1], e)
				continue
			}
		}
		out = append(out, []edit{e})
	}
	return out
}

func writeHunk(out *strings.Builder, h []edit, a, b []string) {
	first, last := h[0], h[len(h)-1]
	before := min(contextLines, first.a)
	after := min(contextLines, len(a)-(last.a+last.na))
	startA, startB := first.a-before, first.b-before
	countA, countB := last.a+last.na+after-startA, last.b+last.nb+after-startB
	fmt.Fprintf(out, "@@ -%s +%s @@\n", span(startA, countA), span(startB, countB))
	at := startA
	for _, e := range h {
		put(out, " ", a[at:e.a])
		put(out, "-", a[e.a:e.a+e.na])
		put(out, "+", b[e.b:e.b+e.nb])
		at = e.a + e.na
	}
	put(out, " ", a[at:at+after])
}

// span is a range as hunks name it: of no lines it is the line before.
func span(start, count int) string {
	if count == 0 {
		return fmt.Sprintf("%d,0", start)
	}
	if count == 1 {
		return fmt.Sprint(start + 1)
	}
	return fmt.Sprintf("%d,%d", start+1, count)
}

func put(out *strings.Builder, sign string, list []string) {
	for _, line := range list {
		out.WriteString(sign + line)
		if !strings.HasSuffix(line, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}
