package frontend_test

import (
	"strings"
	"testing"

	"agentkernel/internal/sandbox/monty/frontend"
)

// Programs that may do something else than on CPython are found, with the line.
func TestDiffers(t *testing.T) {
	for src, want := range map[string]string{
		"x = any(send(x) for x in xs)":                                  "generator expression with calls",
		"print(sum(f(x) for x in xs))":                                  "generator expression with calls",
		"xs = 1\ng = (x for x in xs)\nnext(g)":                          "line 2: a generator expression is computed at once",
		"def f(g): pass\nf(x for x in [1])":                             "line 2: a generator expression",
		"all(r['a'] for r in rows)":                                     "generator expression with calls",
		"print(next(x for x in xs if x))":                               "a generator expression is computed at once",
		"from tools.fs import read\nt = ''.join(read(p) for p in ps)":   "line 2: a generator expression with calls",
		"for x in {3, 1}: print(x)":                                     "sets are iterated over",
		"for x in set(xs): print(x)":                                    "sets are iterated over",
		"print({1, 2})":                                                 "sets are iterated over",
		"print(list(set(xs)))":                                          "sets are iterated over",
		"f'{set(xs)}'":                                                  "sets are iterated over",
		"seen = set()\nseen.add(1)\nprint(seen)":                        "line 3: the set seen",
		"seen = set()\nfor s in seen:\n    print(s)":                    "line 2: the set seen",
		"seen: set[str] = set()\nx = [s for s in seen]":                 "the set seen",
		"seen = {1}\nx = seen.pop()":                                    "the set seen",
		"u = {x for x in xs}\nprint(','.join(u))":                       "the set u",
		"from collections import defaultdict\nd = defaultdict(set)":     "sets are iterated over",
		"print(a.keys() - b.keys())":                                    "sets are iterated over",
		"def f():\n    return {1, 2}":                                   "sets are iterated over",
		"print(hash('a'))":                                              "hash() gives other numbers",
		"print(id(x))":                                                  "id() gives other numbers",
		"try:\n    import numpy\nexcept ImportError:\n    numpy = None": "line 2: the optional import of numpy fails",
	} {
		needs, err := frontend.Check(program(src))
		if err != nil {
			t.Errorf("%q is refused: %v", src, err)
			continue
		}
		if !strings.Contains(strings.Join(needs.Differs, "\n"), want) {
			t.Errorf("%q: %q, want %q", src, needs.Differs, want)
		}
	}
}

// What agent programs are made of stays where it starts in microseconds.
func TestDiffersNot(t *testing.T) {
	for _, src := range []string{
		"print(sum(float(r['x']) for r in rows))",
		"print(', '.join(str(x) for x in xs))",
		"best = max(months, key=lambda m: months[m])",
		"total = sum(x * 2 for x in xs if x > 1)",
		"print(any(x > 3 for x in xs), all(x for x in xs))",
		"rows = [send(x) for x in xs]",
		"seen = set()\nfor x in xs:\n    if x in seen:\n        continue\n    seen.add(x)\nprint(len(seen), sorted(seen))",
		"seen: set[str] = set()\nseen.update(xs)\nif not seen: pass\nif seen and 1: pass\nwhile seen: break",
		"if x in {1, 2}: pass", "if x not in {'a', 'b'}: pass", "print(sorted({1, 2}), len(set(xs)))",
		"print(sorted(set(a) & set(b)), len(set(a) - set(b)))",
		"if set(a) == set(b): pass", "print(sorted(x.upper() for x in set(xs)))",
		"d = {'a': 1, **e}", "d = {}", "print(f'{x}{y:>3}')", "d = {k: v for k, v in e.items()}",
		"row.id(3)", "def hash(x): return 1\nhash(2)", "x = {'a': {'b': 1}}", "d = {'f': lambda x: x}",
		"try:\n    import json\nexcept ImportError:\n    json = None", "s.set(1)", "state.set('a', 1)",
		"from kernel import state\nstate.set('k', [1])",
	} {
		needs, err := frontend.Check(program(src))
		if err != nil {
			t.Errorf("%q is refused: %v", src, err)
		} else if len(needs.Differs) > 0 {
			t.Errorf("%q: %q", src, needs.Differs)
		}
	}
}
