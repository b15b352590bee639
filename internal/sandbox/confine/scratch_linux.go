package confine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// scratch are the directories that take changes.
func (c Config) scratch() (dirs []string) {
	if w := c.Workspace; w != nil && w.Access == Overlay {
		dirs = append(dirs, w.Scratch)
	}
	for _, v := range c.Volumes {
		if v.Scratch != "" {
			dirs = append(dirs, v.Scratch)
		}
	}
	return dirs
}

// makeScratch makes the two directories that an overlay needs.
func makeScratch(dir string) error {
	for _, name := range []string{"upper", "work"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return missing("the workspace's scratch directory", dir, err)
		}
	}
	return nil
}

// RemoveScratch removes a Workspace.Scratch with all that is in it, when its sandbox has ended. os.RemoveAll
// alone fails there: overlayfs and programs leave directories that not even their owner may read or change.
func RemoveScratch(dir string) error {
	for {
		err := os.RemoveAll(dir)
		if !errors.Is(err, fs.ErrPermission) || !openUp(dir) {
			return err
		}
	}
}

// openUp lets the owner into the directories below dir that it can find, and says whether there were any.
func openUp(dir string) (opened bool) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d == nil || !d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().Perm()&0o700 != 0o700 {
			opened = os.Chmod(path, 0o700) == nil || opened //nolint:gosec // a directory that is about to go
		}
		return nil
	})
	return opened
}
