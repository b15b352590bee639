// Package sqlite keeps journals, images and working sets in one SQLite database: the default
// [agentkernel.Store]. docs/schema.md documents the tables.
//
// Append puts a batch into an in-memory queue ([queue]). One at a time takes what the queue holds, writes
// it as one transaction ([writer]) and answers everyone who waits in Flush: a caller of Flush who finds
// nobody at it, else a goroutine that goes on while others wait (lead.go). Appending never starts a commit:
// Flush does, or a timer 3 ms after the oldest batch, so that a short run is one commit. Reads go to a few
// connections of their own ([reads]) and see queued batches too ([Store]).
//
// Lock order: queue.mu, then imageCache.mu. Nothing waits for the disk under either.
//
// The package must never acknowledge what is not on the disk, write after a commit has failed, read a
// database in a way that changes it when asked for a reader, or put secrets or the MAC key into a row,
// a log line or an error.
package sqlite
