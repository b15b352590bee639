package frontend

import (
	"fmt"
	"slices"
	"strings"

	"agentkernel"
)

// file is a source of the program with what the static pass found in it.
type file struct {
	*source
	key     string // "" for the program, else its name in Program.Modules
	uses    []use
	used    map[string]bool // the modules of uses and the modules that they are in; see usesOf
	escapes map[string]bool // modules that the file uses otherwise than by "module.name"
	attrs   map[string]bool // every word behind a dot
	dynamic bool            // getattr or hasattr stands in it
	words   map[string]bool // every word that stands by itself
	// keywords are the names of keyword arguments; stored the attributes that are assigned to.
	keywords, stored map[string]bool
	kernelErrors     map[string]bool      // names imported from kernel that are exceptions
	origins          map[string][2]string // names bound by from-imports alone: module and name there
	made             map[string]*madeClass
	bare             map[int32]string // at these tokens a family is called itself: the function that it means
	callableSub      bool             // re.sub with something else than a text as replacement
}

// use is one "module.name" in a file.
type use struct {
	module, name string
	tok          int32
}

// analysis is what Check and Bind know of a program.
type analysis struct {
	program agentkernel.Program
	files   []*file // in the order in which they must be fed: the program is last
	byKey   map[string]*file
	earlier *earlier
	found   []problem
	wanted  map[string]bool // tools and skills that the program needs
	tokens  int             // of all files
}

// maxWanted bounds how many tools and skills a program may import: each is looked up when it starts.
const maxWanted = 5000

// usesOf says whether the file uses anything of a module itself, or (deep) of one in it as well.
func (f *file) usesOf(module string, deep bool) bool {
	if f.used == nil {
		f.used = map[string]bool{}
		for _, u := range f.uses {
			f.used[u.module] = true
			for i := strings.LastIndexByte(u.module, '.'); i > 0; i = strings.LastIndexByte(u.module[:i], '.') {
				f.used[u.module[:i]+".*"] = true
			}
		}
	}
	return f.used[module] || deep && f.used[module+".*"]
}

// problem is one thing that the engine cannot run.
type problem struct {
	file *source
	line int
	code agentkernel.Code
	text string
	hint string
}

func (a *analysis) refuse(f *source, tok int32, format string, args ...any) {
	a.found = append(a.found, problem{file: f, line: f.line(tok), code: agentkernel.CodeUnsupported,
		text: fmt.Sprintf(format, args...)})
}

func (a *analysis) report(f *source, tok int32, code agentkernel.Code, hint, format string, args ...any) {
	if len(a.found) >= maxProblems {
		return
	}
	a.found = append(a.found, problem{file: f, line: f.line(tok), code: code, hint: brief(hint),
		text: brief(fmt.Sprintf(format, args...))})
}

// suggest is the hint for a misspelt name. Only the first few problems get one: it takes time to find.
func (a *analysis) suggest(word string, candidates func() []string) string {
	if len(a.found) > most {
		return ""
	}
	return didYouMean(word, candidates())
}

// most is how many problems an error tells of.
const most = 4

// Programs are hostile: a name may be a megabyte long, and everything may be wrong.
const (
	maxProblems = 10_000
	maxProblem  = 500 // bytes of its text
)

func brief(text string) string {
	if len(text) <= maxProblem {
		return text
	}
	text = strings.ToValidUTF8(text[:maxProblem], "")
	if i := strings.LastIndexByte(text, ' '); i > maxProblem/2 { // between words
		text = text[:i]
	}
	return text + " ..."
}

// elsewhere ends every refusal: it says which backend runs the thing.
const elsewhere = "the process backend (CPython) has it"

// perhapsElsewhere ends those of modules that are not CPython's own: there may be no such module at all.
const perhapsElsewhere = "the process backend (CPython) may have it"

// err turns the problems into one error: the first in full, the others by place and text.
func (a *analysis) err() error {
	if len(a.found) == 0 {
		return nil
	}
	slices.SortStableFunc(a.found, func(x, y problem) int {
		if x.file != y.file {
			return 0
		}
		return x.line - y.line
	})
	first := a.found[0]
	text := first.file.at(first.line) + first.text
	seen := map[string]bool{first.text: true}
	for _, p := range a.found[1:] {
		if !seen[p.text] {
			if len(seen) == most {
				text += "; and more"
				break
			}
			text += "; " + p.file.at(p.line) + p.text
		}
		seen[p.text] = true
	}
	e := agentkernel.Errorf(first.code, op, "%s", text)
	e.Hint = first.hint
	return e
}

