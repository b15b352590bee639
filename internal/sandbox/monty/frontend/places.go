package frontend

import (
	"strings"
	"unicode/utf8"
)

// The engine notes for each exception where in the program it was raised, with two differences from CPython, which are mended here for
// tracebacks: of what spans several lines it says another one, and of an exception that passes an except or finally clause
// it says the line of what was compiled in front of the place that raises it again.

// Places are the statements of a file, for looking up lines of tracebacks.
type Places struct{ src *source }

// ParsePlaces reads a file as the user wrote it; nil: it is no program.
func ParsePlaces(text string) *Places {
	defer alone(len(text))()
	s, err := parse("", text, true)
	if err != nil {
		return nil
	}
	return &Places{s}
}

// Passed looks at an exception of which the engine says that it was raised again at a line, or at what happens to be there: last is its
// "Type: message". It returns the lines between which it was raised at first; 0, 0: at that line.
func (p *Places) Passed(line int, last string) (first, end int) {
	s := p.src
	at := p.statement(line)
	if at < 0 {
		return 0, 0
	}
	kind, _, _ := strings.Cut(last, ": ")
	if p.names(at, last) {
		return 0, 0
	}
	from := line
	if next := p.located(at + 1); next >= 0 && s.stmts[next].kw == "raise" && s.stmts[next].last-s.stmts[next].first == 1 {
		if try := p.tryOf(p.clause(next, "except")); try >= 0 {
			from = p.first(try)
		}
	}
	for _, keyword := range []string{"except", "finally"} {
		for clause := p.clause(at, keyword); clause >= 0; clause = p.clause(clause, keyword) {
			from = min(from, p.since(at, clause, kind))
		}
	}
	if st := &s.stmts[at]; st.kw == "except" && st.header { // none of the clauses took it
		switch try := p.tryOf(at); {
		case try >= 0 && (from == line || from == p.first(try)):
			return p.body(try)
		case try >= 0:
			from = min(from, p.first(try))
		}
	}
	if from == line {
		return 0, 0
	}
	return from, line
}

// statement is the innermost statement that has a line, -1 if none does.
func (p *Places) statement(line int) int32 {
	for i := len(p.src.stmts) - 1; i >= 0; i-- {
		if st := &p.src.stmts[i]; p.first(int32(i)) <= line && line <= p.src.line(st.last-1) { //nolint:gosec // source is far below 2 GiB
			return int32(i) //nolint:gosec // as above
		}
	}
	return -1
}

func (p *Places) first(i int32) int { return p.src.line(p.src.stmts[i].first) }

// located is the first statement from i on of which the engine notes a place, -1 if there is none.
func (p *Places) located(i int32) int32 {
	for ; int(i) < len(p.src.stmts); i++ {
		st := &p.src.stmts[i]
		switch {
		case st.kw == "pass", st.kw == "continue", st.kw == "break", st.kw == "global", st.kw == "nonlocal",
			st.header && (st.kw == "else" || st.kw == "try" || st.kw == "finally" || st.kw == "except" && st.last-st.first == 2):
		default:
			return i
		}
	}
	return -1
}

// clause is the innermost clause of a kind around a statement, in the same function; -1 if there is none.
func (p *Places) clause(i int32, kind string) int32 {
	for j := p.src.stmts[i].parent; j >= 0; j = p.src.stmts[j].parent {
		switch st := &p.src.stmts[j]; st.kw {
		case "def", "class":
			return -1
		case kind:
			return j
		}
	}
	return -1
}

// tryOf is the header of the try statement that a clause belongs to, -1 if there is none.
func (p *Places) tryOf(clause int32) int32 {
	if clause < 0 {
		return -1
	}
	for j := clause - 1; j >= 0; j-- {
		if st := &p.src.stmts[j]; st.parent == p.src.stmts[clause].parent && st.header && st.kw == "try" {
			return j
		}
	}
	return -1
}

