package corpus

import (
	"fmt"
	"strconv"
)

// expr writes an expression of a kind. Deep ones end in names and literals.
func (w *writer) expr(k kind, depth int) string {
	if depth <= 0 || w.r.IntN(5) == 0 {
		return w.leaf(k)
	}
	depth--
	e := func(k kind) string { return w.expr(k, depth) }
	switch k {
	case integer:
		return w.integer(e)
	case real:
		return w.real(e)
	case text:
		return w.text(e)
	case numbers:
		return w.numbers(e)
	case words:
		return w.words(e)
	case table:
		return w.table(e)
	}
	return w.truth(e)
}

func (w *writer) leaf(k kind) string {
	if names := w.names[k]; len(names) > 0 && w.r.IntN(3) > 0 {
		return names[w.r.IntN(len(names))]
	}
	switch k {
	case integer:
		return strconv.Itoa(w.r.IntN(40) - 10)
	case real:
		return w.one("0.5", "1.25", "-3.75", "2.0", "1e3", "0.1")
	case text:
		return w.one("'alpha'", "'Beta gamma'", "''", "'a,b,,c'", "'  padded '", "'naïve ✓'", "'x1y22z'", `"it's"`, `'tab\tnew\\'`)
	case numbers:
		return w.one("[3, 1, 2]", "[]", "[5]", "[7, -2, 7, 0]", "list(range(6))")
	case words:
		return w.one("['b', 'a', 'C']", "[]", "['one', 'two', 'three', 'two']", "['']")
	case table:
		return w.one("{'a': 1, 'b': 2}", "{}", "{'z': 26, 'y': 25, 'x': 24}", "{'k': 0}")
	}
	return w.one("True", "False")
}

type sub = func(kind) string

func (w *writer) integer(e sub) string {
	return w.pick(
		func() string { return fmt.Sprintf("(%s %s %s)", e(integer), w.one("+", "-", "*"), e(integer)) },
		func() string {
			return fmt.Sprintf("(%s %s %s)", e(integer), w.one("//", "%"), w.one("3", "-4", "7", "2"))
		},
		func() string {
			return fmt.Sprintf("(%s %s %s)", e(integer), w.one("&", "|", "^", "<<", ">>"), w.one("1", "3", "6"))
		},
		func() string { return fmt.Sprintf("len(%s)", e(w.any(text, numbers, words, table))) },
		func() string { return fmt.Sprintf("sum(%s)", e(numbers)) },
		func() string { return fmt.Sprintf("sum(x * x for x in %s if x > %s)", e(numbers), e(integer)) },
		func() string { return fmt.Sprintf("max(%s, default=%s)", e(numbers), e(integer)) },
		func() string { return fmt.Sprintf("min(%s + [%s])", e(numbers), e(integer)) },
		func() string { return fmt.Sprintf("abs(%s)", e(integer)) },
		func() string { return fmt.Sprintf("int(%s)", e(real)) },
		func() string { return fmt.Sprintf("%s.get(%s, %s)", e(table), e(text), e(integer)) },
		func() string { return fmt.Sprintf("%s.count(%s)", e(text), w.one("'a'", "','", "' '")) },
		func() string { return fmt.Sprintf("%s.find(%s)", e(text), e(text)) },
		func() string { return fmt.Sprintf("(%s if %s else %s)", e(integer), e(truth), e(integer)) },
		func() string { return fmt.Sprintf("(%s or %s)", e(integer), e(integer)) },
		func() string { return fmt.Sprintf("(abs(%s) %% 5) ** (abs(%s) %% 4)", e(integer), e(integer)) },
		func() string { return fmt.Sprintf("round(%s)", e(real)) },
		func() string { return fmt.Sprintf("math.gcd(%s, %s)", e(integer), e(integer)) },
		func() string { return w.call(integer, e) },
	)
}

