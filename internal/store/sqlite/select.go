package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"time"

	"agentkernel"
	"agentkernel/internal/store/blob"
)

const processColumns = `p.pid, p.parent, p.namespace, p.name, p.backend, p.priority, p.state, p.paused, p.pause_note,
  p.exit_code, p.result, p.error, p.created, p.ended, p.calls, p.syscalls, p.tool_calls, p.waits, p.running_ns, p.output,
  p.bytes_in, p.fingerprint, p.recoveries, p.idempotency_key, p.spec, g.language, p.parked, p.wake_at, p.waits_since, p.waits_for`

const selectProcess = "SELECT " + processColumns + ", g.source, g.modules, w.walls" +
	" FROM processes p JOIN programs g ON g.id = p.program LEFT JOIN walls w ON w.id = p.walls WHERE p.pid = ?"

// process reads a row. Payloads that are lost are an error, or with a salvage noted there.
func (r *reads) process(ctx context.Context, pid agentkernel.PID, lost *salvage) (agentkernel.ProcessRecord, error) {
	var p agentkernel.ProcessRecord
	err := r.do(ctx, func(c *conn) error {
		lost.reset()
		v, found, err := c.one(selectProcess, int64(pid))
		switch {
		case err != nil:
			return err
		case !found:
			return c.absent(pid)
		}
		source, err := r.payload(ctx, v[30], lost)
		if err != nil {
			return ofProcess(pid, err)
		}
		modules, err := r.payload(ctx, v[31], lost)
		if err != nil {
			return ofProcess(pid, err)
		}
		if p, err = r.scanProcess(ctx, v, lost); err != nil {
			return ofProcess(pid, err)
		}
		if p.Walls, err = readWalls(v.text(32)); err != nil {
			return err
		}
		p.Spec.Program.Source = string(source)
		if modules != nil {
			err = json.Unmarshal(modules, &p.Spec.Program.Modules)
		}
		return err
	})
	return p, err
}

func notFound(pid agentkernel.PID) error {
	return agentkernel.Errorf(agentkernel.CodeNotFound, "store", "there is no process %d", pid).WithHint("agentkernel ps --all lists them")
}

func (r *reads) scanProcess(ctx context.Context, v row, lost *salvage) (agentkernel.ProcessRecord, error) {
	p := agentkernel.ProcessRecord{
		Process: agentkernel.Process{
			PID: agentkernel.PID(v.int(0)), Parent: agentkernel.PID(v.int(1)), Namespace: v.text(2), Name: v.text(3),
			Backend: v.text(4), Priority: int(v.int(5)), State: agentkernel.State(v.text(6)), Paused: v.bool(7),
			PauseNote: v.text(8), ExitCode: int(v.int(9)), Created: microTime(v.int(12)),
			Usage: agentkernel.Usage{Syscalls: v.int(15), ToolCalls: v.int(16), Waits: v.int(17),
				Running: time.Duration(v.int(18)), Output: v.int(19), BytesIn: v.int(20)},
			Fingerprint: v.text(21), Recoveries: int(v.int(22)),
		},
		Calls: v.int(14),
	}
	if !v.isNull(13) {
		p.Ended = microTime(v.int(13))
	}
	var err error
	if p.Result, err = r.payload(ctx, v[10], lost); err != nil {
		return p, err
	}
	if p.Error, err = readError(v.text(11)); err != nil {
		return p, err
	}
	if p.Parked, err = readParked(v[26:30]); err != nil {
		return p, err
	}
	p.Spec.IdempotencyKey = v.text(23)
	p.Spec.Program.Language = agentkernel.Language(v.text(25))
	return p, decodeSpec(v.text(24), &p)
}

// readParked reads what parkedColumns gave.
func readParked(v row) (*agentkernel.Parked, error) {
	if v.isNull(0) {
		return nil, nil
	}
	p := &agentkernel.Parked{Kernel: v.int(0), Since: microTime(v.int(2))}
	if !v.isNull(1) {
		p.Until = microTime(v.int(1))
	}
	if err := json.Unmarshal([]byte(v.text(3)), &p.WaitsFor); err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "what a parked process waits for cannot be read: %w", err)
	}
	return p, nil
}

const selectDue = "SELECT pid, wake_at FROM processes WHERE wake_at IS NOT NULL AND (?1 = 0 OR parked = ?1) ORDER BY wake_at, pid LIMIT ?2"

// due lists the parked processes that have to be woken first.
func (r *reads) due(ctx context.Context, kernel int64, limit int) (found []agentkernel.Due, err error) {
	err = r.do(ctx, func(c *conn) error {
		found = nil
		return c.query(func(v row) error {
			found = append(found, agentkernel.Due{PID: agentkernel.PID(v.int(0)), At: microTime(v.int(1))})
			return ctx.Err()
		}, selectDue, kernel, int64(limit))
	})
	return found, err
}

// microTime is the time that a column of microseconds since 1970 names.
func microTime(us int64) time.Time { return time.UnixMicro(us).UTC() }

