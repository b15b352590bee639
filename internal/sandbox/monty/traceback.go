package monty

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"agentkernel/internal/clip"
	"agentkernel/internal/lazy"
	"agentkernel/internal/sandbox/monty/frontend"
	"agentkernel/internal/sandbox/monty/montypb"
)

// repeatsShown is how many equal frames in a row CPython prints before it counts them.
const repeatsShown = 3

// A traceback is for people: a line of a megabyte, or a thousand of them, is not.
const (
	maxLine      = 200      // characters of a line of source
	maxTraceback = 64 << 10 // bytes, more or less
)

// place is a frame of the engine in the user's own files.
type place struct {
	file     string
	line     int
	until    int // with line the lines between which it is, where that is all that is known; 0: it is line
	function string
}

// traceback writes an exception as CPython does, with the files and lines of the user. Frames of hidden
// source and lines that the front end added are left out. last is the line "Type: message".
func (s *sandbox) traceback(x *montypb.Raised, last string) string {
	frames := x.GetFrames()
	if len(frames) == 0 { // a limit was hit: there is no place to show
		return ""
	}
	var b strings.Builder
	if !parserError(x) {
		b.WriteString("Traceback (most recent call last):\n")
	}
	var prev place
	same, read := 0, files{}
	for i, f := range frames {
		if b.Len() > maxTraceback/2 && i < len(frames)-maxTraceback/2/500 { // the innermost frames are the most telling
			continue
		}
		at, feed, ok := s.locate(f)
		if i == len(frames)-1 {
			at = augmented(at, feed, last)
		}
		if !ok {
			continue
		}
		at = read.mended(at, f, feed, last, i == len(frames)-1)
		if at == prev {
			same++
		} else {
			writeRepeats(&b, same)
			prev, same = at, 1
		}
		if same <= repeatsShown {
			writeFrame(&b, at, f, feed)
		}
	}
	writeRepeats(&b, same)
	b.WriteString(last)
	b.WriteByte('\n')
	return b.String()
}

func writeRepeats(b *strings.Builder, same int) {
	switch more := same - repeatsShown; {
	case more == 1:
		b.WriteString("  [Previous line repeated 1 more time]\n")
	case more > 1:
		fmt.Fprintf(b, "  [Previous line repeated %d more times]\n", more)
	}
}

// locate maps a frame of the engine to the user's file and line; false if the user has no such line.
func (s *sandbox) locate(f *montypb.Frame) (place, *feed, bool) {
	number, ok := strings.CutPrefix(f.GetFile(), "<python-input-")
	n, err := strconv.Atoi(strings.TrimSuffix(number, ">"))
	if f.GetFile() == noFile && s.fed > 0 && s.fed <= len(s.prog.feeds) {
		n, ok, err = s.feedOf(f.GetFunction()), true, nil
	}
	if !ok || err != nil || n < 0 || n >= len(s.prog.feeds) {
		return place{file: f.GetFile(), line: int(f.GetStart().GetLine()), function: f.GetFunction()}, nil, true
	}
	feed := &s.prog.feeds[n]
	line, function := int(f.GetStart().GetLine())-feed.offset, f.GetFunction()
	if function == frontend.ModuleFrame {
		function = "<module>"
	}
	return place{file: feed.file, line: line, function: function}, feed, !feed.hidden && line > 0
}

// feedOf is the feed that runs, or the last before it that defines a function.
func (s *sandbox) feedOf(function string) int {
	for n := s.fed - 1; n >= 0 && function != frontend.ModuleFrame && function != "<module>"; n-- {
		if strings.Contains(s.prog.feeds[n].source, "def "+function) {
			return n
		}
	}
	return s.fed - 1
}

// noFile is the file of a frame that has been nowhere yet.
const noFile = "\x00"

// unbound finds the name in the message of an error about one that has no value.
var unbound = lazy.Regexp(`^(?:NameError: name|UnboundLocalError: cannot access local variable) '(\w{1,200})'`)

