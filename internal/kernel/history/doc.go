// Package history reads the journal of a process: where the process stands, what it has used, and what is still to be
// decided about it. Whatever restarts, reads or explains a process goes by [Fold], so that a crash, a pause, a move to
// another backend and an aborted cell come to the same. The package reads, and changes nothing; Fold is pure.
//
// Everything that a journal means is said here, for the kernel and for the commands that explain a journal: the package
// imports nothing of the kernel.
//
// A fold has two products. The position is where the program stands, with all that it has still to repeat; an abort or a
// move unwinds it. The [Account] is what the process has used and been granted in all its runs; nothing unwinds that, and
// no replay counts it twice.
//
// A fold begins at the start of the journal or at a [Base], a snapshot that travels in an image. Every base that is in
// force gives the same result.
package history
