// Package redact takes secrets out of texts, however writers spell them: escaped as in JSON, a URL or HTML, several times
// over too, or encoded as a part of something in base64, also where lines of it end. It knows no secret that is cut in pieces, reversed or encrypted.
package redact

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Set is a set of secrets. The zero value is an empty one.
type Set struct {
	forms  []*form
	begins [256][]*form // by the first byte
}

// form is one text that stands for a secret.
type form struct {
	runes         []rune
	mask          string
	base64        bool // lines may end in it
	before, after bool // the base64 digits beside it hold a part of the secret, too
	second        byte // if it is a letter or digit
}

// Add adds a secret, and what stands in its place. Values of a few characters would take out what is none.
func (s *Set) Add(value, mask string) {
	if value == "" {
		return
	}
	s.add(form{runes: runes(value), mask: mask})
	for before := range 3 { // how many bytes of something else share the first group of three
		bits := 8 * (before + len(value))
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := e.EncodeToString(append(make([]byte, before), value...))
			if from, to := (8*before+5)/6, bits/6; to-from > 2 {
				s.add(form{runes: runes(text[from:to]), mask: mask, base64: true, before: before > 0, after: bits%6 != 0})
			}
		}
	}
}

// runes are those of a text, but for each run of backslashes a single one: escaping doubles them.
func runes(text string) []rune {
	list := []rune(text)
	return slices.CompactFunc(list, func(a, b rune) bool { return a == '\\' && b == '\\' })
}

func (s *Set) add(f form) {
	c := string(f.runes[0])[0]
	if len(f.runes) > 1 && f.runes[1] < utf8.RuneSelf && plain(byte(f.runes[1])) { //nolint:gosec // it is ASCII
		f.second = byte(f.runes[1]) //nolint:gosec // as above
	}
	if slices.ContainsFunc(s.begins[c], func(g *form) bool { return slices.Equal(f.runes, g.runes) }) {
		return
	}
	s.forms, s.begins[c] = append(s.forms, &f), append(s.begins[c], &f)
}

// Empty says whether there is no secret.
func (s *Set) Empty() bool { return len(s.forms) == 0 }

// Bytes replaces the secrets in a text. It is b itself if there is none.
func (s *Set) Bytes(b []byte) []byte {
	if s.Empty() {
		return b
	}
	var out []byte
	done := 0 // b up to there is in out
	for i := 0; i < len(b); {
		f, n := s.longest(b[i:])
		if n == 0 {
			i++
			continue
		}
		from := i
		i += n
		if before := from - breakBefore(b[done:from]); f.before && before > done && digit(b[before-1]) {
			from = before - 1
		}
		if next := i + lineBreak(b[i:]); f.after && next < len(b) && digit(b[next]) {
			i = next + 1
		}
		out = append(append(out, b[done:from]...), f.mask...)
		done = i
	}
	if out == nil {
		return b
	}
	return append(out, b[done:]...)
}

// String is Bytes for a string.
func (s *Set) String(text string) string {
	if s.Empty() {
		return text
	}
	return string(s.Bytes([]byte(text)))
}

// longest is the form that takes most of the beginning of b, and how much.
func (s *Set) longest(b []byte) (best *form, most int) {
	try := func(c byte) {
		for _, f := range s.begins[c] {
			if n := f.match(b); n > most {
				best, most = f, n
			}
		}
	}
	c := b[0]
	switch c {
	case '%':
		if first := unpercent(b); first >= 0 {
			try(byte(first))
		}
		try(' ') // as +
	case '&':
		if r, n := unentity(b); n > 0 {
			try(string(r)[0])
		}
	case '+':
		try(' ')
	case '\\':
		rest := b[1:]
		for n := 1; n < maxRun && len(rest) > 0 && rest[0] == '\\'; n++ {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			break
		}
		try(rest[0])
		for _, digits := range [...]int{2, 4} {
			if r := hex(rest, string(rest[:1]), digits); r >= 0xd800 && r < 0xdc00 {
				for first := range byte(5) { // the first of two, for a character of four bytes
					try(0xf0 + first)
				}
			} else if r >= 0 {
				try(string(rune(r))[0])
			}
		}
	default:
		return s.longestPlain(b)
	}
	try(c)
	return best, most
}

// longestPlain is longest where b does not begin with an escape.
func (s *Set) longestPlain(b []byte) (best *form, most int) {
	var next byte
	if len(b) > 1 && plain(b[1]) {
		next = b[1]
	}
	for _, f := range s.begins[b[0]] {
		if next != 0 && f.second != 0 && next != f.second {
			continue
		}
		if n := f.match(b); n > most {
			best, most = f, n
		}
	}
	return best, most
}