func readError(text string) (*agentkernel.Error, error) {
	if text == "" {
		return nil, nil
	}
	e := new(agentkernel.Error)
	if err := json.Unmarshal([]byte(text), e); err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "a stored error cannot be read: %w", err)
	}
	return e, nil
}

// payload gives the bytes of a column that holds text, or the name of a blob. One that is lost is CodeCorrupt; with a salvage
// it is nil, and noted there.
func (r *reads) payload(ctx context.Context, v any, lost *salvage) ([]byte, error) {
	switch v := v.(type) {
	case string:
		return []byte(v), nil
	case []byte:
		sum, err := blob.ParseSum(v)
		if err != nil {
			return nil, err
		}
		b, err := r.blobs.Get(ctx, sum)
		if code := agentkernel.CodeOf(err); code == agentkernel.CodeNotFound || code == agentkernel.CodeCorrupt {
			return nil, lost.note(err)
		}
		return b, err
	}
	return nil, nil
}

// filtered gives the condition that selects the rows of a filter, and its arguments.
func filtered(f agentkernel.Filter) (where string, args []driver.Value) {
	where = " WHERE 1"
	if f.Namespace != "" {
		where, args = where+" AND p.namespace = ?", append(args, f.Namespace)
	}
	if f.Unfinished {
		where += " AND p.state = 'unfinished'"
	}
	if f.Active {
		where += " AND p.state = 'unfinished' AND p.parked IS NULL"
	}
	if f.Before != 0 {
		where, args = where+" AND p.pid < ?", append(args, int64(f.Before))
	}
	if f.Parent != 0 {
		where, args = where+" AND p.parent = ?", append(args, int64(f.Parent))
	}
	if f.Key != "" {
		where, args = where+" AND p.pid IN ("+selectByKey+")", append(args, f.Namespace, f.Key, f.Namespace, f.Key)
	}
	return where, args
}

const selectByKey = `SELECT pid FROM processes WHERE namespace = ? AND idempotency_key = ?
UNION ALL SELECT pid FROM keys WHERE namespace = ? AND key = ?`

func (r *reads) count(ctx context.Context, f agentkernel.Filter) (int, error) {
	where, args := filtered(f)
	var n int64
	err := r.do(ctx, func(c *conn) (err error) {
		n, err = c.int("SELECT count(*) FROM processes p"+where, args...)
		return err
	})
	return int(n), err
}

func (r *reads) processes(ctx context.Context, f agentkernel.Filter) ([]agentkernel.ProcessRecord, error) {
	where, args := filtered(f)
	query := "SELECT " + processColumns + " FROM processes p JOIN programs g ON g.id = p.program" + where
	query += " ORDER BY p.pid DESC"
	if f.Limit > 0 {
		query, args = query+" LIMIT ?", append(args, int64(f.Limit))
	}
	var found []agentkernel.ProcessRecord
	err := r.do(ctx, func(c *conn) error {
		found = nil
		return c.query(func(v row) error {
			p, err := r.scanProcess(ctx, v, &salvage{}) // one that has lost its result must not hide the others
			found = append(found, p)
			return errors.Join(err, ctx.Err())
		}, query, args...)
	})
	return found, err
}

func (r *reads) active(ctx context.Context) ([]agentkernel.PID, error) {
	where, args := filtered(agentkernel.Filter{Active: true})
	var found []agentkernel.PID
	err := r.do(ctx, func(c *conn) error {
		found = nil
		return c.query(func(v row) error {
			found = append(found, agentkernel.PID(v.int(0)))
			return ctx.Err()
		}, "SELECT p.pid FROM processes p"+where+" ORDER BY p.pid", args...)
	})
	return found, err
}

func (r *reads) byKey(ctx context.Context, namespace, key string) (agentkernel.PID, error) {
	var pid int64
	err := r.do(ctx, func(c *conn) (err error) {
		pid, err = c.int(selectByKey, namespace, key, namespace, key)
		return err
	})
	if err == nil && pid == 0 {
		err = agentkernel.Errorf(agentkernel.CodeNotFound, "store", "no process of namespace %q has the idempotency key %q", namespace, key)
	}
	return agentkernel.PID(pid), err
}

const selectEntries = `SELECT seq, kind, at, call, op, effect, async, args, done, data, error, stream, note
FROM entries WHERE pid = ? AND seq >= ? ORDER BY seq LIMIT ?`

// selectOutline is selectEntries without payloads.
const selectOutline = `SELECT seq, kind, at, call, op, effect, async, NULL, done, NULL, error, stream, note
FROM entries WHERE pid = ? AND seq >= ? ORDER BY seq LIMIT ?`

