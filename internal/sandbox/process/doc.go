// Package process is the backend that runs programs in a real interpreter, as a process of the operating system
// behind walls (agentkernel.Backend, name "process"). Python runs in CPython.
//
// A zygote for each namespace of users is an interpreter with the standard library imported and no program in it.
// It clones a child for each program; the child goes behind its walls (package confine decides them, the guest
// library carries them out) and speaks with this package over a socket of its own. A few children wait ahead of
// need. There are no images: a process is recovered by replay, and the guest library sees to it that a program asks
// the kernel for all that would differ between two runs.
//
//	backend   New, Info, Check, Start                     zygote fork    one zygote: control socket, children
//	interpreter  finding the interpreter               tenants        who has which zygote, waiting children
//	sandbox   one program in motion: Next               child          one child: descriptors, death
//	whole door recipe node golang  programs without a zygote: Node, Go, commands, scripts
//	failure   how programs end                           wire frame     what is said over the socket
//
// What needs Linux is in files that end in _linux.go.
//
// # The wire
//
// Frames go both ways over a stream socket: length (4 bytes, little endian), kind (1 byte), payload. Kind "{" is a
// JSON object, whose member "type" says what it is; "1" and "2" are bytes that the program printed to stdout and
// stderr; "d" (no payload) asks to take first what lies in the pipes.
//
//	from the guest                                       to the guest
//	hello    wire                                        check    name, source, modules
//	checked  tools, skills, imports, missing,            start    name, source, compiled, args, modules, tools, ...
//	         compiled | error                            rehearse -
//	call     id, op, args, async                         reply    id, result | error {exception, code, text}
//	wait     -
//	next     id, result | failure (a fail)
//	exit     code, result
//	fail     exception, message, traceback, limit, syntax
//	refused  list, step, errno (a wall could not be built)
//
// rehearse has a child that waits use the time: it does what running a program needs. compiled is the program's code as
// its static pass made it; a child of the same interpreter need not compile it again.
//
// A session says next in place of exit, with a number as calls have, and its reply is the next cell with its tools or the
// end. The kernel hears of it as the call proc.next.
//
// Calls are numbered by the guest upwards from 1 in the order of issue; a number may be left out. After a call that is
// not async the guest reads until the reply with its number comes; after wait it reads one reply, of any async call. An
// async call is not acknowledged. Values are written as docs/values.md says.
//
// Descriptors 1 and 2 of a program are pipes, for what its own child processes write. Before the guest sends anything
// it looks whether these pipes hold something unread, and if so sends "d". The host reads the socket before the pipes
// whenever both have something. So text stands in the order in which it was written, wherever one writer waited for
// the other, and a program's own prints stand exactly between its calls.
//
// The guest is the enemy: frames are bounded, every message is checked for form and for its place, and whoever
// breaks the protocol is killed. The package must never start a program behind fewer walls than Config asks for, never
// let two namespaces share a zygote, and never answer a call by itself: effects are the kernel's.
package process
