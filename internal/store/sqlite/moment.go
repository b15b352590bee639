package sqlite

import (
	"context"
	"sync"

	"agentkernel"
)

// momentReads is how many reads one transaction answers: while it stands, the log cannot become shorter.
const momentReads = 512

// moment answers many reads of single processes from one transaction. A read by itself begins and ends its own, and has to fetch
// again what its connection has forgotten because somebody wrote: that is most of what it costs.
type moment struct {
	queue *queue

	mu     sync.Mutex // held while it reads: a connection is for one goroutine
	conn   *readConn  // nil: it has ended
	begun  bool       // a transaction
	left   int        // reads until the next one
	pos    agentkernel.Position
	forgot int64
}

// momentOf is the key of a context's moment, and readsFrom of the one that a read is answered from.
type (
	momentOf  struct{}
	readsFrom struct{}
)

// moments has the one moment that there may be at a time: other reads are made as ever.
type moments struct {
	mu     sync.Mutex
	now    *moment
	closed bool
}

// Moment begins a moment; see fastpath.Moments.
func (s *Store) Moment(ctx context.Context) (_ context.Context, done func()) {
	s.moments.mu.Lock()
	defer s.moments.mu.Unlock()
	if s.moments.now != nil || s.moments.closed {
		return ctx, func() {}
	}
	conn, err := s.reads.open()
	if err != nil { // whoever reads next hears of it
		return ctx, func() {}
	}
	m := &moment{queue: s.queue, conn: conn}
	s.moments.now = m
	return context.WithValue(ctx, momentOf{}, m), func() { s.moments.end(m, false) }
}

// end ends a moment, or the one that there is; then there may be no other if closed is set.
func (ms *moments) end(m *moment, closed bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.closed = ms.closed || closed
	if ms.now == nil || m != nil && ms.now != m {
		return
	}
	ms.now.close()
	ms.now = nil
}

func (m *moment) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.conn.close() // it was only read from
	m.conn = nil
}

// of gives the context with which to read what is durable of a process: from the context's moment, if that has all of it.
func (s *Store) of(ctx context.Context, pid agentkernel.PID) context.Context {
	m, ok := ctx.Value(momentOf{}).(*moment)
	if !ok || !m.shows(pid) {
		return ctx
	}
	return context.WithValue(ctx, readsFrom{}, m)
}

// shows says whether nothing was appended about a process since the transaction began. If something was, a new one is begun.
func (m *moment) shows(pid agentkernel.PID) bool {
	if !m.mu.TryLock() {
		return false
	}
	defer m.mu.Unlock()
	durable, forgot, newest := m.queue.standing(pid)
	if newest > durable || m.conn == nil {
		return false
	}
	if m.left == 0 || m.forgot != forgot || newest > m.pos {
		if m.begun {
			_ = m.conn.script("ROLLBACK") // nothing was written
		}
		m.begun, m.left, m.pos, m.forgot = false, momentReads, durable, forgot // what the transaction shows is not older than that
	}
	return true
}

// read runs fn in the transaction. False: somebody else reads from it, or it has ended.
func (m *moment) read(fn func(*conn) error) (done bool, err error) {
	if !m.mu.TryLock() {
		return false, nil
	}
	defer m.mu.Unlock()
	if m.conn == nil || m.left == 0 {
		return false, nil
	}
	if !m.begun {
		if err := m.conn.script("BEGIN"); err != nil {
			return true, err
		}
		m.begun = true
	}
	m.left--
	return true, fn(m.conn.conn)
}
