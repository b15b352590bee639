// Package monty is the backend that runs Python programs in Monty, an interpreter for a subset of Python
// (agentkernel.Backend, name "monty").
//
// Each program runs in a worker: a child process that speaks Monty's own protocol (montypb) on its standard
// input and output. Workers are started ahead of need and used again by programs of the same namespace; a
// worker that did anything odd is killed and never used again. A suspended program is bytes (Dump/Load), so
// a process can be parked between any two calls.
//
//	backend.go   Config, New, Info, Check, Start          values: value_decode.go  worker -> JSON
//	engine.go    finding the executable and its version            value_encode.go  JSON -> worker
//	pool.go      who may use which worker                 calls:  call.go bind.go oscall.go
//	worker.go    one child process: frames, limits, death errors: failure.go traceback.go
//	sandbox.go   one program in motion: Next              image.go  the bytes of a parked program
//	walls.go     whether workers have the operating system's walls;   body.go  their processes, with and without
//
// Lock order: pool.mu before worker.mu; neither is held while talking to a worker.
//
// The package must never trust a worker (it may be under the control of hostile code: every frame is checked
// for size, depth and form), never let one namespace see a worker of another, and never answer a call that
// has an effect by itself: effects are the kernel's.
package monty