// plain says whether c is a letter or a digit: outside of an escape these stand for themselves.
func plain(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' }

// unpercent reads a byte as in a URL, escaped once or more often; -1: there is none.
func unpercent(b []byte) int {
	n := 1
	for hex(b[n:], "25", 2) >= 0 {
		n += 2
	}
	return hex(b[n:], "", 2)
}

// match is how many bytes at the beginning of b spell the form; 0: they do not.
func (f *form) match(b []byte) int {
	if f.base64 {
		return matchLines(b, f.runes)
	}
	if n := match(b, f.runes, 0); n > 0 {
		return n
	}
	return 0
}

// matchLines is match for base64: there is one reading of each character, and between two a line may end.
func matchLines(b []byte, text []rune) (n int) {
	for i, r := range text {
		rest := b[n:]
		switch {
		case len(rest) > 0 && rune(rest[0]) == r:
			n++
			continue
		case len(rest) == 0 || plain(rest[0]):
			return 0
		case i > 0:
			n += lineBreak(rest)
		}
		k := spelled(b[n:], r)
		if k == 0 {
			return 0
		}
		n += k
	}
	return n
}

// spelled is how many bytes at the beginning of b spell a digit of base64; 0: they do not.
func spelled(b []byte, r rune) int {
	switch {
	case len(b) == 0:
		return 0
	case rune(b[0]) == r:
		return 1
	case b[0] == '%':
		return percent(b, r)
	case b[0] == '&':
		return entity(b, r)
	case b[0] == '\\':
		return behindBackslash(b, r, byte(r)) //nolint:gosec // it is ASCII
	}
	return 0
}

// behindBackslash is escaped for a character of ASCII that this letter stands for.
func behindBackslash(b []byte, r rune, letter byte) int {
	n := 1
	for n < min(len(b), maxRun) && b[n] == '\\' {
		n++
	}
	if n == len(b) {
		return 0
	}
	switch b[n] {
	case letter:
		return n + 1
	case 'u', 'U', 'x', byte(r): //nolint:gosec // it is ASCII
		return escaped(b, r)
	}
	return 0
}

// lineBreak is how many bytes at the beginning of b end a line, and indent the next; 0: they do not.
func lineBreak(b []byte) int {
	n := control(b, '\r', 'r')
	k := control(b[n:], '\n', 'n')
	if k == 0 {
		return 0
	}
	n += k
	for most := n + maxRun; n < min(len(b), most) && (b[n] == ' ' || b[n] == '\t'); {
		n++
	}
	return n
}

// control is how many bytes at the beginning of b spell a control character, which has a letter behind a backslash.
func control(b []byte, r rune, letter byte) int {
	if len(b) > 0 && b[0] == '\\' {
		return behindBackslash(b, r, letter)
	}
	return spelled(b, r)
}

// breakBefore is how many bytes at the end of b end a line, and indent the next.
func breakBefore(b []byte) int {
	rest := bytes.TrimRight(b, " \t")
	n := controlBefore(rest, '\n', "n", "%0a")
	if n == 0 {
		return 0
	}
	rest = rest[:len(rest)-n]
	return len(b) - len(rest) + controlBefore(rest, '\r', "r", "%0d")
}

// controlBefore is how many bytes at the end of b spell a control character.
func controlBefore(b []byte, c byte, letter, percent string) int {
	switch {
	case len(b) > 0 && b[len(b)-1] == c:
		return 1
	case len(b) >= len(percent) && strings.EqualFold(string(b[len(b)-len(percent):]), percent):
		return len(percent)
	}
	text, ok := bytes.CutSuffix(b, []byte(letter))
	if n := len(text) - len(bytes.TrimRight(text, `\`)); ok && n > 0 {
		return n + 1
	}
	return 0
}

// match is how many bytes at the beginning of b spell the text behind the rune last; -1: they do not. What a writer has
// escaped may look like what another has not, so all readings are tried.
func match(b []byte, text []rune, last rune) int {
	if len(text) == 0 {
		return 0
	}
	r := text[0]
	try := func(n int) int {
		if n == 0 {
			return -1
		}
		if rest := match(b[n:], text[1:], r); rest >= 0 {
			return n + rest
		}
		return -1
	}
	if have, k := utf8.DecodeRune(b); k > 0 && have == r && r != '\\' {
		if n := try(k); n > 0 {
			return n
		}
	}
	if len(b) == 0 {
		return -1
	}
	switch {
	case b[0] == '%' && r == '%':
		for n := 1; hex(b[n:], "", 2) == '%'; n += 2 {
			if k := try(n + 2); k > 0 {
				return k
			}
		}
		return -1
	case b[0] == '%' && r != '\\':
		n := percent(b, r)
		if n == 0 && r == ' ' {
			n = percent(b, '+')
		}
		return try(n)
	case b[0] == '&' && r != '\\':
		return try(entity(b, r))
	case b[0] == '+' && r == ' ':
		return try(1)
	case r == '\\':
		return try(backslashes(b))
	case b[0] == '\\', last == '\\': // then what escapes was taken for the text's own
		return try(escaped(b, r))
	}
	return -1
}

// maxRun bounds how many backslashes are read as one: a text of nothing else is not to be read anew from each.
const maxRun = 64

// backslashes is how many bytes at the beginning of b spell a run of them.
func backslashes(b []byte) (n int) {
	for k := 1; k > 0 && n < min(len(b), maxRun); n += k {
		switch k = 0; b[n] {
		case '\\':
			k = escaped(b[n:], '\\')
		case '%':
			k = percent(b[n:], '\\')
		case '&':
			k = entity(b[n:], '\\')
		}
	}
	return n
}

// escaped reads backslashes and what is behind them: the character, or its number.
func escaped(b []byte, r rune) int {
	n := 0
	for n < min(len(b), maxRun) && b[n] == '\\' {
		n++
	}
	rest := b[n:]
	switch {
	case hex(rest, "u", 4) == int(r) || hex(rest, "U", 4) == int(r):
		return n + 5
	case hex(rest, "x", 2) == int(r):
		return n + 3
	}
	if hi, lo := utf16.EncodeRune(r); hi != utf8.RuneError && hex(rest, "u", 4) == int(hi) {
		k := 5
		for k < min(len(rest), maxRun) && rest[k] == '\\' {
			k++
		}
		if k > 5 && hex(rest[k:], "u", 4) == int(lo) {
			return n + k + 5
		}
	}
	if r == '\\' {
		return n
	}
	if have, k := utf8.DecodeRune(rest); k > 0 && have == r {
		return n + k
	}
	return 0
}

// hex reads a number of so many digits behind prefix; -1: there is none.
func hex(b []byte, prefix string, digits int) int {
	if len(b) < len(prefix)+digits || string(b[:len(prefix)]) != prefix {
		return -1
	}
	v, err := strconv.ParseUint(string(b[len(prefix):len(prefix)+digits]), 16, 32)
	if err != nil {
		return -1
	}
	return int(v)
}

// percent reads a character as in a URL, in upper or lower case, escaped once or more often.
func percent(b []byte, r rune) int {
	n := 0
	for _, c := range []byte(string(r)) {
		if n == len(b) || b[n] != '%' {
			return 0
		}
		n++
		for c != '%' && hex(b[n:], "25", 2) >= 0 {
			n += 2
		}
		if hex(b[n:], "", 2) != int(c) {
			return 0
		}
		n += 2
	}
	return n
}

var entities = map[string]rune{"lt": '<', "gt": '>', "amp": '&', "quot": '"', "apos": '\'', "sol": '/', "plus": '+', "equals": '='}

// entity is how many bytes at the beginning of b spell a character as in HTML; 0: they do not.
func entity(b []byte, r rune) int {
	if have, n := unentity(b); have == r {
		return n
	}
	return 0
}

// unentity reads a character as in HTML, and how many bytes it takes; 0: there is none.
func unentity(b []byte) (r rune, n int) {
	const longest = 10
	end := bytes.IndexByte(b[:min(len(b), longest)], ';')
	if end < 0 {
		return 0, 0
	}
	name := strings.ToLower(string(b[1:end]))
	if r, ok := entities[name]; ok {
		return r, end + 1
	}
	number, base := "", 10
	if rest, ok := strings.CutPrefix(name, "#x"); ok {
		number, base = rest, 16
	} else if rest, ok := strings.CutPrefix(name, "#"); ok {
		number = rest
	}
	v, err := strconv.ParseUint(number, base, 31)
	if err != nil {
		return 0, 0
	}
	return rune(v), end + 1 //nolint:gosec // it has 31 bits
}

// digit says whether c is one of base64.
func digit(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("+/-_", c) >= 0
}
