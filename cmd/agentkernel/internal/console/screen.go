package console

import (
	"strings"
	"unicode/utf8"
)

// screen is what stands between everything that is written and a terminal. A terminal obeys what it is shown:
// escape sequences move the cursor over what stands there already, rename the window, fill the clipboard. Programs,
// tool servers and whoever made up a name are strangers, so colours and styles are all that passes (SGR, ECMA-48
// 8.3.117). A file or a pipe gets what was written, byte for byte.
type screen struct {
	held   string // the beginning of a sequence whose end has not come yet
	styled bool   // a style is in force that a program has chosen
	took   bool   // something was taken out
}

// maxSGR is the longest sequence that is taken for a style.
const maxSGR = 40

// show gives what the terminal may see of text.
func (s *screen) show(text string) string {
	if s.held != "" {
		text, s.held = s.held+text, ""
	}
	if clean(text) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	for i := 0; i < len(text); {
		if text[i] == 0x1b {
			n, whole := sgr(text[i:])
			switch {
			case n > 0 && whole:
				s.style(text[i : i+n])
				b.WriteString(text[i : i+n])
				i += n
				continue
			case n > 0:
				s.held = text[i:]
				return b.String()
			}
		}
		c, n := utf8.DecodeRuneInString(text[i:])
		if hidden(c) || c == utf8.RuneError && n == 1 {
			c, s.took = utf8.RuneError, true
		}
		b.WriteRune(c)
		i += n
	}
	return b.String()
}

// own gives what takes a program's style back before something of ours is written.
func (s *screen) own() string {
	s.held = ""
	if !s.styled {
		return ""
	}
	s.styled = false
	return "\x1b[0m"
}

// style notes whether a style stays in force.
func (s *screen) style(seq string) {
	s.styled = strings.Trim(strings.TrimSuffix(strings.TrimPrefix(seq, "\x1b["), "m"), "0;") != ""
}

// sgr gives the length of the style sequence with which text begins, and whether it is complete; 0: none.
func sgr(text string) (n int, whole bool) {
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case i == 1 && c == '[':
		case i > 1 && (c >= '0' && c <= '9' || c == ';' || c == ':') && i < maxSGR:
		case i > 1 && c == 'm':
			return i + 1, true
		default:
			return 0, false
		}
	}
	return len(text), false
}

// clean says that there is nothing to take out.
func clean(text string) bool {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' && c != '\n' && c != '\t' || c >= 0x7f {
			return utf8.ValidString(text) && strings.IndexFunc(text, hidden) < 0
		}
	}
	return true
}

// hidden says that a character does something else than to show itself: controls of seven and eight bits, line
// ends that are not one, and what turns the direction of writing.
func hidden(c rune) bool {
	switch {
	case c == '\n' || c == '\t':
		return false
	case c < ' ', c >= 0x7f && c < 0xa0, c == 0x2028 || c == 0x2029,
		c == 0x200e || c == 0x200f || c == 0x061c, c >= 0x202a && c <= 0x202e, c >= 0x2066 && c <= 0x2069:
		return true
	}
	return false
}

// Clean takes from text what would move the cursor, colour the screen or worse: notes and tables quote names
// and messages that programs and tool servers made up. Line ends and tabs stay.
func Clean(text string) string {
	return strings.Map(func(c rune) rune {
		if hidden(c) {
			return utf8.RuneError
		}
		return c
	}, text)
}

// Line is Clean for what has to stay on one line.
func Line(text string) string {
	return strings.ReplaceAll(Clean(text), "\n", " ")
}
