package frontend

import "strings"

// rewrite collects the edits that make a file run on the engine. Each keeps the number of lines. Edits at
// one place are made outermost first: statements before their expressions, and those from left to right.
func (ed *editor) rewrite() {
	if ed.key != "" {
		ed.indentLines()
	}
	for first := 0; first < len(ed.imports); {
		last := first + 1
		for last < len(ed.imports) && ed.imports[last].stmt == ed.imports[first].stmt {
			last++
		}
		ed.rewriteImport(ed.imports[first:last])
		first = last
	}
	for i := range ed.stmts {
		st := &ed.stmts[i]
		switch st.kw {
		case "import", "from":
			continue
		case "class":
			if m := ed.made[ed.str(st.first+1)]; m != nil {
				ed.rewriteMadeClass(st, m)
			} else {
				ed.eraseBases(st)
			}
		case "del":
			ed.rewriteDel(st)
		case "raise":
			ed.rewriteExit(st)
		case "except":
			ed.rewriteExcept(st)
		case "global":
			ed.rewriteGlobal(st)
		case "":
			ed.rewriteAssignment(st)
		}
		for t := st.first; t < st.last; t++ {
			ed.rewriteToken(st, t)
		}
	}
}

// indentLines moves a module's lines right, into the function that holds them.
func (ed *editor) indentLines() {
	for i := range ed.tok {
		if i == 0 || ed.tok[i-1].kind == tokNewline {
			at := int32(strings.LastIndexByte(ed.text[:ed.tok[i].start], '\n') + 1)
			ed.replace(at, at, " ")
		}
	}
}

// rewriteImport says the import statements of one line as assignments, as far as the engine cannot
// import the modules itself.
func (ed *editor) rewriteImport(group []importStmt) {
	if ed.neverRuns(group[0].stmt) {
		return
	}
	var parts []string
	changed := false
	for _, imp := range group {
		text, same := ed.importText(imp)
		changed = changed || !same
		if text != "" {
			parts = append(parts, text)
		}
	}
	if !changed {
		return
	}
	if len(parts) == 0 {
		parts = []string{"pass"}
	}
	st := ed.stmts[group[0].stmt]
	start, end := ed.tok[st.first].start, ed.tok[st.last-1].end
	text := strings.Join(parts, ";")
	if n := strings.Count(ed.text[start:end], "\n"); n > 0 {
		text = "(" + strings.Repeat("\n", n) + ");" + text
	}
	ed.replace(start, end, text)
}

// importText gives what stands for one import, and whether that is the import itself.
func (ed *editor) importText(imp importStmt) (text string, same bool) {
	root := firstPart(imp.module)
	ours := root == "kernel" || root == "tools" || root == "skills"
	switch {
	case imp.module == "__future__":
		return "", ed.key == "" // a function cannot hold it, and the engine has nothing to switch
	case !ours && !knownModule(imp.module):
		return plainText(imp), true // guarded by the program
	case imp.star:
		return ed.starText(imp), false
	case imp.from:
		return ed.fromText(imp)
	case imp.as != "":
		if !ours && !ed.b.needsObject(ed.file, imp.module) {
			return plainText(imp), true
		}
		return imp.as + "=" + ed.b.module(ed.file, imp.module), false
	case !ours && imp.module == root && !ed.b.needsObject(ed.file, root):
		return plainText(imp), true
	}
	return root + "=" + ed.b.module(ed.file, root), false
}

func plainText(imp importStmt) string {
	if !imp.from {
		if imp.as != "" {
			return "import " + imp.module + " as " + imp.as
		}
		return "import " + imp.module
	}
	var names []string
	for _, n := range imp.names {
		if n.as != "" {
			names = append(names, n.name+" as "+n.as)
		} else {
			names = append(names, n.name)
		}
	}
	return "from " + imp.module + " import " + strings.Join(names, ",")
}

