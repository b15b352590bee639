// Package frontend prepares a Python program for the Monty engine before anything runs: it refuses what
// the engine cannot do, finds what the program imports, and rewrites imports that the engine does not
// know (kernel, tools.*, skills.* and shimmed modules of the standard library) into bindings on the same
// lines, so that tracebacks keep the user's own line numbers.
//
//	lexer.go fstring.go  tokens                       check*.go   what is refused: imports, syntax, names
//	source.go            statements and their suites  forms.go    forms that can be said in another way
//	imports.go           import statements            rewrite*.go the edits that say them so
//	bindings.go scan.go  names: bound, used, handed   enum.go     enumerations and named tuples
//	                     around                       bind*.go    host functions, module objects, feeds
//	modules.go           what the engine has itself   shim.go     definitions of guest/monty, one by one
//
// It must never run a program, start an engine or read a file: it is a pure function of its arguments.
package frontend

import (
	"sync"

	"agentkernel"
)

// large is from how many bytes on a program is read alone, whoever asks for it: what is kept of it meanwhile may take 150 MB.
const large = 128 << 10

var reading sync.Mutex

// alone waits until no other large program is read, if one of size bytes is one. done lets others go on.
func alone(size int) (done func()) {
	if size < large {
		return func() {}
	}
	reading.Lock()
	return reading.Unlock
}

// sizeOf is how many bytes of text are read for a program, at most.
func sizeOf(p *agentkernel.Program) int {
	size := len(p.Source)
	for _, text := range p.Modules {
		size += len(text)
	}
	for _, text := range p.Earlier {
		size += len(text)
	}
	return size
}

// Bundle is a program made ready for the engine.
type Bundle struct {
	Functions []Function // host functions, inputs of the first feed
	Feeds     []Feed     // fed in order; the last one is the program
	Plain     bool       // as agentkernel.Needs.Plain
}

// Function is one host function that the program may call.
type Function struct {
	Input string // hidden variable that holds it
	// Name is the dotted name under which its calls arrive at the host: "tools.<server>.<tool>" and
	// "tools.<server>.aio.<tool>", "kernel.<guest name>" and "kernel.aio.<guest name>",
	// "intrinsic.<name>" (package intrinsic) and "output.stderr" (a text for the program's stderr).
	Name string
	Doc  string // docstring; empty, as the engine cannot show it: help() is a shim
}

// Feed is one piece of source for the engine.
type Feed struct {
	File       string // name for tracebacks
	Code       string // what the engine compiles
	LineOffset int    // line in File = line of the engine's frame - LineOffset
	Hidden     bool   // frames of this feed are dropped from tracebacks
}

// Version identifies the front end and the guest sources; it is part of every image's fingerprint.
func Version() string { return version() }
