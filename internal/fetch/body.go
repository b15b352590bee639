package fetch

import (
	"errors"
	"io"
	"sync/atomic"

	"agentkernel"
)

// errTooLarge ends a body that is larger than it may be.
var errTooLarge = errors.New("the body is too large")

// errNoRoom ends a body for which the kernel has no memory left beside all others.
var errNoRoom = errors.New("there is no room for the body")

// room is the memory that all bodies under way have together.
type room struct {
	limit int64
	used  atomic.Int64
}

// read reads at most limit bytes; what it gives is held in room until release is called.
func (m *room) read(r io.Reader, limit, expect int64) (body []byte, release func(), err error) {
	held := int64(0)
	release = func() { m.used.Add(-held) }
	if expect > limit {
		return nil, release, errTooLarge
	}
	const first = 16 << 10
	buf := make([]byte, 0, first)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		if grown := int64(cap(buf)) - held; grown > 0 {
			held += grown
			if m.used.Add(grown) > m.limit {
				return nil, release, errNoRoom
			}
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return nil, release, errTooLarge
		case err == io.EOF: // not ErrUnexpectedEOF, which is half an answer
			return buf, release, nil
		case err != nil:
			return nil, release, err
		}
	}
}

// tooLarge is the answer for a body beyond its limit. The request itself was answered.
func tooLarge(status int, limit int64) error {
	return agentkernel.Errorf(agentkernel.CodeLimit, op, "the server answered %d, and the body is larger than %d bytes", status, limit).
		WithHint("ask for less, or set max_bytes, which may be at most %d", int64(MaxBody))
}

func noRoom() error {
	return agentkernel.Errorf(agentkernel.CodeLimit, op, "too many answers are being received at the same time: there is no room for this one").
		WithHint("fetch fewer at once")
}
