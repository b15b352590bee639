package sqlite

import (
	"context"
	"fmt"
	"maps"

	"agentkernel"
)

// measureStep is how many processes are looked at with one connection before others may have it.
const measureStep = 256

// rowCost is about what a row takes beside its payloads, in bytes.
const rowCost = 48

// Measure counts what forgetting processes, and sweeping then, would remove.
func (s *Store) Measure(ctx context.Context, pids []agentkernel.PID) (r agentkernel.Removed, rows int64, err error) {
	m := measuring{refs: map[string]int64{}, programs: map[int64]int64{}}
	for from := 0; from < len(pids) && err == nil; from += measureStep {
		part := pids[from:min(from+measureStep, len(pids))]
		before := m.Removed
		err = s.reads.do(ctx, func(c *conn) error {
			m.Removed = before
			for _, pid := range part {
				if err := m.process(c, int64(pid)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	left := m.programs
	if err == nil && len(left) > 0 {
		err = s.eachProcess(ctx, func(program int64) {
			if n, goes := left[program]; goes {
				left[program] = n - 1
			}
		})
	}
	if err == nil {
		before := m
		err = s.reads.do(ctx, func(c *conn) error {
			m = before
			m.refs = maps.Clone(before.refs)
			return m.shared(c)
		})
	}
	return m.Removed, m.bytes, err
}

// measuring is what is known so far. A program or blob goes if all who name it do.
type measuring struct {
	agentkernel.Removed
	bytes    int64
	refs     map[string]int64 // by SHA-256: columns that name the blob
	programs map[int64]int64  // processes that run it and go, less those that run it
}

func (m *measuring) process(c *conn, pid int64) error {
	v, found, err := c.one("SELECT program, result, octet_length(spec) + coalesce(octet_length(journal), 0), "+shortLength+" FROM processes WHERE pid = ?", pid)
	if err != nil || !found {
		return err
	}
	m.Processes++
	m.programs[v.int(0)]++
	m.bytes += v.int(2) + 4*rowCost
	m.payload(v[1])
	m.Entries += v.int(3)
	v, _, err = c.one(`SELECT count(*), coalesce(sum(coalesce(octet_length(args), 0) + coalesce(octet_length(data), 0) + coalesce(octet_length(error), 0)), 0)
FROM entries WHERE pid = ?`, pid)
	if err != nil {
		return err
	}
	m.Entries += v.int(0)
	m.bytes += v.int(1) + v.int(0)*rowCost
	err = c.query(func(r row) error {
		m.payload(r[0])
		m.payload(r[1])
		return nil
	}, "SELECT args, data FROM entries WHERE pid = ? AND (typeof(args) = 'blob' OR typeof(data) = 'blob')", pid)
	if err != nil {
		return err
	}
	err = c.query(func(r row) error {
		m.bytes += rowCost
		m.payload(r[0])
		return nil
	}, "SELECT text FROM parts WHERE pid = ?", pid)
	if err != nil {
		return err
	}
	state, err := c.int(sumState, pid)
	m.bytes += state
	return err
}

// payload notes a column; one that names a blob holds the hash.
func (m *measuring) payload(v any) {
	switch v := v.(type) {
	case []byte:
		m.refs[string(v)]++
	case string:
		m.bytes += int64(len(v))
	}
}

// shared counts programs and blobs of which nobody else is left.
func (m *measuring) shared(c *conn) error {
	for id, n := range m.programs {
		if n < 0 {
			continue
		}
		v, found, err := c.one("SELECT source, modules FROM programs WHERE id = ?", id)
		if err != nil {
			return err
		}
		if found {
			m.payload(v[0])
			m.payload(v[1])
		}
	}
	for sum, n := range m.refs {
		v, found, err := c.one("SELECT size, refs FROM blobs WHERE sha256 = ?", []byte(sum))
		if err != nil {
			return fmt.Errorf("blob %x: %w", sum, err)
		}
		if found && v.int(1) <= n {
			m.Blobs++
			m.BlobBytes += v.int(0)
		}
	}
	return nil
}