// augmented is where a name had no value. In a session the engine does not note where x += 1 reads x: the frame is at what
// ran before, or nowhere. Then the next such assignment in its function is meant.
func augmented(at place, in *feed, last string) place {
	m := unbound().FindStringSubmatch(last)
	if m == nil || in == nil || in.source == "" {
		return at
	}
	name := regexp.QuoteMeta(m[1])
	lines := strings.Split(in.source, "\n")
	if n := at.line - 1; n >= 0 && n < len(lines) && strings.Contains(lines[n], m[1]) {
		return at
	}
	assigns := regexp.MustCompile(`(?:^|[\s;:])` + name + `\s*(?:[-+%@&|^]|\*\*?|//?|<<|>>)=`)
	from := max(at.line-1, 0)
	if begins := regexp.MustCompile(`^\s*(?:async\s+)?def\s+` + regexp.QuoteMeta(at.function) + `\b`); at.line <= 1 {
		from = max(slices.IndexFunc(lines, begins.MatchString), 0)
	}
	for i := from; i < len(lines); i++ {
		if assigns.MatchString(lines[i]) {
			at.line = i + 1
			break
		}
	}
	return at
}

// operator finds the operator in the message of an error about an assignment like x += 1.
var operator = lazy.Regexp(`^TypeError: unsupported operand type\(s\) for (\S{1,3}=): `)

// files are those that a traceback names, read once.
type files map[*feed]*frontend.Places

func (files files) read(in *feed) *frontend.Places {
	p, ok := files[in]
	if !ok {
		p = frontend.ParsePlaces(in.source)
		files[in] = p
	}
	return p
}

// mended is a place with the line that CPython says, where the engine says another one; innermost: the exception was raised in this
// frame, as far as the engine knows.
func (files files) mended(at place, f *montypb.Frame, in *feed, last string, innermost bool) place {
	from, to := f.GetStart(), f.GetEnd()
	op := operator().FindStringSubmatch(last)
	again := innermost && f.GetHideCaret() // so it is with what is raised again, and with much else
	if in == nil || in.source == "" || f.Function == nil || !again && from.GetLine() == to.GetLine() && (!innermost || op == nil) {
		return at
	}
	p := files.read(in)
	if p == nil {
		return at
	}
	if again {
		if first, end := p.Passed(at.line, last); first != 0 {
			at.line, at.until = first, end
			return at
		}
	}
	if innermost && op != nil {
		if line := p.Augmented(at.line, op[1]); line != 0 {
			at.line = line
		}
	}
	offset := int(from.GetLine()) - at.line
	if offset == in.offset && from.GetLine() != to.GetLine() {
		if line := p.Called(at.line, int(from.GetColumn()), int(to.GetLine())-offset, int(to.GetColumn())); line != 0 {
			at.line = line
		}
	}
	return at
}

func writeFrame(b *strings.Builder, at place, f *montypb.Frame, in *feed) {
	if at.until > at.line {
		fmt.Fprintf(b, "  File %q, lines %d-%d, in %s\n", clip.At(at.file, maxLine), at.line, at.until, clip.At(at.function, maxLine))
		return
	}
	fmt.Fprintf(b, "  File %q, line %d", clip.At(at.file, maxLine), at.line)
	if at.function != "" {
		b.WriteString(", in " + clip.At(at.function, maxLine))
	}
	b.WriteByte('\n')
	engineLine := f.GetLine()
	line := engineLine
	if in != nil && in.source != "" {
		line = nthLine(in.source, at.line)
	}
	text := strings.TrimSpace(line)
	if text == "" {
		return
	}
	if len(text) > maxLine {
		b.WriteString("    " + clip.At(text, maxLine) + "\n")
		return
	}
	b.WriteString("    " + text + "\n")
	if line != engineLine && strings.TrimRight(line, " \t\r") != strings.TrimRight(engineLine, " \t\r") {
		return // the front end rewrote this line: columns would point at something else
	}
	writeCaret(b, f, line, text)
}

// writeCaret underlines the part of the line that failed, unless that is all of it.
func writeCaret(b *strings.Builder, f *montypb.Frame, line, text string) {
	from, to := int(f.GetStart().GetColumn())-1, int(f.GetEnd().GetColumn())-1
	indent := utf8.RuneCountInString(line[:len(line)-len(strings.TrimLeft(line, " \t"))])
	width := utf8.RuneCountInString(text)
	from -= indent
	to -= indent
	if f.GetEnd().GetLine() != f.GetStart().GetLine() {
		to = width
	}
	parser := f.Function == nil
	if from < 0 || from > width || (f.GetHideCaret() || from == 0 && to >= width) && !parser {
		return
	}
	b.WriteString("    " + strings.Repeat(" ", from) + strings.Repeat("^", max(1, min(to, width)-from)) + "\n")
}

func nthLine(text string, n int) string {
	for i := 1; ; i++ {
		line, rest, more := strings.Cut(text, "\n")
		if i == n {
			return line
		}
		if !more {
			return ""
		}
		text = rest
	}
}