func (w *writer) real(e sub) string {
	return w.pick(
		func() string { return fmt.Sprintf("(%s %s %s)", e(real), w.one("+", "-", "*"), e(real)) },
		func() string { return fmt.Sprintf("(%s / %s)", e(integer), w.one("4", "8.0", "-3", "7")) },
		func() string { return fmt.Sprintf("round(%s, %s)", e(real), w.one("1", "2", "3")) },
		func() string { return fmt.Sprintf("float(%s)", e(integer)) },
		func() string { return fmt.Sprintf("math.floor(%s) * 0.5", e(real)) },
		func() string { return fmt.Sprintf("math.sqrt(abs(%s))", e(real)) },
		func() string { return fmt.Sprintf("max(%s, %s)", e(real), e(real)) },
	)
}

func (w *writer) text(e sub) string {
	return w.pick(
		func() string { return fmt.Sprintf("(%s + %s)", e(text), e(text)) },
		func() string {
			return fmt.Sprintf("%s.%s()", e(text), w.one("upper", "lower", "strip", "title", "capitalize", "swapcase", "lstrip"))
		},
		func() string { return fmt.Sprintf("%s.replace(%s, %s)", e(text), w.one("'a'", "','", "'x'"), e(text)) },
		func() string { return fmt.Sprintf("%s.join(%s)", w.one("', '", "''", "'-'"), e(words)) },
		func() string { return fmt.Sprintf("', '.join(str(x) for x in %s)", e(numbers)) },
		func() string {
			return fmt.Sprintf("%s[%s:%s]", e(text), w.one("", "1", "-3"), w.one("", "4", "-1"))
		},
		func() string { return fmt.Sprintf("f'<{%s}|{%s!r}>'", w.name(integer), w.name(text)) },
		func() string {
			return fmt.Sprintf("f'{%s:%s}/{%s:%s}'", w.name(integer), w.one(">6", "05d", "+d", ",", "x", "<4"), w.name(real), w.one(".2f", ".1e", "8.3f", ".0%", "g"))
		},
		func() string { return fmt.Sprintf("str(%s)", e(w.any(integer, real, numbers, words, table, truth))) },
		func() string { return fmt.Sprintf("repr(%s)", e(w.any(text, words, table))) },
		func() string { return fmt.Sprintf("(%s * (abs(%s) %% 3))", e(text), e(integer)) },
		func() string { return fmt.Sprintf("re.sub(r'[aeiou]', '_', %s)", e(text)) },
		func() string { return fmt.Sprintf("json.dumps(%s)", e(w.any(numbers, words, text, truth))) },
		func() string { return fmt.Sprintf("%s[::-1]", e(text)) },
		func() string { return w.call(text, e) },
	)
}

func (w *writer) numbers(e sub) string {
	return w.pick(
		func() string {
			return fmt.Sprintf("[x %s %s for x in %s]", w.one("+", "*", "-"), e(integer), e(numbers))
		},
		func() string { return fmt.Sprintf("[x for x in %s if x %% 2 == %s]", e(numbers), w.one("0", "1")) },
		func() string {
			return fmt.Sprintf("sorted(%s%s)", e(numbers), w.one("", ", reverse=True", ", key=lambda n: -n"))
		},
		func() string { return fmt.Sprintf("(%s + %s)", e(numbers), e(numbers)) },
		func() string {
			return fmt.Sprintf("list(range(%s, %s, %s))", w.one("0", "-3"), w.one("7", "2"), w.one("1", "2", "3"))
		},
		func() string { return fmt.Sprintf("[len(s) for s in %s]", e(words)) },
		func() string { return fmt.Sprintf("list(%s.values())", e(table)) },
		func() string { return fmt.Sprintf("sorted(set(%s))", e(numbers)) },
		func() string { return fmt.Sprintf("[i * n for i, n in enumerate(%s)]", e(numbers)) },
		func() string { return fmt.Sprintf("[a + b for a, b in zip(%s, %s)]", e(numbers), e(numbers)) },
		func() string {
			return fmt.Sprintf("%s[%s:%s]", e(numbers), w.one("", "1", "-2"), w.one("", "3", "-1"))
		},
		func() string { return fmt.Sprintf("[int(d) for d in re.findall(r'\\d+', %s)]", e(text)) },
	)
}

