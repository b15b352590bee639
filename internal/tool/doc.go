// Package tool is the client side of MCP: it reads the configuration files that MCP users already have,
// starts and restarts their servers, and turns each tool into a typed Python function.
//
//	Hub ── one per kernel: owns every server process, shares it between sets
//	 └─ set (agentkernel.ToolSource) ── what one list of files configures
//	     └─ server ── one entry: concurrency slots, circuit breaker, start and restart
//	         └─ instance ── one incarnation: a session over stdio or streamable HTTP, its tool list
//
// A server starts when it is first needed. Each start is a new incarnation with a random id. A call is
// checked against the tool's schema before anything is sent, and ToolResult.NotSent is reported only when
// no byte of the call can have reached the server.
//
// The package must never decide whether a call may run (the kernel does), never run a server that the
// user's configuration does not name, and never let a secret of the configuration into an error or a log.
//
// Lock order: Hub.mu before server.mu before instance.listing. No lock is held while a server is spoken to,
// except instance.listing, which makes concurrent readers share one tools/list.
package tool
