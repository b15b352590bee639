package corpus

// definitions writes functions and a class that the rest uses.
func (w *writer) definitions() {
	for range 1 + w.r.IntN(3) {
		f := function{name: w.fresh("f"), takes: []kind{w.any(integer, text, numbers), w.any(integer, words)}, gives: w.any(integer, text)}
		w.line("def %s(p, q%s):", f.name, w.one("", "=None"))
		w.inside(func() {
			w.names[f.takes[0]] = append(w.names[f.takes[0]], "p", "p")
			w.names[f.takes[1]] = append(w.names[f.takes[1]], "q", "q")
			w.block(1+w.r.IntN(2), 2)
			w.line("return %s", w.expr(f.gives, 2))
		})
		w.funcs = append(w.funcs, f)
	}
	if w.r.IntN(2) == 0 {
		w.class()
	}
}

func (w *writer) class() {
	name := w.fresh("C")
	if w.r.IntN(2) == 0 {
		w.line("@dataclass")
		w.line("class %s:", name)
		w.inside(func() {
			w.line("n: int")
			w.line("s: str = 'd'")
			w.line("def total(self, k):")
			w.inside(func() { w.line("return self.n * k + len(self.s)") })
		})
	} else {
		w.line("class %s:", name)
		w.inside(func() {
			w.line("def __init__(self, n, s='d'):")
			w.inside(func() {
				w.line("self.n = n")
				w.line("self.s = s")
			})
			w.line("def total(self, k):")
			w.inside(func() {
				w.line("self.n += 1")
				w.line("return self.n * k + len(self.s)")
			})
		})
	}
	object := w.fresh("o")
	w.line("%s = %s(%s%s)", object, name, w.expr(integer, 1), w.one("", ", s="+w.expr(text, 1)))
	w.line("print(%s.total(%s), %s.n, %s.s)", object, w.expr(integer, 1), object, object)
	v := w.fresh("v")
	w.line("%s = %s.total(2)", v, object)
	w.names[integer] = append(w.names[integer], v)
}

// block writes n statements.
func (w *writer) block(n, depth int) {
	for range n {
		w.statement(depth)
	}
}

func (w *writer) statement(depth int) {
	choices := []func(){
		func() { w.assign(kind(w.r.IntN(int(kinds)))) },
		func() { w.assign(w.any(integer, text)) },
		func() { w.line("print(%s, %s)", w.expr(w.anyKind(), 2), w.expr(w.anyKind(), 1)) },
		func() {
			w.line("print(%s, sep='%s', end='%s')", w.expr(text, 1)+", "+w.expr(integer, 1), w.one("-", ""), w.one(`\n`, `;\n`))
		},
		func() { w.line("log(%s)", w.expr(w.any(text, table, numbers), 1)) },
		func() { w.line("state.set(%s, %s)", w.one("'k1'", "'k2'"), w.expr(w.anyKind(), 2)) },
		func() { w.line("print(state.get(%s, %s))", w.one("'k1'", "'k2'"), w.leaf(w.anyKind())) },
		func() { w.line("print(mix(%s, %s))", w.expr(w.anyKind(), 1), w.expr(w.anyKind(), 1)) },
		func() { w.change() },
	}
	if depth < 3 {
		choices = append(choices, func() { w.branch(depth) }, func() { w.loop(depth) }, func() { w.try(depth) }, func() { w.loop(depth) })
	}
	choices[w.r.IntN(len(choices))]()
}

func (w *writer) anyKind() kind { return kind(w.r.IntN(int(kinds))) }

// change alters something that is there: a copy, so that no loop changes what it runs over.
func (w *writer) change() {
	switch w.r.IntN(5) {
	case 0:
		v := w.fresh("v")
		w.line("%s = list(%s)", v, w.expr(numbers, 1))
		w.line("%s.append(%s)", v, w.expr(integer, 1))
		w.line("%s.extend(%s)", v, w.expr(numbers, 1))
		w.line("%s.sort()", v)
		w.names[numbers] = append(w.names[numbers], v)
	case 1:
		v := w.fresh("v")
		w.line("%s = dict(%s)", v, w.expr(table, 1))
		w.line("%s[%s] = %s", v, w.expr(text, 1), w.expr(integer, 1))
		w.line("%s.setdefault('new', %s)", v, w.expr(integer, 1))
		w.names[table] = append(w.names[table], v)
	case 2:
		a, b := w.fresh("v"), w.fresh("v")
		w.line("%s, %s = %s, %s", a, b, w.expr(integer, 1), w.expr(text, 1))
		w.names[integer] = append(w.names[integer], a)
		w.names[text] = append(w.names[text], b)
	case 3:
		d, k := w.fresh("g"), w.fresh("v")
		w.line("%s = defaultdict(list)", d)
		w.line("for s in %s:", w.expr(words, 1))
		w.inside(func() { w.line("%s[len(s)].append(s)", d) })
		w.line("%s = [str(k) + ':' + ','.join(v) for k, v in sorted(%s.items())]", k, d)
		w.names[words] = append(w.names[words], k)
	default:
		v := w.fresh("v")
		w.line("%s = %s", v, w.expr(integer, 1))
		w.line("%s %s= %s", v, w.one("+", "-", "*"), w.expr(integer, 1))
		w.names[integer] = append(w.names[integer], v)
	}
}