// fromText says "from module import a, b as c": what the engine has stays an import.
func (ed *editor) fromText(imp importStmt) (text string, same bool) {
	stays := imp
	stays.names = nil
	var parts []string
	for _, n := range imp.names {
		expr, native := ed.b.value(ed.file, imp.module, n.name, n.tok)
		if native {
			stays.names = append(stays.names, n)
			continue
		}
		parts = append(parts, n.bindsTo()+"="+expr)
	}
	if len(parts) == 0 {
		return plainText(imp), true
	}
	if len(stays.names) > 0 {
		parts = append(parts, plainText(stays))
	}
	return strings.Join(parts, ";"), false
}

// starText binds the names of a known module that the file mentions.
func (ed *editor) starText(imp importStmt) string {
	named := imp
	named.star = false
	for _, n := range moduleNames(imp.module) {
		if ed.words[n] && !ed.assigned[n] {
			named.names = append(named.names, importName{name: n, tok: imp.tok})
		}
	}
	if len(named.names) == 0 {
		return "pass"
	}
	text, _ := ed.fromText(named)
	return text
}

// eraseBases takes bases away that mean nothing at run time: "class A(object)".
func (ed *editor) eraseBases(st *stmt) {
	for t := st.first; t < st.last; t++ {
		if ed.is(t, "(") && ed.tok[t].depth == 0 && ed.erasableBases(t) {
			ed.replace(ed.tok[t].start, ed.tok[ed.tok[t].match].end, "")
			return
		}
	}
}

// rewriteDel says "del d[k]" as a call and "del name" as an assignment of None.
func (ed *editor) rewriteDel(st *stmt) {
	if !ed.rewritableDel(st) {
		return
	}
	ed.replace(ed.tok[st.first].start, ed.tok[st.first+1].start, "")
	for i := st.first + 1; i < st.last; {
		end := ed.primaryEnd(i)
		last := end - 1
		if last == i {
			ed.after(last, "=None")
		} else if open := ed.tok[last].match; ed.colons(open) == 1 {
			ed.before(i, ed.b.builtin("_setslice")+"(")
			ed.slice(open)
			ed.swap(last, ",())")
		} else {
			ed.swap(open, ".pop(")
			ed.swap(last, ")")
		}
		if end < st.last {
			ed.swap(end, ";")
		}
		i = end + 1
	}
}

// slice turns "[from:to]" at token open into ",from,to" with the closing bracket left to the caller.
func (ed *editor) slice(open int32) {
	ed.swap(open, ",")
	inner := ed.tok[open].depth + 1
	for t := open + 1; t < ed.tok[open].match; t++ {
		if ed.tok[t].depth == inner && ed.is(t, ":") {
			text := ","
			if t == open+1 {
				text = "None,"
			}
			if t+1 == ed.tok[open].match {
				text += "None"
			}
			ed.swap(t, text)
			return
		}
	}
}

// rewriteExit says "raise SystemExit(n)" as the kernel's exit.
func (ed *editor) rewriteExit(st *stmt) {
	name := st.first + 1
	if name >= st.last || !ed.is(name, "SystemExit") || ed.defines("SystemExit") {
		return
	}
	ed.replace(ed.tok[st.first].start, ed.tok[name].end, ed.b.function("kernel.exit"))
	end := name + 1
	if end < st.last && ed.is(end, "(") {
		end = ed.tok[end].match + 1
	} else {
		ed.after(name, "()")
	}
	if end < st.last && ed.is(end, "from") {
		ed.replace(ed.tok[end].start, ed.tok[st.last-1].end, "")
	}
}

// rewriteExcept takes exceptions that the engine lacks, and can therefore never raise, out of a clause.
func (ed *editor) rewriteExcept(st *stmt) {
	for t := st.first + 1; t < st.last; t++ {
		if ed.tok[t].kind != tokName || ed.is(t-1, ".") || ed.is(t-1, "as") || !missingException(ed.str(t)) ||
			ed.defines(ed.str(t)) {
			continue
		}
		switch {
		case ed.tok[t].depth == 0:
			ed.swap(t, "()")
		case ed.is(t+1, ","):
			ed.replace(ed.tok[t].start, ed.tok[t+1].end, "")
		default:
			ed.swap(t, "")
		}
	}
}

