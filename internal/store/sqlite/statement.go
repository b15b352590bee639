package sqlite

import (
	"strings"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/internal/nearest"
)

// token is a piece of SQL: a word, a number, a quoted text or name, or one other character.
type token struct {
	from, to int
	word     bool // a name, keyword or number
	comment  bool // or white space
}

// scan cuts SQL into tokens, as far as is needed to find the end of a statement and the words in it.
func scan(s string) []token {
	var out []token
	for i := 0; i < len(s); {
		t := token{from: i, to: i + 1}
		switch c := s[i]; {
		case strings.HasPrefix(s[i:], "--"):
			t.comment, t.to = true, end(s, i, "\n")
		case strings.HasPrefix(s[i:], "/*"):
			t.comment, t.to = true, end(s, i+2, "*/")
		case c == '\'' || c == '"' || c == '`':
			t.to = quotedEnd(s, i)
		case c == '[':
			t.to = end(s, i, "]")
		case isSpace(c):
			t.comment = true
		case isWord(c):
			t.word = true
			for t.to < len(s) && isWord(s[t.to]) {
				t.to++
			}
		}
		out = append(out, t)
		i = t.to
	}
	return out
}

func isSpace(c byte) bool { return strings.IndexByte(" \t\r\n\f\v", c) >= 0 }

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
}

func end(s string, from int, mark string) int {
	if i := strings.Index(s[from:], mark); i >= 0 {
		return from + i + len(mark)
	}
	return len(s)
}

// quotedEnd is behind the closing quote; a doubled one stands for itself.
func quotedEnd(s string, from int) int {
	q := s[from]
	for i := from + 1; i < len(s); i++ {
		if s[i] != q {
			continue
		}
		if i+1 < len(s) && s[i+1] == q {
			i++
			continue
		}
		return i + 1
	}
	return len(s)
}

// single takes the semicolon off a statement and refuses more than one.
func single(text string) (string, error) {
	invalid := func(format string, args ...any) error {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "sql", format, args...).
			WithHint("agentkernel sql \"select name, count(*), sum(ms) from calls group by name\"")
	}
	if strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text) {
		return "", invalid("the statement is not text")
	}
	last := len(text)
	begun, ended := false, false
	for _, t := range scan(text) {
		switch {
		case t.comment, ended && text[t.from:t.to] == ";":
		case ended:
			return "", invalid("one statement at a time: another begins with %q", text[t.from:t.to])
		case text[t.from:t.to] == ";":
			if begun {
				last, ended = t.from, true
			}
		default:
			begun = true
		}
	}
	if !begun {
		return "", invalid("the statement is empty")
	}
	statement := text[:last]
	switch word := firstWord(statement); word {
	case "select", "with", "values", "explain":
		return statement, nil
	case "pragma":
		return "", agentkernel.Errorf(agentkernel.CodeDenied, "sql", "sql only reads; PRAGMA may set something").
			WithHint("as a function it only reads: select * from pragma_table_info('calls')")
	default:
		if near := nearest.One(word, []string{"select", "with", "values", "explain"}); near != "" && len(word) > 2 {
			return "", agentkernel.Errorf(agentkernel.CodeInvalid, "sql", "no statement begins with %q", word).WithHint("did you mean %s?", near)
		}
		return "", agentkernel.Errorf(agentkernel.CodeDenied, "sql", "sql only reads; a statement that begins with %q does something else", word).
			WithHint("SELECT, WITH, VALUES and EXPLAIN are allowed; what a kernel may change, its commands change")
	}
}

// firstWord is the first word of a statement in small letters, or its first character.
func firstWord(s string) string {
	for _, t := range scan(s) {
		if !t.comment && s[t.from:t.to] != ";" {
			return strings.ToLower(s[t.from:t.to])
		}
	}
	return ""
}
