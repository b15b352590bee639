// Package guest embeds the libraries that run inside sandboxes. It holds files and their names only; it
// must never contain behaviour of the host.
package guest

import "embed"

// Monty holds monty/<module>.py for every module of the standard library, or part of one, that the
// Monty engine lacks. docs/python.md says what they offer.
//
//go:embed monty/*.py
var Monty embed.FS

// Python holds python/<module>.py: the zygote and the guest library of CPython programs, which are the
// modules of a package _agentkernel. Standard library only, Python 3.9 and later.
//
//go:embed python/*.py
var Python embed.FS

// Node holds node/<module>.cjs: the guest library of programs in Node.js, 18 and later, without packages.
//
//go:embed node/*.cjs
var Node embed.FS
