package sqlite

import (
	"errors"
	"io"
	"io/fs"
	"time"

	"modernc.org/sqlite/vfs"

	"agentkernel/internal/store/sqlite/wal"
)

// dialFile opens a database that is an open file, which need not have a name: whatever dies meanwhile leaves
// nothing behind. It is only read from.
func dialFile(f io.ReaderAt, size int64) (c *conn, closeAll func() error, err error) {
	return dialReaderAt(f, size, "query_only = 1", "trusted_schema = 0", "cell_size_check = 1", "temp_store = MEMORY")
}

// dialView opens a database that no process writes, together with its log, and changes no file: SQLite itself would write the
// index of the log to read it.
func dialView(path string) (*readConn, error) {
	seen, err := stateOf(path) // first, so that whatever changes while the log is read is noticed
	if err != nil {
		return nil, err
	}
	v, err := wal.OpenView(path)
	if err != nil {
		return nil, err
	}
	c, closeFiles, err := dialReaderAt(v, v.Size(), append([]string{"temp_store = MEMORY"}, readPragmas...)...)
	if err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return &readConn{conn: c, immutable: true, seen: seen, release: func() error { return errors.Join(closeFiles(), v.Close()) }}, nil
}

func dialReaderAt(f io.ReaderAt, size int64, pragmas ...string) (c *conn, closeAll func() error, err error) {
	name, files, err := vfs.New(oneFile{f, size})
	if err != nil {
		return nil, nil, err
	}
	if c, err = dialURI("file:"+oneName+"?immutable=1&mode=ro&vfs="+name, pragmas...); err != nil {
		return nil, nil, errors.Join(err, files.Close())
	}
	return c, func() error { return errors.Join(c.close(), files.Close()) }, nil
}

const oneName = "kernel.db"

// oneFile is a file system with one file.
type oneFile struct {
	r    io.ReaderAt
	size int64
}

func (o oneFile) Open(name string) (fs.File, error) {
	if name != oneName {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &openFile{SectionReader: io.NewSectionReader(o.r, 0, o.size), size: o.size}, nil
}

type openFile struct {
	*io.SectionReader
	size int64
}

func (f *openFile) Close() error               { return nil }
func (f *openFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *openFile) Name() string               { return oneName }
func (f *openFile) Size() int64                { return f.size }
func (f *openFile) Mode() fs.FileMode          { return 0o400 }
func (f *openFile) ModTime() time.Time         { return time.Time{} }
func (f *openFile) IsDir() bool                { return false }
func (f *openFile) Sys() any                   { return nil }
