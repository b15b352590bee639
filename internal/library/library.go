// Package library keeps skills and documents as files below one directory, so that they can be read, copied
// and put under version control without a kernel:
//
//	skills/<namespace>/<name>/skill.json   description, tags, versions
//	skills/<namespace>/<name>/v3.py        the code of version 3
//	states/<namespace>/<owner>/<name>      {"version": 7, "updated": ..., "data": ...}
//
// Every write is atomic: a reader sees the old content or the new one. One Library serves a directory at a
// time (the kernel that holds the data directory). It must never run code and never write outside its
// directory, whatever names it is given.
package library

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/lazy"
)

// Library keeps skills and documents. It is safe for concurrent use.
type Library struct {
	dir string
	now func() time.Time
	mu  sync.RWMutex
}

// New makes a library below a directory, which need not exist.
func New(dir string, now func() time.Time) *Library {
	if now == nil {
		now = time.Now
	}
	return &Library{dir: dir, now: now}
}

// plainName are names that are safe as a file's on every system, and cannot be "." or "..".
var plainName = lazy.Regexp(`^[a-z0-9_][a-z0-9_.-]{0,79}$`)

// fileName gives any name a file name of its own: itself if it is plain, else a hash that no plain name can
// be taken for.
func fileName(name, empty string) string {
	switch {
	case name == "":
		return empty
	case plainName().MatchString(name):
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "=" + hex.EncodeToString(sum[:16])
}

func (l *Library) instant() time.Time { return l.now().UTC().Truncate(time.Millisecond) }

// replace writes a file in one step, durably.
func replace(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return storage(path, err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return storage(path, err)
	}
	_, err = tmp.Write(content)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // gone already after the rename
		return storage(path, err)
	}
	return nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func storage(path string, err error) error {
	return &agentkernel.Error{Code: agentkernel.CodeStorage, Op: "library", Err: fmt.Errorf("%s: %w", filepath.Base(path), err),
		Hint: "see that the data directory can be written and has room"}
}

func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