func (w *writer) words(e sub) string {
	return w.pick(
		func() string { return fmt.Sprintf("%s.split(%s)", e(text), w.one("','", "", "'a'")) },
		func() string { return fmt.Sprintf("[s.upper() for s in %s if s]", e(words)) },
		func() string {
			return fmt.Sprintf("sorted(%s%s)", e(words), w.one("", ", key=len", ", key=lambda s: (len(s), s)", ", reverse=True"))
		},
		func() string { return fmt.Sprintf("list(%s)", e(table)) },
		func() string { return fmt.Sprintf("(%s + [%s])", e(words), e(text)) },
		func() string { return fmt.Sprintf("[f'{k}={v}' for k, v in %s.items()]", e(table)) },
		func() string { return fmt.Sprintf("[str(n) for n in %s]", e(numbers)) },
		func() string { return fmt.Sprintf("[k for k, _ in Counter(%s).most_common(2)]", e(words)) },
	)
}

func (w *writer) table(e sub) string {
	return w.pick(
		func() string { return fmt.Sprintf("{s: len(s) for s in %s}", e(words)) },
		func() string { return fmt.Sprintf("{**%s, %s: %s}", e(table), e(text), e(integer)) },
		func() string { return fmt.Sprintf("dict(zip(%s, %s))", e(words), e(numbers)) },
		func() string { return fmt.Sprintf("{k: v + 1 for k, v in %s.items() if v > %s}", e(table), e(integer)) },
		func() string { return fmt.Sprintf("dict(sorted(%s.items()))", e(table)) },
		func() string { return fmt.Sprintf("json.loads(json.dumps(%s))", e(table)) },
	)
}

func (w *writer) truth(e sub) string {
	return w.pick(
		func() string { return fmt.Sprintf("(%s %s %s)", e(integer), w.one("<", ">=", "==", "!="), e(integer)) },
		func() string { return fmt.Sprintf("(%s %s %s)", e(truth), w.one("and", "or"), e(truth)) },
		func() string { return fmt.Sprintf("(not %s)", e(truth)) },
		func() string { return fmt.Sprintf("(%s %s %s)", e(text), w.one("in", "not in", "<", "=="), e(text)) },
		func() string { return fmt.Sprintf("(%s in %s)", e(integer), e(numbers)) },
		func() string { return fmt.Sprintf("any(x > %s for x in %s)", w.leaf(integer), e(numbers)) },
		func() string { return fmt.Sprintf("bool(%s)", e(w.any(numbers, words, text, table))) },
		func() string { return fmt.Sprintf("isinstance(%s, %s)", e(w.any(integer, text)), w.one("int", "str")) },
		func() string { return fmt.Sprintf("%s.startswith(%s)", e(text), w.one("'a'", "'B'", "''")) },
	)
}

func (w *writer) any(ks ...kind) kind { return ks[w.r.IntN(len(ks))] }

// name gives a variable of a kind: f-strings nest no quotes.
func (w *writer) name(k kind) string { return w.names[k][w.r.IntN(len(w.names[k]))] }

// call calls a function of the program that gives this kind, or a tool.
func (w *writer) call(k kind, e sub) string {
	for _, f := range w.funcs {
		if f.gives == k && w.r.IntN(2) == 0 {
			args := ""
			for i, t := range f.takes {
				if i > 0 {
					args += ", "
				}
				args += e(t)
			}
			return f.name + "(" + args + ")"
		}
	}
	if k == integer {
		return fmt.Sprintf("mix(%s, b=%s)['n']", e(w.any(integer, text)), e(integer))
	}
	return fmt.Sprintf("look(%s)", e(w.any(text, integer, words)))
}
