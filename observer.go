package agentkernel

import "time"

// Observer is told what processes do at the moment at which their journals are, for metrics and
// traces. What a journal has already (a replay, a verification of a recording) is not told again,
// so that nothing is counted twice.
//
// The kernel calls it in the middle of its work, often with the lock of the process held, and from
// several goroutines at once. A method must return at once: it must not block, do I/O, or call the
// kernel. What it is handed it may keep and must not change. It is told before the disk has what it
// is told of: a power cut may take that back.
type Observer interface {
	// Created reports a new process.
	Created(p Process)
	// Recovered reports a process that this kernel has taken up from an earlier one.
	// Process.Recoveries counts.
	Recovered(p Process)
	// CallBegun reports a system call that is under way from now on, or, after Recovered, that is
	// waited for again.
	CallBegun(c ObservedCall)
	// CallEnded reports the result of a call for which CallBegun was called. Calls that are under
	// way when their process ends have none.
	CallEnded(c ObservedCall)
	// Waited reports that a process which had nothing to do may run again.
	Waited(w ObservedWait)
	// Ended reports the end of a process. Nothing follows about it.
	Ended(p Process)
}

// ObservedCall is a system call as an Observer sees it: neither its arguments nor its result, which
// may be secret.
type ObservedCall struct {
	PID       PID
	Namespace string
	Call      int64  // its number in the process
	Op        string // "tool.call"
	Label     string // in few words, as Process.WaitsFor has it: "tool.call github.search"
	Effect    Effect
	// Copied says that a rerun took the call with its result from the journal of its past: nothing
	// was done.
	Copied bool
	Begun  time.Time // also in an earlier kernel
	Ended  time.Time // CallEnded
	Err    *Error    // CallEnded: the error that the program was handed; nil: it was handed a result
}

// ObservedWait is the time in which a process had nothing to do.
type ObservedWait struct {
	PID       PID
	Namespace string
	Since     time.Time // zero: since before this kernel took it up
	Until     time.Time
	Parked    bool // it has no sandbox now: one has to be started for it to go on
}
