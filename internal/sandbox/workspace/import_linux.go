package workspace

import (
	"errors"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// importedDir is where the contents of files are that came with a recording, by their place in record.Changes: no name
// that a stranger chose is one here.
const importedDir = "files"

// Import keeps, durably, what came with a recording for a process that is about to be. The changes were checked.
func (s *Store) Import(pid agentkernel.PID, files []agentkernel.RecordedFile) error {
	return s.make(pid, agentkernel.LayerImported, func(h *home) error {
		h.rec.Folders = []folder{}
		for i := range files {
			c := files[i].Change
			if content := files[i].Content; content != nil { // what it is, its bytes say, not whoever wrote the recording
				c.Media = mediaType(c.Path, func() []byte { return content[:min(len(content), sniffBytes)] })
			}
			h.rec.Changes = append(h.rec.Changes, done{Change: c})
		}
		return storage(h.keepFiles(files))
	})
}

func (h *home) keepFiles(files []agentkernel.RecordedFile) error {
	if err := os.Mkdir(h.path(importedDir), 0o700); err != nil {
		return err
	}
	for i := range files {
		if files[i].Content == nil {
			continue
		}
		if err := h.keepImported(i, files[i].Content); err != nil {
			return err
		}
	}
	dir, err := os.Open(h.path(importedDir))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// importedPath is where the content of change i is.
func (h *home) importedPath(i int) string { return h.path(path.Join(importedDir, strconv.Itoa(i))) }

func (h *home) keepImported(i int, content []byte) error {
	f, err := os.OpenFile(h.importedPath(i), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// Imported says whether what is kept of a process came with a recording, or did before it was discarded.
func (s *Store) Imported(pid agentkernel.PID) bool {
	h, err := s.open(pid)
	if err != nil {
		return false
	}
	defer h.Close()
	return h.imported()
}

// imported: a process that worked here has a folder, or a standard input.
func (h *home) imported() bool {
	return h.rec.State == agentkernel.LayerImported || len(h.rec.Folders) == 0 && h.rec.Stdin == nil
}

// openImported opens a file that came with a recording.
func (h *home) openImported(pid agentkernel.PID, name agentkernel.FileName) (*os.File, error) {
	for i := range h.rec.Changes {
		d := &h.rec.Changes[i]
		if d.Volume != name.Volume || d.Path != path.Clean(name.Path) {
			continue
		}
		switch {
		case h.rec.State == agentkernel.LayerDiscarded:
			return nil, h.kept(pid)
		case name.Before && d.Kind != agentkernel.FileAdded:
			return nil, conflict("the recording has %s as the process left it, not as it was before", name).WithPID(pid)
		case name.Before || d.Kind == agentkernel.FileDeleted:
			return nil, unix.ENOENT
		case d.Type != agentkernel.TypeFile:
			return nil, invalid("%s is not a file", name)
		case d.LeftOut != "":
			return nil, conflict("the recording does not have %s: %s", name, d.LeftOut).WithPID(pid)
		}
		return os.Open(h.importedPath(i))
	}
	return nil, unix.ENOENT
}
