package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"sync"

	"agentkernel"
	"agentkernel/internal/store/blob"
)

const insertEntry = `INSERT INTO entries(pid, seq, kind, at, call, op, effect, async, args, done, data, error, stream, note)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)`

const insertKey = "INSERT INTO keys(namespace, key, pid) VALUES (?,?,?) ON CONFLICT DO UPDATE SET pid = excluded.pid"

func (w *writer) writeEntry(e *agentkernel.Entry) error {
	args, err := w.writeArgs(e)
	if err != nil {
		return err
	}
	data, err := w.payload(e.Data, threshold(e.Kind))
	if err != nil {
		return err
	}
	failure, err := errorText(e.Err)
	if err != nil {
		return err
	}
	return w.c.exec(insertEntry, int64(e.PID), e.Seq, string(e.Kind), e.At.UnixMicro(), nullInt(e.Call),
		nullText(e.Op), nullText(string(e.Effect)), nullBool(e.Async), args, nullBool(e.Done), data, failure,
		nullText(e.Stream), nullText(e.Note))
}

// writeArgs gives the value of the column args. See text.go.
func (w *writer) writeArgs(e *agentkernel.Entry) (driver.Value, error) {
	placed, shared := w.texts.planned[e]
	if !shared {
		return w.payload(e.Args, BlobThreshold)
	}
	for i := range placed.parts {
		if err := w.writePart(e.PID, &placed.parts[i]); err != nil {
			return nil, err
		}
	}
	return placed.column, nil
}

func errorText(e *agentkernel.Error) (driver.Value, error) {
	if e == nil {
		return nil, nil
	}
	text, err := plainJSON(e)
	return string(text), err
}

// threshold is the size in bytes from which the data of an entry becomes a blob. Every process that imports
// the same tools notes the same list of them, which is most of what it would weigh: as a blob it is there once.
func threshold(kind agentkernel.EntryKind) int {
	if kind == agentkernel.EntryTools {
		return sharedThreshold
	}
	return BlobThreshold
}

// payload is the column value for a JSON payload: text, or, from so many bytes, the name of the blob that
// putBlobs has written.
func (w *writer) payload(data []byte, threshold int) (driver.Value, error) {
	switch {
	case len(data) == 0:
		return nil, nil
	case len(data) < threshold:
		return string(data), nil
	}
	sum := blob.SumOf(data)
	return sum[:], w.refer(sum, len(data))
}

// refer counts one more column that names a blob.
func (w *writer) refer(sum blob.Sum, size int) error {
	w.filed = true
	return w.c.exec(`INSERT INTO blobs(sha256, size, refs) VALUES (?, ?, 1)
ON CONFLICT(sha256) DO UPDATE SET refs = refs + 1`, sum[:], int64(size))
}

// blobWriters is how many files are synced at once: a disk takes several about as fast as one.
const blobWriters = 8

// putBlobs makes the large payloads of a group durable.
func (w *writer) putBlobs(group []pending) error {
	var large [][]byte
	add := func(data []byte, threshold int) {
		if len(data) >= threshold {
			large = append(large, data)
		}
	}
	for i := range group {
		for j := range group[i].batch.Entries {
			e := &group[i].batch.Entries[j]
			if placed, shared := w.texts.planned[e]; shared {
				for _, p := range placed.parts {
					add(p.text, BlobThreshold)
				}
			} else {
				add(e.Args, BlobThreshold)
			}
			add(e.Data, threshold(e.Kind))
		}
		for j := range group[i].batch.Posts {
			add(group[i].batch.Posts[j].Data, BlobThreshold)
		}
	}
	for _, ch := range w.changes.list {
		if ch.process == nil {
			continue
		}
		add(ch.process.Result, BlobThreshold)
		if ch.program == 0 {
			add([]byte(ch.process.Spec.Program.Source), BlobThreshold)
			add(modulesText(ch.process.Spec.Program.Modules), BlobThreshold)
		}
	}
	return w.putAll(large)
}

func (w *writer) putAll(large [][]byte) error {
	if len(large) == 1 {
		_, err := w.blobs.Put(context.Background(), large[0])
		return err
	}
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		first error
		slots = make(chan struct{}, blobWriters)
	)
	for _, data := range large {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			if _, err := w.blobs.Put(context.Background(), data); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = err
				}
			}
		})
	}
	group.Wait()
	return first
}

