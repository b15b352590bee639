package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentkernel"
)

// kept are the files and directories, beside database and blobs, that belong to what the directory holds: a backup
// has them, and nothing else is ever put in place from one.
func kept() []string {
	return []string{keyFile, "mcp-token", pricesDir, "skills", "states", toolsDir, trustFile}
}

// passing are those that belong to a running kernel, or that can be had again: a backup leaves them out, and a
// restored directory may have them already.
func passing(name string) bool {
	switch name {
	case environmentsDir: // built again when they are asked for
		return true
	case workspacesDir: // what waits there is applied or discarded first
		return true
	case hostDir: // how running programs serve their functions
		return true
	case socketFile, lockFile, runDir, enginesDir, "engine.json", "python.json", "lost+found", restoringDir:
		return true
	}
	return name == logFile || strings.HasPrefix(name, logFile+".") || strings.HasPrefix(name, replacedPrefix) ||
		strings.HasPrefix(name, ".") || strings.HasPrefix(name, keyFile+".")
}

const (
	// restoringDir is where a restore puts what it has not checked yet.
	restoringDir = "restoring"
	// replacedPrefix begins the names of directories into which a restore has moved what was there before.
	replacedPrefix = "replaced-"
)

// Restoring is where a restore unpacks. What is found in it was broken off, and is nobody's.
func (d *Dir) Restoring() string { return d.file(restoringDir) }

// MayRestore says whether a file of a backup, named with slashes, of so many bytes may be put into a data directory.
func MayRestore(name string, size int64) bool {
	if name == keyFile && size != KeySize {
		return false
	}
	top, _, _ := strings.Cut(name, "/")
	return name == databaseFile || slices.Contains(kept(), top)
}

// Documents lists the files that a backup takes along beside database and blobs, by name, with slashes. strangers
// are names in the directory that no version of this program that we know has made.
func (d *Dir) Documents() (files, strangers []string, err error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, nil, openError(d.path, "cannot be read", err)
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case passing(name) || name == blobsDir || strings.HasPrefix(name, databaseFile):
		case !slices.Contains(kept(), name):
			strangers = append(strangers, name)
		default:
			below, err := d.below(name)
			if err != nil {
				return nil, nil, err
			}
			files = append(files, below...)
		}
	}
	return files, strangers, nil
}

// below lists the regular files of a kept name. Hidden ones are files that are being written.
func (d *Dir) below(name string) ([]string, error) {
	var files []string
	err := fs.WalkDir(os.DirFS(d.path), name, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // deleted meanwhile
			return nil
		case err != nil:
			return err
		case e.Type().IsRegular() && !strings.HasPrefix(e.Name(), "."):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return nil, openError(filepath.Join(d.path, name), "cannot be read", err)
	}
	return files, nil
}

// Occupied lists what is in the directory and would be in the way of a restore: everything that is no passing file.
func (d *Dir) Occupied() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, openError(d.path, "cannot be read", err)
	}
	var names []string
	for _, e := range entries {
		// Changes that wait to be applied are those of the processes of this database, not of another.
		if !passing(e.Name()) || e.Name() == workspacesDir && !isEmpty(filepath.Join(d.path, workspacesDir)) {
			names = append(names, e.Name())
		}
	}
	// The database goes first: without it nothing else is taken for a data directory in use.
	slices.SortStableFunc(names, func(a, b string) int { return databaseRank(a) - databaseRank(b) })
	return names, nil
}

// Remains lists what is there of a database that is not: files beside it, blobs, workspaces, and what a restore has moved away.
func (d *Dir) Remains() (names []string, err error) {
	if exists(d.Database()) {
		return nil, nil
	}
	entries, err := os.ReadDir(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, openError(d.path, "cannot be read", err)
	}
	for _, e := range entries {
		name := e.Name()
		switch holds := name == blobsDir || name == workspacesDir || strings.HasPrefix(name, replacedPrefix); {
		case strings.HasPrefix(name, databaseFile), holds && !isEmpty(filepath.Join(d.path, name)):
			names = append(names, name)
		}
	}
	return names, nil
}

func databaseRank(name string) int {
	if strings.HasPrefix(name, databaseFile) {
		return 0
	}
	return 1
}

// Place moves what a restore has unpacked to its place, after what is there now was moved into a directory of its
// own, replaced; that is "" if nothing was there. stamp tells that directory from others. The caller holds the lock.
// Whatever breaks it off, nothing is lost: what is not in its place is in one of the two directories.
func (d *Dir) Place(stamp string) (replaced string, err error) {
	occupied, err := d.Occupied()
	if err != nil {
		return "", err
	}
	if len(occupied) > 0 {
		replaced = d.file(replacedPrefix + stamp)
		if err := os.Mkdir(replaced, 0o700); err != nil {
			return "", openError(replaced, "cannot be made", err)
		}
		if err := d.move(d.path, replaced, occupied); err != nil {
			return replaced, err
		}
	}
	unpacked, err := os.ReadDir(d.Restoring())
	if err != nil {
		return replaced, openError(d.Restoring(), "cannot be read", err)
	}
	var names []string
	for _, e := range unpacked {
		names = append(names, e.Name())
	}
	// And it comes last: before that no kernel finds anything to continue.
	slices.SortStableFunc(names, func(a, b string) int { return databaseRank(b) - databaseRank(a) })
	if err := d.move(d.Restoring(), d.path, names); err != nil {
		return replaced, err
	}
	if err := os.Remove(d.Restoring()); err != nil {
		return replaced, openError(d.Restoring(), "cannot be removed", err)
	}
	return replaced, nil
}

func (d *Dir) move(from, to string, names []string) error {
	for _, name := range names {
		if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return openError(filepath.Join(from, name), "cannot be moved to "+to, err)
		}
	}
	return syncDirs(from, to, d.path)
}

func syncDirs(paths ...string) error {
	for _, p := range paths {
		if err := syncDir(p); err != nil {
			return openError(p, "cannot be synced", err)
		}
	}
	return nil
}

// brokenOff refuses a directory in which a restore was broken off between two files.
func (d *Dir) brokenOff() error {
	// Without a database there, everything is in its place; with one here, nothing had begun to move.
	if !exists(filepath.Join(d.Restoring(), databaseFile)) || exists(d.Database()) {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeCorrupt, op, "%s is incomplete: a restore into it was broken off", d.path).
		WithHint("restore again: agentkernel restore FILE --force")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func isEmpty(dir string) bool {
	list, err := os.ReadDir(dir)
	return err == nil && len(list) == 0
}
