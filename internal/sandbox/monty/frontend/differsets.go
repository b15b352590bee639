package frontend

// This file follows sets: where their order can be seen, a program may differ from CPython.

// setLiteral says whether the brace at token open begins a set or a set comprehension.
func (d *differ) setLiteral(open int32) bool {
	if prev := open - 1; prev >= 0 && (d.tok[prev].kind == tokFStart || d.tok[prev].kind == tokFText || d.is(prev, "}")) {
		return false // a field of an f-string
	}
	end := d.tok[open].match
	if end <= open+1 || d.is(open+1, "**") {
		return false
	}
	lambdas := 0
	for t := open + 1; t < end; t++ {
		if d.tok[t].depth != d.tok[open].depth+1 {
			continue
		}
		switch d.str(t) {
		case "lambda":
			lambdas++
		case ":":
			if lambdas == 0 {
				return false
			}
			lambdas--
		}
	}
	return true
}

func setOperator(op string) bool { return op == "&" || op == "|" || op == "-" || op == "^" }

// set judges the set that tokens [first, end) make.
func (d *differ) set(first, end int32) {
	if d.orderless(first, end) {
		return
	}
	if name, ok := d.boundTo(first); ok {
		d.setName(name)
		return
	}
	d.found(first, "sets are iterated over in another order")
}

// orderless says whether the context of an expression shows nothing of a set's order.
func (d *differ) orderless(first, end int32) bool {
	for i := len(d.open) - 1; i >= 0; i-- {
		open := d.open[i]
		if !d.is(open, "(") {
			break
		}
		if d.isName(open-1) && !reserved(d.str(open-1)) {
			return d.hidesOrder(open) && d.onlySets(open)
		}
	}
	return d.compared(first, end)
}

// hidesOrder says whether the call with the bracket at token open gives the same for any order.
func (d *differ) hidesOrder(open int32) bool {
	switch name := d.str(open - 1); name {
	case "sorted", "len", "bool", "isinstance":
		return !d.is(open-2, ".") && !d.assigned[name]
	}
	return false
}

// onlySets says whether a bracket holds no loop, in which the set could be what is iterated over.
func (d *differ) onlySets(open int32) bool {
	if d.is(open-1, "sorted") || d.is(open-1, "len") {
		return true
	}
	loopless, known := d.loopless[open]
	if !known {
		loopless = true
		for t := open + 1; t < d.tok[open].match && loopless; t++ {
			loopless = !d.is(t, "for")
		}
		d.loopless[open] = loopless
	}
	return loopless
}

// compared says whether tokens [first, end) are compared, searched or asked for truth.
func (d *differ) compared(first, end int32) bool {
	switch d.str(end) {
	case "==", "!=", "<=", ">=", "<", ">":
		return true
	}
	switch d.str(first - 1) {
	case "==", "!=", "<=", ">=", "<", ">":
		return true
	case "in":
		return !d.loopIn(first - 1)
	case "if", "while", "not", "and", "or", "elif":
		switch d.str(end) {
		case ":", "and", "or", ")":
			return true
		}
	}
	return false
}

// loopIn says whether the "in" at token t belongs to a for.
func (d *differ) loopIn(t int32) bool {
	for from := t; t > 0 && from-t < furthest; {
		t--
		switch s := d.str(t); {
		case s == "for":
			return true
		case s == "," || s == "(" || s == ")" || s == "*" || s == "[" || s == "]" || s == ".":
		case d.isName(t) && !reserved(s):
		default:
			return false
		}
	}
	return false
}

// boundTo gives the name to which a statement that is an assignment binds the set at token first.
func (d *differ) boundTo(first int32) (string, bool) {
	for t := first - 1; t > max(0, first-furthest); t-- {
		switch {
		case d.tok[t].kind == tokNewline || d.is(t, ";"):
			return "", false
		case d.tok[t].depth == 0 && d.is(t, "="):
			name := t - 1
			for name > max(0, first-furthest) && d.tok[name-1].kind != tokNewline && !d.is(name, ":") && !d.is(name-1, ";") && !d.is(name-1, "=") {
				name-- // an annotation: seen: set[str] = set()
			}
			if d.is(name, ":") {
				name--
			}
			plain := d.isName(name) && (name == 0 || d.tok[name-1].kind == tokNewline || d.is(name-1, ":") || d.is(name-1, ";"))
			return d.str(name), plain && (d.is(name+1, "=") || d.is(name+1, ":"))
		}
	}
	return "", false
}

// setName judges every use of a name that holds a set.
func (d *differ) setName(name string) {
	if d.sets[name] {
		return
	}
	d.sets[name] = true
	if len(d.sets) > mostSets {
		d.found(0, "it has many sets, whose order may be another")
		return
	}
	for t := range int32(len(d.tok)) {
		if d.isName(t) && d.is(t, name) && !d.is(t-1, ".") && !d.setUse(t) {
			d.found(t, "the set %s is iterated over in another order", name)
			return
		}
	}
}

// setUse says whether a use of a set shows nothing of its order.
func (d *differ) setUse(t int32) bool {
	switch d.str(t + 1) {
	case "=", "|=", "&=", "-=", "^=", ":":
		if t == 0 || d.tok[t-1].kind == tokNewline || d.is(t-1, ":") || d.is(t-1, ";") || d.is(t-1, "=") {
			return true
		}
	case ".":
		switch d.str(t + 2) {
		case "add", "discard", "remove", "update", "clear", "isdisjoint", "issubset", "issuperset", "difference_update",
			"intersection_update", "symmetric_difference_update":
			return true
		}
		return false
	}
	switch d.str(t - 1) {
	case "global", "nonlocal":
		return true
	case "(":
		if (d.is(t+1, ")") || d.is(t+1, ",")) && d.hidesOrder(t-1) {
			return true
		}
	}
	return d.compared(t, t+1)
}
