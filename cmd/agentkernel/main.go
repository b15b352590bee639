// Command agentkernel runs AI agent programs as processes: `agentkernel run report.py`. This package reads
// the command line, finds or starts a kernel, and shows what happens; it is the only place that knows all
// parts. It must never do a kernel's work itself: whatever it can do, a program that uses package client
// can do too.
package main

import (
	"context"
	"os"

	"agentkernel/internal/sandbox/process"
)

func main() {
	process.Main() // does not return if this process is a part of the sandboxes
	os.Exit(run(context.Background(), systemHost(os.Args[1:]), systemParts()))
}
