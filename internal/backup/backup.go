// Package backup reads and writes backups: all that a data directory holds, in one file, as docs/housekeeping.md
// describes it. It also pauses what was unfinished in a store that was restored.
//
// A backup comes from anywhere. The package must never open a path, follow a link, or believe a name or a number
// that it has not checked: whatever is not exactly what Write writes is refused with an error, in bounded memory,
// and what it unpacks is never larger than the manifest, which comes first, has said.
package backup

import (
	"crypto/sha256"
	"strings"
	"time"

	"agentkernel"
)

// Format is the version of the file format that this package writes, and the highest that it reads.
const Format = 1

// The bounds of a backup, whatever it says of itself.
const (
	maxManifest = 64 << 20 // bytes
	maxFiles    = 1 << 20
	maxName     = 1024
)

const (
	manifestName = "manifest.json"
	// DatabaseName is the member that holds the database.
	DatabaseName = "kernel.db"
	// BlobPrefix begins the names of blobs; their SHA-256 in lower-case hexadecimal follows.
	BlobPrefix = "blobs/"
)

const op = "backup"

// Manifest describes a backup. It is the first member.
type Manifest struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of the agentkernel that wrote it
	Created time.Time `json:"created"` // when the database was as it is in here
	Store   string    `json:"store"`   // uuid of the store
	Schema  int       `json:"schema"`  // version of the database's schema
	// Processes and Unfinished count those in the database.
	Processes  int64 `json:"processes"`
	Unfinished int64 `json:"unfinished"`
	// Files are the members behind the manifest, in order: the database first.
	Files []File `json:"files"`
	Blobs Blobs  `json:"blobs"`
}

// File is a member of a backup.
type File struct {
	Name   string `json:"name"` // with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Blobs sums up the blobs, which follow the files: they are named by their content, so the manifest need not
// list them. SHA256 is that of their raw 32-byte names in the order of the members.
type Blobs struct {
	Count  int64  `json:"count"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Size is how many bytes the members have together, the manifest not counted.
func (m *Manifest) Size() int64 {
	n := m.Blobs.Bytes
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// Sum is the SHA-256 of a blob.
type Sum = [sha256.Size]byte

func corrupt(format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeCorrupt, op, format, args...)
}

// check refuses a manifest that Write would not have written. Sizes are added up with care: they are a
// stranger's numbers.
func (m *Manifest) check() error {
	switch {
	case m.Format != Format:
		return corrupt("the manifest of the backup says format %d, the file says %d", m.Format, Format)
	case len(m.Files) == 0 || m.Files[0].Name != DatabaseName:
		return corrupt("the backup has no database")
	case len(m.Files) > maxFiles:
		return agentkernel.Errorf(agentkernel.CodeLimit, op, "the backup has %d files; at most %d are possible", len(m.Files), maxFiles)
	case m.Blobs.Count < 0 || m.Blobs.Bytes < 0 || m.Blobs.Count > maxTotal || m.Blobs.Bytes > maxTotal:
		return corrupt("the manifest of the backup counts its blobs wrongly")
	}
	left, seen := maxTotal-m.Blobs.Bytes, map[string]bool{}
	for _, f := range m.Files {
		if !plausible(f.Name) || strings.HasPrefix(f.Name, BlobPrefix) || seen[f.Name] {
			return corrupt("the backup has a file that no data directory has: %.100q", f.Name)
		}
		if f.Size < 0 || f.Size > left {
			return corrupt("the backup says that its file %s has %d bytes", f.Name, f.Size)
		}
		left -= f.Size
		seen[f.Name] = true
	}
	return nil
}

// maxTotal keeps sums of sizes far from the end of int64.
const maxTotal = 1 << 60

// plausible says whether a name stays below the directory that it is put into, on every system: plain
// components, none of them hidden or upwards.
func plausible(name string) bool {
	if len(name) > maxName {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || len(part) > 255 {
			return false
		}
		for i := range len(part) {
			if c := part[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`\:*?"<>|`, c) >= 0 {
				return false
			}
		}
	}
	return true
}
