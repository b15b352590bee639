package frontend

import (
	"strings"

	"agentkernel"
)

// scan finds how the file uses the modules that it imports.
func (f *file) scan(a *analysis) {
	room := min(len(f.tok)/6, 256)
	f.escapes, f.attrs, f.words = map[string]bool{}, make(map[string]bool, room), make(map[string]bool, room)
	f.keywords, f.stored, f.kernelErrors = map[string]bool{}, map[string]bool{}, map[string]bool{}
	alias := f.aliases(a)
	f.origins = map[string][2]string{}
	for _, imp := range f.imports {
		for _, n := range imp.names {
			if !f.assigned[n.bindsTo()] {
				f.origins[n.bindsTo()] = [2]string{imp.module, n.name}
			}
			if imp.module == "kernel" && agentkernel.GuestBase(n.name) != "" {
				f.kernelErrors[n.bindsTo()] = true
			}
		}
	}
	f.findMade()
	for i := range f.stmts {
		if st := &f.stmts[i]; st.kw != "import" && st.kw != "from" {
			f.scanWords(a, alias, st.first, st.last)
		}
	}
}

func (f *file) scanWords(a *analysis, alias map[string]string, first, last int32) {
	for i := first; i < last; i++ {
		if f.tok[i].kind != tokName {
			continue
		}
		word := f.str(i)
		if f.is(i-1, ".") {
			if !f.attrs[word] {
				f.attrs[word] = true
			}
			if f.is(i+1, "=") || f.is(i+1, ":") {
				f.stored[word] = true
			}
			if word == "sub" {
				f.seeSub(i)
			}
			continue
		}
		if !f.words[word] {
			f.words[word] = true
		}
		if f.keywordArgument(i) {
			f.keywords[word] = true
		}
		if word == "sub" {
			f.seeSub(i)
		}
		if word == "getattr" || word == "hasattr" {
			f.dynamic = true
		}
		if key, ok := alias[word]; ok && !f.keywordArgument(i) {
			f.follow(a, key, i)
		}
	}
}

// aliases maps the names that imports bind to modules. A name that is bound in two ways maps to "".
func (f *file) aliases(a *analysis) map[string]string {
	out := map[string]string{}
	put := func(name, key string) {
		if old, ok := out[name]; ok && old != key {
			key = ""
		}
		out[name] = key
	}
	for _, imp := range f.imports {
		switch {
		case imp.from:
			for _, n := range imp.names {
				if key := imp.module + "." + n.name; a.isModule(key) {
					put(n.bindsTo(), key)
				}
			}
		case imp.as != "":
			put(imp.as, imp.module)
		default:
			put(firstPart(imp.module), firstPart(imp.module))
		}
	}
	for name, key := range out {
		if f.assigned[name] {
			f.escapes[key] = true
		}
	}
	return out
}

// follow records what the expression "alias.x.y" at token i uses.
func (f *file) follow(a *analysis, key string, i int32) {
	if key == "" {
		return
	}
	for f.is(i+1, ".") && f.isName(i+2) {
		name := f.str(i + 2)
		if deeper := key + "." + name; a.isModule(deeper) && !a.isLocalTool(deeper) {
			key, i = deeper, i+2
			continue
		}
		f.uses = append(f.uses, use{key, name, i + 2})
		return
	}
	if verb := bareFunction(key); verb != "" && f.is(i+1, "(") {
		f.uses = append(f.uses, use{key, verb, i})
		if f.bare == nil {
			f.bare = map[int32]string{}
		}
		f.bare[i] = verb
		return
	}
	f.escapes[key] = true
}

// isLocalTool says whether the name is a local tool's module, whose function has the same name.
func (a *analysis) isLocalTool(key string) bool {
	_, ok := a.program.Modules[key]
	return ok && strings.HasPrefix(key, "tools.")
}

// keywordArgument says whether the name at token i is that of a keyword argument or a parameter.
func (s *source) keywordArgument(i int32) bool {
	return s.tok[i].depth > 0 && s.is(i+1, "=") && (s.is(i-1, "(") || s.is(i-1, ","))
}

// wants lists the names that the file may use of a module that is bound as an object: those that it
// names directly, or, where the module is passed around, every word behind a dot. all means any name.
func (f *file) wants(module string) (words map[string]bool, all bool) {
	if f.dynamic && f.escapes[module] {
		return nil, true
	}
	words = map[string]bool{}
	for _, u := range f.uses {
		if u.module == module {
			words[u.name] = true
		}
	}
	if f.escapes[module] {
		for w := range f.attrs {
			words[w] = true
		}
	}
	return words, false
}

// memberUnit finds the shim's stand-in for "module.name.member" ("datetime.datetime.utcnow"), nil if the
// engine needs none.
func memberUnit(module, name, member string) *unit {
	if sh := shimOf(module); sh != nil {
		return sh.units[name+"__"+member]
	}
	return nil
}

// member finds the stand-in that the word behind the dot at token t-1 needs, and where the expression
// begins that it replaces.
func (f *file) member(t int32) (u *unit, begin int32) {
	begin = t - 2
	from, ok := f.origins[f.str(begin)]
	if ok && !f.is(begin-1, ".") {
		return memberUnit(from[0], from[1], f.str(t)), begin
	}
	if !f.is(begin-1, ".") || !f.isName(begin-2) || f.is(begin-3, ".") || f.assigned[f.str(begin-2)] {
		return nil, 0
	}
	for _, imp := range f.imports {
		if !imp.from && (imp.as == f.str(begin-2) || imp.as == "" && imp.module == f.str(begin-2)) {
			return memberUnit(imp.module, f.str(begin), f.str(t)), begin - 2
		}
	}
	return nil, 0
}

// seeSub looks at a call of re.sub: the engine takes only text as the replacement.
func (f *file) seeSub(i int32) {
	if !f.is(i+1, "(") {
		return
	}
	arg, inner := 0, f.tok[i+1].depth+1
	for t := i + 2; t < f.tok[i+1].match; t++ {
		if f.tok[t].depth == inner && f.is(t, ",") {
			arg++
			if k := f.tok[t+1].kind; arg == 1 && k != tokString && k != tokFStart {
				f.callableSub = true
			}
			return
		}
	}
}