func (r *reads) entries(ctx context.Context, pid agentkernel.PID, from int64, limit int, lost *salvage) ([]agentkernel.Entry, error) {
	n := int64(limit)
	if n <= 0 {
		n = -1
	}
	query := selectEntries
	if lost.outlines() {
		query = selectOutline
	}
	var found []agentkernel.Entry
	err := r.do(ctx, func(c *conn) error {
		found = nil
		lost.reset()
		parts := &partsReader{reads: r, c: c, pid: pid}
		err := c.query(func(v row) error {
			e, err := r.scanEntry(ctx, parts, v, lost)
			found = append(found, e)
			return errors.Join(err, ctx.Err())
		}, query, int64(pid), from, n)
		if err != nil || from > maxShortEntries || len(found) > 0 && found[0].Seq <= from {
			return err
		}
		// A short journal is looked for after its process's rows: what has such rows has had its short journal before.
		text, err := c.short(pid)
		if err != nil {
			return err
		}
		first, err := readShort(text, pid, from)
		found = append(first, found...)
		if n > 0 {
			found = found[:min(n, int64(len(found)))]
		}
		return err
	})
	return found, err
}

func (r *reads) scanEntry(ctx context.Context, parts *partsReader, v row, lost *salvage) (agentkernel.Entry, error) {
	pid := parts.pid
	e := agentkernel.Entry{
		PID: pid, Seq: v.int(0), Kind: agentkernel.EntryKind(v.text(1)), At: microTime(v.int(2)), Call: v.int(3),
		Op: v.text(4), Effect: agentkernel.Effect(v.text(5)), Async: v.bool(6), Done: v.bool(8),
		Stream: v.text(11), Note: v.text(12),
	}
	var own *salvage // of this entry
	if lost != nil {
		own = &salvage{}
	}
	var err error
	if column, ok := v[7].([]byte); ok && isSpans(column) {
		e.Args, err = parts.args(ctx, column, own)
	} else {
		e.Args, err = r.payload(ctx, v[7], own)
	}
	if err != nil {
		return e, ofEntry(pid, e.Seq, err)
	}
	if e.Data, err = r.payload(ctx, v[9], own); err != nil {
		return e, ofEntry(pid, e.Seq, err)
	}
	if own != nil && own.err != nil {
		e.Missing = agentkernel.AsError(own.err, agentkernel.CodeCorrupt, "store")
		_ = lost.note(ofEntry(pid, e.Seq, own.err))
	}
	e.ReadNote()
	e.Err, err = readError(v.text(10))
	return e, err
}

const selectImage = `SELECT i.seq, coalesce(i.fingerprint, b.fingerprint), i.kernel, i.base, i.size, i.zstd, i.blob, i.mac, b.size, b.zstd
FROM images i LEFT JOIN image_bases b ON b.id = i.base WHERE i.pid = ?`

func (r *reads) image(ctx context.Context, pid agentkernel.PID) (agentkernel.Image, error) {
	if len(r.cfg.Key) == 0 {
		return agentkernel.Image{}, agentkernel.Errorf(agentkernel.CodeUnavailable, "store",
			"images are read only with the key of the data directory").WithPID(pid)
	}
	var v row
	found := false
	err := r.do(ctx, func(c *conn) (err error) {
		v, found, err = c.one(selectImage, int64(pid))
		return err
	})
	if err != nil {
		return agentkernel.Image{}, err
	}
	if !found {
		return agentkernel.Image{}, noImage(pid)
	}
	return r.openImage(ctx, pid, v)
}

func noImage(pid agentkernel.PID) error {
	return agentkernel.Errorf(agentkernel.CodeNotFound, "store", "there is no image of process %d", pid)
}

func (r *reads) state(ctx context.Context, pid agentkernel.PID) (map[string]json.RawMessage, error) {
	var found map[string]json.RawMessage
	err := r.do(ctx, func(c *conn) error {
		found = map[string]json.RawMessage{}
		return c.query(func(v row) error {
			found[v.text(0)] = json.RawMessage(v.text(1))
			return ctx.Err()
		}, "SELECT key, value FROM state WHERE pid = ?", int64(pid))
	})
	return found, err
}

const sumState = "SELECT coalesce(sum(octet_length(key) + octet_length(value)), 0) FROM state WHERE pid = ?"

// smallState learns the sizes with the values, but reads none that is too large, nor keeps any where all are.
func (r *reads) smallState(ctx context.Context, pid agentkernel.PID, atMost int64) (found map[string]json.RawMessage, size int64, err error) {
	err = r.do(ctx, func(c *conn) error {
		found, size = map[string]json.RawMessage{}, 0
		return c.query(func(v row) error {
			key := v.text(0)
			if size += int64(len(key)) + v.int(1); size > atMost {
				found = nil
			} else {
				found[key] = json.RawMessage(v.text(2))
			}
			return ctx.Err()
		}, "SELECT key, octet_length(value), CASE WHEN octet_length(value) <= ? THEN value END FROM state WHERE pid = ?", atMost, int64(pid))
	})
	return found, size, err
}

// journalEnd gives the seq after the last durable entry of a process.
func (r *reads) journalEnd(ctx context.Context, pid agentkernel.PID) (int64, error) {
	var last int64
	err := r.do(ctx, func(c *conn) (err error) {
		last, err = c.int("SELECT max(coalesce((SELECT max(seq) FROM entries WHERE pid = ?1), 0), coalesce((SELECT json_array_length(journal) FROM processes WHERE pid = ?1), 0))", int64(pid))
		return err
	})
	return last + 1, err
}
