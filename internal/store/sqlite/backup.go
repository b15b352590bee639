package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"agentkernel"
	"agentkernel/internal/store/blob"
)

// Snapshot is the database as it stood at one moment. Until Close no blob that it names is collected.
type Snapshot struct {
	Store      string // uuid
	Schema     int    // version
	At         time.Time
	Processes  int64
	Unfinished int64
	Blobs      []BlobSize // that some row names, by name

	blobs   blob.Store
	release func()
}

// BlobSize is a blob with its size in bytes.
type BlobSize struct {
	Sum  blob.Sum
	Size int64
}

// Snapshot writes a copy of the database to w, while commits go on: what was durable when it was called is in it.
// Committers never wait for it; the log (-wal) is not emptied while w takes the pages, so w should be quick.
// The copy is a database file as it is. Errors: those of w, CodeCorrupt, CodeStorage, CodeCanceled.
func (s *Store) Snapshot(ctx context.Context, w io.Writer) (*Snapshot, error) {
	release := s.writer.hold()
	snap, err := takeSnapshot(ctx, s.reads.cfg, s.reads.open, w)
	if err != nil {
		release()
		return nil, err
	}
	snap.release = release
	return snap, nil
}

// OpenSnapshot is Snapshot for a database that no kernel writes: the caller holds the data directory. A database of
// an older version is copied as it is; a newer one is refused with CodeVersion.
func OpenSnapshot(ctx context.Context, cfg Config, w io.Writer) (*Snapshot, error) {
	cfg, err := cfg.withDefaults(false)
	if err != nil {
		return nil, err
	}
	if err := probe(cfg.Path, false); err != nil {
		return nil, err
	}
	return takeSnapshot(ctx, cfg, func() (*readConn, error) { return dialView(cfg.Path) }, w)
}

func takeSnapshot(ctx context.Context, cfg Config, open func() (*readConn, error), w io.Writer) (snap *Snapshot, err error) {
	c, err := open()
	if err != nil {
		return nil, explain(cfg.Path, err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	snap = &Snapshot{At: cfg.Clock().UTC(), blobs: blob.NewDir(cfg.Blobs, 0), release: func() {}}
	if err := snap.take(ctx, c.conn, cfg.Path, w); err != nil {
		return nil, explain(cfg.Path, err)
	}
	return snap, nil
}

// take reads everything in one transaction: it sees the database as it stands at its first statement.
func (s *Snapshot) take(ctx context.Context, c *conn, path string, w io.Writer) error {
	if err := c.script("BEGIN"); err != nil {
		return err
	}
	version, err := inspect(c, path, len(steps()))
	if err != nil {
		return err
	}
	if version == 0 {
		return agentkernel.Errorf(agentkernel.CodeNotFound, "store", "the database %s is empty", path)
	}
	s.Schema = version
	info, err := readIdentity(c, path)
	if err != nil {
		return err
	}
	s.Store = info.UUID
	if err := copyPages(ctx, c, path, w); err != nil {
		return err
	}
	if err := s.count(c); err != nil {
		return err
	}
	s.Blobs, err = namedBlobs(c)
	return err
}

func (s *Snapshot) count(c *conn) (err error) {
	if s.Processes, err = c.int("SELECT count(*) FROM processes"); err != nil {
		return err
	}
	s.Unfinished, err = c.int("SELECT count(*) FROM processes WHERE state = 'unfinished'")
	return err
}

// namedBlobs lists the blobs that some row names.
func namedBlobs(c *conn) ([]BlobSize, error) {
	var list []BlobSize
	err := c.query(func(r row) error {
		sum, err := blob.ParseSum(r.blob(0))
		list = append(list, BlobSize{sum, r.int(1)})
		return err
	}, "SELECT sha256, size FROM blobs WHERE refs > 0 ORDER BY sha256")
	return list, err
}

// copyPages writes the pages of the database as this transaction sees them: file and log together.
func copyPages(ctx context.Context, c *conn, path string, w io.Writer) error {
	size, err := c.int("PRAGMA page_size")
	if err != nil {
		return err
	}
	pages, err := c.int("PRAGMA page_count")
	if err != nil {
		return err
	}
	buf := bufio.NewWriterSize(w, 1<<20)
	n := int64(0)
	err = c.query(func(r row) error {
		if n++; r.int(0) != n || int64(len(r.blob(1))) != size {
			return agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "page %d of the database %s cannot be read", n, path)
		}
		if n%256 == 0 && ctx.Err() != nil {
			return agentkernel.AsError(ctx.Err(), agentkernel.CodeCanceled, "store")
		}
		_, err := buf.Write(r.blob(1))
		return err
	}, "SELECT pgno, data FROM sqlite_dbpage")
	if err == nil && n != pages {
		err = agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "the database %s has %d pages, of which %d can be read", path, pages, n)
	}
	return errors.Join(err, buf.Flush())
}

