package frontend

// This file recognizes forms that the engine lacks and that rewrite.go says in another way.

// erasableBases says whether the bases in the bracket at token open mean nothing at run time.
func (s *source) erasableBases(open int32) bool {
	for t := open + 1; t < s.tok[open].match; t++ {
		if s.tok[t].depth != 1 {
			continue
		}
		switch s.str(t) {
		case "object", "ABC", "Protocol", "Generic", "ABCMeta", ",", ".", "abc", "typing", "metaclass", "=", "[", "]":
		case "TypedDict", "total", "True", "False":
			if s.called(s.str(open - 1)) {
				return false // a call makes a dict
			}
		default:
			return false
		}
	}
	return true
}

// called says whether the file calls the name.
func (s *source) called(name string) bool {
	for t := range s.tok {
		i := int32(t)
		if s.tok[t].kind == tokName && s.is(i+1, "(") && s.is(i, name) && !s.is(i-1, "class") && !s.is(i-1, ".") {
			return true
		}
	}
	return false
}

// rewritableDel accepts "del name", "del target[key]" and "del target[from:to]", also several.
func (s *source) rewritableDel(st *stmt) bool {
	for i := st.first + 1; i < st.last; {
		end := s.primaryEnd(i)
		if end <= i || end < st.last && !s.is(end, ",") {
			return false
		}
		last := end - 1
		switch {
		case s.is(last, "]") && last > i && s.tok[last].match > i:
			if c := s.colons(s.tok[last].match); c > 1 {
				return false
			}
		case last == i && s.isName(i):
		default:
			return false
		}
		i = end + 1
	}
	return st.last > st.first+1
}

// colons counts the slice colons directly inside the bracket at token open; 2 also for several indexes.
func (s *source) colons(open int32) int {
	n, lambdas := 0, 0
	inner := s.tok[open].depth + 1
	for t := open + 1; t < s.tok[open].match; t++ {
		if s.tok[t].depth != inner {
			continue
		}
		switch s.str(t) {
		case "lambda":
			lambdas++
		case ":":
			if lambdas > 0 {
				lambdas--
				continue
			}
			n++
		case ",":
			return 2
		}
	}
	return n
}

// primaryEnd is the index behind the primary expression at token i: an atom with its trailers.
// It is i if there is none.
func (s *source) primaryEnd(i int32) int32 {
	if int(i) >= len(s.tok) {
		return i
	}
	switch t := &s.tok[i]; {
	case t.kind == tokString || t.kind == tokFStart:
		i = s.stringsEnd(i)
	case t.kind == tokNumber:
		i++
	case t.kind == tokName && !operatorWord(s.str(i)):
		i++
	case t.kind == tokOp && t.match > i:
		i = t.match + 1
	default:
		return i
	}
	for int(i) < len(s.tok) && s.tok[i].kind == tokOp {
		switch {
		case s.is(i, ".") && s.isName(i+1):
			i += 2
		case (s.is(i, "(") || s.is(i, "[")) && s.tok[i].match > i:
			i = s.tok[i].match + 1
		default:
			return i
		}
	}
	return i
}

// stringsEnd is the index behind adjacent string literals.
func (s *source) stringsEnd(i int32) int32 {
	for int(i) < len(s.tok) {
		switch s.tok[i].kind {
		case tokString:
			i++
		case tokFStart:
			i = s.tok[i].match + 1
		default:
			return i
		}
	}
	return i
}

// operatorWord says whether a word is an operator or begins an expression that is no primary.
func operatorWord(w string) bool {
	switch w {
	case "and", "or", "not", "in", "is", "if", "else", "for", "lambda", "await", "return", "yield", "from", "as",
		"import", "raise", "assert", "del", "elif", "while", "with", "except", "async", "pass", "break", "continue":
		return true
	}
	return false
}

// percentFormat says whether the "%" at token t stands behind a string literal.
func (s *source) percentFormat(t int32) bool {
	begin, ok := s.literalBefore(t)
	return ok && begin >= 0
}

