package main

import "strings"

// pythonCode is the text of a Python program without what only people read: comments, and strings that are statements of their
// own. Lines stay as many as they were.
func pythonCode(source string) string {
	s := pythonScanner{rest: source, fresh: true}
	for s.rest != "" {
		s.step()
	}
	return s.out.String()
}

type pythonScanner struct {
	rest  string
	out   strings.Builder
	depth int  // of brackets
	fresh bool // nothing stands before it in its statement
}

func (s *pythonScanner) step() {
	c := s.rest[0]
	switch {
	case c == '#':
		s.skip(s.upTo("\n"))
		return
	case c == '"' || c == '\'':
		text := s.rest[:stringEnd(s.rest)]
		if s.fresh && s.depth == 0 {
			s.out.WriteString(strings.Repeat("\n", strings.Count(text, "\n")))
		} else {
			s.out.WriteString(text)
		}
		s.fresh = false
		s.skip(len(text))
		return
	case c == '\\' && len(s.rest) > 1: // a line that continues
		s.out.WriteString(s.rest[:2])
		s.skip(2)
		return
	case c == '(' || c == '[' || c == '{':
		s.depth++
	case c == ')' || c == ']' || c == '}':
		s.depth--
	}
	s.fresh = c == '\n' || c == ';' || s.fresh && (c == ' ' || c == '\t')
	s.out.WriteByte(c)
	s.skip(1)
}

func (s *pythonScanner) skip(n int) { s.rest = s.rest[n:] }

// upTo is where a text begins in what is left, or the end.
func (s *pythonScanner) upTo(text string) int {
	if i := strings.Index(s.rest, text); i >= 0 {
		return i
	}
	return len(s.rest)
}

// stringEnd is the length of the string with which a text begins. One that is not closed ends with its line, or, of three quotes,
// with the text.
func stringEnd(text string) int {
	quote := text[:1]
	if three := strings.Repeat(quote, 3); strings.HasPrefix(text, three) {
		quote = three
	}
	for i := len(quote); i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case text[i] == '\n' && len(quote) == 1:
			return i
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote)
		}
	}
	return len(text)
}