const processRow = `INTO processes(pid, parent, namespace, name, backend, program, spec, idempotency_key, priority,
  state, paused, pause_note, exit_code, result, error, created, ended,
  calls, syscalls, tool_calls, waits, running_ns, output, bytes_in, fingerprint, recoveries, walls, journal, parked, wake_at, waits_since, waits_for)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`

// A statement that may change a row prepares for having to take the change back, which one that only adds a row need not.
const addProcess = "INSERT OR IGNORE " + processRow

const upsertProcess = "INSERT " + processRow + `
ON CONFLICT(pid) DO UPDATE SET parent=excluded.parent, namespace=excluded.namespace, name=excluded.name,
  backend=excluded.backend, program=excluded.program, spec=excluded.spec, idempotency_key=excluded.idempotency_key,
  priority=excluded.priority, state=excluded.state, paused=excluded.paused, pause_note=excluded.pause_note,
  exit_code=excluded.exit_code, result=excluded.result, error=excluded.error, created=excluded.created,
  ended=excluded.ended, calls=excluded.calls, syscalls=excluded.syscalls, tool_calls=excluded.tool_calls,
  waits=excluded.waits, running_ns=excluded.running_ns, output=excluded.output, bytes_in=excluded.bytes_in,
  fingerprint=excluded.fingerprint, recoveries=excluded.recoveries, walls=excluded.walls,
  journal=coalesce(excluded.journal, journal), parked=excluded.parked, wake_at=excluded.wake_at, waits_since=excluded.waits_since, waits_for=excluded.waits_for`

func (w *writer) writeProcess(ch *processChange) error {
	p := ch.process
	program, err := w.programID(ch)
	if err != nil {
		return err
	}
	spec, err := w.specs.encode(p)
	if err != nil {
		return err
	}
	result, err := w.payload(p.Result, BlobThreshold)
	if err != nil {
		return err
	}
	failure, err := errorText(p.Error)
	if err != nil {
		return err
	}
	walls, err := w.wallsID(p.Walls)
	if err != nil {
		return err
	}
	var ended driver.Value
	if !p.Ended.IsZero() {
		ended = p.Ended.UnixMicro()
	}
	parked, wakeAt, since, waitsFor, err := parkedColumns(p.Parked)
	if err != nil {
		return err
	}
	u := &p.Usage
	row := [...]driver.Value{int64(p.PID), nullInt(int64(p.Parent)), p.Namespace, p.Name, nullText(p.Backend),
		program, spec, nullText(p.Spec.IdempotencyKey), int64(p.Priority), string(p.State), boolInt(p.Paused),
		nullText(p.PauseNote), int64(p.ExitCode), result, failure, p.Created.UnixMicro(), ended, p.Calls,
		u.Syscalls, u.ToolCalls, u.Waits, int64(u.Running), u.Output, u.BytesIn, nullText(p.Fingerprint), int64(p.Recoveries), walls, nullText(ch.journal),
		parked, wakeAt, since, waitsFor}
	if len(ch.whole) > 0 { // its journal begins here, so most likely there is no row yet
		if added, err := w.c.change(addProcess, row[:]...); err != nil || added > 0 {
			return err
		}
	}
	return w.c.exec(upsertProcess, row[:]...)
}

// parkedColumns are those that say how a process is parked.
func parkedColumns(p *agentkernel.Parked) (kernel, wakeAt, since, waitsFor driver.Value, err error) {
	if p == nil {
		return nil, nil, nil, nil, nil
	}
	if !p.Until.IsZero() {
		wakeAt = p.Until.UnixMicro()
	}
	text, err := plainJSON(p.WaitsFor)
	return p.Kernel, wakeAt, p.Since.UnixMicro(), string(text), err
}

func (w *writer) writeState(pid agentkernel.PID, state map[string]json.RawMessage) error {
	for key, value := range state {
		var err error
		if len(value) == 0 {
			err = w.c.exec("DELETE FROM state WHERE pid = ? AND key = ?", int64(pid), key)
		} else {
			err = w.c.exec(`INSERT INTO state(pid, key, value) VALUES (?,?,?)
ON CONFLICT(pid, key) DO UPDATE SET value = excluded.value`, int64(pid), key, string(value))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
