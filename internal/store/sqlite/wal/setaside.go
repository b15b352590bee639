package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// SetAside copies a damaged log and its index, under names that end in suffix, and then leaves of the log what is whole:
// the transactions before the damage, or nothing where the database is further than those already. It returns the copies, and nil
// where there is no damage. The database must not be open. Broken off, it can be called again.
func SetAside(database, suffix string) (copies []string, d *Damage, err error) {
	d, s, err := check(database, nil)
	if d == nil || err != nil {
		return nil, d, err
	}
	if copies, err = keep(database, suffix); err != nil {
		return copies, d, err
	}
	if s != nil {
		if err := cut(d.Log, s.kept(d.Moved)); err != nil {
			return copies, d, err
		}
	}
	// The index goes last: it is what says that there is damage.
	if err := os.Remove(IndexPath(database)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return copies, d, err
	}
	return copies, d, syncDir(database)
}

// PutAway is SetAside for the log of a database that is no more: it leaves nothing of it but the copies.
func PutAway(database, suffix string) (copies []string, err error) {
	if copies, err = keep(database, suffix); err != nil {
		return copies, err
	}
	for _, path := range []string{Path(database), IndexPath(database)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return copies, err
		}
	}
	return copies, syncDir(database)
}

// keep copies a log and its index, if they are there.
func keep(database, suffix string) (copies []string, err error) {
	for _, path := range []string{Path(database), IndexPath(database)} {
		switch err := copyDurably(path, path+suffix); {
		case err == nil:
			copies = append(copies, path+suffix)
		case !errors.Is(err, fs.ErrNotExist):
			return copies, fmt.Errorf("%s could not be copied: %w", path, err)
		}
	}
	return copies, syncDir(database)
}

// kept is how many bytes of the log are of use. The pages of a log that ends before what was moved to the database are older than
// those that are there.
func (s *scan) kept(moved int64) int64 {
	if s.header.page == 0 || moved > s.good {
		return 0
	}
	return headerSize + s.good*int64(frameHeaderSize+s.header.page)
}

func cut(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func copyDurably(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

func syncDir(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
