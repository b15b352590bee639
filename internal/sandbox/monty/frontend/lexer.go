package frontend

import (
	"slices"
	"strconv"
	"unicode/utf8"
)

// tokenKind classifies a token. Comments, blank lines and line joins are not tokens.
type tokenKind uint8

const (
	tokName tokenKind = iota + 1 // identifier or keyword
	tokNumber
	tokString  // a whole string or bytes literal with prefix and quotes
	tokFStart  // prefix and opening quotes of an f-string
	tokFText   // literal text inside an f-string, format specifications included
	tokFEnd    // closing quotes of an f-string
	tokOp      // operator or delimiter
	tokNewline // end of a logical line
)

// token is one lexical element; text is src[start:end].
type token struct {
	kind       tokenKind
	depth      uint16 // brackets open around the token; a bracket counts as outside itself
	start, end int32
	line       int32 // 1-based line of start
	match      int32 // for brackets: index of the partner, else -1
}

// lexError is a defect that no Python accepts and that makes the rest of the text meaningless.
type lexError struct {
	pos  int // byte offset that the caret points at
	line int
	text string
}

// fstring is the state of an f-string that is being read; they nest.
type fstring struct {
	quote   byte
	triple  bool
	raw     bool
	spec    bool // inside a format specification
	open    int32
	bracket int // len(lexer.brackets) outside the innermost replacement field
	fields  []field
}

// field is one replacement field of an f-string; a specification can hold further ones.
type field struct {
	bracket int
	spec    bool // the field was opened inside a specification
}

// lexer splits a source into tokens in one pass; time and memory are linear in the source.
type lexer struct {
	src      string
	pos      int
	line     int
	tokens   []token
	brackets []int32 // indexes of open brackets
	fs       []fstring
	runs     [maxDepth + 2]int32 // names and operators since the last comma, by depth
	err      *lexError
}

// maxTokens is how many tokens the texts of a program may have together: some 150 bytes are kept of each while they are read. Data
// that is written as a program of 4 MB has about as many.
const maxTokens = 1_000_000

const maxDepth = 200 // CPython refuses deeper nesting too, and a parser that recurses would overflow

// maxRun is how many names and operators an expression may have without a comma: f()()(), 1+1+1 and x.a.a nest as brackets do, only
// that nobody sees it. CPython refuses some thousand of them, and the engine crashes at 200,000.
const maxRun = 30_000

// lex tokenizes src. On a fatal defect it returns the tokens before it and the error.
func lex(src string) ([]token, *lexError) {
	lx := &lexer{src: src, line: 1, tokens: make([]token, 0, min(len(src)/3+16, 1<<16))}
	for lx.err == nil {
		if n := len(lx.fs); n > 0 && !lx.inField() {
			lx.fstringText()
			continue
		}
		if lx.pos >= len(lx.src) {
			break
		}
		lx.next()
	}
	if lx.err == nil {
		lx.finish()
	}
	return lx.tokens, lx.err
}

func (lx *lexer) finish() {
	if len(lx.fs) > 0 {
		f := lx.tokens[lx.fs[len(lx.fs)-1].open]
		lx.fail(int(f.start), int(f.line), "unterminated f-string literal")
		return
	}
	if n := len(lx.brackets); n > 0 {
		t := lx.tokens[lx.brackets[n-1]]
		lx.fail(int(t.start), int(t.line), "'"+lx.src[t.start:t.end]+"' was never closed")
		return
	}
	lx.newline()
}

// tooManyTokens is the text of the one error of lexing that is not the program's.
const tooManyTokens = "too many tokens"

func (lx *lexer) fail(pos, line int, text string) {
	if lx.err == nil {
		lx.err = &lexError{pos: pos, line: line, text: text}
	}
}

func (lx *lexer) emit(kind tokenKind, start, line int) {
	switch n := len(lx.tokens); {
	case n > maxTokens:
		return // the error is there
	case n == maxTokens:
		lx.fail(start, line, tooManyTokens)
	case n == cap(lx.tokens):
		lx.tokens = slices.Grow(lx.tokens, n) // append would grow it in many small steps, each of which leaves another copy behind
	}
	lx.tokens = append(lx.tokens, token{kind: kind, depth: uint16(len(lx.brackets)), start: int32(start),
		end: int32(lx.pos), line: int32(line), match: -1})
	lx.count(kind, start, line)
}

