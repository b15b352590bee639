package frontend

import (
	"fmt"
	"slices"

	"agentkernel"
)

// This file finds where the engine runs a program, but perhaps not as CPython would. The engine makes
// generator expressions at once, iterates over sets in another order, has other hashes, and takes the except
// branch where an optional module is missing. Such programs are not refused: whoever asks for this backend
// gets it. Whoever leaves the choice to the kernel gets CPython, if that is there (Needs.Differs).
//
// It errs on the side of finding: what it cannot judge counts.

// What a program may cost is in proportion to its length, so that the looking around has bounds; a program
// that goes beyond them counts as different.
const (
	mostDifferences = 4    // places that are named
	mostHits        = 100  // places that are looked for
	mostSets        = 50   // names of sets whose uses are judged
	furthest        = 1000 // tokens that are gone back
)

// differences adds what it finds in one file to needs.
func (f *file) differences(needs *agentkernel.Needs) {
	d := differ{file: f, needs: needs, generators: -1, sets: map[string]bool{}, loopless: map[int32]bool{}}
	d.imports()
	d.scan()
}

type differ struct {
	*file
	needs *agentkernel.Needs
	open  []int32 // brackets around the token that is looked at
	hits  int

	generators int32           // the bracket of the generator expression that was judged last
	sets       map[string]bool // names of sets whose uses were judged
	loopless   map[int32]bool  // brackets and whether they hold no loop
}

func (d *differ) found(tok int32, format string, args ...any) {
	d.hits++
	if text := d.at(d.line(tok)) + fmt.Sprintf(format, args...); len(d.needs.Differs) < mostDifferences && !slices.Contains(d.needs.Differs, text) {
		d.needs.Differs = append(d.needs.Differs, text)
	}
}

// imports finds optional imports whose module is not there.
func (d *differ) imports() {
	for _, imp := range d.file.imports {
		switch firstPart(imp.module) {
		case "kernel", "tools", "skills", "":
			continue
		}
		if d.guarded(imp.stmt) && !d.neverRuns(imp.stmt) && !knownModule(imp.module) {
			d.found(imp.tok, "the optional import of %s fails", imp.module)
		}
	}
}

func (d *differ) scan() {
	for t := range int32(len(d.tok)) {
		if d.hits >= mostHits {
			return
		}
		switch d.tok[t].kind {
		case tokOp:
			d.bracket(t)
		case tokName:
			d.name(t)
		}
	}
}

func (d *differ) bracket(t int32) {
	switch d.str(t) {
	case "(", "[":
		d.open = append(d.open, t)
	case "{":
		if d.setLiteral(t) {
			d.set(t, d.tok[t].match+1)
		}
		d.open = append(d.open, t)
	case ")", "]", "}":
		if n := len(d.open); n > 0 {
			d.open = d.open[:n-1]
		}
	}
}

func (d *differ) name(t int32) {
	switch d.str(t) {
	case "for":
		if n := len(d.open); n > 0 && d.is(d.open[n-1], "(") && d.tok[t].depth == d.tok[d.open[n-1]].depth+1 {
			d.generator(d.open[n-1])
		}
	case "hash", "id":
		if d.builtinCall(t) {
			d.found(t, "%s() gives other numbers", d.str(t))
		}
	case "set", "frozenset":
		switch {
		case d.builtinCall(t):
			d.set(t, d.tok[t+1].match+1)
		case !d.is(t-1, ".") && !d.assigned[d.str(t)] && (d.is(t-1, "(") || d.is(t-1, "=") || d.is(t-1, ",")) && !d.is(t+1, "["):
			d.found(t, "sets are iterated over in another order")
		}
	case "keys", "items":
		if d.is(t-1, ".") && d.is(t+1, "(") && setOperator(d.str(d.tok[t+1].match+1)) {
			d.set(t, d.tok[t+1].match+1)
		}
	}
}

// builtinCall says whether token t is the builtin of its name, called.
func (d *differ) builtinCall(t int32) bool {
	return d.is(t+1, "(") && d.tok[t+1].match > t && !d.is(t-1, ".") && !d.is(t-1, "def") && !d.assigned[d.str(t)] && !d.imported[d.str(t)]
}

// generator judges the generator expression in the bracket at token open.
func (d *differ) generator(open int32) {
	if open == d.generators {
		return // another loop of the same one
	}
	d.generators = open
	end := d.tok[open].match
	consumer := ""
	if d.isName(open-1) && !reserved(d.str(open-1)) {
		consumer = d.str(open - 1)
	}
	if !consumesAll(consumer) {
		d.found(open, "a generator expression is computed at once, not step by step")
		return
	}
	stops := consumer == "any" || consumer == "all"
	for t := open + 1; t < end; t++ {
		switch {
		case d.is(t, "await"), d.is(t, ":="),
			d.is(t, "(") && d.callee(t) && !d.pureCall(t),
			stops && (d.is(t, "[") || d.is(t, "/") || d.is(t, "%") || d.is(t, "//") || d.is(t, "(") && d.callee(t)):
			d.found(open, "a generator expression with calls is computed at once, not step by step")
			return
		}
	}
}

// callee says whether the bracket at token t holds the arguments of a call.
func (d *differ) callee(t int32) bool {
	return d.isName(t-1) && !reserved(d.str(t-1)) || d.is(t-1, ")") || d.is(t-1, "]")
}

// pureCall says whether the call at bracket t can do nothing but give a value.
func (d *differ) pureCall(t int32) bool {
	if !d.isName(t - 1) {
		return false
	}
	name := d.str(t - 1)
	if d.is(t-2, ".") {
		return slices.Contains(pureMethods, name)
	}
	return slices.Contains(pureBuiltins, name) && !d.assigned[name] && !d.imported[name]
}

var pureBuiltins = []string{"abs", "bool", "chr", "divmod", "float", "int", "isinstance", "len", "max", "min", "ord", "pow", "range", "repr",
	"reversed", "round", "sorted", "str", "sum", "tuple", "list", "dict", "set", "frozenset", "type", "zip", "enumerate"}

var pureMethods = []string{"casefold", "count", "endswith", "find", "get", "isalnum", "isalpha", "isdigit", "isnumeric", "isspace", "isupper", "islower",
	"items", "join", "keys", "lower", "lstrip", "removeprefix", "removesuffix", "replace", "rsplit", "rstrip", "split", "splitlines", "startswith",
	"strip", "title", "upper", "values", "zfill"}

// consumesAll names the functions that take all of a generator at once, so that only what its steps do
// can tell when they ran.
func consumesAll(name string) bool {
	switch name {
	case "sum", "min", "max", "list", "tuple", "dict", "sorted", "any", "all", "join", "set", "frozenset", "Counter", "extend", "update", "OrderedDict", "deque":
		return true
	}
	return false
}

// reserved says whether a word before a bracket is no function.
func reserved(word string) bool {
	switch word {
	case "in", "not", "and", "or", "if", "else", "for", "while", "return", "yield", "lambda", "is", "await", "elif", "assert", "del", "from", "import", "raise", "with", "as", "except":
		return true
	}
	return false
}
