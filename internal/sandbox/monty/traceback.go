package monty

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

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
	same := 0
	for i, f := range frames {
		if b.Len() > maxTraceback/2 && i < len(frames)-maxTraceback/2/500 { // the innermost frames are the most telling
			continue
		}
		at, feed, ok := s.locate(f)
		if !ok {
			continue
		}
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
	if !ok || err != nil || n < 0 || n >= len(s.prog.feeds) {
		return place{f.GetFile(), int(f.GetStart().GetLine()), f.GetFunction()}, nil, true
	}
	feed := &s.prog.feeds[n]
	line, function := int(f.GetStart().GetLine())-feed.offset, f.GetFunction()
	if function == frontend.ModuleFrame {
		function = "<module>"
	}
	return place{feed.file, line, function}, feed, !feed.hidden && line > 0
}

func writeFrame(b *strings.Builder, at place, f *montypb.Frame, in *feed) {
	fmt.Fprintf(b, "  File %q, line %d", clip(at.file, maxLine), at.line)
	if at.function != "" {
		b.WriteString(", in " + clip(at.function, maxLine))
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
		b.WriteString("    " + clip(text, maxLine) + "\n")
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