// analyze parses the program and the modules that it reaches. Errors are CodeSyntax, or CodeInvalid for
// modules that import one another in a circle.
func analyze(p agentkernel.Program) (*analysis, error) {
	a := &analysis{program: p, byKey: map[string]*file{}}
	name := p.Name
	if name == "" {
		name = "<string>"
	}
	a.earlier = readEarlier(p)
	_, err := a.load("", name, p.Source, nil)
	return a, err
}

// load parses one file and, before it is added, the modules that it imports.
func (a *analysis) load(key, name, text string, path []string) (*file, error) {
	carried := ""
	if key == "" {
		carried = a.earlier.carry(a, text)
	}
	src, err := parseBehind(carried, name, text, key == "")
	if err != nil {
		return nil, err
	}
	if a.tokens += len(src.tok); a.tokens > maxTokens {
		return nil, tooLong()
	}
	f := &file{source: src, key: key}
	if key == "" {
		a.earlier.define(f)
	}
	f.scan(a)
	if key == "" {
		a.earlier.join(f)
	}
	for _, imp := range f.imports {
		for _, need := range a.modulesOf(imp) {
			if slices.Contains(path, need) || need == key {
				return nil, f.circle(imp, append(path, key, need))
			}
			if a.byKey[need] != nil {
				continue
			}
			if _, err := a.load(need, moduleFile(need), a.program.Modules[need], append(path, key)); err != nil {
				return nil, err
			}
		}
	}
	a.byKey[key] = f
	a.files = append(a.files, f)
	return f, nil
}

// moduleFile is the name of a module's file in tracebacks.
func moduleFile(key string) string { return strings.ReplaceAll(key, ".", "/") + ".py" }

func (f *file) circle(imp importStmt, path []string) error {
	for len(path) > 1 && path[0] != path[len(path)-1] {
		path = path[1:]
	}
	return agentkernel.Errorf(agentkernel.CodeInvalid, op, "%smodules import one another in a circle: %s",
		f.at(f.line(imp.tok)), strings.Join(path, " -> ")).
		WithHint("move what both need into a third module")
}

// modulesOf lists the modules of the program that an import statement reaches.
func (a *analysis) modulesOf(imp importStmt) []string {
	var out []string
	add := func(key string) {
		if _, ok := a.program.Modules[key]; ok && !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	root := firstPart(imp.module)
	if root != "tools" && root != "skills" {
		return nil
	}
	base := strings.TrimSuffix(imp.module, ".aio")
	add(base)
	for _, n := range imp.names {
		add(base + "." + n.name)
	}
	if !imp.from || imp.module == "tools" || imp.module == "skills" {
		// the whole of a local server or folder becomes one object
		for _, prefix := range a.wholes(imp) {
			for _, key := range a.under(prefix) {
				add(key)
			}
		}
	}
	return out
}

// wholes are the module names that become objects by an import statement.
func (a *analysis) wholes(imp importStmt) []string {
	if !imp.from {
		return []string{strings.TrimSuffix(imp.module, ".aio")}
	}
	var out []string
	for _, n := range imp.names {
		out = append(out, imp.module+"."+n.name)
	}
	return out
}

// under lists the program's modules below a dotted name, sorted.
func (a *analysis) under(prefix string) []string {
	var out []string
	for key := range a.program.Modules {
		if strings.HasPrefix(key, prefix+".") {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// isModule says whether a dotted name is a module or an object of functions rather than a value.
func (a *analysis) isModule(key string) bool {
	root, rest, dotted := strings.Cut(key, ".")
	switch root {
	case "kernel":
		if !dotted || rest == "aio" {
			return true
		}
		return isFamily(strings.TrimPrefix(rest, "aio."))
	case "tools":
		return !dotted || !strings.Contains(rest, ".") || strings.HasSuffix(rest, ".aio")
	case "skills":
		return !dotted || !strings.Contains(rest, ".")
	}
	return knownModule(key)
}
