package datadir

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"agentkernel"
)

// KeySize is the length of the key in bytes.
const KeySize = 32

// Key is the secret with which this directory's kernels seal images. It is made on first use. A key of
// another length is CodeCorrupt: it is never replaced silently, since that would make every image a forgery.
func (d *Dir) Key() ([]byte, error) {
	key, err := d.readKey()
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := d.createKey(); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, openError(d.file(keyFile), "cannot be created", err)
	}
	return d.readKey() // another process may have been first: its key counts
}

// KeyIfAny is Key for whoever only reads: nil if there is none, or it cannot be read.
func (d *Dir) KeyIfAny() []byte {
	key, err := os.ReadFile(d.file(keyFile))
	if err != nil || len(key) != KeySize {
		return nil
	}
	return key
}

// CheckKey says what is wrong with the key, if there is one, and changes nothing.
func (d *Dir) CheckKey() error {
	if _, err := d.statKey(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// statKey is of a file that may be the key.
func (d *Dir) statKey() (fs.FileInfo, error) {
	path := d.file(keyFile)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, openError(path, "cannot be read", err)
	case !info.Mode().IsRegular() || info.Size() != KeySize:
		return nil, agentkernel.Errorf(agentkernel.CodeCorrupt, op, "%s is not a key of %d bytes", path, KeySize).
			WithHint("restore it from a backup; or move it away: a new key is made, and parked processes are replayed from their journals")
	}
	return info, nil
}

func (d *Dir) readKey() ([]byte, error) {
	path := d.file(keyFile)
	info, err := d.statKey()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(path, 0o600); err != nil {
			return nil, openError(path, "is open to other users and cannot be closed", err)
		}
	}
	key, err := os.ReadFile(path)
	if err != nil {
		return nil, openError(path, "cannot be read", err)
	}
	return key, nil
}

// createKey writes the key under another name first, so that nobody ever reads half a key, and links it,
// so that the first of two processes wins.
func (d *Dir) createKey() (err error) {
	tmp, err := os.CreateTemp(d.path, keyFile+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // never fails (crypto/rand)
	if _, err := tmp.Write(key); err != nil {
		_ = tmp.Close()
		return err
	}
	if err := errors.Join(tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	err = os.Link(tmp.Name(), d.file(keyFile))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		// Some file systems have no links; only the holder of the lock makes a key there.
		err = os.Rename(tmp.Name(), d.file(keyFile))
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(tmp.Name()))
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
