package frontend

import "strings"

// builtin gives the hidden variable of a name in the shim of builtins.
func (b *binder) builtin(name string) string {
	return b.define(shimOf(builtinsShim).units[name])
}

// rewriteToken makes the edits that begin at one token of a statement.
func (ed *editor) rewriteToken(st *stmt, t int32) {
	if verb := ed.bare[t]; verb != "" {
		ed.after(t, "."+verb)
	}
	switch ed.tok[t].kind {
	case tokName:
		if ed.is(t-1, ".") {
			ed.rewriteMethodValue(t)
			return
		}
		if m := ed.made[ed.str(t)]; m != nil {
			ed.rewriteMadeUse(st, t, m)
			return
		}
		ed.rewriteName(st, t)
	case tokOp:
		switch {
		case ed.is(t, "%") && ed.percentFormat(t) && ed.rewritablePercent(t):
			begin, _ := ed.literalBefore(t)
			ed.before(begin, ed.b.builtin("_percent")+"(")
			ed.swap(t, ",")
			ed.after(ed.unaryEnd(t+1)-1, ")")
		case ed.is(t, "(") && !ed.calls(t) && ed.generator(t):
			ed.before(t, "iter")
		case ed.is(t, "[") && ed.typeArguments(t):
			ed.replace(ed.tok[t].start, ed.tok[ed.tok[t].match].end, "")
		}
	}
}

// typeArguments says whether the bracket at token open holds the arguments of a type, which the engine
// takes in annotations only: "Rows = list[dict]".
func (ed *editor) typeArguments(open int32) bool {
	end := ed.tok[open].match
	if end <= open+1 || !ed.isName(open-1) || strings.Contains(ed.text[ed.tok[open].start:ed.tok[end].start], "\n") {
		return false
	}
	name := ed.str(open - 1)
	if ed.is(open-2, ".") {
		for _, imp := range ed.imports {
			if module := ed.str(open - 3); !imp.from && imp.module == "typing" && (imp.as == module || imp.as == "" && module == "typing") {
				return !ed.assigned[module]
			}
		}
		return false
	}
	if from, ok := ed.origins[name]; ok {
		return from[0] == "typing" || from[0] == "collections.abc"
	}
	switch name {
	case "list", "dict", "set", "tuple", "type", "frozenset":
		return !ed.defines(name)
	}
	return false
}

// unionTypes says "isinstance(x, A | B)" with a tuple.
func (ed *editor) unionTypes(t int32) {
	if !ed.is(t+1, "(") {
		return
	}
	comma, bars, inner := int32(-1), []int32(nil), ed.tok[t+1].depth+1
	for i := t + 2; i < ed.tok[t+1].match; i++ {
		switch {
		case ed.tok[i].depth != inner:
		case ed.is(i, ",") && comma < 0:
			comma = i
		case ed.is(i, "|") && comma >= 0:
			bars = append(bars, i)
		}
	}
	if len(bars) == 0 {
		return
	}
	ed.after(comma, "(")
	for _, i := range bars {
		ed.swap(i, ",")
	}
	ed.before(ed.tok[t+1].match, ")")
}

// generator says whether the bracket at token open holds a generator expression.
func (s *source) generator(open int32) bool {
	inner := s.tok[open].depth + 1
	for t := open + 1; t < s.tok[open].match; t++ {
		if s.tok[t].depth != inner {
			continue
		}
		switch s.str(t) {
		case "for":
			return s.tok[t].kind == tokName
		case ",":
			return false
		}
	}
	return false
}

