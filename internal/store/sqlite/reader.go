package sqlite

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"

	"agentkernel"
)

// Reader reads a database without ever changing it, also while a kernel writes it.
type Reader struct {
	reads   *reads
	closing sync.Once
	closed  error
}

// OpenReader opens a database for reading only, also one of an older schema. It makes no file and changes none. It sees what is durable.
// Errors: as Open, and CodeNotFound when there is no database.
func OpenReader(ctx context.Context, cfg Config) (*Reader, error) {
	cfg, err := cfg.withDefaults(false)
	if err != nil {
		return nil, err
	}
	r := &Reader{reads: newReads(cfg, func() (*readConn, error) { return dialReader(cfg) })}
	abs, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, explain(cfg.Path, err)
	}
	r.reads.info.Path = abs
	if err := r.reads.do(ctx, r.identify); err != nil {
		_ = r.reads.close() // it was only read from
		return nil, err
	}
	return r, nil
}

func (r *Reader) identify(c *conn) error {
	info := &r.reads.info
	version, err := inspect(c, info.Path, len(steps()))
	if err != nil {
		return err
	}
	if file, err := os.Stat(info.Path); version == 0 && err == nil && file.Size() == 0 {
		return agentkernel.Errorf(agentkernel.CodeVersion, "store", "the database %s is empty: nothing ever ran, or somebody emptied it", info.Path).
			WithHint("if processes should be in it, restore a backup: agentkernel restore FILE --force; else any command that starts a kernel begins a new one")
	}
	if tables, err := c.int("SELECT count(*) FROM sqlite_schema"); version == 0 && err == nil && tables == 0 {
		return errNoTables(info.Path)
	}
	path := info.Path
	*info, err = readIdentity(c, path)
	info.Schema, info.Path = version, path
	return err
}

// errNoTables is of a database that has a beginning and no tables: they are in its log until a kernel closes it.
func errNoTables(path string) error {
	if err := checkFounded(path); err != nil {
		return err
	}
	return agentkernel.Errorf(agentkernel.CodeVersion, "store", "the database %s has no tables: the kernel that made it died before it had made them", path).
		WithHint("nothing ran, and nothing is lost: any command that starts a kernel makes them: agentkernel recover")
}

// Info describes the store.
func (r *Reader) Info() agentkernel.StoreInfo { return r.reads.info }

// Process reads a process's row.
func (r *Reader) Process(ctx context.Context, pid agentkernel.PID) (agentkernel.ProcessRecord, error) {
	return r.reads.process(ctx, pid, nil)
}

// Processes lists rows without program text, newest first.
func (r *Reader) Processes(ctx context.Context, f agentkernel.Filter) ([]agentkernel.ProcessRecord, error) {
	return r.reads.processes(ctx, f)
}

// Count says how many rows Processes would list without a limit.
func (r *Reader) Count(ctx context.Context, f agentkernel.Filter) (int, error) {
	return r.reads.count(ctx, f)
}

// ByKey finds the process that was created with an idempotency key.
func (r *Reader) ByKey(ctx context.Context, namespace, key string) (agentkernel.PID, error) {
	return r.reads.byKey(ctx, namespace, key)
}

// Entries reads a journal from seq on.
func (r *Reader) Entries(ctx context.Context, pid agentkernel.PID, from int64, limit int) ([]agentkernel.Entry, error) {
	return r.reads.entries(ctx, pid, from, limit, nil)
}

// Image gives the newest image of a process. Without Config.Key: CodeUnavailable.
func (r *Reader) Image(ctx context.Context, pid agentkernel.PID) (agentkernel.Image, error) {
	return r.reads.image(ctx, pid)
}

// State reads the whole working set of a process.
func (r *Reader) State(ctx context.Context, pid agentkernel.PID) (map[string]json.RawMessage, error) {
	return r.reads.state(ctx, pid)
}

// Close releases the files.
func (r *Reader) Close() error {
	r.closing.Do(func() { r.closed = r.reads.close() })
	return r.closed
}
