// Command bench measures what AgentKernel promises and prints one Markdown document: `make bench`.
//
// A figure means little alone, so each is measured beside a floor (the same work with nothing of ours
// around it) and, where there are any, beside peers. Floor, peer and ours take turns in blocks of one run, and
// ratios are taken block by block, so that a machine whose speed changes under us disturbs them little.
// What misses its goal is printed like everything else.
//
// It must never print host names or absolute paths, nor count what did not do its work: each run's output
// is checked.
package main
