// Command agentkernel runs AI agent programs as processes: `agentkernel run report.py`. This package reads
// the command line, finds or starts a kernel, and shows what happens. It must never do
// a kernel's work itself: what it can do with processes, a program that uses package client can do too.
package main

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"agentkernel/embedded"
	"agentkernel/internal/inherited"
)

func main() {
	embedded.Main() // does not return if this process is a part of the sandboxes
	inherited.Keep()
	dumpNothing()
	os.Exit(run(context.Background(), systemHost(os.Args[1:]), systemParts()))
}

// dumpNothing keeps the system from writing core files of a kernel, which has keys in its memory. The limit is one byte: Linux writes through
// a pipe whatever a limit of 0 says, but not with this one.
func dumpNothing() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CORE, &limit) == nil {
		limit.Cur = min(1, limit.Max)
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &limit) // lowering is always allowed
	}
}
