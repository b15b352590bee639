package workspace

import (
	"errors"
	"io/fs"
	"os"
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
