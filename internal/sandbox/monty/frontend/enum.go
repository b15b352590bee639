package frontend

import "strings"

// The engine has no inheritance, and nothing that runs when a class is made. Plain enumerations and named
// tuples written as classes are therefore made where they are used: each mention of the class goes through
// a function of a shim that makes the members (or the tuple type) at its first call.

// madeClass is a class that is made at its first use.
type madeClass struct {
	kind    string // "enum" or "namedtuple"
	members []string
	at      int32 // the token before which the list of members goes
}

// findMade finds the enumerations and named tuples of a file.
func (f *file) findMade() {
	for i := range f.stmts {
		st := &f.stmts[i]
		if st.kw != "class" {
			continue
		}
		name, open := f.str(st.first+1), st.first+2
		if open >= st.last || !f.is(open, "(") {
			continue
		}
		kind := f.madeKind(open)
		if kind == "" {
			continue
		}
		m := &madeClass{kind: kind, at: -1}
		if f.madeBody(int32(i), m) {
			if f.made == nil {
				f.made = map[string]*madeClass{}
			}
			f.made[name] = m
		}
	}
}

// madeKind says what the bases in the bracket at token open make of a class.
func (f *file) madeKind(open int32) string {
	end := f.tok[open].match
	base := ""
	switch {
	case end == open+2:
		from := f.origins[f.str(open+1)]
		base = from[0] + "." + from[1]
	case end == open+4 && f.is(open+2, "."):
		for _, imp := range f.imports {
			if !imp.from && (imp.as == f.str(open+1) || imp.as == "" && imp.module == f.str(open+1)) {
				base = imp.module + "." + f.str(open+3)
			}
		}
	}
	switch base {
	case "enum.Enum":
		return "enum"
	case "typing.NamedTuple":
		return "namedtuple"
	}
	return ""
}

// madeBody reads the body of the class at a statement; false if it holds more than can be made.
func (f *file) madeBody(class int32, m *madeClass) bool {
	for i := int(class) + 1; i < len(f.stmts) && f.stmts[i].parent >= class; i++ {
		st := &f.stmts[i]
		if st.parent != class {
			continue
		}
		name := f.str(st.first)
		switch {
		case st.kw == "pass" || st.last == st.first+1:
		case st.kw == "def" && m.kind == "enum":
			if f.is(st.first+1, "__init__") || f.is(st.first+1, "__new__") {
				return false
			}
		case m.kind == "enum" && st.kw == "" && f.is(st.first+1, "=") && f.oneTarget(st) && !strings.HasPrefix(name, "_"):
			if m.at < 0 {
				m.at = st.first
			}
			m.members = append(m.members, name)
		case m.kind == "namedtuple" && st.kw == "" && f.is(st.first+1, ":"):
			m.members = append(m.members, name)
		default:
			return false
		}
	}
	return len(m.members) > 0
}

// rewriteMadeClass writes the header of a class without its bases, and the list of an enumeration's members.
func (ed *editor) rewriteMadeClass(st *stmt, m *madeClass) {
	open := st.first + 2
	ed.replace(ed.tok[open].start, ed.tok[ed.tok[open].match].end, "")
	if m.kind == "enum" {
		names := make([]string, len(m.members))
		for i, n := range m.members {
			names[i] = quote(n)
		}
		ed.before(m.at, "_member_names_=["+strings.Join(names, ",")+"];")
	}
}

// rewriteMadeUse makes the class at its use at token t.
func (ed *editor) rewriteMadeUse(st *stmt, t int32, m *madeClass) {
	if st.kw == "class" && t == st.first+1 || ed.keywordArgument(t) {
		return
	}
	name := ed.str(t)
	if m.kind == "namedtuple" {
		ed.swap(t, ed.b.define(shimOf("typing").units["_named"])+"("+name+")")
		return
	}
	made := ed.b.define(shimOf("enum").units["_made"]) + "(" + name + ")"
	switch {
	case ed.is(t+1, "("):
		ed.replace(ed.tok[t].start, ed.tok[t+1].end, ed.b.define(shimOf("enum").units["_find"])+"("+made+",")
	case ed.is(t+1, "["):
		ed.swap(t, made+".__members__")
	case ed.is(t+1, "."):
		ed.swap(t, made)
	case ed.is(t-1, "in") || ed.iterated(t):
		ed.swap(t, made+"._members_")
	default:
		ed.swap(t, made)
	}
}

// iterated says whether the name at token t is an argument of a builtin that iterates over it.
func (ed *editor) iterated(t int32) bool {
	if !ed.is(t+1, ")") && !ed.is(t+1, ",") {
		return false
	}
	open := t - 1
	for depth := ed.tok[t].depth; open >= 0 && ed.tok[open].depth >= depth; open-- {
		if ed.tok[open].kind == tokNewline {
			return false
		}
	}
	switch ed.str(open - 1) {
	case "list", "len", "tuple", "set", "sorted", "iter", "enumerate", "zip", "map", "filter", "reversed", "frozenset",
		"choice", "shuffle", "cycle", "product", "chain":
		return ed.is(open, "(")
	}
	return false
}

// madeExpr is the expression for a module's own name as other files see it.
func (ed *editor) madeExpr(name string) string {
	switch m := ed.made[name]; {
	case m == nil:
		return name
	case m.kind == "enum":
		return ed.b.define(shimOf("enum").units["_made"]) + "(" + name + ")"
	default:
		return ed.b.define(shimOf("typing").units["_named"]) + "(" + name + ")"
	}
}
