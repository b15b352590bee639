package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"agentkernel"
	"agentkernel/internal/store/blob"
)

// Store is the embedded [agentkernel.Store]. Two kernels must not open one database at once: the lock
// of the data directory sees to that. Images that it hands out share memory with its cache and must not
// be changed.
type Store struct {
	reads  *reads
	queue  *queue
	writer *writer
	images *imageCache
	info   agentkernel.StoreInfo
	max    int64 // bytes of one image

	sweeping sync.Mutex // strays are looked for
	moments  moments

	lastPID atomic.Int64
	stopped chan struct{} // closed when the writer's goroutine has ended
	closing sync.Once
	closed  error
}

var (
	_ agentkernel.Store       = (*Store)(nil)
	_ agentkernel.StoreReader = (*Reader)(nil)
	_ agentkernel.Salvager    = (*Store)(nil)
	_ agentkernel.Salvager    = (*Reader)(nil)
)

// writePragmas are in force on the connection that writes. synchronous=FULL syncs the log in every commit, on
// macOS down to the platter; auto_vacuum, which only a new database takes, lets Shrink make the file smaller; the
// page cache (kB) holds the journals' ends of some thousand processes.
var writePragmas = []string{"busy_timeout = 10000", "auto_vacuum = INCREMENTAL", "journal_mode = WAL", "synchronous = FULL", "fullfsync = 1", "cache_size = -8192",
	"temp_store = MEMORY", "journal_size_limit = 16777216"}

// Open opens the database, makes it if there is none, and brings it to the newest schema.
// Errors: CodeInvalid (configuration; the path is a directory), CodeDenied, CodeStorage (disk full, read-only
// file system, I/O), CodeCorrupt (damaged, or not AgentKernel's), CodeVersion (written by a newer one).
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults(true)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, agentkernel.AsError(err, agentkernel.CodeCanceled, "store")
	}
	if !cfg.Lossy {
		if err := CheckLog(ctx, cfg); err != nil {
			return nil, err
		}
	}
	if err := probe(cfg.Path, true); err != nil {
		return nil, err
	}
	m, err := openMark(cfg)
	if err != nil {
		return nil, explain(cfg.Path, err)
	}
	c, err := dial(cfg.Path, url.Values{}, writePragmas...)
	if err != nil {
		return nil, errors.Join(explain(cfg.Path, err), m.close())
	}
	s, err := open(c, cfg, m)
	if err != nil {
		return nil, errors.Join(err, c.close(), m.close())
	}
	return s, nil
}

// lastPID is the newest PID that was ever stored: a PID is never used twice, also if its process was pruned.
const lastPID = `SELECT max(coalesce((SELECT max(pid) FROM processes), 0), coalesce((SELECT max(pid) FROM entries), 0),
  coalesce((SELECT last FROM pruned ORDER BY first DESC LIMIT 1), 0), coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'last_pid'), 0))`

func open(c *conn, cfg Config, m *logMark) (*Store, error) {
	if err := copyBeforeMigration(c, cfg, steps()); err != nil {
		return nil, err
	}
	version, err := migrate(c, cfg.Path, steps(), cfg.Clock)
	if err != nil {
		return nil, err
	}
	m.found(cfg.Path)
	info, err := identify(c, cfg.Path)
	if err != nil {
		return nil, err
	}
	last, err := c.int(lastPID)
	if err != nil {
		return nil, explain(cfg.Path, err)
	}
	seal, err := newSealer(cfg.Key, info)
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, explain(cfg.Path, err)
	}
	info.Schema, info.Path = version, abs
	s := &Store{
		info:   info,
		images: newImageCache(cfg.ImageCache),
		max:    cfg.MaxImage,
		writer: &writer{path: cfg.Path, c: c, blobs: blob.NewDir(cfg.Blobs, 0), seal: seal, log: cfg.Logger, mark: m, texts: newTexts(),
			filed: true, posted: true, sweep: true},
		reads: newReads(cfg, func() (*readConn, error) {
			c, err := dial(cfg.Path, url.Values{"mode": {"ro"}}, readPragmas...) // WAL: it never waits for the writer
			return &readConn{conn: c}, err
		}),
		stopped: make(chan struct{}),
	}
	if err := s.writer.mayHavePosts(); err != nil {
		return nil, err
	}
	s.queue = newQueue(cfg.MaxQueue, s.images)
	s.reads.info = s.info
	s.lastPID.Store(last)
	go func() {
		defer close(s.stopped)
		s.writer.run(s.queue)
	}()
	return s, nil
}

