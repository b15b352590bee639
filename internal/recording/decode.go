package recording

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"agentkernel"
	"agentkernel/internal/strictjson"
)

// Decode reads a recording. Errors: CodeCorrupt (any byte is not what was written, or what was written makes
// no sense), CodeVersion (written by a newer version), CodeLimit (too large).
func Decode(file []byte) (*Recording, error) {
	format, packed, err := unseal(file)
	if err != nil {
		return nil, err
	}
	r, err := decodePacked(packed)
	if err == nil && r.Manifest.Format != format {
		return nil, corrupt("the manifest says format %d, the file says %d", r.Manifest.Format, format)
	}
	return r, err
}

// decodePacked reads the parts. It trusts nothing: whoever wrote the file may have computed the checksum, too.
func decodePacked(packed []byte) (*Recording, error) {
	r := &Recording{}
	parts, err := unpack(packed, &r.Manifest)
	if err != nil {
		return nil, err
	}
	if err := checkParts(r.Manifest, parts[1:]); err != nil {
		return nil, err
	}
	for i, into := range []any{&r.Spec, &r.Process, &r.State} {
		if err := decodeJSON(parts[i+1].name, parts[i+1].data, into); err != nil {
			return nil, err
		}
	}
	if r.Entries, err = decodeJournal(parts[4].data); err != nil {
		return nil, err
	}
	if r.Manifest.Format > formatPlain {
		if r.Files, err = decodeFiles(parts[5].data, parts[6].data); err != nil {
			return nil, err
		}
	}
	return r, check(r)
}

// decodeFiles puts what was done to files together with their contents.
func decodeFiles(names, contents []byte) ([]agentkernel.RecordedFile, error) {
	var list []agentkernel.Change
	if err := decodeJSON(partFiles, names, &list); err != nil {
		return nil, err
	}
	if len(list) > maxFiles {
		return nil, agentkernel.Errorf(agentkernel.CodeLimit, "recording", "the recording has %d files; it may have %d", len(list), maxFiles)
	}
	files := make([]agentkernel.RecordedFile, len(list))
	for i, c := range list {
		files[i].Change = c
		if !hasContent(&c) {
			continue
		}
		if c.Size < 0 || c.Size > int64(len(contents)) {
			return nil, corrupt("%s has no %d bytes for %.80q", partContents, c.Size, c.Path)
		}
		files[i].Content, contents = contents[:c.Size:c.Size], contents[c.Size:]
		if c.Size == 0 {
			files[i].Content = []byte{} // it is there, and empty
		}
	}
	if len(contents) > 0 {
		return nil, corrupt("%s has %d bytes that belong to no file", partContents, len(contents))
	}
	return files, nil
}

// hasContent says whether a recording has the bytes of what a change speaks of.
func hasContent(c *agentkernel.Change) bool {
	return c.Type == agentkernel.TypeFile && c.Kind != agentkernel.FileDeleted && c.LeftOut == ""
}

// unpack reads the parts, which must be exactly those that pack is given, in this order. The first says which they are.
func unpack(packed []byte, m *Manifest) ([]part, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, corrupt("the recording cannot be unpacked: %w", err)
	}
	z.Multistream(false)
	bounded := &io.LimitedReader{R: z, N: maxExpanded + 1<<20}
	t := tar.NewReader(bounded)
	var parts []part
	left := int64(maxExpanded)
	for names := partNames(formatPlain); len(parts) < len(names); {
		name := names[len(parts)]
		h, err := t.Next()
		if err != nil {
			return nil, unpackError(bounded, err)
		}
		limit := left
		switch name {
		case partManifest:
			limit = maxManifest
		case partSpec, partProcess:
			limit = min(left, maxSpec)
		}
		switch {
		case h.Name != name || h.Typeflag != tar.TypeReg:
			return nil, corrupt("the recording has %.80q where %q belongs", h.Name, name)
		case h.Size < 0 || h.Size > limit:
			return nil, tooLarge("the part "+name+" of the recording is too large", limit)
		}
		left -= h.Size
		data, err := io.ReadAll(io.LimitReader(t, h.Size))
		if err != nil || int64(len(data)) != h.Size {
			return nil, unpackError(bounded, errors.Join(err, io.ErrUnexpectedEOF))
		}
		parts = append(parts, part{name, data})
		if name == partManifest {
			if err := decodeJSON(partManifest, data, m); err != nil {
				return nil, err
			}
			names = partNames(m.Format)
		}
	}
	if _, err := t.Next(); !errors.Is(err, io.EOF) {
		return nil, corrupt("something follows the last part of the recording")
	}
	return parts, nil
}

func unpackError(bounded *io.LimitedReader, err error) error {
	if bounded.N <= 0 {
		return tooLarge("the recording unpacks to more than a recording may hold", maxExpanded)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return corrupt("the recording cannot be unpacked: %w", err)
}

// checkParts compares the parts with the manifest.
func checkParts(m Manifest, parts []part) error {
	if m.Format < formatPlain || m.Format > Format {
		return corrupt("the manifest says format %d, which there is not", m.Format)
	}
	var want []Part
	for _, p := range parts {
		sum := sha256.Sum256(p.data)
		want = append(want, Part{Name: p.name, Size: int64(len(p.data)), SHA256: hex.EncodeToString(sum[:])})
	}
	if !slices.Equal(m.Parts, want) {
		return corrupt("the parts of the recording are not those that its manifest names")
	}
	return nil
}

// decodeJSON reads one JSON value strictly: a field that is not known here may change what the others mean.
func decodeJSON(name string, data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		if field, ok := unknownField(err); ok {
			return newer("%s has the field %.80s, which this agentkernel does not know", name, field)
		}
		return corrupt("%s cannot be read: %w", name, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return corrupt("something follows the value in %s", name)
	}
	if err := strictjson.Check(data, into); err != nil {
		return corrupt("%s cannot be read: %w", name, err)
	}
	return nil
}

func decodeJournal(data []byte) ([]agentkernel.Entry, error) {
	lines := bytes.Count(data, []byte("\n"))
	if lines > maxEntries {
		return nil, agentkernel.Errorf(agentkernel.CodeLimit, "recording", "the journal has %d entries; a recording has at most %d", lines, maxEntries)
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		return nil, corrupt("%s ends in the middle of a line", partJournal)
	}
	entries := make([]agentkernel.Entry, 0, min(lines, 4096))
	for line := range bytes.Lines(data) {
		var e agentkernel.Entry
		if err := decodeJSON(partJournal, line, &e); err != nil {
			return nil, err
		}
		e.ReadNote()
		entries = append(entries, e)
	}
	return entries, nil
}
