// Package recording reads and writes recordings, one process in one file, as docs/export.md describes it: it exports
// processes, imports them, and verifies that their programs repeat themselves. Of the kernel it asks only what a
// [agentkernel.RecordingHost] does; the kernel runs the program of a verification.
//
// A recording comes from anywhere. The package must never open a path, start anything, or believe a number
// that it has not checked: whatever is not exactly what Encode writes is refused with an error, in bounded
// time and memory.
package recording

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"agentkernel"
)

// Format is the highest version of the file format that this package reads. What has no files is written as version 1,
// which older readers know.
const (
	Format      = 2
	formatPlain = 1
)

// The bounds of a recording.
const (
	maxExpanded = 256 << 20 // bytes of all parts together
	maxEntries  = 1_000_000
	maxManifest = 64 << 10
	maxSpec     = 48 << 20 // a program, its modules and its arguments: read, a list of empty texts takes ten times its length
	maxFiles    = 100_000
)

// magic begins the first line; the format and a newline follow.
const magic = "agentkernel recording "

// sumLength is the second line: SHA-256 of everything after it in lower-case hexadecimal, and a newline.
const sumLength = 2*sha256.Size + 1

// Recording is what a file holds.
type Recording struct {
	Manifest Manifest
	Spec     agentkernel.Spec
	Process  agentkernel.Process
	Entries  []agentkernel.Entry
	State    map[string]json.RawMessage // the working set
	Files    []agentkernel.RecordedFile // what the process did to its files; nil: they were not taken along
}

// format is the version in which a recording is written.
func (r *Recording) format() int {
	if r.Files != nil {
		return Format
	}
	return formatPlain
}

// Manifest describes a recording. Encode fills in Format and Parts.
type Manifest struct {
	Format      int             `json:"format"`
	Version     string          `json:"version"` // of the kernel that wrote it
	Store       string          `json:"store"`   // uuid of the store that the process is in
	PID         agentkernel.PID `json:"pid"`     // that it has there
	Backend     string          `json:"backend"`
	Fingerprint string          `json:"fingerprint"` // of the engine
	Redacted    bool            `json:"redacted"`    // secrets were taken out
	Parts       []Part          `json:"parts"`
}

// Part is the checksum of one part of the file.
type Part struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

func corrupt(format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeCorrupt, "recording", format, args...)
}

func newer(format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeVersion, "recording", format, args...).WithHint("a newer agentkernel reads it")
}

func tooLarge(what string, limit int64) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeLimit, "recording", "%s; the limit is %d MiB", what, limit>>20)
}

// seal puts the first two lines before the packed parts.
func seal(format int, packed []byte) []byte {
	sum := sha256.Sum256(packed)
	var b bytes.Buffer
	b.WriteString(magic + strconv.Itoa(format) + "\n" + hex.EncodeToString(sum[:]) + "\n")
	b.Write(packed)
	return b.Bytes()
}

// unseal checks the first two lines and gives the format and the packed parts.
func unseal(file []byte) (format int, packed []byte, err error) {
	if len(file) > agentkernel.MaxRecording {
		return 0, nil, tooLarge("the recording is "+strconv.Itoa(len(file)>>20)+" MiB long", agentkernel.MaxRecording)
	}
	rest, ok := bytes.CutPrefix(file, []byte(magic))
	if !ok {
		return 0, nil, corrupt("this is no recording: it does not begin with %q", magic).
			WithHint("agentkernel export PID > FILE writes one")
	}
	line, _, ok := bytes.Cut(rest[:min(len(rest), 16)], []byte("\n"))
	if !ok {
		return 0, nil, corrupt("the first line of the recording is damaged")
	}
	format, err = strconv.Atoi(string(line))
	if err != nil || format < 1 || strconv.Itoa(format) != string(line) {
		return 0, nil, corrupt("the first line of the recording is damaged")
	}
	if format > Format {
		return 0, nil, newer("the recording is of format %d; this agentkernel reads formats up to %d", format, Format)
	}
	body := file[len(magic)+len(line)+1:]
	if len(body) < sumLength || body[sumLength-1] != '\n' {
		return 0, nil, corrupt("the recording ends too early")
	}
	packed = body[sumLength:]
	sum := sha256.Sum256(packed)
	if hex.EncodeToString(sum[:]) != string(body[:sumLength-1]) {
		return 0, nil, corrupt("the recording is not what was written: its checksum is wrong").
			WithHint("it was changed, or cut off on its way: transfer it again, as a binary file")
	}
	return format, packed, nil
}

// unknownField recognises a field of a newer version in an error of encoding/json, which has no type for it.
func unknownField(err error) (string, bool) {
	return strings.CutPrefix(err.Error(), "json: unknown field ")
}