// Info describes the store.
func (s *Store) Info() agentkernel.StoreInfo { return s.info }

// Commits counts the transactions that Append and Flush have led to since Open.
func (s *Store) Commits() int64 { return s.writer.commits.Load() }

// NewPID reserves the next PID. It is never given out again while this store is open. It waits for nothing, and cannot fail.
func (s *Store) NewPID(context.Context) (agentkernel.PID, error) {
	pid := agentkernel.PID(s.lastPID.Add(1))
	s.queue.know(pid)
	return pid, nil
}

// Append queues a batch. Errors, all before anything was queued: CodeInvalid (no PID, several PIDs, a gap
// or repetition in the journal), CodeConflict (idempotency key taken), CodeLimit (image or batch too large), CodeStorage,
// CodeUnavailable (closed). It waits only while more than Config.MaxQueue bytes wait for the disk.
func (s *Store) Append(b agentkernel.Batch) (agentkernel.Position, error) {
	pid, size, err := measure(&b)
	if err != nil {
		return 0, err
	}
	switch {
	case b.Image != nil && int64(len(b.Image.Bytes)) > s.max:
		return 0, agentkernel.Errorf(agentkernel.CodeLimit, "store", "an image of %d bytes is larger than the largest, %d bytes",
			len(b.Image.Bytes), s.max).WithPID(pid)
	case size > maxBatch:
		return 0, agentkernel.Errorf(agentkernel.CodeLimit, "store", "a batch of %d bytes is larger than the largest, %d bytes", size, maxBatch).WithPID(pid)
	}
	p := pending{batch: b, pid: pid, size: size}
	pos, err := s.queue.append(p)
	for errors.Is(err, errLookUp) {
		if err = s.lookUp(&p); err != nil {
			return 0, err
		}
		pos, err = s.queue.append(p)
	}
	if err != nil {
		return 0, err
	}
	s.reserve(pid)
	return pos, nil
}

// lookUp tells the queue what the database knows of a process that this store has not seen yet.
func (s *Store) lookUp(p *pending) error {
	ctx := context.Background()
	forgotten := s.queue.forgotten()
	next, err := s.reads.journalEnd(ctx, p.pid)
	if err != nil {
		return err
	}
	k, ok := keyOf(&p.batch)
	var owner agentkernel.PID
	if ok {
		owner, err = s.reads.byKey(ctx, k.Namespace, k.Name)
		if err != nil && agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
			return err
		}
	}
	s.queue.learn(p.pid, next, k, owner, forgotten)
	return nil
}

// reserve keeps NewPID ahead of PIDs that came in otherwise.
func (s *Store) reserve(pid agentkernel.PID) {
	for {
		last := s.lastPID.Load()
		if int64(pid) <= last || s.lastPID.CompareAndSwap(last, int64(pid)) {
			return
		}
	}
}

