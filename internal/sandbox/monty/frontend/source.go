package frontend

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"agentkernel"
)

// source is one file of a program, tokenized and cut into statements.
type source struct {
	file    string // name for messages and tracebacks; "" for the guest's own shims
	main    bool   // the program itself, not a module
	text    string // with \n line ends and without a byte order mark
	tok     []token
	stmts   []stmt
	imports []importStmt
	// assigned are the names that the file binds anywhere other than by import: assignments,
	// definitions, parameters, loop variables.
	assigned map[string]bool
	imported map[string]bool // names that import statements bind
	shift    int             // lines in front of the user's own: carried imports
	tries    map[int32]bool  // try statements looked at: does an except clause take ImportError?
}

// stmt is one simple statement, or the header of a compound one ("if x:").
type stmt struct {
	first, last int32  // its tokens: tok[first:last]; the colon of a header is included
	parent      int32  // index of the header whose suite it is in; -1 at the top
	kw          string // the keyword that it begins with, "" if none; "async def" is "def"
	header      bool
	lineStart   bool // it begins a line
}

const op = "python"

// parse tokenizes a file. Errors are CodeSyntax.
func parse(file, text string, main bool) (*source, error) { return parseBehind("", file, text, main) }

// parseBehind is parse of a text behind one line that the user does not see; "" for none.
func parseBehind(carried, file, text string, main bool) (*source, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	shift := 0
	if carried != "" {
		text, shift = carried+"\n"+text, 1
	}
	if strings.ContainsRune(text, '\r') {
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	}
	s := &source{file: file, main: main, text: text, shift: shift, tries: map[int32]bool{}}
	if err := s.checkBytes(); err != nil {
		return nil, err
	}
	tok, lerr := lex(text)
	if lerr != nil && lerr.text == tooManyTokens {
		return nil, tooLong()
	}
	if lerr != nil {
		return nil, s.syntaxError(lerr.pos, lerr.line, lerr.text)
	}
	s.tok = tok
	s.cut()
	s.imports = s.findImports()
	s.bindings()
	return s, nil
}

// tooLong refuses a program of more tokens than are read here.
func tooLong() error {
	return agentkernel.Errorf(agentkernel.CodeUnsupported, op, "the program has more than %d words, numbers and signs; %s", maxTokens, elsewhere).
		WithHint("put data into a file, or into one text that the program parses")
}

// checkBytes refuses what is not text.
func (s *source) checkBytes() error {
	if i := strings.IndexByte(s.text, 0); i >= 0 {
		return s.syntaxError(i, 1+strings.Count(s.text[:i], "\n"), "source code cannot contain null bytes")
	}
	if utf8.ValidString(s.text) {
		return nil
	}
	for i, r := range s.text {
		if r != utf8.RuneError {
			continue
		}
		if _, n := utf8.DecodeRuneInString(s.text[i:]); n == 1 {
			line := 1 + strings.Count(s.text[:i], "\n")
			e := agentkernel.Errorf(agentkernel.CodeSyntax, op,
				"%sthe source is not UTF-8: byte 0x%02x at offset %d", s.at(line), s.text[i], i)
			e.Exception = "SyntaxError"
			return e.WithHint("save the file as UTF-8")
		}
	}
	return nil
}

// at is the place as messages begin with it: "line 3: ", for modules with the file before it.
func (s *source) at(line int) string {
	if s.main {
		return fmt.Sprintf("line %d: ", line)
	}
	return fmt.Sprintf("%s, line %d: ", s.file, line)
}

// syntaxError is a CodeSyntax with the line and a caret, as CPython shows it.
func (s *source) syntaxError(pos, line int, text string) error {
	line -= s.shift
	e := agentkernel.Errorf(agentkernel.CodeSyntax, op, "%s%s", s.at(line), text)
	e.Exception = "SyntaxError"
	begin := strings.LastIndexByte(s.text[:pos], '\n') + 1
	shown, _, _ := strings.Cut(s.text[begin:], "\n")
	const widest = 200
	column := utf8.RuneCountInString(s.text[begin:pos])
	if !utf8.ValidString(shown) || len(shown) > widest {
		shown, column = "", 0
	}
	trimmed := strings.TrimLeft(shown, " \t\f")
	column = max(0, column-(len(shown)-len(trimmed)))
	e.Traceback = fmt.Sprintf("  File %q, line %d\n", s.file, line)
	if trimmed != "" {
		e.Traceback += "    " + trimmed + "\n    " + strings.Repeat(" ", column) + "^\n"
	}
	e.Traceback += "SyntaxError: " + text
	return e
}