// since is the first line from which an exception may have come that is raised again behind a statement of a clause. So is what passes a
// finally clause, what none of the except clauses took, behind the last of them, and what is raised in an except clause,
// which ends in order first. kind is the type of the exception.
func (p *Places) since(at, clause int32, kind string) int {
	s, header, try := p.src, &p.src.stmts[clause], p.tryOf(clause)
	end := clause + 1 // of the clause
	for int(end) < len(s.stmts) && p.within(end, clause) {
		end++
	}
	here := p.first(at)
	if next := p.located(at + 1); try < 0 || next >= 0 && next < end {
		return here
	}
	if header.kw == "finally" {
		return p.first(try)
	}
	takes := int(end) < len(s.stmts) && s.stmts[end].parent == header.parent && s.stmts[end].kw == "except"
	for i := header.first + 1; i < header.last; i++ {
		name := s.str(i)
		takes = takes || name == kind || name == "Exception" || name == "BaseException" || name == ":" && i == header.first+1
	}
	if takes { // it was raised in the clause
		return p.first(clause + 1)
	}
	return p.first(try)
}

// within says whether a statement is in the suite of a header, or deeper.
func (p *Places) within(i, header int32) bool {
	for j := p.src.stmts[i].parent; j >= 0; j = p.src.stmts[j].parent {
		if j == header {
			return true
		}
	}
	return false
}

// body are the lines of what a try statement tries.
func (p *Places) body(try int32) (first, end int) {
	for i := try + 1; int(i) < len(p.src.stmts) && p.within(i, try); i++ {
		if first == 0 {
			first = p.first(i)
		}
		end = p.src.line(p.src.stmts[i].last - 1)
	}
	return first, end
}

// names says whether an exception tells that it is of a statement: it is raised there by its name, or its message has the name that the
// statement asks for.
func (p *Places) names(i int32, last string) bool {
	s := p.src
	st := &s.stmts[i]
	kind, message, _ := strings.Cut(last, ": ")
	if st.kw == "raise" {
		return st.last-st.first > 1 && s.str(st.first+1) == kind
	}
	var asked string
	switch kind {
	case "AttributeError":
		_, asked, _ = strings.Cut(message, "attribute '")
	case "NameError", "UnboundLocalError":
		_, asked, _ = strings.Cut(message, "'")
	}
	asked, _, _ = strings.Cut(asked, "'")
	for j := st.first; asked != "" && j < st.last; j++ {
		if s.str(j) == asked {
			return true
		}
	}
	return false
}

// Called is the line that CPython names for a call, or for an attribute, that the engine says begins at one place and ends before another:
// that of the method's name. Columns count characters from 1. 0: the same.
func (p *Places) Called(line, column, endLine, endColumn int) int {
	s := p.src
	from, to := p.offset(line, column), p.offset(endLine, endColumn)
	last := int32(-1)
	for i := range s.tok {
		if t := &s.tok[i]; int(t.start) >= from && int(t.end) <= to && t.kind != tokNewline {
			last = int32(i) //nolint:gosec // source is far below 2 GiB
		}
	}
	if last < 0 || int(s.tok[last].end) != to {
		return 0
	}
	if s.is(last, ")") {
		if last = s.tok[last].match - 1; last < 0 {
			return 0
		}
	}
	if s.isName(last) && s.is(last-1, ".") && int(s.tok[last].start) > from {
		return s.line(last)
	}
	return 0
}

// Augmented is the line on which the statement begins that has the operator op ("+="), if it has a line; 0: it has not.
func (p *Places) Augmented(line int, op string) int {
	at := p.statement(line)
	if at < 0 {
		return 0
	}
	for i := p.src.stmts[at].first; i < p.src.stmts[at].last; i++ {
		if p.src.tok[i].depth == 0 && p.src.is(i, op) {
			return p.first(at)
		}
	}
	return 0
}

// offset is where in the text a line and a column are, in bytes.
func (p *Places) offset(line, column int) int {
	text, at := p.src.text, 0
	for ; line > 1; line-- {
		next := strings.IndexByte(text[at:], '\n')
		if next < 0 {
			return len(text)
		}
		at += next + 1
	}
	for ; column > 1 && at < len(text); column-- {
		_, n := utf8.DecodeRuneInString(text[at:])
		at += n
	}
	return at
}
