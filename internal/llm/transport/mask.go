package transport

import (
	"bytes"
	"io"
	"strings"
)

// masked is a body in which the key is not: there are stars in its place. A server that repeats the key in an answer would hand it to the
// program. In an answer that comes bit by bit it may be in two of them, which is not found.
func masked(body io.Reader, key string) io.Reader {
	if len(key) < shortestKey {
		return body
	}
	return &mask{from: body, key: []byte(key), stars: []byte(strings.Repeat("*", len(key)))}
}

type mask struct {
	from       io.Reader
	key, stars []byte
	buf        []byte // was read, and given from next on
	next       int
	held       int   // bytes at the end of buf that the key may begin with
	err        error // behind buf
}

// Read implements io.Reader.
func (m *mask) Read(p []byte) (int, error) {
	for m.next == len(m.buf)-m.held && m.err == nil {
		m.fill(len(p))
	}
	if m.err != nil {
		m.held = 0 // nothing comes that it could be a part of
	}
	n := copy(p, m.buf[m.next:len(m.buf)-m.held])
	if m.next += n; n == 0 && m.next == len(m.buf) {
		return 0, m.err
	}
	return n, nil
}

// fill reads more behind what is held.
func (m *mask) fill(want int) {
	kept := copy(m.buf, m.buf[len(m.buf)-m.held:])
	size := kept + max(want, 1)
	if cap(m.buf) < size {
		m.buf = append(make([]byte, 0, size), m.buf[:kept]...)
	}
	var n int
	n, m.err = m.from.Read(m.buf[kept:size])
	m.buf, m.next, m.held = m.buf[:kept+n], 0, 0
	for at := 0; ; {
		i := bytes.Index(m.buf[at:], m.key)
		if i < 0 {
			break
		}
		at += i
		copy(m.buf[at:], m.stars)
	}
	for n := min(len(m.key)-1, len(m.buf)); n > 0; n-- {
		if bytes.HasPrefix(m.key, m.buf[len(m.buf)-n:]) {
			m.held = n
			return
		}
	}
}