// count refuses an expression that is too long.
func (lx *lexer) count(kind tokenKind, start, line int) {
	run := &lx.runs[len(lx.brackets)]
	switch {
	case kind == tokNewline, kind == tokOp && (lx.src[start] == ',' || lx.src[start] == ';'):
		*run = 0
	case kind == tokOp, kind == tokName:
		if *run++; *run > maxRun {
			lx.fail(start, line, "an expression with more than "+strconv.Itoa(maxRun)+" names and operators and no comma")
		}
	}
	lx.runs[len(lx.brackets)+1] = 0
}

// newline ends a logical line unless nothing stands on it.
func (lx *lexer) newline() {
	if n := len(lx.tokens); n > 0 && lx.tokens[n-1].kind != tokNewline {
		lx.emit(tokNewline, lx.pos, lx.line)
	}
}

func (lx *lexer) peek(n int) byte {
	if lx.pos+n < len(lx.src) {
		return lx.src[lx.pos+n]
	}
	return 0
}

// next reads one token, or skips white space, a comment or a line end.
func (lx *lexer) next() {
	c := lx.src[lx.pos]
	switch {
	case c == ' ' || c == '\t' || c == '\f':
		lx.pos++
	case c == '\n':
		if len(lx.brackets) == 0 {
			lx.newline()
		}
		lx.pos++
		lx.line++
	case c == '#':
		for lx.pos < len(lx.src) && lx.src[lx.pos] != '\n' {
			lx.pos++
		}
	case c == '\\':
		lx.joinLine()
	case isNameStart(c):
		lx.nameOrString()
	case isDigit(c) || c == '.' && isDigit(lx.peek(1)):
		lx.number()
	case c == '"' || c == '\'':
		lx.str(lx.pos)
	default:
		lx.operator(c)
	}
}

// joinLine skips a backslash before a line end; any other backslash is left to the engine to report.
func (lx *lexer) joinLine() {
	p := lx.pos + 1
	if p < len(lx.src) && lx.src[p] == '\n' {
		lx.pos = p + 1
		lx.line++
		return
	}
	start := lx.pos
	lx.pos++
	lx.emit(tokOp, start, lx.line)
}

func (lx *lexer) nameOrString() {
	start := lx.pos
	for lx.pos < len(lx.src) && isNamePart(lx.src[lx.pos]) {
		lx.pos++
	}
	if lx.pos < len(lx.src) && (lx.src[lx.pos] == '"' || lx.src[lx.pos] == '\'') {
		if prefix, ok := stringPrefix(lx.src[start:lx.pos]); ok {
			if prefix.formatted {
				lx.fstringStart(start, prefix.raw)
			} else {
				lx.str(start)
			}
			return
		}
	}
	lx.emit(tokName, start, lx.line)
}

type prefix struct{ raw, formatted bool }

// stringPrefix says whether s is a string prefix: any case and order of r with b, f or t; u alone.
func stringPrefix(s string) (p prefix, ok bool) {
	if len(s) > 2 {
		return p, false
	}
	var kind byte
	for i := range len(s) {
		switch c := s[i] | 0x20; {
		case c == 'r' && !p.raw:
			p.raw = true
		case (c == 'b' || c == 'f' || c == 't' || c == 'u') && kind == 0:
			kind = c
		default:
			return p, false
		}
	}
	p.formatted = kind == 'f' || kind == 't'
	return p, kind != 'u' || !p.raw
}

// quotes reads the opening quotes at pos.
func (lx *lexer) quotes() (quote byte, triple bool) {
	quote = lx.src[lx.pos]
	if lx.peek(1) == quote && lx.peek(2) == quote {
		lx.pos += 3
		return quote, true
	}
	lx.pos++
	return quote, false
}

// str reads a plain literal whose prefix began at start.
func (lx *lexer) str(start int) {
	line := lx.line
	quote, triple := lx.quotes()
	for lx.pos < len(lx.src) {
		c := lx.src[lx.pos]
		switch {
		case c == '\\' && lx.pos+1 < len(lx.src): // raw strings keep the backslash, and still skip the quote
			lx.skipEscaped()
		case c == '\n' && !triple:
			lx.fail(start, line, "unterminated string literal")
			return
		case c == quote && (!triple || lx.peek(1) == quote && lx.peek(2) == quote):
			lx.pos++
			if triple {
				lx.pos += 2
			}
			lx.emit(tokString, start, line)
			return
		default:
			if c == '\n' {
				lx.line++
			}
			lx.pos++
		}
	}
	what := "unterminated string literal"
	if triple {
		what = "unterminated triple-quoted string literal"
	}
	lx.fail(start, line, what)
}