// measure checks that a batch is of one process and has dense entries, and gives its payload in bytes.
func measure(b *agentkernel.Batch) (pid agentkernel.PID, size int64, err error) {
	take := func(other agentkernel.PID) {
		if pid == 0 {
			pid = other
		}
		if other != pid || other < 1 {
			err = agentkernel.Errorf(agentkernel.CodeInvalid, "store", "a batch is of one process; this one names %d and %d", pid, other)
		}
	}
	for i := range b.Entries {
		e := &b.Entries[i]
		take(e.PID)
		size += int64(len(e.Args) + len(e.Data) + len(e.Note))
		if i > 0 && e.Seq != b.Entries[i-1].Seq+1 {
			err = agentkernel.Errorf(agentkernel.CodeInvalid, "store", "entry %d follows entry %d", e.Seq, b.Entries[i-1].Seq).WithPID(pid)
		}
	}
	if b.Process != nil {
		take(b.Process.PID)
		size += int64(len(b.Process.Result) + len(b.Process.Spec.Program.Source))
		for _, source := range b.Process.Spec.Program.Modules {
			size += int64(len(source))
		}
	}
	if b.Key != nil {
		size += int64(len(b.Key.Namespace) + len(b.Key.Name))
		if b.Process != nil {
			err = agentkernel.Errorf(agentkernel.CodeInvalid, "store", "a batch with a row of a process gives it no other key").WithPID(pid)
		}
	}
	if b.Image != nil {
		take(b.Image.PID)
		size += imageSize(b.Image)
	}
	for i := range b.Posts {
		size += int64(len(b.Posts[i].Data)) + 64
		if b.Posts[i].To < 1 {
			err = agentkernel.Errorf(agentkernel.CodeInvalid, "store", "a post is for process %d, which cannot be", b.Posts[i].To).WithPID(pid)
		}
	}
	for k, v := range b.State {
		size += int64(len(k) + len(v))
	}
	if pid == 0 && err == nil {
		err = agentkernel.Errorf(agentkernel.CodeInvalid, "store", "a batch without entries, row or image names no process")
	}
	return pid, size, err
}

// flushAll makes everything appended so far durable, for reads that look at many processes. A failed
// store has nothing to flush: it shows what the disk holds.
func (s *Store) flushAll(ctx context.Context) error {
	err := s.queue.flush(ctx, s.queue.newest())
	if agentkernel.CodeOf(err) == agentkernel.CodeStorage {
		return nil
	}
	return err
}

// Process reads a process's row.
func (s *Store) Process(ctx context.Context, pid agentkernel.PID) (agentkernel.ProcessRecord, error) {
	for _, b := range slices.Backward(s.queue.pendingOf(pid)) {
		if b.Process != nil {
			return asStored(*b.Process), nil
		}
	}
	return s.reads.process(s.of(ctx, pid), pid, nil)
}

// asStored gives a row as reading it from the database would.
func asStored(p agentkernel.ProcessRecord) agentkernel.ProcessRecord {
	p.Resident, p.WaitsFor = false, nil
	p.Created = microTime(p.Created.UnixMicro())
	if p.Parked != nil {
		parked := *p.Parked
		if !parked.Until.IsZero() {
			parked.Until = microTime(parked.Until.UnixMicro())
		}
		parked.Since = microTime(parked.Since.UnixMicro())
		p.Parked = &parked
	}
	if !p.Ended.IsZero() {
		p.Ended = microTime(p.Ended.UnixMicro())
	}
	return p
}

// Processes lists rows without program text, newest first.
func (s *Store) Processes(ctx context.Context, f agentkernel.Filter) ([]agentkernel.ProcessRecord, error) {
	if err := s.flushAll(ctx); err != nil {
		return nil, err
	}
	return s.reads.processes(ctx, f)
}

// Active lists the PIDs that Processes would with Filter.Active, oldest first; see fastpath.Actives.
func (s *Store) Active(ctx context.Context) ([]agentkernel.PID, error) {
	if err := s.flushAll(ctx); err != nil {
		return nil, err
	}
	return s.reads.active(ctx)
}

// Count says how many rows Processes would list without a limit.
func (s *Store) Count(ctx context.Context, f agentkernel.Filter) (int, error) {
	if err := s.flushAll(ctx); err != nil {
		return 0, err
	}
	return s.reads.count(ctx, f)
}

