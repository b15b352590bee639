package fetch

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/internal/incoming"
)

// errTooLarge ends a body that is larger than it may be.
var errTooLarge = errors.New("the body is too large")

// errNoRoom ends a body for which the kernel has no memory left beside all others.
var errNoRoom = errors.New("there is no room for the body")

// read reads at most limit bytes. What it gives is held, with the copies that are made of it, until it is released; an error holds
// nothing.
func read(r io.Reader, limit, expect int64, held *incoming.Hold) (body []byte, err error) {
	defer func() {
		if err != nil {
			held.Release()
		}
	}()
	if expect > limit {
		return nil, errTooLarge
	}
	const first, largest = 16 << 10, 1 << 20 // a slice that grows by appending would be there twice
	var parts [][]byte
	size, room := int64(0), int64(0)
	for {
		if size == room {
			parts = append(parts, make([]byte, 0, min(largest, max(first, room))))
			room += int64(cap(parts[len(parts)-1]))
			if !held.Set(incoming.Copies * min(room, limit)) {
				return nil, errNoRoom
			}
		}
		last := &parts[len(parts)-1]
		n, err := r.Read((*last)[len(*last):cap(*last)])
		*last, size = (*last)[:len(*last)+n], size+int64(n)
		switch {
		case size > limit:
			return nil, errTooLarge
		case err == io.EOF: // not ErrUnexpectedEOF, which is half an answer
			return joined(parts, held)
		case err != nil:
			return nil, err
		}
	}
}

// joined makes one body of its parts and holds what its size in JSON asks for.
func joined(parts [][]byte, held *incoming.Hold) ([]byte, error) {
	body := parts[0]
	if len(parts) > 1 {
		body = bytes.Join(parts, nil)
	}
	if !held.Set(int64(len(body)) + (incoming.Copies-1)*inJSON(body)) {
		return nil, errNoRoom
	}
	return body, nil
}

// inJSON is how many bytes a body has at most in JSON: as text, or in base64 with a text of its bytes.
func inJSON(body []byte) int64 {
	n := int64(len(body))
	if !utf8.Valid(body) {
		n += 2 * n
	}
	for _, c := range body {
		switch {
		case c == '\n' || c == '\r' || c == '\t' || c == '"' || c == '\\':
			n++
		case c < ' ':
			n += int64(len(`\u0000`)) - 1
		}
	}
	return n
}

// tooLarge is the answer for a body beyond its limit. The request itself was answered.
func tooLarge(status int, limit int64) error {
	return agentkernel.Errorf(agentkernel.CodeLimit, op, "the server answered %d, and the body is larger than %d bytes", status, limit).
		WithHint("ask for less, or set max_bytes, which may be at most %d", int64(MaxBody))
}

func noRoom() error {
	return agentkernel.Errorf(agentkernel.CodeLimit, op, "too many answers are being received at the same time: there is no room for this one").
		WithHint("fetch fewer at once, or less: max_bytes bounds one")
}