func (w *writer) branch(depth int) {
	w.line("if %s:", w.expr(truth, 2))
	w.inside(func() { w.block(1+w.r.IntN(2), depth+1) })
	if w.r.IntN(2) == 0 {
		w.line("elif %s:", w.expr(truth, 1))
		w.inside(func() { w.block(1, depth+1) })
	}
	if w.r.IntN(2) == 0 {
		w.line("else:")
		w.inside(func() { w.block(1, depth+1) })
	}
}

func (w *writer) loop(depth int) {
	v := w.fresh("i")
	k := integer
	switch w.r.IntN(4) {
	case 0:
		w.line("for %s in range(%s):", v, w.one("2", "3", "1, 4"))
	case 1:
		w.line("for %s in %s[:3]:", v, w.expr(numbers, 1))
	case 2:
		w.line("for %s in %s[:2]:", v, w.expr(words, 1))
		k = text
	default:
		w.line("%s = 0", v)
		w.line("while %s < %s:", v, w.one("2", "3"))
		w.inside(func() {
			w.line("%s += 1", v)
			w.names[integer] = append(w.names[integer], v)
			w.block(1, depth+1)
			if w.r.IntN(3) == 0 {
				w.line("if %s:", w.expr(truth, 1))
				w.inside(func() { w.line("%s", w.one("break", "continue")) })
			}
		})
		return
	}
	w.inside(func() {
		w.names[k] = append(w.names[k], v)
		w.block(1+w.r.IntN(2), depth+1)
	})
}

// try writes what fails in all the ways in which programs fail.
func (w *writer) try(depth int) {
	w.line("try:")
	w.inside(func() {
		switch w.r.IntN(7) {
		case 0:
			// CPython words this one differently from version to version; the text must not be printed.
			w.line("try:")
			w.inside(func() { w.line("print(%s // (%s - %s))", w.expr(integer, 1), w.leaf(integer), w.leaf(integer)) })
			w.line("except ZeroDivisionError:")
			w.inside(func() { w.line("raise IndexError('nothing to divide by')") })
		case 1:
			w.line("print(%s[%s])", w.expr(table, 1), w.expr(text, 1))
		case 2:
			w.line("print(%s[%s])", w.expr(numbers, 1), w.expr(integer, 1))
		case 3:
			w.line("print(int(%s))", w.expr(text, 1))
		case 4:
			w.line("print(may_fail(%s))", w.expr(integer, 1))
		case 5:
			w.line("raise %s(%s)", w.one("ValueError", "KeyError", "TypeError"), w.expr(text, 1))
		default:
			w.block(1, depth+1)
		}
	})
	e := w.fresh("e")
	w.line("except %s as %s:", w.one("(ArithmeticError, IndexError)", "KeyError", "ValueError", "ToolError", "LookupError"), e)
	w.inside(func() { w.line("print('caught', %s)", e) })
	if w.r.IntN(4) > 0 {
		w.line("except Exception as %s:", e)
		w.inside(func() { w.line("print('other', isinstance(%s, RuntimeError) or type(%s).__name__, %s)", e, e, e) })
	}
	if w.r.IntN(3) == 0 {
		w.line("finally:")
		w.inside(func() { w.line("print('done', %s)", w.leaf(integer)) })
	}
}

// parallel writes calls that are under way together.
func (w *writer) parallel() {
	w.line("async def job(n, s):")
	w.inside(func() {
		w.line("r = await alook(s + str(n))")
		if w.r.IntN(2) == 0 {
			w.line("if n %% 2:")
			w.inside(func() { w.line("r = await amix(r, b=n)") })
		}
		if w.r.IntN(2) == 0 {
			w.line("try:")
			w.inside(func() { w.line("await amay(n)") })
			w.line("except ToolError as e:")
			w.inside(func() { w.line("print('job', n, e)") })
		}
		w.line("print('job', n, r)")
		w.line("return n")
	})
	w.line("async def main():")
	w.inside(func() {
		w.line("first = await alook(%s)", w.leaf(text))
		w.line("rs = await asyncio.gather(*[job(n, 'j') for n in range(%s)])", w.one("2", "3", "5"))
		w.line("print(first, rs)")
		w.line("a, b = await asyncio.gather(amix(%s), job(7, 'k'))", w.leaf(integer))
		w.line("return [a, b]")
	})
	w.line("print(asyncio.run(main()))")
}