// Due lists the parked processes that have to be woken first.
func (s *Store) Due(ctx context.Context, kernel int64, limit int) ([]agentkernel.Due, error) {
	if err := s.flushAll(ctx); err != nil {
		return nil, err
	}
	return s.reads.due(ctx, kernel, limit)
}

// ByKey finds the process that was created with an idempotency key.
func (s *Store) ByKey(ctx context.Context, namespace, key string) (agentkernel.PID, error) {
	if pid := s.queue.owner(agentkernel.Key{Namespace: namespace, Name: key}); pid != 0 {
		return pid, nil
	}
	return s.reads.byKey(ctx, namespace, key)
}

// Entries reads a journal from seq on.
func (s *Store) Entries(ctx context.Context, pid agentkernel.PID, from int64, limit int) ([]agentkernel.Entry, error) {
	return s.entries(ctx, pid, from, limit, nil)
}

func (s *Store) entries(ctx context.Context, pid agentkernel.PID, from int64, limit int, lost *salvage) ([]agentkernel.Entry, error) {
	from = max(from, 1)
	var queued []agentkernel.Entry // read before the database, so that nothing falls between the two
	for _, b := range s.queue.pendingOf(pid) {
		queued = append(queued, b.Entries...)
	}
	var found []agentkernel.Entry
	if len(queued) == 0 || from < queued[0].Seq {
		forgotten := s.queue.forgotten()
		var err error
		if found, err = s.reads.entries(s.of(ctx, pid), pid, from, limit, lost); err != nil {
			return nil, err
		}
		if n := len(found); n > 0 && limit <= 0 {
			s.queue.guess(pid, found[n-1].Seq+1, forgotten)
		}
	}
	next := from + int64(len(found))
	for _, e := range queued {
		if e.Seq >= next && (limit <= 0 || len(found) < limit) {
			e.At = microTime(e.At.UnixMicro())
			found = append(found, e)
		}
	}
	return found, nil
}

// Image gives the newest image of a process.
func (s *Store) Image(ctx context.Context, pid agentkernel.PID) (agentkernel.Image, error) {
	if im, ok := s.images.get(pid); ok {
		return *im, nil
	}
	for _, b := range slices.Backward(s.queue.pendingOf(pid)) {
		switch {
		case b.Image == nil:
		case len(b.Image.Bytes) == 0:
			return agentkernel.Image{}, noImage(pid)
		default:
			return *b.Image, nil
		}
	}
	return s.reads.image(s.of(ctx, pid), pid)
}

// State reads the whole working set of a process.
func (s *Store) State(ctx context.Context, pid agentkernel.PID) (map[string]json.RawMessage, error) {
	if err := s.flushState(ctx, pid); err != nil {
		return nil, err
	}
	return s.reads.state(ctx, pid)
}

// SmallState reads a working set that is not larger than that, and its size.
func (s *Store) SmallState(ctx context.Context, pid agentkernel.PID, atMost int64) (map[string]json.RawMessage, int64, error) {
	if err := s.flushState(ctx, pid); err != nil {
		return nil, 0, err
	}
	return s.reads.smallState(ctx, pid, atMost)
}

// flushState makes what was appended to a working set durable.
func (s *Store) flushState(ctx context.Context, pid agentkernel.PID) error {
	if slices.ContainsFunc(s.queue.pendingOf(pid), func(b agentkernel.Batch) bool { return len(b.State) > 0 }) {
		return s.flushAll(ctx)
	}
	return nil
}

// Close makes everything appended durable and releases the files. Further calls give the same answer.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.queue.close()
		<-s.stopped
		failure := s.queue.failure()
		s.moments.end(nil, true)
		s.closed = errors.Join(failure, s.reads.close())
		s.closed = errors.Join(s.closed, s.writer.mark.end(failure == nil && s.writer.moved()), s.writer.c.close())
	})
	return s.closed
}
