package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"agentkernel"
)

// names is what the directory of the layers holds, which may not be there yet.
func (s *Store) names() (names []string, err error) {
	entries, err := os.ReadDir(s.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, storage(err)
}

// holds says whether a layer of a process holds something. What is applied or discarded has no layer any more. A layer that is a copy
// holds the folder, too, so there it is looked at what has changed; one that cannot be read is taken for one that holds something.
func (s *Store) holds(pid agentkernel.PID) bool {
	layers, err := filepath.Glob(filepath.Join(s.path(pid), "layer.*"))
	if err != nil {
		return true
	}
	for _, layer := range layers {
		if d, err := os.Open(filepath.Join(layer, (&folder{}).top())); err == nil {
			_, err = d.Readdirnames(1)
			_ = d.Close()
			if err != io.EOF { //nolint:errorlint // Readdirnames gives it as it is
				return true
			}
			continue
		}
		if c, err := s.Changes(pid); err != nil || c.State == agentkernel.LayerKept && len(c.Changes) > 0 {
			return true
		}
	}
	return false
}