// str is the text of token i, "" beyond the ends.
func (s *source) str(i int32) string {
	if i < 0 || int(i) >= len(s.tok) {
		return ""
	}
	t := &s.tok[i]
	return s.text[t.start:t.end]
}

// is says whether token i is this operator or keyword.
func (s *source) is(i int32, text string) bool { return s.str(i) == text }

func (s *source) isName(i int32) bool {
	return i >= 0 && int(i) < len(s.tok) && s.tok[i].kind == tokName
}

func (s *source) line(i int32) int {
	if int(i) >= len(s.tok) {
		return 1 + strings.Count(s.text, "\n") - s.shift
	}
	return int(s.tok[i].line) - s.shift
}

// compound says which keywords open a suite.
func compound(word string) bool {
	switch word {
	case "if", "elif", "else", "for", "while", "try", "except", "finally", "with", "def", "class":
		return true
	}
	return false
}

// block is a header whose suite is open while statements are cut.
type block struct {
	indent int
	stmt   int32
}

// cut splits the tokens into statements and finds whose suite each is in.
func (s *source) cut() {
	s.stmts = make([]stmt, 0, len(s.tok)/6+4)
	var blocks []block
	for i := int32(0); int(i) < len(s.tok); {
		end := i
		for int(end) < len(s.tok) && s.tok[end].kind != tokNewline {
			end++
		}
		indent := s.indent(i)
		for len(blocks) > 0 && blocks[len(blocks)-1].indent >= indent {
			blocks = blocks[:len(blocks)-1]
		}
		parent := int32(-1)
		if len(blocks) > 0 {
			parent = blocks[len(blocks)-1].stmt
		}
		if header := s.cutLine(i, end, parent); header >= 0 {
			blocks = append(blocks, block{indent: indent, stmt: header})
		}
		i = end + 1
	}
}

// indent is the column of token i with tabs to multiples of eight, as Python counts.
func (s *source) indent(i int32) int {
	begin := strings.LastIndexByte(s.text[:s.tok[i].start], '\n') + 1
	n := 0
	for _, c := range []byte(s.text[begin:s.tok[i].start]) {
		if c == '\t' {
			n = n/8*8 + 8
		} else {
			n++
		}
	}
	return n
}

// cutLine adds the statements of one logical line and gives the index of its header, or -1.
func (s *source) cutLine(first, end, parent int32) (header int32) {
	header = -1
	start, lineStart := first, true
	kw := s.keyword(first)
	if compound(kw) || kw == "match" || kw == "case" {
		if colon := s.headerColon(first, end); colon >= 0 {
			header = int32(len(s.stmts))
			s.stmts = append(s.stmts, stmt{first, colon + 1, parent, kw, true, true})
			parent, start, lineStart = header, colon+1, false
		} else if kw == "match" || kw == "case" {
			// an ordinary name
		}
	}
	for i := start; i < end; i++ {
		if s.tok[i].depth == 0 && s.is(i, ";") {
			s.addStmt(start, i, parent, lineStart)
			start, lineStart = i+1, false
		}
	}
	s.addStmt(start, end, parent, lineStart)
	return header
}

func (s *source) addStmt(first, last, parent int32, lineStart bool) {
	if first >= last {
		return
	}
	kw := s.keyword(first)
	if kw == "match" || kw == "case" {
		kw = ""
	}
	s.stmts = append(s.stmts, stmt{first, last, parent, kw, false, lineStart})
}

// keyword is the word that decides what the statement beginning at token i is.
func (s *source) keyword(i int32) string {
	switch w := s.str(i); w {
	case "async":
		if s.isName(i + 1) {
			return s.str(i + 1)
		}
	case "import", "from", "return", "raise", "del", "global", "nonlocal", "pass", "assert", "break", "continue",
		"yield", "await", "match", "case", "if", "elif", "else", "for", "while", "try", "except", "finally", "with",
		"def", "class", "lambda":
		return w
	case "@":
		return w
	}
	return ""
}

// headerColon finds the colon that ends the header on tokens [first, end), -1 if there is none.
func (s *source) headerColon(first, end int32) int32 {
	lambdas := 0
	for i := first; i < end; i++ {
		if s.tok[i].depth != 0 || s.tok[i].end-s.tok[i].start > 6 {
			continue
		}
		switch s.str(i) {
		case "lambda":
			lambdas++
		case ":":
			if lambdas == 0 {
				if first+1 == i && (s.is(first, "match") || s.is(first, "case")) {
					return -1 // "match: int"
				}
				return i
			}
			lambdas--
		case "=":
			if w := s.str(first); w == "match" || w == "case" {
				return -1
			}
		}
	}
	return -1
}
