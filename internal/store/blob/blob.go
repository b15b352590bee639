// Package blob keeps large payloads outside the database, addressed by the SHA-256 of their content. A blob
// is durable when Put returns, so that the row which names it may commit afterwards.
//
// It must never interpret what it keeps, never change a blob in place, and never hand out bytes whose
// hash is not the one asked for.
package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"agentkernel"
)

// Sum is the SHA-256 of a blob's content: its name.
type Sum [sha256.Size]byte

// SumOf names content.
func SumOf(data []byte) Sum { return sha256.Sum256(data) }

// String is the name in lower-case hex, as files and documentation write it.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// ParseSum reads the 32 raw bytes that a database column keeps.
func ParseSum(raw []byte) (Sum, error) {
	if len(raw) != sha256.Size {
		return Sum{}, agentkernel.Errorf(agentkernel.CodeCorrupt, "blob",
			"a blob is named by %d bytes; this name has %d", sha256.Size, len(raw))
	}
	return Sum(raw), nil
}

// Store keeps blobs. [Dir] is the local one; an object store would be another.
type Store interface {
	// Put keeps data and gives its name; it is durable on return. Keeping the same content twice is
	// cheap. Errors: CodeLimit (too large), CodeStorage (disk full, I/O), CodeDenied.
	Put(ctx context.Context, data []byte) (Sum, error)
	// Get reads a blob and verifies it. Errors: CodeNotFound, CodeCorrupt (content does not match its
	// name), CodeLimit, CodeStorage (I/O, or there is no blob at all), CodeDenied.
	Get(ctx context.Context, sum Sum) ([]byte, error)
	// Delete forgets a blob; one that is not there is no error.
	Delete(ctx context.Context, sum Sum) error
	// List reports what is kept, in no order; what is put or deleted meanwhile may be missing or not. An error
	// of fn ends it.
	List(ctx context.Context, fn func(Item) error) error
	// Discard removes what List reported. Nobody may be in Put: a partial file could be theirs.
	Discard(ctx context.Context, i Item) error
}

// Item is a blob as List finds it or, with Partial, what a Put that was cut off has left.
type Item struct {
	Sum     Sum
	Size    int64
	Partial string // path below the root
}