// skipEscaped passes a backslash and what follows it inside a literal.
func (lx *lexer) skipEscaped() {
	lx.pos++
	if lx.src[lx.pos] == '\n' {
		lx.line++
	}
	lx.pos++
}

func (lx *lexer) number() {
	start := lx.pos
	for lx.pos < len(lx.src) {
		c := lx.src[lx.pos]
		if isNamePart(c) || c == '.' {
			lx.pos++
			continue
		}
		if (c == '+' || c == '-') && (lx.src[lx.pos-1]|0x20) == 'e' && !isHex(lx.src[start:lx.pos]) {
			lx.pos++
			continue
		}
		break
	}
	// "1if x" and "0or 1": a keyword may follow a number at once; numbers hold no such words, so that
	// the name inside matters to nobody here.
	lx.emit(tokNumber, start, lx.line)
}

func isHex(s string) bool { return len(s) > 1 && s[0] == '0' && s[1]|0x20 == 'x' }

// operator reads one operator or bracket.
func (lx *lexer) operator(c byte) {
	start := lx.pos
	switch c {
	case '(', '[', '{':
		if len(lx.brackets) >= maxDepth {
			lx.fail(start, lx.line, "too many nested parentheses")
			return
		}
		lx.pos++
		lx.emit(tokOp, start, lx.line)
		lx.brackets = append(lx.brackets, int32(len(lx.tokens)-1))
		return
	case ')', ']', '}':
		lx.closeBracket(c)
		return
	case ':', '!':
		if n := len(lx.fs); n > 0 && lx.fieldEnd(c) {
			return
		}
	}
	lx.pos += lx.operatorLength(c)
	lx.emit(tokOp, start, lx.line)
}

// operatorLength is the length of the operator at pos, whose first byte is c.
func (lx *lexer) operatorLength(c byte) int {
	d := lx.peek(1)
	switch {
	case c >= utf8.RuneSelf:
		_, n := utf8.DecodeRuneInString(lx.src[lx.pos:])
		return n
	case (c == '*' || c == '/' || c == '<' || c == '>') && d == c:
		if lx.peek(2) == '=' {
			return 3
		}
		return 2
	case c == '.' && d == '.' && lx.peek(2) == '.':
		return 3
	case c == '-' && d == '>':
		return 2
	case d == '=' && isAugmentable(c):
		return 2
	}
	return 1
}

func isAugmentable(c byte) bool {
	switch c {
	case '+', '-', '*', '/', '%', '&', '|', '^', '=', '<', '>', '!', '@', ':':
		return true
	}
	return false
}

func (lx *lexer) closeBracket(c byte) {
	start := lx.pos
	n := len(lx.brackets)
	if f := len(lx.fs); f > 0 && n == lx.fs[f-1].bracket {
		if c == '}' {
			lx.closeField()
			return
		}
		lx.fail(start, lx.line, "f-string: unmatched '"+string(c)+"'")
		return
	}
	if n == 0 {
		lx.fail(start, lx.line, "unmatched '"+string(c)+"'")
		return
	}
	open := lx.brackets[n-1]
	o := lx.src[lx.tokens[open].start]
	if o == '(' && c != ')' || o == '[' && c != ']' || o == '{' && c != '}' {
		lx.fail(start, lx.line, "closing parenthesis '"+string(c)+"' does not match opening parenthesis '"+string(o)+"'")
		return
	}
	lx.brackets = lx.brackets[:n-1]
	lx.pos++
	lx.emit(tokOp, start, lx.line)
	lx.tokens[open].match = int32(len(lx.tokens) - 1)
	lx.tokens[len(lx.tokens)-1].match = open
}

func isNameStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= utf8.RuneSelf
}
func isDigit(c byte) bool    { return c >= '0' && c <= '9' }
func isNamePart(c byte) bool { return isNameStart(c) || isDigit(c) }
