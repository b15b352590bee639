package monty

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"agentkernel/internal/sandbox/monty/montypb"
)

const (
	frameHead = 4         // bytes of the length before each message
	keepFrame = 256 << 10 // a larger read buffer is not kept for the next frame
	growFrame = 1 << 20   // a frame is read in steps from this size on, so that a lie about its length costs little
)

// frameReader reads length-prefixed messages of at most max bytes.
type frameReader struct {
	r   *bufio.Reader
	max int
	buf []byte
}

func newFrameReader(r io.Reader, limit int) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, 32<<10), max: limit}
}

// whole says whether next would give a message without reading; large: it never will, as the buffer is too small.
func (f *frameReader) whole() (whole, large bool) {
	have := f.r.Buffered()
	if have < frameHead {
		return false, false
	}
	head, _ := f.r.Peek(frameHead) // it is buffered
	size := uint64(binary.LittleEndian.Uint32(head)) + frameHead
	return uint64(have) >= size, size > uint64(f.r.Size()) //nolint:gosec // not negative
}

// more reads once. False: there is no more.
func (f *frameReader) more() bool {
	_, err := f.r.Peek(f.r.Buffered() + 1)
	return err == nil
}

// next gives one message, valid until the following call; done follows. io.EOF: the other side closed between messages.
func (f *frameReader) next() ([]byte, error) {
	head, err := f.r.Peek(frameHead)
	if err != nil {
		if len(head) > 0 && err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	size := int(binary.LittleEndian.Uint32(head))
	if size > f.max {
		return nil, fmt.Errorf("a message of %d bytes is over the limit of %d", size, f.max)
	}
	_, _ = f.r.Discard(frameHead) // what was peeked can be discarded
	buf := f.buf[:0]
	for len(buf) < size {
		at := len(buf)
		if at == cap(buf) {
			buf = append(make([]byte, 0, min(size, max(growFrame, 2*at))), buf...)
		}
		buf = buf[:min(size, cap(buf))]
		if _, err := io.ReadFull(f.r, buf[at:]); err != nil {
			return nil, io.ErrUnexpectedEOF
		}
	}
	f.buf = buf
	return lean(buf), nil
}

// done says that the message has been read: a large buffer would else be kept for as long as the worker has nothing to say.
func (f *frameReader) done() {
	if cap(f.buf) > keepFrame {
		f.buf = nil
	}
}

const (
	leanFrom  = 64 << 10 // smaller messages cannot hold enough to matter
	maxPassed = 1000     // arguments of a call: no function takes more, and the error says so
	maxFrames = 5000     // of a traceback: the innermost ones
)

// lean takes out of a message what is there so many times that it would be far larger in memory than on the
// wire: a program that passes a million arguments is told that they are too many by the first thousand.
func lean(msg []byte) []byte {
	if len(msg) < leanFrom {
		return msg
	}
	var out []byte // nil: nothing has changed so far
	for at := 0; at < len(msg); {
		num, typ, n := protowire.ConsumeField(msg[at:])
		if n < 0 {
			return msg // malformed: whoever decodes it says so
		}
		field, short := msg[at:at+n], []byte(nil)
		changed := false
		if typ == protowire.BytesType {
			short, changed = shorten(num, field)
		}
		if changed && out == nil {
			out = append(make([]byte, 0, at+len(short)+16), msg[:at]...)
		}
		switch {
		case changed:
			out = protowire.AppendBytes(protowire.AppendTag(out, num, typ), short)
		case out != nil:
			out = append(out, field...)
		}
		at += n
	}
	if out == nil {
		return msg
	}
	return out
}

// shorten gives what to leave of a field of Event.
func shorten(num protowire.Number, field []byte) (short []byte, changed bool) {
	_, _, tag := protowire.ConsumeTag(field)
	body, _ := protowire.ConsumeBytes(field[tag:])
	switch num {
	case 2: // FunctionCall
		short = atMost(atMost(body, 2, maxPassed, false), 3, maxPassed, false)
	case 5: // ResolveFutures: the kernel knows what is pending
	case 7: // Failed
		short = shortFailure(body)
	default:
		return nil, false
	}
	return short, len(short) != len(body)
}

// shortFailure is Failed with the innermost frames only; anything that Failed is not becomes nothing.
func shortFailure(body []byte) []byte {
	num, typ, tag := protowire.ConsumeTag(body)
	if tag < 0 || num != 1 || typ != protowire.BytesType {
		return nil
	}
	raised, n := protowire.ConsumeBytes(body[tag:])
	if n < 0 || tag+n != len(body) {
		return nil
	}
	short := atMost(raised, 3, maxFrames, true)
	if len(short) == len(raised) {
		return body
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, num, typ), short)
}

// atMost keeps the first most fields of a number, or the last. Without a change it gives the same bytes.
func atMost(msg []byte, field protowire.Number, most int, last bool) []byte {
	count := 0
	for rest := msg; len(rest) > 0; {
		num, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return msg
		}
		if num == field {
			count++
		}
		rest = rest[n:]
	}
	if count <= most {
		return msg
	}
	var out []byte
	at := 0
	for rest := msg; len(rest) > 0; {
		num, _, n := protowire.ConsumeField(rest)
		if num == field {
			at++
		}
		if num != field || !last && at <= most || last && at > count-most {
			out = append(out, rest[:n]...)
		}
		rest = rest[n:]
	}
	return out
}

// frame encodes a request that carries no large value.
func frame(r *montypb.Request) []byte {
	buf := make([]byte, frameHead, 128)
	buf, err := proto.MarshalOptions{}.MarshalAppend(buf, r)
	if err != nil {
		panic(err) // only text that is not UTF-8 can fail, and all text here was checked
	}
	binary.LittleEndian.PutUint32(buf, uint32(len(buf)-frameHead))
	return buf
}

// replyRoom is left free before an encoded value so that the messages around it can be written without
// moving it: each takes a tag byte and a length of at most five bytes, call ids up to six.
const replyRoom = 64

// wrap puts a length-delimited field around buf[at:] by writing before it. It gives the new start.
func wrap(buf []byte, at int, num protowire.Number, before []byte) int {
	at -= len(before)
	copy(buf[at:], before)
	var head [2 * binary.MaxVarintLen32]byte
	h := protowire.AppendTag(head[:0], num, protowire.BytesType)
	h = protowire.AppendVarint(h, uint64(len(buf)-at))
	at -= len(h)
	copy(buf[at:], h)
	return at
}

// valueReply frames a value (written after replyRoom bytes of buf) as the answer to a call, or, with
// future set, as the one result that a ResumeFutures delivers.
func valueReply(buf []byte, callID uint32, future bool) []byte {
	id := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(callID))
	at := wrap(buf, replyRoom, 1, nil) // Result.value
	at = wrap(buf, at, 2, nil)         // .result
	if future {
		at = wrap(buf, at, 1, id) // ResumeFutures.results
		at = wrap(buf, at, 6, nil)
	} else {
		at = wrap(buf, at, 4, id) // Request.resume_call
	}
	at -= frameHead
	binary.LittleEndian.PutUint32(buf[at:], uint32(len(buf)-at-frameHead))
	return buf[at:]
}
