package frontend

import (
	"strconv"
	"strings"
)

// checkSyntax refuses statements that the engine does not have. What rewrite.go can express otherwise is
// not refused.
func (a *analysis) checkSyntax(f *file) {
	no := func(tok int32, what string) {
		a.refuse(f.source, tok, "%s on the monty backend; %s", what, elsewhere)
	}
	for i := range f.stmts {
		st := &f.stmts[i]
		switch st.kw {
		case "match":
			if i+1 < len(f.stmts) && st.header && f.stmts[i+1].kw == "case" && f.stmts[i+1].parent == int32(i) {
				no(st.first, "match statements are not available")
			}
		case "class":
			f.checkClass(int32(i), no)
		case "del":
			if !f.rewritableDel(st) {
				no(st.first, "this form of 'del' is not available")
			}
		case "except":
			if f.is(st.first+1, "*") {
				no(st.first, "except* is not available")
			}
		case "def":
			f.checkMethod(st, no)
		}
		if f.is(st.first, "type") && f.isName(st.first+1) && (f.is(st.first+2, "=") || f.is(st.first+2, "[")) {
			no(st.first, "type aliases are not available")
		}
		if f.is(st.first, "async") && (st.kw == "with" || st.kw == "for") {
			no(st.first, "'async "+st.kw+"' is not available")
		}
		f.checkExpressions(st, no)
	}
}

// checkExpressions looks at the tokens of one statement.
func (f *file) checkExpressions(st *stmt, no func(int32, string)) {
	var raws []bool // of the f-strings around the token
	for t := st.first; t < st.last; t++ {
		switch f.tok[t].kind {
		case tokString:
			if prefix, _, _ := strings.Cut(strings.ReplaceAll(f.str(t), "'", `"`), `"`); !strings.ContainsAny(prefix, "rRbB") && halfPair(f.str(t)) {
				no(t, "halves of surrogate pairs are not available")
			}
		case tokFStart:
			raws = append(raws, strings.ContainsAny(f.str(t), "rR"))
		case tokFEnd:
			raws = raws[:max(len(raws)-1, 0)]
		case tokFText:
			if n := len(raws); n > 0 && !raws[n-1] && halfPair(f.str(t)) {
				no(t, "halves of surrogate pairs are not available")
			}
		case tokName:
			switch f.str(t) {
			case "yield":
				no(t, "generators ('yield') are not available")
			case "in":
				if f.overStream(t + 1) {
					no(t, "a loop over llm.stream is not available ('while pieces := stream.next():' is)")
				}
			case "async":
				if t > st.first && f.is(t+1, "for") {
					no(t, "asynchronous comprehensions are not available")
				}
			}
		case tokNumber:
			if n := f.str(t); (strings.HasSuffix(n, "j") || strings.HasSuffix(n, "J")) && !isHex(n) {
				no(t, "complex numbers are not available")
			}
		case tokOp:
			if f.is(t, "%") && f.percentFormat(t) && !f.rewritablePercent(t) {
				no(t, "this use of % formatting is not available")
			}
		}
	}
	f.checkTargets(st, no)
}

// overStream says whether llm.stream is called at token t. The engine cannot wait for a call in the head of a loop.
func (f *file) overStream(t int32) bool {
	root := "llm"
	if f.is(t, "kernel") && f.is(t+1, ".") {
		root, t = "kernel", t+2
	}
	return f.imported[root] && f.is(t, "llm") && f.is(t+1, ".") && f.is(t+2, "stream") && f.is(t+3, "(")
}

// halfPair says whether a literal has an escape for half of a surrogate pair. The engine would put U+FFFD in its place.
func halfPair(text string) bool {
	for i := strings.IndexByte(text, '\\'); i >= 0 && i+1 < len(text); {
		size := map[byte]int{'u': 4, 'U': 8}[text[i+1]]
		if size > 0 && i+2+size <= len(text) {
			if n, err := strconv.ParseUint(text[i+2:i+2+size], 16, 32); err == nil && n >= 0xd800 && n <= 0xdfff {
				return true
			}
		}
		next := strings.IndexByte(text[i+2:], '\\')
		if next < 0 {
			return false
		}
		i += 2 + next
	}
	return false
}

// checkClass refuses inheritance and class bodies that hold more than methods and variables.
func (f *file) checkClass(index int32, no func(int32, string)) {
	st := &f.stmts[index]
	for t := st.first; t < st.last; t++ {
		if f.is(t, "(") && f.tok[t].depth == 0 {
			if !f.erasableBases(t) && f.made[f.str(st.first+1)] == nil {
				no(st.first, "inheritance (class "+f.str(st.first+1)+f.text[f.tok[t].start:f.tok[st.last-1].start]+") is not available")
			}
			break
		}
	}
	for i := int(index) + 1; i < len(f.stmts) && f.stmts[i].parent >= index; i++ {
		if b := &f.stmts[i]; b.parent == index {
			f.checkClassStatement(b, no)
		}
	}
}

func (f *file) checkClassStatement(b *stmt, no func(int32, string)) {
	switch {
	case b.kw == "def" || b.kw == "pass":
	case b.kw == "@":
		no(b.first, "decorators on methods (@"+f.text[f.tok[b.first].end:f.tok[b.last-1].end]+") are not available")
	case b.kw != "":
		no(b.first, "'"+b.kw+"' in a class body is not available")
	case f.isName(b.first) && (f.is(b.first+1, "=") || f.is(b.first+1, ":")) && f.oneTarget(b):
	case b.last == b.first+1 && (f.tok[b.first].kind == tokString || f.is(b.first, "...")):
	default:
		no(b.first, "a class body that holds more than methods and simple variables is not available")
	}
}

// oneTarget says whether an assignment has a single target: not "a = b = 1".
func (f *file) oneTarget(b *stmt) bool {
	n := 0
	for t := b.first; t < b.last; t++ {
		if f.tok[t].depth == 0 && f.tok[t].kind == tokOp && f.is(t, "=") {
			n++
		}
	}
	return n <= 1
}

// checkMethod refuses special methods that the engine never calls.
func (f *file) checkMethod(st *stmt, no func(int32, string)) {
	if st.parent < 0 || f.stmts[st.parent].kw != "class" {
		return
	}
	name := st.first + 1
	if f.is(st.first, "async") {
		name++
	}
	switch n := f.str(name); n {
	case "__init__", "__repr__", "__str__", "__eq__", "__ne__", "__hash__", "__iter__", "__next__", "__contains__",
		"__enter__", "__exit__", "__post_init__":
	default:
		if strings.HasPrefix(n, "__") && strings.HasSuffix(n, "__") && len(n) > 4 {
			no(name, "the special method "+n+" is not available")
		}
	}
}

// checkTargets refuses loop variables that the engine cannot assign to.
func (f *file) checkTargets(st *stmt, no func(int32, string)) {
	if st.kw == "for" {
		for t := st.first + 1; t < st.last && !(f.tok[t].depth == 0 && f.is(t, "in")); t++ {
			if f.is(t, ".") || f.is(t, "[") && f.is(f.tok[t].match+1, "in") {
				no(st.first, "a loop variable that is not a plain name is not available")
				return
			}
		}
		return
	}
	if st.kw == "" && f.tupleTarget(st) && !f.rewritableTuple(st) {
		no(st.first, "unpacking into attributes or items is not available in this form")
	}
}