// rewriteName replaces builtins that the engine lacks or has only in part.
func (ed *editor) rewriteName(st *stmt, t int32) {
	word := ed.str(t)
	if !replaced(word) || ed.defines(word) || ed.keywordArgument(t) || st.kw == "def" && t <= st.first+2 {
		if nativeException(word) || ed.kernelErrors[word] {
			ed.wrapMessage(t)
		}
		return
	}
	switch word {
	case "__name__":
		if ed.key != "" {
			ed.swap(t, quote(ed.key))
		}
	case "exit", "quit":
		ed.swap(t, ed.b.function("kernel.exit"))
	case "IOError", "EnvironmentError":
		ed.swap(t, "OSError")
	case "print":
		if ed.callHas(t, "file") {
			ed.swap(t, ed.b.builtin("print"))
		}
	case "round":
		if ed.callCommas(t) > 0 {
			ed.swap(t, ed.b.builtin("round"))
		}
	case "sum":
		if !ed.sumsNumbers(t) {
			ed.swap(t, ed.b.builtin("sum"))
		}
	case "next":
		ed.rewriteNext(t)
	case "isinstance":
		ed.unionTypes(t)
	case "bytes":
		if ed.is(t+1, "(") && (ed.is(t+2, "[") || ed.isName(t+2)) {
			ed.swap(t, ed.b.builtin("bytes"))
		}
	case "memoryview", "complex", "bytearray":
		ed.swap(t, ed.b.builtin("_never"))
	case "str", "list", "dict", "set", "tuple", "int", "float":
	default:
		ed.swap(t, ed.b.builtin(word))
	}
}

// replaced says whether rewriteName knows the word.
func replaced(word string) bool {
	switch word {
	case "__name__", "exit", "quit", "IOError", "EnvironmentError", "print", "round", "next", "isinstance", "bytes", "sum", "format",
		"callable", "ascii", "help", "memoryview", "complex", "bytearray":
		return true
	}
	return false
}

// nativeException says whether the engine has a builtin exception of this name.
func nativeException(word string) bool {
	switch word {
	case "ArithmeticError", "AssertionError", "AttributeError", "BaseException", "Exception", "FileExistsError",
		"FileNotFoundError", "ImportError", "IndexError", "IsADirectoryError", "KeyError", "KeyboardInterrupt",
		"LookupError", "MemoryError", "ModuleNotFoundError", "NameError", "NotADirectoryError", "NotImplementedError",
		"OSError", "OverflowError", "PermissionError", "RecursionError", "RuntimeError", "StopIteration", "SyntaxError",
		"TimeoutError", "TypeError", "UnboundLocalError", "ValueError", "ZeroDivisionError":
		return true
	}
	return false
}

// wrapMessage makes one text of an exception's arguments: the engine takes at most one, a str.
func (ed *editor) wrapMessage(t int32) {
	if !ed.is(t+1, "(") || ed.is(t+2, ")") || ed.defines(ed.str(t)) && !ed.kernelErrors[ed.str(t)] {
		return
	}
	open, end := t+1, ed.tok[t+1].match
	if end < 0 || ed.stringsEnd(open+2-1) == end {
		return // a plain string
	}
	if ed.isName(open+1) && ed.is(open+2, "=") {
		return
	}
	ed.before(open+1, ed.b.builtin("_message")+"(")
	ed.before(end, ")")
}

// callHas says whether the call at the name t has a keyword argument, or might by "**".
func (ed *editor) callHas(t int32, keyword string) bool {
	if !ed.is(t+1, "(") {
		return false
	}
	inner := ed.tok[t+1].depth + 1
	for i := t + 2; i < ed.tok[t+1].match; i++ {
		if ed.tok[i].depth == inner && (ed.is(i, keyword) && ed.is(i+1, "=") || ed.is(i, "**") && !ed.isName(i-1)) {
			return true
		}
	}
	return false
}

// callCommas counts the commas between the arguments of the call at the name t.
func (ed *editor) callCommas(t int32) int {
	n := 0
	if ed.is(t+1, "(") {
		inner := ed.tok[t+1].depth + 1
		for i := t + 2; i < ed.tok[t+1].match; i++ {
			if ed.tok[i].depth == inner && ed.is(i, ",") {
				n++
			}
		}
	}
	return n
}

// sumsNumbers says whether the argument of the call at the name t is a comprehension over what can only
// be numbers: those the engine adds itself, and the shim need not be fed.
func (ed *editor) sumsNumbers(t int32) bool {
	if !ed.is(t+1, "(") {
		return false
	}
	i, inner := t+2, ed.tok[t+1].depth+1
	if ed.is(i, "[") || ed.is(i, "(") {
		i, inner = i+1, inner+1
	}
	numbers := ed.tok[i].kind == tokNumber
	switch ed.str(i) {
	case "len", "int", "float", "abs", "ord":
		numbers = ed.is(i+1, "(") && !ed.defines(ed.str(i))
	}
	for ; i < ed.tok[t+1].match; i++ {
		if ed.tok[i].depth != inner {
			continue
		}
		switch ed.str(i) {
		case "for":
			return numbers
		case "*", "/", "//", "-":
			numbers = true
		case "==", "!=", "<", ">", "<=", ">=", "in", "not", "and", "or", "is", "if", ",":
			return false
		}
	}
	return false
}

