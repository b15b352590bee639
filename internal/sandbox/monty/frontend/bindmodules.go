package frontend

import (
	"slices"
	"strings"
)

// module gives the expression for a module as an object, with the attributes that the file may use.
func (b *binder) module(f *file, key string) string {
	root, rest, _ := strings.Cut(key, ".")
	switch root {
	case "kernel":
		return b.kernelObject(f, key, rest)
	case "tools":
		return b.toolObject(f, key, rest)
	case "skills":
		if m := b.a.byKey[key]; m != nil {
			return b.object(key).variable
		}
		o := b.object("skills")
		for _, k := range b.a.under("skills") {
			if b.a.byKey[k] != nil {
				b.set(o, strings.TrimPrefix(k, "skills."), b.object(k).variable)
			}
		}
		return o.variable
	}
	return b.stdlibObject(f, key)
}

// wanted calls set for each of the module's names that the file may use.
func (f *file) wanted(module string, names []string, set func(string)) {
	words, all := f.wants(module)
	for _, n := range names {
		if all || words[n] {
			set(n)
		}
	}
}

func (b *binder) kernelObject(f *file, key, rest string) string {
	o := b.object(key)
	family := strings.TrimPrefix(strings.TrimPrefix(rest+".", "aio."), ".")
	for _, n := range kernelNames(strings.TrimSuffix(family, ".")) {
		deeper := key + "." + n
		used, all := f.wants(key)
		switch {
		case b.a.isModule(deeper):
			if deeper != "kernel.aio.aio" && (all || f.touches(deeper) || f.escapes[key] && f.attrs[n]) {
				b.set(o, n, b.module(f, deeper))
			}
		case all || used[n]:
			b.set(o, n, b.kernelValue(f, key, n))
		}
	}
	return o.variable
}

// touches says whether the file uses anything of a module, or hands it around.
func (f *file) touches(module string) bool {
	return f.escapes[module] || f.usesOf(module, true)
}

func (b *binder) toolObject(f *file, key, rest string) string {
	if rest == "" { // import tools.fs binds tools
		o := b.object(key)
		for _, server := range b.servers() {
			if f.touches("tools."+server) || f.escapes["tools"] {
				b.set(o, server, b.module(f, "tools."+server))
			}
		}
		return o.variable
	}
	server, aio := strings.CutSuffix(rest, ".aio")
	o := b.object(key)
	var names []string
	for n := range b.tools[server] {
		names = append(names, n)
	}
	for _, k := range b.a.under("tools." + server) {
		names = append(names, strings.TrimPrefix(k, "tools."+server+"."))
	}
	slices.Sort(names)
	f.wanted(key, slices.Compact(names), func(n string) {
		if !o.attrs[n] {
			b.set(o, n, b.toolValue(f, key, rest, n, 0))
		}
	})
	for _, u := range f.uses { // reports those that are not there
		if u.module == key && !o.attrs[u.name] {
			b.unknownTool(f, server, u.name, u.tok)
		}
	}
	if !aio && f.touches(key+".aio") {
		b.set(o, "aio", b.module(f, key+".aio"))
	}
	return o.variable
}

// servers lists the Python names of all servers, local ones included, sorted.
func (b *binder) servers() []string {
	var out []string
	for s := range b.tools {
		out = append(out, s)
	}
	for _, k := range b.a.under("tools") {
		out = append(out, firstPart(strings.TrimPrefix(k, "tools.")))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// stdlibObject makes an object for a module of the standard library of which the engine lacks a part.
func (b *binder) stdlibObject(f *file, key string) string {
	o := b.object(key)
	f.wanted(key, moduleNames(key), func(n string) {
		if o.attrs[n] {
			return
		}
		if u := b.override(f, key, n); u != nil {
			b.set(o, n, b.define(u))
		} else if natives()[key][n] {
			b.set(o, n, b.native(key)+"."+n)
		}
	})
	for _, m := range submodules(key) {
		if f.touches(m) {
			b.set(o, strings.TrimPrefix(m, key+"."), b.module(f, m))
		}
	}
	return o.variable
}

// submodules lists the known modules directly below a module.
func submodules(key string) []string {
	var out []string
	for m := range shims() {
		if rest, ok := strings.CutPrefix(m, key+"."); ok && !strings.Contains(rest, ".") {
			out = append(out, m)
		}
	}
	slices.Sort(out)
	return out
}

// needsObject says whether the engine's own module does not do for what the file uses of it.
func (b *binder) needsObject(f *file, key string) bool {
	if _, ok := natives()[key]; !ok {
		return true
	}
	need := false
	f.wanted(key, moduleNames(key), func(n string) { need = need || b.override(f, key, n) != nil })
	for _, m := range submodules(key) {
		need = need || f.touches(m)
	}
	return need
}

// feedModule adds a module of the program. Its source is wrapped in a function, so that its names are
// its own, with the line ends where they were; what others import of it becomes attributes of its object.
func (b *binder) feedModule(ed *editor) {
	f := ed.file
	o := b.object(f.key)
	body := ed.apply()
	exports := b.exportsOf(f)
	values := make([]string, len(exports))
	for i, n := range exports {
		values[i] = ed.madeExpr(n)
	}
	b.flush()
	var out strings.Builder
	out.WriteString("def " + ModuleFrame + "(" + strings.Join(ed.globalsDefaults(), ",") + "):\n")
	out.WriteString(body)
	if !strings.HasSuffix(body, "\n") {
		out.WriteByte('\n')
	}
	for i, n := range exports {
		if f.bindsAtTop(n) {
			out.WriteString(" " + o.variable + "." + n + "=" + values[i] + "\n")
		} else {
			out.WriteString(" try:" + o.variable + "." + n + "=" + values[i] + "\n except NameError:pass\n")
		}
	}
	if len(exports) == 0 {
		out.WriteString(" pass\n")
	}
	out.WriteString(ModuleFrame + "()\n")
	b.feeds = append(b.feeds, Feed{File: f.file, Code: out.String(), LineOffset: 1})
}

// exportsOf lists the names of a module that other files may use.
func (b *binder) exportsOf(m *file) []string {
	found := map[string]bool{}
	for _, f := range b.a.files {
		for _, imp := range f.imports {
			base := strings.TrimSuffix(imp.module, ".aio")
			for _, n := range imp.names {
				if base == m.key || base+"."+n.name == m.key && strings.HasPrefix(m.key, "tools.") {
					found[n.name] = true
				}
			}
		}
		words, all := f.wants(m.key)
		for n := range m.assigned {
			if all || words[n] {
				found[n] = true
			}
		}
	}
	if strings.HasPrefix(m.key, "tools.") {
		found[m.key[strings.LastIndexByte(m.key, '.')+1:]] = true
	}
	var out []string
	for n := range found {
		if m.defines(n) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// bindsAtTop says whether a module surely binds the name: by a statement that always runs.
func (f *file) bindsAtTop(name string) bool {
	for i := range f.stmts {
		st := &f.stmts[i]
		if st.parent != -1 {
			continue
		}
		switch st.kw {
		case "def", "class":
			if f.is(st.first+1, name) || f.is(st.first+2, name) && f.is(st.first, "async") {
				return true
			}
		case "":
			if f.is(st.first, name) && f.is(st.first+1, "=") {
				return true
			}
		}
	}
	return false
}
