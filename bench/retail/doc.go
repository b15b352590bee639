// Package retail is the shop of tau2-bench's retail domain: its database, its tools as an MCP server, and its tasks.
// The benchmark's files are read from a checkout of github.com/sierra-research/tau2-bench (MIT) and are no part of this
// repository.
//
// The tools are written anew from what the benchmark documents of them, so that no Python package is needed. They give the same
// answers, to the letter, and the same hash of the database as the benchmark's own; TestSameAsTheBenchmark compares the two.
//
// It must never be kinder than the benchmark: what is refused there is refused here.
package retail