// rewriteNext makes an iterator of next()'s argument where the engine makes a list of it.
func (ed *editor) rewriteNext(t int32) {
	if !ed.is(t+1, "(") {
		return
	}
	switch ed.str(t + 2) {
	case "map", "filter", "zip", "reversed", "enumerate":
		if ed.is(t+3, "(") {
			ed.before(t+2, "iter(")
			ed.after(ed.tok[t+3].match, ")")
		}
		return
	}
	if ed.generator(t + 1) {
		ed.after(t+1, "iter(")
		ed.before(ed.tok[t+1].match, ")")
	}
}

// memberName says whether a shim stands in for members of this name.
func memberName(name string) bool {
	switch name {
	case "from_iterable", "utcnow", "fromtimestamp", "utcfromtimestamp", "fromordinal":
		return true
	}
	return false
}

// valueMethod says whether a name is that of a method of builtin types that programs hand to other functions ("key=d.get"): the
// engine can call them but not hand them around.
func valueMethod(name string) bool {
	switch name {
	case "get", "lower", "upper", "strip", "lstrip", "rstrip", "casefold", "title", "capitalize", "split", "splitlines",
		"startswith", "endswith", "join", "index", "count", "find", "append", "add", "items", "keys", "values", "isdigit",
		"isalpha", "isalnum", "isupper", "islower", "isspace", "isnumeric", "encode", "decode", "format", "extend", "pop",
		"update", "remove", "discard", "swapcase", "zfill", "setdefault", "hex", "isoformat", "total_seconds", "replace":
		return true
	}
	return false
}

// rewriteMethodValue makes a function of a bound method that is not called at once.
func (ed *editor) rewriteMethodValue(t int32) {
	name := ed.str(t)
	if memberName(name) {
		if u, begin := ed.member(t); u != nil {
			ed.replace(ed.tok[begin].start, ed.tok[t].end, ed.b.define(u))
		}
		return
	}
	if !valueMethod(name) {
		return
	}
	const longest = 16 // names in a dotted expression
	begin := t - 2
	for begin > t-2*longest && begin >= 2 && ed.isName(begin) && ed.is(begin-1, ".") && ed.isName(begin-2) {
		begin -= 2
	}
	if begin < 0 || !ed.isName(begin) || ed.is(begin-1, ".") || operatorWord(ed.str(begin)) {
		return
	}
	if begin == t-2 && builtinType(ed.str(begin)) && !ed.defines(ed.str(begin)) {
		if ed.is(t+1, "(") && (name == "fromkeys" || name == "hex") {
			return
		}
		ed.replace(ed.tok[begin].start, ed.tok[t].end, "(lambda _o,*_a:_o."+name+"(*_a))")
		return
	}
	if ed.is(t+1, "(") || !ed.handedOver(begin, t) || ed.stored[name] || ed.defines(name) {
		return
	}
	ed.before(begin, "(lambda *_a,_o=")
	ed.swap(t-1, ":_o.")
	ed.after(t, "(*_a))")
}

func builtinType(name string) bool {
	switch name {
	case "str", "bytes", "list", "dict", "set", "tuple", "int", "float":
		return true
	}
	return false
}

// handedOver says whether the expression on tokens [begin, last] is an argument that is a function:
// "key=x.get", "map(x.get, ...)", or all that is assigned to a name.
func (ed *editor) handedOver(begin, last int32) bool {
	switch next := ed.str(last + 1); {
	case next == "," || next == ")":
		if ed.is(begin-1, "=") && ed.is(begin-2, "key") {
			return true
		}
		if ed.is(begin-1, "(") {
			switch ed.str(begin - 2) {
			case "map", "filter", "starmap", "reduce", "partial", "takewhile", "dropwhile":
				return true
			}
		}
	case next == "" || next == ";" || ed.tok[last+1].kind == tokNewline:
		return ed.is(begin-1, "=") && ed.tok[begin].depth == 0 && ed.isName(begin-2)
	}
	return false
}
