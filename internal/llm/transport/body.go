package transport

import (
	"bytes"
	"io"
)

// maxJoined is up to which size a body is put together before it is sent, in bytes.
const maxJoined = 32 << 10

// open gives a reader of a body, and how many bytes that has. After drop, which whoever reads calls, nothing more is read of it.
func open(pieces [][]byte) (r io.ReadCloser, drop func(), size int) {
	for _, p := range pieces {
		size += len(p)
	}
	switch {
	case len(pieces) == 1:
	case size <= maxJoined:
		pieces = [][]byte{bytes.Join(pieces, nil)}
	default:
		b := &body{pieces: pieces}
		return io.NopCloser(b), func() { b.pieces = nil }, size
	}
	one := bytes.NewReader(pieces[0]) // net/http knows this reader, and sends what it has together with the head
	return io.NopCloser(one), func() { one.Reset(nil) }, size
}

// body reads pieces, one after the other. There is nothing to close: it may be closed while it is read.
type body struct {
	pieces [][]byte
	at     int // in the first one
}

func (b *body) Read(p []byte) (n int, err error) {
	for n < len(p) && len(b.pieces) > 0 {
		c := copy(p[n:], b.pieces[0][b.at:])
		n, b.at = n+c, b.at+c
		if b.at == len(b.pieces[0]) {
			b.pieces, b.at = b.pieces[1:], 0
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}
