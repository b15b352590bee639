// Package corpus writes random agent programs for comparing two backends that run the same language: for the
// same answers both must issue the same calls with the same arguments in the same order, print the same text,
// and end the same way. It writes text and drives sandboxes; it must never know which backends there are.
//
// A program is decided by its number alone, so that a failure is repeated by running that number.
package corpus

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"agentkernel"
)

// Tools are the tools that the programs import, as tools.lab. What they answer is [Answer]'s to say.
func Tools() []agentkernel.Tool {
	tool := func(name string, params ...agentkernel.ToolParam) agentkernel.Tool {
		return agentkernel.Tool{Server: "lab", Name: name, PythonServer: "lab", PythonName: name, Effect: agentkernel.EffectRead, Params: params}
	}
	return []agentkernel.Tool{
		tool("look", agentkernel.ToolParam{Name: "key", Python: "key", Type: "Any", Required: true}),
		tool("mix", agentkernel.ToolParam{Name: "a", Python: "a", Type: "Any", Required: true},
			agentkernel.ToolParam{Name: "b", Python: "b", Type: "Any", Default: "2"}),
		tool("may_fail", agentkernel.ToolParam{Name: "n", Python: "n", Type: "Any", Required: true}),
	}
}

// Program writes program number n: Python that Monty and CPython both have.
func Program(n uint64) string {
	w := &writer{r: rand.New(rand.NewPCG(n, 0x5eed))}
	w.line("from tools.lab import look, mix, may_fail")
	w.line("from tools.lab.aio import look as alook, mix as amix, may_fail as amay")
	w.line("from kernel import ToolError, state, log")
	w.line("import asyncio, json, math, re")
	w.line("from collections import Counter, defaultdict")
	w.line("from dataclasses import dataclass")
	w.names = map[kind][]string{}
	for k := range kinds { // f-strings need one name of each
		name := w.fresh("v")
		w.line("%s = %s", name, w.leaf(k))
		w.names[k] = append(w.names[k], name)
	}
	for k := range kinds {
		w.assign(k)
	}
	w.definitions()
	w.block(4+w.r.IntN(6), 0)
	if w.r.IntN(2) == 0 {
		w.parallel()
	}
	w.report()
	return w.out.String()
}

// kind is the type of a value.
type kind int

const (
	integer kind = iota
	real
	text
	numbers // list of int
	words   // list of str
	table   // dict of str to int
	truth
	kinds
)

// writer writes one program.
type writer struct {
	r      *rand.Rand
	out    strings.Builder
	indent int
	names  map[kind][]string
	count  int
	funcs  []function
}

// function is one that the program defines.
type function struct {
	name  string
	takes []kind
	gives kind
}

func (w *writer) line(format string, args ...any) {
	w.out.WriteString(strings.Repeat("    ", w.indent))
	fmt.Fprintf(&w.out, format, args...)
	w.out.WriteByte('\n')
}

func (w *writer) fresh(prefix string) string {
	w.count++
	return fmt.Sprintf("%s%d", prefix, w.count)
}

// pick gives one of several writings.
func (w *writer) pick(choices ...func() string) string { return choices[w.r.IntN(len(choices))]() }

func (w *writer) one(texts ...string) string { return texts[w.r.IntN(len(texts))] }

// inside writes a suite with names of its own.
func (w *writer) inside(fn func()) {
	saved := map[kind][]string{}
	for k, v := range w.names {
		saved[k] = append([]string(nil), v...)
	}
	w.indent++
	fn()
	w.indent--
	w.names = saved
}

func (w *writer) assign(k kind) {
	value := w.expr(k, 2)
	name := w.fresh("v")
	w.line("%s = %s", name, value)
	w.names[k] = append(w.names[k], name)
}

// report prints all that the program has.
func (w *writer) report() {
	for k := range kinds {
		for _, name := range w.names[k] {
			w.line("print(%q, %s)", name, name)
		}
	}
	w.line("print(json.dumps({'n': %s, 'w': %s, 't': %s}, sort_keys=True))", w.expr(numbers, 1), w.expr(words, 1), w.expr(table, 1))
	w.line("%s", w.expr(kind(w.r.IntN(int(kinds))), 1))
}
