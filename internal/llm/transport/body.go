package transport

import (
	"bytes"
	"io"
)

// maxJoined is up to which size a body is put together before it is sent, in bytes.
const maxJoined = 32 << 10

// open gives a reader of a body, and how many bytes that has.
func open(pieces [][]byte) (io.ReadCloser, int64) {
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	switch {
	case len(pieces) == 1:
	case size <= maxJoined:
		pieces = [][]byte{bytes.Join(pieces, nil)}
	default:
		return io.NopCloser(&body{pieces: pieces}), int64(size)
	}
	return io.NopCloser(bytes.NewReader(pieces[0])), int64(size) // net/http knows this reader, and sends what it has together with the head
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
