// Package sim runs a kernel in a simulated world and checks what it does. The kernel is the real one, made by kernel.New; the
// store, the tools, the servers of language models, the sandboxes, the clock and the randomness are models. One seed decides everything that happens, so a
// failure is repeated by its seed.
//
// # How it is deterministic
//
// The kernel's goroutines run in a bubble of testing/synctest, whose clock is virtual. That alone is not enough: goroutines
// that are runnable at the same moment run in any order. So every effect (a flush, a read, a call of a tool, a turn of a
// sandbox) waits at one gate, under a name that does not depend on who came first. When nothing can run any more, the driver
// releases one effect, chosen by the seed, and lets everything come to rest again. What two goroutines do between two
// releases must commute; the tests run each seed many times and compare what happened.
//
// Append of the store never waits: the kernel calls it under its locks, and a goroutine that waits for a mutex does not count
// as blocked in a bubble.
//
// # What happens to the kernel
//
// The driver acts as clients do (spawn, wait, follow, signal, recover, read, leave), lets tools and the servers of models fail,
// be late or lose their answers, loses sandboxes, stops the kernel and starts it again, and crashes it. A crash ends a generation: the effects of
// its goroutines come to nothing from then on, and of the log the store keeps what was flushed and any prefix of the rest.
//
// # What is checked
//
// The oracle knows nothing of the kernel's code. It folds the journal by itself (ledger.go), runs each program by itself with
// the answers that the journal has (reference.go), and remembers what clients were told (promises.go) and what tools did
// (tools.go). See check.go for the list.
//
// # Language models
//
// One seed of four has programs that ask language models. What answers them is the product's own: the family of models, the
// router, and the controller of its traffic, on the virtual clock and with randomness of the seed (asking.go). Only the servers
// are made up (models.go). They keep account of what they were asked and of what they charge, whether the kernel hears of it or
// not; the oracle compares that with what the journals say was spent (checkmodels.go).
//
// The package is for tests only. It must never be imported by anything that is shipped.
package sim
