package frontend

// An f-string becomes tokFStart, then tokFText and the tokens of each replacement field between its
// braces in turn, then tokFEnd. The braces of fields are brackets like any other, so that whoever walks
// the tokens can skip a field by its match.

func (lx *lexer) fstringStart(start int, raw bool) {
	line := lx.line
	quote, triple := lx.quotes()
	if len(lx.fs) > 150 { // CPython refuses this depth too
		lx.fail(start, line, "f-string: too many nested f-strings")
		return
	}
	lx.emit(tokFStart, start, line)
	lx.fs = append(lx.fs, fstring{quote: quote, triple: triple, raw: raw, open: int32(len(lx.tokens) - 1)})
}

// inField says whether the innermost f-string is inside the expression of a replacement field.
func (lx *lexer) inField() bool {
	f := &lx.fs[len(lx.fs)-1]
	return len(f.fields) > 0 && !f.spec
}

// fstringText reads literal text up to a field, the end of the enclosing specification or the end.
func (lx *lexer) fstringText() {
	f := &lx.fs[len(lx.fs)-1]
	start, line := lx.pos, lx.line
	for lx.pos < len(lx.src) {
		c := lx.src[lx.pos]
		switch {
		case c == '\\' && lx.pos+1 < len(lx.src) && !(f.raw && (lx.src[lx.pos+1] == '{' || lx.src[lx.pos+1] == '}')):
			if d := lx.src[lx.pos+1]; d == '{' || d == '}' {
				lx.pos++ // the brace still counts
				continue
			}
			if !f.raw && lx.src[lx.pos+1] == 'N' && lx.peek(2) == '{' {
				lx.skipNamedEscape()
				continue
			}
			lx.skipEscaped()
			continue
		case c == '{' && !f.spec && lx.peek(1) == '{':
			lx.pos += 2
			continue
		case c == '{':
			lx.text(start, line)
			lx.openField(f)
			return
		case c == '}' && f.spec:
			lx.text(start, line)
			lx.closeField()
			return
		case c == '}' && lx.peek(1) == '}':
			lx.pos += 2
			continue
		case c == '}':
			lx.fail(lx.pos, lx.line, "f-string: single '}' is not allowed")
			return
		case c == f.quote && (!f.triple || lx.peek(1) == c && lx.peek(2) == c):
			if f.spec {
				lx.fail(lx.pos, lx.line, "f-string: expecting '}'")
				return
			}
			lx.text(start, line)
			lx.endFString(f)
			return
		case c == '\n' && !f.triple:
			o := lx.tokens[f.open]
			lx.fail(int(o.start), int(o.line), "unterminated f-string literal")
			return
		case c == '\n':
			lx.line++
		}
		lx.pos++
	}
	o := lx.tokens[f.open]
	what := "unterminated f-string literal"
	if f.triple {
		what = "unterminated triple-quoted f-string literal"
	}
	lx.fail(int(o.start), int(o.line), what)
}

// skipNamedEscape passes \N{DASH}.
func (lx *lexer) skipNamedEscape() {
	lx.pos += 3
	for lx.pos < len(lx.src) {
		switch c := lx.src[lx.pos]; c {
		case '}':
			lx.pos++
			return
		case '\n', '"', '\'', '{':
			return
		}
		lx.pos++
	}
}

func (lx *lexer) text(start, line int) {
	if lx.pos > start {
		lx.emit(tokFText, start, line)
	}
}

func (lx *lexer) endFString(f *fstring) {
	start := lx.pos
	lx.pos++
	if f.triple {
		lx.pos += 2
	}
	lx.emit(tokFEnd, start, lx.line)
	end := int32(len(lx.tokens) - 1)
	lx.tokens[f.open].match = end
	lx.tokens[end].match = f.open
	lx.fs = lx.fs[:len(lx.fs)-1]
}

func (lx *lexer) openField(f *fstring) {
	if len(lx.brackets) >= maxDepth {
		lx.fail(lx.pos, lx.line, "too many nested parentheses")
		return
	}
	start := lx.pos
	lx.pos++
	lx.emit(tokOp, start, lx.line)
	lx.brackets = append(lx.brackets, int32(len(lx.tokens)-1))
	f.fields = append(f.fields, field{bracket: f.bracket, spec: f.spec})
	f.bracket, f.spec = len(lx.brackets), false
}

// fieldEnd handles ':' and '!' at the outer level of a field: a specification or a conversion begins.
func (lx *lexer) fieldEnd(c byte) bool {
	f := &lx.fs[len(lx.fs)-1]
	if len(f.fields) == 0 || len(lx.brackets) != f.bracket || f.spec {
		return false
	}
	start := lx.pos
	if c == '!' {
		if lx.peek(1) == '=' {
			return false
		}
		for lx.pos++; lx.pos < len(lx.src) && isNamePart(lx.src[lx.pos]); lx.pos++ {
		}
		lx.emit(tokFText, start, lx.line)
		return true
	}
	lx.pos++
	lx.emit(tokOp, start, lx.line)
	f.spec = true
	return true
}

func (lx *lexer) closeField() {
	f := &lx.fs[len(lx.fs)-1]
	last := f.fields[len(f.fields)-1]
	f.fields = f.fields[:len(f.fields)-1]
	f.bracket, f.spec = last.bracket, last.spec
	open := lx.brackets[len(lx.brackets)-1]
	lx.brackets = lx.brackets[:len(lx.brackets)-1]
	start := lx.pos
	lx.pos++
	lx.emit(tokOp, start, lx.line)
	lx.tokens[open].match = int32(len(lx.tokens) - 1)
	lx.tokens[len(lx.tokens)-1].match = open
}