// Blob reads a blob of the snapshot and verifies it. Errors: as blob.Store.
func (s *Snapshot) Blob(ctx context.Context, sum blob.Sum) ([]byte, error) {
	return s.blobs.Get(ctx, sum)
}

// Close lets blobs be collected again.
func (s *Snapshot) Close() { s.release() }

// hold keeps blobs from being collected until it is released. A collection that has begun already deletes only
// what nobody can name any more: no commit comes between its question and its end.
func (w *writer) hold() (release func()) {
	w.holds.Add(1)
	return func() { w.holds.Add(-1) }
}

// Contents is what CheckDatabase found.
type Contents struct {
	Store                 string
	Schema                int
	Processes, Unfinished int64
	Blobs                 []BlobSize
}

// CheckDatabase looks whether a database file of size bytes is whole and has the tables of AgentKernel, and no
// triggers, views or tables besides: it may come from a stranger. Nothing is written. Errors: CodeCorrupt,
// CodeVersion.
func CheckDatabase(f io.ReaderAt, size int64) (found Contents, err error) {
	c, closeConn, err := dialFile(f, size)
	if err != nil {
		return found, damaged(err)
	}
	defer func() { err = errors.Join(err, closeConn()) }()
	if found.Schema, err = inspect(c, "of the backup", len(steps())); err != nil {
		return found, damaged(err)
	}
	r, _, err := c.one("PRAGMA quick_check(1)")
	if err != nil || r.text(0) != "ok" {
		return found, damaged(errors.Join(err, fmt.Errorf("%v", r)))
	}
	if err := compareSchema(c, found.Schema); err != nil {
		return found, err
	}
	info, err := readIdentity(c, "of the backup")
	if agentkernel.CodeOf(err) == agentkernel.CodeVersion { // a backup is made of a database that has begun
		err = notOurs("of the backup", "it has no store_uuid")
	}
	if err != nil {
		return found, damaged(err)
	}
	found.Store = info.UUID
	snap := Snapshot{}
	if err := snap.count(c); err != nil {
		return found, damaged(err)
	}
	found.Processes, found.Unfinished = snap.Processes, snap.Unfinished
	found.Blobs, err = namedBlobs(c)
	if err != nil {
		return found, damaged(err)
	}
	return found, nil
}

func damaged(err error) error {
	if own, ok := errors.AsType[*agentkernel.Error](err); ok && (own.Code == agentkernel.CodeVersion || own.Code == agentkernel.CodeCorrupt) {
		return own
	}
	return agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "the database is damaged: %w", err)
}

// compareSchema wants the tables, views and triggers of a version, no more and no less. An index does no harm.
func compareSchema(c *conn, version int) error {
	want, err := schemaAt(version)
	if err != nil {
		return err
	}
	got, err := objects(c)
	if err != nil {
		return damaged(err)
	}
	for name, text := range got {
		if want[name] != text {
			return agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "the database has a %s that no AgentKernel made", name).
				WithHint("what was added to the database by hand must go: DROP it, then back up again")
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			return agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "the database lacks its %s", name)
		}
	}
	return nil
}

// objects are the tables, views and triggers with their texts. SQLite keeps tables of its own for statistics.
func objects(c *conn) (map[string]string, error) {
	found := map[string]string{}
	err := c.query(func(r row) error {
		found[r.text(0)+" "+r.text(1)] = r.text(2)
		return nil
	}, `SELECT type, name, sql FROM sqlite_schema WHERE type <> 'index' AND NOT (type = 'table' AND name IN ('sqlite_sequence', 'sqlite_stat1', 'sqlite_stat4'))`)
	return found, err
}

// schemaAt makes a database of a version in memory and gives its objects.
func schemaAt(version int) (want map[string]string, err error) {
	c, err := dial("schema", url.Values{"mode": {"memory"}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	history := steps()
	if version < 1 || version > len(history) {
		return nil, agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "the database has schema version %d", version)
	}
	if _, err := migrate(c, "schema", history[:version], time.Now); err != nil {
		return nil, err
	}
	return objects(c)
}
