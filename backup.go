package agentkernel

import (
	"context"
	"io"
)

// Backups copies what a kernel keeps.
type Backups interface {
	// Backup writes all that the data directory holds to w as one stream (docs/housekeeping.md says what it looks
	// like), while processes go on. Everything that was acknowledged before the call is in it. A stream that
	// ended with an error is no backup, and cannot be taken for one. Errors: those of w, CodeCorrupt (something that
	// belongs in it is damaged), CodeStorage, CodeCanceled, CodeUnavailable (the kernel ends).
	Backup(ctx context.Context, w io.Writer) error
}

// Origin is a store that another was restored from, with the newest PID that it had then.
type Origin struct {
	UUID string `json:"uuid"`
	Last PID    `json:"last"`
}

// UUIDOf names the store that a process was created in. A store that was restored from a backup has a UUID of its
// own, but its old processes keep their identity: a call of theirs that is made again has the idempotency key
// that it had, and a new process can never have the key of one that the original created after the backup.
func (i StoreInfo) UUIDOf(pid PID) string {
	for _, o := range i.Earlier {
		if pid <= o.Last {
			return o.UUID
		}
	}
	return i.UUID
}