// rewriteGlobal makes a module's globals those of the function that holds the module.
func (ed *editor) rewriteGlobal(st *stmt) {
	if ed.key == "" {
		return
	}
	if st.parent < 0 {
		ed.replace(ed.tok[st.first].start, ed.tok[st.last-1].end, "pass")
		return
	}
	ed.swap(st.first, "nonlocal")
}

// globalsDefaults lists, as parameters, the names that a module's functions declare global: they must
// exist in the function that holds the module.
func (ed *editor) globalsDefaults() []string {
	var out []string
	seen := map[string]bool{}
	for i := range ed.stmts {
		st := &ed.stmts[i]
		if st.kw != "global" || st.parent < 0 {
			continue
		}
		for t := st.first + 1; t < st.last; t++ {
			if name := ed.str(t); ed.isName(t) && !seen[name] {
				seen[name] = true
				out = append(out, name+"=None")
			}
		}
	}
	return out
}

// rewriteAssignment handles the assignments that the engine lacks.
func (ed *editor) rewriteAssignment(st *stmt) {
	eq := ed.firstAssign(st)
	switch {
	case eq > st.first && ed.tupleTarget(st) && ed.rewritableTuple(st):
		ed.rewriteTuple(st)
	case eq > st.first && ed.is(eq-1, "]") && ed.primaryEnd(st.first) == eq:
		ed.rewriteSliceAssignment(st, eq)
	case eq < 0:
		ed.rewriteAugmented(st)
	}
}

// rewriteTuple says "a[i], b.c = x" as "t0,t1 = x;a[i]=t0;b.c=t1".
func (ed *editor) rewriteTuple(st *stmt) {
	targets, eq := ed.targets(st)
	var temps, stores []string
	for n, r := range targets {
		temp := ed.b.prefix + "t" + string(rune('a'+n%26))
		if n >= 26 {
			temp += "z"
		}
		temps = append(temps, temp)
		stores = append(stores, ed.text[ed.tok[r[0]].start:ed.tok[r[1]-1].end]+"="+temp)
	}
	text := strings.Join(temps, ",")
	start, end := ed.tok[st.first].start, ed.tok[eq-1].end
	text += strings.Repeat("\\\n", strings.Count(ed.text[start:end], "\n"))
	ed.replace(start, end, text)
	ed.after(st.last-1, ";"+strings.ReplaceAll(strings.Join(stores, ";"), "\n", " "))
}

// rewriteSliceAssignment says "a[i:j] = x" as a call.
func (ed *editor) rewriteSliceAssignment(st *stmt, eq int32) {
	open := ed.tok[eq-1].match
	if open < 0 || ed.colons(open) != 1 {
		return
	}
	for t := eq + 1; t < st.last; t++ {
		if ed.tok[t].depth == 0 && ed.is(t, "=") {
			return
		}
	}
	ed.before(st.first, ed.b.builtin("_setslice")+"(")
	ed.slice(open)
	ed.replace(ed.tok[eq-1].start, ed.tok[eq].end, ",")
	ed.after(st.last-1, ")")
}

// rewriteAugmented makes a number of a truth value that is added: the engine does not add those.
func (ed *editor) rewriteAugmented(st *stmt) {
	for t := st.first; t < st.last; t++ {
		if ed.tok[t].depth != 0 || !ed.is(t, "+=") && !ed.is(t, "-=") {
			continue
		}
		if t+1 < st.last && ed.truthValue(t+1, st.last) {
			ed.before(t+1, "+(")
			ed.after(st.last-1, ")")
		}
		return
	}
}

// truthValue says whether tokens [i, end) are a comparison or a constant truth value.
func (ed *editor) truthValue(i, end int32) bool {
	found := end == i+1 && (ed.is(i, "True") || ed.is(i, "False"))
	for ; i < end; i++ {
		if ed.tok[i].depth != ed.tok[end-1].depth && ed.tok[i].depth != 0 {
			continue
		}
		switch ed.str(i) {
		case "==", "!=", "<", ">", "<=", ">=", "in", "not", "is":
			found = true
		case "and", "or", "if", "lambda", ",":
			return false
		}
	}
	return found
}
