package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// Kinds of frames.
const (
	kindJSON   = '{'
	kindStdout = '1'
	kindStderr = '2'
	kindDrain  = 'd'
)

const (
	frameHead = 5       // bytes before the payload: length, kind
	growFrame = 1 << 20 // a frame is read in steps of this size, so that a lie about its length costs little
)

// frames cuts a stream into frames. fill is called when more bytes are needed; it reads at least one byte into
// its argument, or fails.
type frames struct {
	fill func(into []byte) (int, error)
	max  int

	buf        []byte
	start, end int        // unread bytes in buf
	begun      *longFrame // that was being read when fill was interrupted
}

// buffers are those of frames that nobody reads any more: most programs say little, and each had one.
var buffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// release gives the buffer back. No payload may be used any more.
func (f *frames) release() {
	if b := f.buf; b != nil {
		f.buf, f.start, f.end = nil, 0, 0
		buffers.Put(&b)
	}
}

// longFrame is the part of a long frame that has come.
type longFrame struct {
	kind    byte
	size    int
	payload []byte
	have    int
}

// errHeld interrupts the reading: the program was stopped. Whoever calls next again goes on where it was.
var errHeld = errors.New("the program is stopped")

// errProtocol is what hostile or broken guests are killed for.
type errProtocol string

func (e errProtocol) Error() string { return "the program broke the protocol: " + string(e) }

func broke(format string, args ...any) error { return errProtocol(fmt.Sprintf(format, args...)) }

// next gives one frame; the payload is valid until the following call. io.EOF: the other side closed between two
// frames.
func (f *frames) next() (kind byte, payload []byte, err error) {
	if f.buf == nil {
		f.buf = *buffers.Get().(*[]byte) //nolint:forcetypeassert // nothing else is in there
	}
	if l := f.begun; l != nil {
		f.begun = nil
		payload, err = f.long(l)
		return l.kind, payload, err
	}
	for f.end-f.start < frameHead {
		if err := f.more(); err != nil {
			if errors.Is(err, io.EOF) && f.end > f.start {
				err = io.ErrUnexpectedEOF
			}
			return 0, nil, err
		}
	}
	size := int(binary.LittleEndian.Uint32(f.buf[f.start:]))
	kind = f.buf[f.start+4]
	if err := f.judge(kind, size); err != nil {
		return 0, nil, err
	}
	if size <= f.end-f.start-frameHead || size <= len(f.buf)/2 {
		for f.end-f.start-frameHead < size {
			if err := f.more(); err != nil {
				return 0, nil, unexpected(err)
			}
		}
		f.start += frameHead
		payload = f.buf[f.start : f.start+size]
		f.start += size
		return kind, payload, nil
	}
	f.start += frameHead
	l := &longFrame{kind: kind, size: size, have: f.end - f.start}
	l.payload = make([]byte, min(size, l.have+growFrame))
	copy(l.payload, f.buf[f.start:f.end])
	f.start, f.end = 0, 0
	payload, err = f.long(l)
	return kind, payload, err
}

func (f *frames) judge(kind byte, size int) error {
	switch kind {
	case kindJSON, kindStdout, kindStderr:
		if size > f.max {
			return broke("a frame of %d bytes is over the limit of %d", size, f.max)
		}
	case kindDrain:
		if size != 0 {
			return broke("a frame of kind %q has %d bytes", kind, size)
		}
	default:
		return broke("a frame of unknown kind %q", kind)
	}
	return nil
}

// long reads a payload that the buffer does not hold.
func (f *frames) long(l *longFrame) ([]byte, error) {
	for l.have < l.size {
		if l.have == len(l.payload) {
			l.payload = slices.Grow(l.payload, min(l.size-l.have, max(growFrame, l.have)))
			l.payload = l.payload[:min(cap(l.payload), l.size)]
		}
		n, err := f.fill(l.payload[l.have:])
		if errors.Is(err, errHeld) {
			f.begun = l
		}
		if err != nil {
			return nil, unexpected(err)
		}
		l.have += n
	}
	return l.payload, nil
}

// more reads what has come behind the unread bytes.
func (f *frames) more() error {
	switch {
	case f.start == f.end:
		f.start, f.end = 0, 0
	case f.end == len(f.buf):
		f.end = copy(f.buf, f.buf[f.start:f.end])
		f.start = 0
	}
	n, err := f.fill(f.buf[f.end:])
	f.end += n
	return err
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// sealed fills in the head of a JSON frame, for which frameHead bytes were left at the beginning.
func sealed(frame []byte) []byte {
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-frameHead))
	frame[frameHead-1] = kindJSON
	return frame
}