// literalBefore finds the string literal that ends just before token t, possibly in brackets.
func (s *source) literalBefore(t int32) (begin int32, ok bool) {
	i := t - 1
	if i >= 0 && s.is(i, ")") && s.tok[i].match >= 0 {
		open := s.tok[i].match
		if open > 0 && s.calls(open) {
			return 0, false
		}
		inside := s.stringsEnd(open + 1)
		return open, inside == i && inside > open+1
	}
	for i >= 0 {
		switch s.tok[i].kind {
		case tokString:
			i--
		case tokFEnd:
			i = s.tok[i].match - 1
		default:
			return i + 1, i+1 < t
		}
	}
	return 0, t > 0
}

// calls says whether the "(" at token open calls what stands before it.
func (s *source) calls(open int32) bool {
	if open == 0 {
		return false
	}
	p := &s.tok[open-1]
	switch p.kind {
	case tokName:
		return !operatorWord(s.str(open - 1))
	case tokString, tokFEnd:
		return true
	}
	return s.is(open-1, ")") || s.is(open-1, "]") || s.is(open-1, "}")
}

// rewritablePercent says whether the format can become a call: the literal begins the operand, and one
// unary expression follows that no second "%" applies to.
func (s *source) rewritablePercent(t int32) bool {
	begin, ok := s.literalBefore(t)
	if !ok {
		return false
	}
	switch s.str(begin - 1) {
	case "*", "/", "//", "%", "@", "**", ".":
		return false
	}
	end := s.unaryEnd(t + 1)
	return end > t+1 && !s.is(end, "%") && !s.is(end, "**")
}

// unaryEnd is the index behind the unary expression at token i, i if there is none.
func (s *source) unaryEnd(i int32) int32 {
	begin := i
	for s.is(i, "-") || s.is(i, "+") || s.is(i, "~") || s.is(i, "await") {
		i++
	}
	end := s.primaryEnd(i)
	if end == i {
		return begin
	}
	if s.is(end, "**") {
		return s.unaryEnd(end + 1)
	}
	return end
}

// tupleTarget says whether a statement unpacks into several targets of which one is an attribute or item.
func (s *source) tupleTarget(st *stmt) bool {
	eq := s.firstAssign(st)
	if eq < 0 {
		return false
	}
	comma, deep := false, false
	for t := st.first; t < eq; t++ {
		switch s.str(t) {
		case ",":
			comma = comma || s.tok[t].depth == 0 || s.tok[st.first].match == eq-1 && s.tok[t].depth == 1
		case "=":
			if s.tok[t].depth == 0 {
				return false
			}
		}
		if s.tok[t].depth <= 1 && (s.is(t, ".") || s.is(t, "[") && t > st.first && s.subscript(t)) {
			deep = true
		}
	}
	return comma && deep
}

// subscript says whether the "[" at token t indexes what stands before it.
func (s *source) subscript(t int32) bool {
	return t > 0 && (s.isName(t-1) && !operatorWord(s.str(t-1)) || s.is(t-1, ")") || s.is(t-1, "]"))
}

// firstAssign is the first "=" at the outer level of a statement, -1 if it has none.
func (s *source) firstAssign(st *stmt) int32 {
	for t := st.first; t < st.last; t++ {
		if s.tok[t].kind == tokOp && s.tok[t].depth == 0 && s.is(t, "=") {
			return t
		}
	}
	return -1
}

// rewritableTuple accepts "a[i], b.c = expression": plain targets, one assignment.
func (s *source) rewritableTuple(st *stmt) bool {
	targets, eq := s.targets(st)
	if len(targets) < 2 {
		return false
	}
	for t := eq + 1; t < st.last; t++ {
		if s.tok[t].depth == 0 && s.is(t, "=") && s.tok[t].kind == tokOp {
			return false
		}
	}
	return true
}

// targets cuts "a[i], b.c = ..." into the token ranges of its targets; nil if one is not plain.
func (s *source) targets(st *stmt) (out [][2]int32, eq int32) {
	eq = s.firstAssign(st)
	for i := st.first; i < eq; {
		end := s.primaryEnd(i)
		if end == i || !s.isName(i) || end < eq && !s.is(end, ",") || s.is(end-1, ")") {
			return nil, eq
		}
		if s.is(end-1, "]") && s.colons(s.tok[end-1].match) == 1 {
			return nil, eq
		}
		out = append(out, [2]int32{i, end})
		i = end + 1
	}
	return out, eq
}
