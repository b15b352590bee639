// Package regular reads files that somebody else may have put there: those of a project that was cloned or unpacked. A
// name in it may be a pipe, which nobody writes to, or a link to a device, which has no end; neither is read, and of a
// file no more than was asked for.
//
// It must never decide which file is meant, nor what its bytes mean.
package regular

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Why a file is not read although it is there.
var (
	ErrNotRegular = errors.New("it is not a regular file")
	ErrTooLarge   = errors.New("it is too large")
)

// opener is what *os.Root has, too.
type opener interface {
	Stat(name string) (fs.FileInfo, error)
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
}

type host struct{}

func (host) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

func (host) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}

// Read gives the bytes of a file, which are at most limit.
func Read(name string, limit int64) ([]byte, error) { return read(host{}, name, limit) }

// ReadIn is Read of a file below root: a link is followed as far as it stays there.
func ReadIn(root *os.Root, name string, limit int64) ([]byte, error) { return read(root, name, limit) }

func read(from opener, name string, limit int64) ([]byte, error) {
	refused := func(err error) error { return &fs.PathError{Op: "read", Path: name, Err: err} }
	info, err := from.Stat(name) // some devices act when they are opened
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, refused(ErrNotRegular)
	}
	f, err := from.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() { // another one has taken its place
		err = refused(ErrNotRegular)
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = refused(ErrTooLarge)
	}
	return b, err
}
