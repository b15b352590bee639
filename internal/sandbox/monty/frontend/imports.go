package frontend

import "strings"

// importStmt is one import statement, or one module of "import a, b".
type importStmt struct {
	stmt   int32  // index of its statement
	tok    int32  // where the module's name stands
	module string // dotted name; for relative imports with the leading dots
	from   bool   // "from module import ..."
	star   bool   // "from module import *"
	as     string // "import module as ..."
	names  []importName
}

// importName is one name of "from module import name as as".
type importName struct {
	name, as string
	tok      int32
}

// bindsTo is the name that the program sees.
func (n importName) bindsTo() string {
	if n.as != "" {
		return n.as
	}
	return n.name
}

// findImports finds every import statement, wherever it stands. Malformed ones are left to the engine.
func (s *source) findImports() []importStmt {
	var out []importStmt
	for i := range s.stmts {
		st := &s.stmts[i]
		switch st.kw {
		case "import":
			out = s.plainImports(out, int32(i))
		case "from":
			if imp, ok := s.fromImport(int32(i)); ok {
				out = append(out, imp)
			}
		}
	}
	return out
}

// plainImports reads "import a.b, c as d".
func (s *source) plainImports(out []importStmt, index int32) []importStmt {
	st := s.stmts[index]
	for i := st.first + 1; i < st.last; {
		imp := importStmt{stmt: index, tok: i}
		imp.module, i = s.dotted(i, st.last)
		if imp.module == "" {
			return out
		}
		if s.is(i, "as") && i < st.last && s.isName(i+1) {
			imp.as, i = s.str(i+1), i+2
		}
		out = append(out, imp)
		if i < st.last && !s.is(i, ",") {
			return out
		}
		i++
	}
	return out
}

// dotted reads "a.b.c" and gives the index behind it.
func (s *source) dotted(i, last int32) (name string, next int32) {
	if i >= last || !s.isName(i) {
		return "", i
	}
	begin := i
	for i+2 < last && s.is(i+1, ".") && s.isName(i+2) {
		i += 2
	}
	if begin == i {
		return s.str(i), i + 1
	}
	var b strings.Builder
	for ; begin <= i; begin++ {
		b.WriteString(s.str(begin))
	}
	return b.String(), i + 1
}

// fromImport reads "from a.b import (c as d, e)".
func (s *source) fromImport(index int32) (imp importStmt, ok bool) {
	st := s.stmts[index]
	i := st.first + 1
	imp = importStmt{stmt: index, tok: i, from: true}
	var dots strings.Builder // millions of them may stand there
	for ; i < st.last && (s.is(i, ".") || s.is(i, "...")); i++ {
		dots.WriteString(s.str(i))
	}
	if imp.module = dots.String(); !s.is(i, "import") {
		var name string
		name, i = s.dotted(i, st.last)
		imp.module += name
	}
	if imp.module == "" || i >= st.last || !s.is(i, "import") {
		return imp, false
	}
	for i++; i < st.last; i++ {
		switch t := s.str(i); {
		case t == "(" || t == ")" || t == ",":
		case t == "*":
			imp.star = true
		case s.isName(i):
			n := importName{name: t, tok: i}
			if i+2 < st.last && s.is(i+1, "as") && s.isName(i+2) {
				n.as, i = s.str(i+2), i+2
			}
			imp.names = append(imp.names, n)
		default:
			return imp, false
		}
	}
	return imp, imp.star || len(imp.names) > 0
}

// neverRuns says whether a statement stands under "if TYPE_CHECKING" or "if False".
func (s *source) neverRuns(index int32) bool {
	for i := s.stmts[index].parent; i >= 0; i = s.stmts[i].parent {
		st := &s.stmts[i]
		if st.kw != "if" || st.last-st.first > 5 {
			continue
		}
		switch strings.TrimSpace(s.text[s.tok[st.first].end:s.tok[st.last-1].start]) {
		case "TYPE_CHECKING", "typing.TYPE_CHECKING", "False", "0":
			return true
		}
	}
	return false
}

// guarded says whether the program itself takes care of an import that fails: it stands in a try whose
// except takes ImportError.
func (s *source) guarded(index int32) bool {
	for i := s.stmts[index].parent; i >= 0; i = s.stmts[i].parent {
		if s.stmts[i].kw != "try" {
			continue
		}
		caught, ok := s.tries[i]
		if !ok {
			caught = s.catchesImport(i)
			s.tries[i] = caught
		}
		if caught {
			return true
		}
	}
	return false
}

// catchesImport says whether a try statement has an except clause that takes ImportError.
func (s *source) catchesImport(try int32) bool {
	for i := int(try) + 1; i < len(s.stmts); i++ {
		st := &s.stmts[i]
		if st.parent > s.stmts[try].parent {
			continue // inside the try, or a clause's suite
		}
		if st.parent < s.stmts[try].parent || st.kw != "except" && st.kw != "else" && st.kw != "finally" {
			return false
		}
		if st.kw != "except" {
			continue
		}
		if st.last-st.first == 2 {
			return true // bare except
		}
		for t := st.first + 1; t < st.last; t++ {
			switch s.str(t) {
			case "ImportError", "ModuleNotFoundError", "Exception", "BaseException":
				return true
			}
		}
	}
	return false
}
