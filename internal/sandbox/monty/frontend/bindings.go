package frontend

// bindings collects the names that a file binds anywhere. It errs on the side of calling a name bound:
// what the program defines itself is never refused or replaced.
func (s *source) bindings() {
	b := make(map[string]bool, min(len(s.tok)/8, 256))
	s.assigned, s.imported = b, map[string]bool{}
	for i := range s.stmts {
		st := &s.stmts[i]
		switch st.kw {
		case "import", "from":
			continue // below, once for all
		case "global", "nonlocal":
			s.bindNames(b, st.first+1, st.last)
		case "def", "class":
			s.bindDefinition(b, st)
		default:
			if end := s.assignEnd(st); end > st.first {
				s.bindTargets(b, st.first, end)
			}
		}
	}
	for i := range s.stmts {
		if st := &s.stmts[i]; st.kw != "import" && st.kw != "from" {
			s.bindInside(b, st.first, st.last)
		}
	}
	for _, imp := range s.imports {
		s.bindImport(s.imported, imp)
	}
}

// defines says whether the file itself gives the name a meaning.
func (s *source) defines(name string) bool { return s.assigned[name] || s.imported[name] }

// bindInside binds what expressions and clauses among tokens [first, last) bind.
func (s *source) bindInside(b map[string]bool, first, last int32) {
	for i := first; i < last; i++ {
		if s.tok[i].kind != tokName {
			if s.tok[i].kind == tokOp && s.is(i, ":=") && s.isName(i-1) {
				b[s.str(i-1)] = true
			}
			continue
		}
		switch s.str(i) {
		case "as":
			s.bindTargets(b, i+1, s.targetEnd(i+1))
		case "for":
			end := i + 1
			for d := s.tok[i].depth; end < last && (s.tok[end].depth != d || !s.is(end, "in") && !s.is(end, "for")); end++ {
			}
			s.bindTargets(b, i+1, end)
		case "lambda":
			s.bindParameters(b, i+1, s.tok[i].depth, true)
		}
	}
}

func (s *source) bindImport(b map[string]bool, imp importStmt) {
	for _, n := range imp.names {
		b[n.bindsTo()] = true
	}
	if !imp.from {
		if imp.as != "" {
			b[imp.as] = true
			return
		}
		b[firstPart(imp.module)] = true
	}
}

func firstPart(dotted string) string {
	for i := range len(dotted) {
		if dotted[i] == '.' {
			return dotted[:i]
		}
	}
	return dotted
}

func (s *source) bindDefinition(b map[string]bool, st *stmt) {
	i := st.first + 1
	if s.is(st.first, "async") {
		i++
	}
	if !s.isName(i) {
		return
	}
	b[s.str(i)] = true
	if st.kw == "def" {
		for i++; i < st.last && !s.is(i, "("); i++ {
		}
		s.bindParameters(b, i+1, 1, false)
	}
}

// bindParameters binds names at the given depth that begin a parameter, up to the end of the list.
func (s *source) bindParameters(b map[string]bool, i int32, depth uint16, lambda bool) {
	fresh := true
	for ; int(i) < len(s.tok) && s.tok[i].kind != tokNewline; i++ {
		t := &s.tok[i]
		if t.depth < depth {
			return
		}
		if t.depth > depth {
			continue
		}
		switch {
		case lambda && (t.kind == tokOp && s.is(i, ":") || t.kind == tokName && s.is(i, "lambda")):
			return
		case t.kind == tokName && fresh:
			b[s.str(i)] = true
			fresh = false
		case t.kind == tokOp && s.is(i, ","):
			fresh = true
		}
	}
}

// assignEnd is the index of the last assignment operator of a statement, its first token if none.
func (s *source) assignEnd(st *stmt) int32 {
	end := st.first
	for i := st.first; i < st.last; i++ {
		t := &s.tok[i]
		if t.kind != tokOp || t.depth != 0 {
			continue
		}
		switch op := s.str(i); op {
		case "=":
			end = i
		case ":":
			if i == st.first+1 {
				end = i
			}
		case "==", "<=", ">=", "!=", ":=":
		default:
			if n := len(op); n > 1 && op[n-1] == '=' {
				return i
			}
		}
	}
	return end
}

// targetEnd is where the target that begins at i ends: after one name or bracket.
func (s *source) targetEnd(i int32) int32 {
	if int(i) < len(s.tok) && s.tok[i].match > i {
		return s.tok[i].match
	}
	return i + 1
}

// bindTargets binds the names among tokens [i, end) that are targets themselves.
func (s *source) bindTargets(b map[string]bool, i, end int32) {
	for ; i < end && int(i) < len(s.tok); i++ {
		if s.tok[i].kind != tokName || s.is(i-1, ".") {
			continue
		}
		if next := s.str(i + 1); next == "." || next == "(" || next == "[" {
			continue
		}
		b[s.str(i)] = true
	}
}

func (s *source) bindNames(b map[string]bool, i, end int32) {
	for ; i < end; i++ {
		if s.tok[i].kind == tokName {
			b[s.str(i)] = true
		}
	}
}
