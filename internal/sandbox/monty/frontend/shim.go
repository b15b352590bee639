package frontend

import (
	"io/fs"
	"slices"
	"strings"
	"sync"

	"agentkernel/guest"
)

// builtinsShim is the shim of names that programs have without import.
const builtinsShim = "builtins"

// shim is one module of guest/monty. Its top-level definitions are fed one by one, so that an image
// holds only what its program uses.
type shim struct {
	module string
	order  []string // names as they stand in the file
	units  map[string]*unit
}

// unit is one top-level definition, or one imported name, of a shim.
type unit struct {
	module string
	name   string
	class  bool
	from   string // imported from this module: "math", "kernel", "intrinsic", another shim
	attr   string // the name there, "" for the module itself
	pieces []piece
}

// piece is source text followed by a reference to another top-level name, if ref is not empty.
type piece struct{ text, ref string }

func (sh *shim) exports(name string) bool {
	u := sh.units[name]
	if u == nil || name[0] == '_' {
		return false
	}
	return u.from == "" || u.attr != ""
}

func (sh *shim) exported() []string {
	var out []string
	for _, n := range sh.order {
		if sh.exports(n) {
			out = append(out, n)
		}
	}
	return out
}

// shims are the modules of guest/monty, each parsed when it is first asked for and then only read: most programs use
// one or two, and all of them take longer than starting an engine. A defect in one is a defect of the build, which
// TestShims finds; so it panics here.
var shims = sync.OnceValue(func() map[string]func() *shim {
	all := map[string]func() *shim{}
	entries, err := fs.ReadDir(guest.Monty, "monty")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		module := strings.TrimSuffix(e.Name(), ".py")
		all[module] = sync.OnceValue(func() *shim {
			text, err := fs.ReadFile(guest.Monty, "monty/"+e.Name())
			if err != nil {
				panic(err)
			}
			src, perr := parse("guest/monty/"+e.Name(), string(text), false)
			if perr != nil {
				panic(perr)
			}
			return src.shim(module)
		})
	}
	return all
})

// shimOf is the shim of a module, nil if it has none.
func shimOf(module string) *shim {
	if read := shims()[module]; read != nil {
		return read()
	}
	return nil
}

// shim cuts a parsed file into its units.
func (s *source) shim(module string) *shim {
	sh := &shim{module: module, units: map[string]*unit{}}
	for _, imp := range s.imports {
		if !imp.from {
			name := imp.module
			if imp.as != "" {
				name = imp.as
			}
			sh.add(&unit{module: module, name: name, from: imp.module})
		}
		for _, n := range imp.names {
			sh.add(&unit{module: module, name: n.bindsTo(), from: imp.module, attr: n.name})
		}
	}
	var bodies []*unit
	var ranges [][2]int32
	for i := 0; i < len(s.stmts); i++ {
		st := &s.stmts[i]
		if st.kw == "import" || st.kw == "from" || s.docstring(int32(i)) {
			continue
		}
		end := i + 1
		for end < len(s.stmts) && s.stmts[end].parent >= int32(i) {
			end++
		}
		name := st.first
		if st.kw == "def" || st.kw == "class" {
			name++
			if s.is(st.first, "async") {
				name++
			}
		}
		u := &unit{module: module, name: s.str(name), class: st.kw == "class"}
		sh.add(u)
		bodies, ranges = append(bodies, u), append(ranges, [2]int32{int32(i), int32(end)})
		i = end - 1
	}
	for i, u := range bodies {
		u.pieces = s.minify(sh, u, ranges[i][0], ranges[i][1])
	}
	return sh
}

func (sh *shim) add(u *unit) {
	if sh.units[u.name] != nil {
		panic("guest/monty/" + sh.module + ".py defines " + u.name + " twice")
	}
	sh.units[u.name] = u
	sh.order = append(sh.order, u.name)
}

// docstring says whether a statement is nothing but a string.
func (s *source) docstring(i int32) bool {
	st := &s.stmts[i]
	return st.last == st.first+1 && s.tok[st.first].kind == tokString
}

// minify writes statements [from, to) without comments, docstrings and needless white space, and cuts
// the text where a top-level name of the shim is used.
func (s *source) minify(sh *shim, self *unit, from, to int32) []piece {
	var out []piece
	var b strings.Builder
	deep := map[int32]int{-1: 0}
	for i := from; i < to; i++ {
		st := &s.stmts[i]
		level := 0
		if st.parent >= from {
			level = deep[st.parent] + 1
		}
		deep[i] = level
		text := ""
		if s.docstring(i) {
			if i+1 < to && s.stmts[i+1].parent == st.parent {
				continue
			}
			text = "pass" // nothing else stands in the suite
		}
		if st.lineStart {
			b.WriteByte('\n')
			b.WriteString(strings.Repeat(" ", level))
		} else if i > from && !s.stmts[i-1].header {
			b.WriteByte(';')
		}
		if text != "" {
			b.WriteString(text)
			continue
		}
		for t := st.first; t < st.last; t++ {
			if t > st.first && s.needsSpace(t) {
				b.WriteByte(' ')
			}
			if s.refers(sh, self, t) {
				out = append(out, piece{b.String(), s.str(t)})
				b.Reset()
				continue
			}
			b.WriteString(s.str(t))
		}
	}
	return append(out, piece{b.String() + "\n", ""})
}

// needsSpace says whether tokens t-1 and t would merge without white space between them.
func (s *source) needsSpace(t int32) bool {
	a, b := &s.tok[t-1], &s.tok[t]
	if a.end == b.start {
		return false
	}
	wordy := func(k tokenKind) bool { return k == tokName || k == tokNumber }
	if wordy(a.kind) {
		return wordy(b.kind) || b.kind == tokString || b.kind == tokFStart || s.text[b.start] == '.'
	}
	return a.kind == tokString && wordy(b.kind) || a.kind == tokFEnd && wordy(b.kind)
}

// refers says whether token t is a use of a top-level name of the shim, which is fed under a hidden one.
func (s *source) refers(sh *shim, self *unit, t int32) bool {
	if s.tok[t].kind != tokName || s.is(t-1, ".") {
		return false
	}
	name := s.str(t)
	if self.class && name == self.name {
		return false // a class is defined in a scope of its own, under its own name
	}
	if s.tok[t].depth > 0 && s.is(t+1, "=") {
		return false // a keyword argument
	}
	if (s.is(t-1, "def") || self.class && s.is(t+1, "=")) && name != self.name {
		return false // a method, or a variable of a class
	}
	return sh.units[name] != nil
}

// needs lists the top-level names that a unit uses.
func (u *unit) needs() []string {
	var out []string
	for _, p := range u.pieces {
		if p.ref != "" && p.ref != u.name && !slices.Contains(out, p.ref) {
			out = append(out, p.ref)
		}
	}
	return out
}
