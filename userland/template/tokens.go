package template

import (
	"strings"
)

// tokenKind is what a piece of a task looks like.
type tokenKind int

const (
	word tokenKind = iota
	numeral
	text // in quotes, the quotes taken off
	url
	email
	date
	filePath
	jsonText
	comma
)

type token struct {
	kind tokenKind
	text string
	used bool
	// assigned: the token before was "name=" or "name:", so only that argument takes it.
	assigned bool
}

func (t *token) lower() string { return strings.ToLower(t.text) }

var lexemes = []struct {
	kind tokenKind
	re   *pattern
}{
	{text, compile(`^(?:"([^"]*)"|'([^']*)'(?:[\s,.;)]|$)|“([^”]*)”|‘([^’]*)’|` + "`([^`]*)`" + `)`)},
	{url, compile(`^[a-z][a-z0-9+.-]*://[^\s,;"']+`)},
	{email, compile(`^[\w.+-]+@[\w-]+\.[\w.-]*\w`)},
	{date, compile(`^\d{4}-\d{2}-\d{2}(?:T[\d:.]+(?:Z|[+-]\d{2}:?\d{2})?)?`)},
	{filePath, compile(`^(?:~|\.{1,2})?/[^\s,;"']*|^[\w.-]+(?:/[\w.-]+)+|^[\w-]+\.[A-Za-z]\w{0,4}(?:[\s,;)]|$)`)},
	{numeral, compile(`^-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[\s,;:)%]|$)`)},
	{comma, compile(`^[,;]`)},
	{word, compile(`^[^\s,;"]+`)},
}

// assignment is "name=" or "name:" before a value.
var assignment = compile(`^([A-Za-z_][\w-]*)\s?[=:]\s?`)

// tokenize splits a task into pieces. "name=value" gives the name as a word and the value behind it, assigned.
func tokenize(s string) []token {
	var out []token
	assigned := false
	for s = strings.TrimLeft(s, " "); s != ""; s = strings.TrimLeft(s, " ") {
		if j := jsonPrefix(s); j != "" {
			out = append(out, token{kind: jsonText, text: j, assigned: assigned})
			s, assigned = s[len(j):], false
			continue
		}
		if m := assignment.FindStringSubmatch(s); m != nil && !strings.HasPrefix(s[len(m[1]):], "://") && len(s) > len(m[0]) {
			out = append(out, token{kind: word, text: m[1]})
			s, assigned = s[len(m[0]):], true
			continue
		}
		kind, piece, length := lex(s)
		out = append(out, token{kind: kind, text: piece, assigned: assigned && kind != comma})
		s, assigned = s[length:], false
	}
	return out
}

func lex(s string) (kind tokenKind, piece string, length int) {
	for _, l := range lexemes {
		m := l.re.FindStringSubmatch(s)
		if m == nil {
			continue
		}
		switch l.kind {
		case text:
			for _, inner := range m[1:] {
				if inner != "" {
					piece = inner
				}
			}
			return text, piece, len(strings.TrimRight(m[0], " ,.;)"))
		case numeral, filePath:
			piece = strings.TrimRight(m[0], " ,;:)%")
			return l.kind, piece, len(piece)
		case word:
			piece = strings.Trim(m[0], "()[]?!.:")
			if piece == "" {
				piece = m[0]
			}
			return word, piece, len(m[0])
		}
		return l.kind, m[0], len(m[0])
	}
	return word, s, len(s)
}

// connectives end a phrase and carry no meaning of their own.
var connectives = wordSet(`for of in from to at about named called with on into by using as via and`)

// fillers are words that may be left over: they say nothing that a call would have to do.
var fillers = wordSet(`a an the me my us our i you is are was what what's whats which who how does do please now current currently
	of for in from to at about with on into by using as via it this that all tool function result results value values there
	get show give tell fetch find look up lookup retrieve list call use run invoke display print return`)

// verbs are parts of tool names that say little: a tool whose name has other parts is recognised by those.
var verbs = wordSet(`get show give tell fetch find look retrieve list read search query display lookup check`)
