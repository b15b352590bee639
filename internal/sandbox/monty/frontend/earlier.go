package frontend

import (
	"slices"
	"strings"

	"agentkernel"
)

// earlier is what the cells of a session say that ran before this one (Program.Earlier). Their variables
// live in the engine. What the front end made of their imports does not: a module that the engine lacks is
// an object with the attributes that one cell used. So a cell imports again what it uses of them, and the
// object gets the attributes that any cell used.
type earlier struct {
	files   []*file
	carried []string // modules that this cell imports again
}

// readEarlier parses the cells; one that does not parse never ran.
func readEarlier(p agentkernel.Program) *earlier {
	out := &earlier{}
	a := &analysis{program: p, byKey: map[string]*file{}}
	for _, text := range p.Earlier {
		if len(text) > maxEarlier || a.tokens > maxTokens/4 || !matters(text, out.files) {
			continue
		}
		src, err := parse("<earlier>", text, true)
		if err != nil {
			continue
		}
		a.tokens += len(src.tok)
		f := &file{source: src}
		f.scan(a)
		out.files = append(out.files, f)
	}
	return out
}

// plain says that later cells of the session are understood without this one.
func (a *analysis) plain() bool {
	return len(a.program.Source) > maxEarlier || !matters(a.program.Source, a.earlier.files)
}

// maxEarlier is the length of a cell beyond which it is not read again for each cell that follows: what it
// imported has to be imported again.
const maxEarlier = 256 << 10

// matters says whether an earlier cell may change how another is read: it imports something, or gives a
// name of Python's, or one that was imported, another meaning. Most cells of a long session do neither.
func matters(text string, before []*file) bool {
	found := false
	eachWord(text, func(w string) {
		if found || w == "import" || ofPython(w) {
			found = true
			return
		}
		for _, f := range before {
			if f.imported[w] {
				found = true
				return
			}
		}
	})
	return found
}

// ofPython says whether a word is a builtin of Python's that the engine lacks.
func ofPython(w string) bool {
	if w[0] >= '0' && w[0] <= '9' {
		return false
	}
	_, missing := missingBuiltins[w]
	sh := shimOf(builtinsShim)
	return missing || missingException(w) || sh != nil && sh.exports(w)
}

// eachWord calls fn for each run of letters, digits and underscores.
func eachWord(text string, fn func(word string)) {
	start := -1
	for i := range len(text) {
		switch part := isNamePart(text[i]); {
		case part && start < 0:
			start = i
		case !part && start >= 0:
			fn(text[start:i])
			start = -1
		}
	}
	if start >= 0 {
		fn(text[start:])
	}
}

// carry gives the imports of earlier cells that a text uses, as one line of source; "" if there are none.
func (e *earlier) carry(a *analysis, text string) string {
	if len(e.files) == 0 {
		return ""
	}
	used := map[string]bool{}
	eachWord(text, func(w string) { used[w] = true })
	bound := map[string][2]string{} // what binds a name, and the module; empty if it is something else by now
	var names []string
	bind := func(name, statement, module string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		bound[name] = [2]string{statement, module}
	}
	for _, f := range e.files {
		for _, imp := range f.imports {
			if imp.star || f.neverRuns(imp.stmt) || !a.carried(imp) {
				continue
			}
			if !imp.from {
				name, as := firstPart(imp.module), ""
				if imp.as != "" {
					name, as = imp.as, " as "+imp.as
				}
				bind(name, "import "+imp.module+as, imp.module)
			}
			for _, n := range imp.names {
				if !a.lasts(imp.module, n.name) {
					bind(n.bindsTo(), "", "")
					continue
				}
				bind(n.bindsTo(), "from "+imp.module+" import "+n.name+" as "+n.bindsTo(), imp.module)
			}
		}
		for name := range f.assigned {
			if !f.imported[name] {
				bound[name] = [2]string{}
			}
		}
	}
	var lines []string
	for _, name := range names {
		if b := bound[name]; used[name] && b[0] != "" {
			lines = append(lines, b[0])
			e.carried = append(e.carried, b[1])
		}
	}
	return strings.Join(lines, ";")
}

// carried says whether an import of an earlier cell can be made again: it surely succeeded then.
func (a *analysis) carried(imp importStmt) bool {
	switch firstPart(imp.module) {
	case "kernel", "tools", "skills":
		return true
	}
	if !knownModule(imp.module) {
		return false
	}
	for _, n := range imp.names {
		if !hasName(imp.module, n.name) {
			return false
		}
	}
	return true
}

// lasts says whether the front end has to see where a name came from. The functions of tools, skills and the
// kernel are values that the engine keeps.
func (a *analysis) lasts(module, name string) bool {
	switch firstPart(module) {
	case "kernel":
		return agentkernel.GuestBase(name) != "" || a.isModule(module+"."+name)
	case "tools", "skills":
		return a.isModule(module + "." + name)
	}
	return true
}

// define tells a file what names earlier cells gave a meaning of their own.
func (e *earlier) define(f *file) {
	for _, before := range e.files {
		for name := range before.assigned {
			if !f.imported[name] {
				f.assigned[name] = true
			}
		}
	}
}

// join adds what earlier cells use of the modules that are imported again.
func (e *earlier) join(f *file) {
	for _, before := range e.files {
		for _, u := range before.uses {
			if slices.ContainsFunc(e.carried, func(m string) bool { return u.module == m || strings.HasPrefix(u.module, m+".") }) {
				f.uses = append(f.uses, use{u.module, u.name, 0})
			}
		}
		for _, sets := range [][2]map[string]bool{{f.escapes, before.escapes}, {f.attrs, before.attrs}, {f.words, before.words},
			{f.keywords, before.keywords}, {f.stored, before.stored}} {
			for name := range sets[1] {
				sets[0][name] = true
			}
		}
		f.dynamic = f.dynamic || before.dynamic
		f.callableSub = f.callableSub || before.callableSub
	}
}
