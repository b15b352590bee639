// Package kernel is the heart of AgentKernel: the process table, the life of a process, and the one path on which every syscall is
// dispatched. It knows no concrete store, backend, tool client or transport, and only it changes the state of a process.
//
// # Life of a process
//
//	created ──▶ ready ──▶ running ──▶ waiting
//	              ▲          │           │
//	              └──────────┼───────────┘
//	                         ▼
//	            exited │ failed │ killed
//
// The same as a table, which the tests compare with the code (package steps). An owner drives the sandbox, takes it away or replaces it;
// a process has one at most.
//
//	begin    created                -> ready    unowned
//	wake     waiting                -> ready    unowned
//	hold     ready                  -> waiting  unowned   hosted, paused, or all of its calls are under way
//	drive    ready                  -> running  takes
//	reserve  ready waiting          ->          takes     to park, migrate or end it, or to drive it inline
//	proceed  waiting                -> running  keeps
//	wait     running                -> waiting  releases
//	yield    running                -> ready    releases
//	rewind   running                -> waiting  keeps     its sandbox is gone: a new run follows, or a cell was aborted
//	release  ready running waiting  ->          releases
//	exit     running waiting        -> exited   ends
//	fail     ready running waiting  -> failed   ends
//	kill     ready running waiting  -> killed   ends
//
// Only created, paused, resumed and the three ends are journalled; ready, running and waiting follow from what is in flight. Paused and
// resident are attributes beside the state: a paused process keeps its state but is handed no reply, and a waiting process may lose its
// sandbox (parked) and get it back. The death of a kernel is no transition: afterwards a process stands where its journal says.
//
// # One dispatch path
//
//	journal -> repetitions -> capability and limits -> origin -> holds -> admission -> reserve, journal the intent -> handler -> journal the result -> reply
//
// What a call reserves is taken with its intent and settled with its result (reserve, history.Amounts). What families keep of a process
// is folded from the entries of their calls (locals). The streams that calls have opened are beside the journal (streams), and what they
// give is in it.
//
// Before the journal two others may have the answer: an earlier life of the process (replay.go), and the origin of a rerun (origin). A
// process that repeats a recording (verification.go) has no other answers at all.
//
// A pure call is one entry that waits for no disk. An external call's handler runs only when its intent and everything before it are
// durable. Whatever leaves the kernel (events, answers to clients) is flushed first.
//
// # Files
//
// The files stand in layers. A file may use what its own layer and those below it declare. Where one needs a layer above its own (a
// process that ends may be waited for by its parent) the arrow is counted, and arrows_test.go in the root bounds how many there are. What
// needs neither the process table nor a process's lock is no file here, but a package below this one.
//
//	8 outside   start.go spawn.go hosted.go processes.go feed.go backup.go
//	7 driving   run.go inline.go
//	6 calls     dispatch.go inbox.go replay.go rerun.go rerunchild.go resolve.go sys_next.go sys_proc.go verification.go
//	5 restarts  recover.go rerunload.go move.go beginagain.go lostbox.go session.go sessionmove.go
//	4 signals   signal.go interrupt.go pause.go halt.go ask.go budgets.go
//	3 ends      acquire.go park.go finish.go fenced.go workspace.go
//	2 journal   append.go durable.go host.go events.go observe.go tree.go wake.go clocks.go unreplayable.go bind.go
//	1 data      kernel.go table.go process.go runstate.go inflight.go ops.go queries.go ending.go runcontext.go workingset.go
//
// # Concurrency
//
// A runnable process is driven by one of a bounded number of slot goroutines; a waiting one has no goroutine at all. Whoever owns a
// process (process.owned) drives its sandbox. Lock order: that of table.residents, then that of table.Rows, then process.mu, then
// Kernel.queue's own lock; that of table.audience is behind them, a watcher's the innermost. Handlers run without locks.
package kernel
