package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"agentkernel"
	"agentkernel/internal/store/blob"
	"agentkernel/internal/store/sqlite/wal"
)

// readConns is how many reads run at once; further ones wait.
const readConns = 4

// reads answers from the database what is durable. It is the part that the store and a reader of
// another kernel's database share. Safe for concurrent use.
type reads struct {
	cfg   Config
	info  agentkernel.StoreInfo
	blobs blob.Store
	open  func() (*readConn, error)
	slots chan *readConn // readConns slots; nil: not opened yet

	mu    sync.Mutex
	bases *lru[int64, *zstd.Decoder]
}

// readConn is a connection for reading. An immutable one reads the files as they are when it is opened, and is right only as
// long as no process opens the database for writing.
type readConn struct {
	*conn
	immutable bool
	seen      fileState
	version   int64        // of the schema, if it was looked at
	release   func() error // closes the connection and what it reads from; nil: the connection is all
}

func (c *readConn) close() error {
	if c.release != nil {
		return c.release()
	}
	return c.conn.close()
}

// fileState tells whether a database file changed.
type fileState struct {
	size, logSize int64
	mod, logMod   time.Time
}

func stateOf(path string) (fileState, error) {
	info, err := os.Stat(path)
	if err != nil {
		return fileState{}, err
	}
	s := fileState{size: info.Size(), mod: info.ModTime()}
	if log, err := os.Stat(wal.Path(path)); err == nil {
		s.logSize, s.logMod = log.Size(), log.ModTime()
	}
	return s, nil
}

func newReads(cfg Config, open func() (*readConn, error)) *reads {
	r := &reads{cfg: cfg, blobs: blob.NewDir(cfg.Blobs, 0), open: open,
		slots: make(chan *readConn, readConns), bases: newLRU[int64, *zstd.Decoder](baseCache)}
	for range readConns {
		r.slots <- nil
	}
	return r
}

// do lends a connection to fn. fn may run again from its beginning if the database changed under an
// immutable connection, so it starts its results afresh.
func (r *reads) do(ctx context.Context, fn func(*conn) error) error {
	if m, ok := ctx.Value(readsFrom{}).(*moment); ok {
		if done, err := m.read(fn); done {
			return explain(r.cfg.Path, err)
		}
	}
	select {
	case c, ok := <-r.slots:
		if !ok {
			return errClosed()
		}
		c, err := r.run(ctx, c, fn)
		r.slots <- c
		return err
	case <-ctx.Done():
		return agentkernel.AsError(ctx.Err(), agentkernel.CodeCanceled, "store")
	}
}

// maxReopen bounds how often a read starts over because kernels come and go under it.
const maxReopen = 5

func (r *reads) run(ctx context.Context, c *readConn, fn func(*conn) error) (*readConn, error) {
	for range maxReopen {
		if err := ctx.Err(); err != nil {
			return c, agentkernel.AsError(err, agentkernel.CodeCanceled, "store")
		}
		if c != nil && r.changed(c) {
			_ = c.close() // it was only read from
			c = nil
		}
		if c == nil {
			var err error
			if c, err = r.open(); err != nil {
				return nil, explain(r.cfg.Path, err)
			}
		}
		if err := fn(c.conn); !r.changed(c) {
			return c, explain(r.cfg.Path, err)
		}
	}
	return c, agentkernel.Errorf(agentkernel.CodeUnavailable, "store", "the database %s is opened and closed all the time", r.cfg.Path).
		WithHint("try again")
}

func (r *reads) changed(c *readConn) bool {
	if !c.immutable {
		return false
	}
	if c.release != nil && !r.cfg.idle() {
		return true
	}
	now, err := stateOf(r.cfg.Path)
	return err != nil || now != c.seen
}

// close waits for reads that run and closes every connection.
func (r *reads) close() error {
	var err error
	for range readConns {
		if c := <-r.slots; c != nil {
			err = errors.Join(err, c.close())
		}
	}
	close(r.slots)
	return err
}

// readPragmas are in force on every connection that reads.
var readPragmas = []string{"busy_timeout = 5000", "query_only = 1", "cache_size = -1024"}

// dialReader opens a database. While no kernel has it open, the files are read as they are, since SQLite would rewrite the index of a
// log that a crashed kernel has left, and with it what tells of damage to the log. Where that cannot be told, a database with a
// log is read through SQLite; one without a log is read as an immutable file, because SQLite would otherwise make -wal
// and -shm. See reads.changed.
func dialReader(cfg Config) (*readConn, error) {
	c, err := dialAsItIs(cfg)
	if err != nil {
		return nil, err
	}
	if c.version, err = asNewest(c.conn); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// dialAsItIs is dialReader for a database of the newest schema.
func dialAsItIs(cfg Config) (*readConn, error) {
	if err := probe(cfg.Path, false); err != nil {
		return nil, err
	}
	if cfg.idle() {
		c, err := dialView(cfg.Path)
		if !errors.Is(err, fs.ErrPermission) {
			return c, err
		}
	}
	seen, err := stateOf(cfg.Path)
	if err != nil {
		return nil, err
	}
	if seen.logSize > 0 {
		c, err := dial(cfg.Path, url.Values{"mode": {"ro"}}, readPragmas...)
		if err == nil {
			if _, err = c.int("SELECT count(*) FROM sqlite_schema"); err == nil {
				return &readConn{conn: c}, nil
			}
			err = errors.Join(err, c.close())
		}
		if _, missing := os.Stat(cfg.Path + "-shm"); !errors.Is(missing, fs.ErrNotExist) && !errors.Is(missing, fs.ErrPermission) {
			return nil, err
		}
		cfg.Logger.Warn("the database has a log that this user cannot read; the newest entries may be missing", "path", cfg.Path)
	}
	c, err := dial(cfg.Path, url.Values{"mode": {"ro"}, "immutable": {"1"}}, readPragmas...)
	if err != nil {
		return nil, err
	}
	return &readConn{conn: c, immutable: true, seen: seen}, nil
}
