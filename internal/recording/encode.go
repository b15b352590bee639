package recording

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"agentkernel"
)

// The parts of the file, in this order. The manifest, which has the checksums of the others, is the first.
const (
	partManifest = "manifest.json"
	partSpec     = "spec.json"
	partProcess  = "process.json"
	partState    = "state.json"
	partJournal  = "journal.jsonl"
	// Of format 2: what was done to files, and their contents one after the other. A name that a program chose is
	// nowhere that of a part.
	partFiles    = "files.json"
	partContents = "files.bin"
)

// partNames are the parts of a format.
func partNames(format int) []string {
	names := []string{partManifest, partSpec, partProcess, partState, partJournal}
	if format > formatPlain {
		names = append(names, partFiles, partContents)
	}
	return names
}

// Encode writes a recording. Equal recordings give equal bytes. Errors: CodeLimit.
func Encode(r *Recording) ([]byte, error) {
	parts, err := encodeParts(r)
	if err != nil {
		return nil, err
	}
	m := r.Manifest
	m.Format, m.Parts = r.format(), nil
	for _, p := range parts {
		sum := sha256.Sum256(p.data)
		m.Parts = append(m.Parts, Part{Name: p.name, Size: int64(len(p.data)), SHA256: hex.EncodeToString(sum[:])})
	}
	manifest, err := encodeJSON(m)
	if err != nil {
		return nil, err
	}
	packed, err := pack(append([]part{{partManifest, manifest}}, parts...))
	if err != nil {
		return nil, err
	}
	if len(packed) > agentkernel.MaxRecording-1024 {
		return nil, tooLarge("the recording would be larger than a recording may be, although it is compressed", agentkernel.MaxRecording)
	}
	return seal(m.Format, packed), nil
}

type part struct {
	name string
	data []byte
}

func encodeParts(r *Recording) ([]part, error) {
	if len(r.Entries) > maxEntries {
		return nil, agentkernel.Errorf(agentkernel.CodeLimit, "recording", "the journal has %d entries; a recording has at most %d", len(r.Entries), maxEntries)
	}
	var journal bytes.Buffer
	size := 0
	for i := range r.Entries {
		size += len(r.Entries[i].Args) + len(r.Entries[i].Data)
	}
	if size > maxExpanded { // seen before anything is encoded
		return nil, tooLarge("the process has too much data for a recording", maxExpanded)
	}
	size = 0
	for i := range r.Entries {
		line, err := encodeJSON(&r.Entries[i])
		if err != nil {
			return nil, err
		}
		if size += len(line); size > maxExpanded {
			break
		}
		journal.Write(line)
	}
	parts := []part{{name: partSpec}, {name: partProcess}, {name: partState}, {partJournal, journal.Bytes()}}
	state := r.State
	if state == nil {
		state = map[string]json.RawMessage{}
	}
	for i, v := range []any{r.Spec, r.Process, state} {
		data, err := encodeJSON(v)
		if err != nil {
			return nil, err
		}
		if parts[i].name != partState && len(data) > maxSpec { // no import would take it
			return nil, tooLarge("the part "+parts[i].name+" of the recording would be too large", maxSpec)
		}
		parts[i].data = data
		size += len(data)
	}
	if size > maxExpanded {
		return nil, tooLarge("the process has too much data for a recording", maxExpanded)
	}
	if r.Files == nil {
		return parts, nil
	}
	files, err := encodeFiles(r.Files, maxExpanded-size)
	return append(parts, files...), err
}

// encodeFiles writes what was done to files; room is what is left for it.
func encodeFiles(files []agentkernel.RecordedFile, room int) ([]part, error) {
	if len(files) > maxFiles {
		return nil, agentkernel.Errorf(agentkernel.CodeLimit, "recording", "the process changed %d files; a recording has at most %d", len(files), maxFiles)
	}
	list, size := make([]agentkernel.Change, len(files)), 0
	for i := range files {
		list[i] = files[i].Change
		size += len(files[i].Content)
	}
	names, err := encodeJSON(list)
	if err != nil {
		return nil, err
	}
	if size+len(names) > room {
		return nil, tooLarge("the files of the process are too large for a recording", maxExpanded).
			WithHint("agentkernel get copies them out one by one")
	}
	contents := make([]byte, 0, size)
	for i := range files {
		contents = append(contents, files[i].Content...)
	}
	return []part{{partFiles, names}, {partContents, contents}}, nil
}

// encodeJSON writes one line of JSON; journalled values pass through byte for byte.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeInternal, "recording", "what the process did cannot be written as JSON: %w", err)
	}
	return b.Bytes(), nil
}

// pack writes the parts as a compressed tar, for people who want to look inside. Nothing in it depends on time
// or user.
func pack(parts []part) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	for _, p := range parts {
		header := tar.Header{Typeflag: tar.TypeReg, Name: p.name, Size: int64(len(p.data)), Mode: 0o600, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(&header); err != nil {
			return nil, packError(err)
		}
		if _, err := t.Write(p.data); err != nil {
			return nil, packError(err)
		}
	}
	if err := t.Close(); err != nil {
		return nil, packError(err)
	}
	if err := z.Close(); err != nil {
		return nil, packError(err)
	}
	return b.Bytes(), nil
}

func packError(err error) error {
	return agentkernel.Errorf(agentkernel.CodeInternal, "recording", "packing: %w", err)
}
