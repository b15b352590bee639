package workspace

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"agentkernel"
)

// What came with a recording is kept under numbers, read by name, written to no folder, and gone when it is discarded.
func TestImport(t *testing.T) {
	dir := publicDir(t)
	must(t, os.MkdirAll(filepath.Join(dir, "data"), 0o700))
	cfg := Config{Dir: filepath.Join(dir, "data", "w"), Apart: filepath.Join(dir, "data")}
	s := New(cfg)
	file := func(volume, path string, kind agentkernel.ChangeKind, content []byte) agentkernel.RecordedFile {
		return agentkernel.RecordedFile{Change: agentkernel.Change{Volume: volume, Path: path, Kind: kind, Type: agentkernel.TypeFile, Size: int64(len(content))}, Content: content}
	}
	given := []agentkernel.RecordedFile{
		file("", "a/b", agentkernel.FileAdded, []byte("one")), file("v", "a/b", agentkernel.FileChanged, []byte("two")), file("", "empty", agentkernel.FileAdded, []byte{}),
		file("", "gone", agentkernel.FileDeleted, nil),
		{Change: agentkernel.Change{Path: "link", Kind: agentkernel.FileAdded, Type: agentkernel.TypeSymlink, Target: "/etc/passwd"}},
		{Change: agentkernel.Change{Path: "secret", Kind: agentkernel.FileAdded, Type: agentkernel.TypeFile, LeftOut: "it is left out"}},
	}
	given[0].Change.Media = "image/png"
	must(t, s.Import(pid, given))
	s = New(cfg) // another kernel
	if !s.Imported(pid) || s.Imported(pid+1) {
		t.Error("who has imported files is not known")
	}
	c, err := s.Changes(pid)
	if err != nil || c.State != agentkernel.LayerImported || len(c.Changes) != len(given) || c.Folder != "" {
		t.Fatalf("%+v %v", c, err)
	}
	if media := c.Changes[0].Media; media != "text/plain" {
		t.Errorf("the recording says what a file is, not its bytes: %s", media)
	}
	for name, want := range map[agentkernel.FileName]string{{Path: "a/b"}: "one", {Volume: "v", Path: "a/b"}: "two", {Path: "empty"}: ""} {
		f, err := s.Open(pid, name)
		must(t, err)
		got, err := io.ReadAll(f.Content)
		if err := errors.Join(err, f.Content.Close()); err != nil || string(got) != want || f.Size != int64(len(want)) {
			t.Errorf("%s is %q, %d bytes; %v", name, got, f.Size, err)
		}
	}
	for name, code := range map[agentkernel.FileName]agentkernel.Code{
		{Path: "gone"}: agentkernel.CodeNotFound, {Path: "none"}: agentkernel.CodeNotFound, {Path: "../../../etc/passwd"}: agentkernel.CodeNotFound,
		{Volume: "other", Path: "a/b"}: agentkernel.CodeNotFound, {Path: "link"}: agentkernel.CodeInvalid, {Path: "secret"}: agentkernel.CodeConflict,
		{Path: "gone", Before: true}: agentkernel.CodeConflict, {Path: "a/b", Before: true}: agentkernel.CodeNotFound,
	} {
		_, err := s.Open(pid, name)
		wantCode(t, err, code)
	}
	_, err = s.Apply(t.Context(), pid, agentkernel.ApplyOptions{Force: true})
	wantCode(t, err, agentkernel.CodeConflict, "belong to no folder here")
	_, err = s.Begin(pid)
	wantCode(t, err, agentkernel.CodeConflict)
	must(t, s.Discard(t.Context(), pid))
	_, err = s.Open(pid, agentkernel.FileName{Path: "a/b"})
	wantCode(t, err, agentkernel.CodeConflict, "were discarded")
	if left, err := os.ReadDir(s.path(pid)); err != nil || len(left) != 1 {
		t.Errorf("after the discard there is %v, %v", left, err)
	}
	if !s.Imported(pid) {
		t.Error("after the discard nobody knows any more what it was")
	}
	must(t, s.Remove(pid))
}
