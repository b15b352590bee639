// Package sse reads streams of events: server-sent events as the HTML standard defines them, and lines of JSON. It hands
// out the bytes as they came and must never change them: whoever stores or forwards a stream needs what the server sent.
package sse

import (
	"bytes"
	"errors"
	"io"
)

// ErrTooLong says that a line or an event has more bytes than it may have.
var ErrTooLong = errors.New("a line of the stream is too long")

// Event is one event. Its bytes are valid until the next call of Next.
type Event struct {
	Type []byte // "event:"; empty: there is none
	Data []byte // the lines of "data:", with a newline between any two
	// Raw is all that was read since the event before, comments and line ends included. The Raw of all events, one after the
	// other, is the stream; only what comes behind the last event belongs to none.
	Raw []byte
	// Cut says that the stream has ended without the empty line that ends an event: it may be half of one.
	Cut bool
}

// Reader reads events.
type Reader struct {
	lines lines
	most  int // bytes of an event
	// joined holds the data of an event that has more than one line of it.
	joined []byte
	begun  bool
	err    error
}

// NewReader reads events of at most so many bytes from r.
func NewReader(r io.Reader, most int) *Reader {
	return &Reader{lines: lines{r: r, most: most}, most: most}
}

// Next reads up to the end of the next event that has data. The error is io.EOF at the end of the stream, [ErrTooLong], or
// that of the reader below; an event that an error cuts is not returned.
func (r *Reader) Next() (Event, error) {
	if r.err != nil {
		return Event{}, r.err
	}
	r.lines.release()
	var e Event
	data, typ := span{from: -1}, span{from: -1}
	r.joined = r.joined[:0]
	several, size := false, 0 // of the lines, each with an end of one byte: where the stream was cut is not to matter
	for {
		line, err := r.lines.next()
		if err != nil {
			r.err = err
			if !errors.Is(err, io.EOF) {
				return Event{}, err
			}
			if line.from == line.to && data.from < 0 {
				return Event{}, io.EOF
			}
			e.Cut = true
		}
		text := r.lines.bytes(line)
		if !r.begun {
			r.begun = true
			if rest, ok := bytes.CutPrefix(text, []byte("\ufeff")); ok {
				line.from += len(text) - len(rest)
				text = rest
			}
		}
		if len(text) > 0 {
			name, value := field(text)
			value.from, value.to = value.from+line.from, value.to+line.from
			switch string(text[:name]) {
			case "event":
				typ = value
			case "data":
				if data.from >= 0 {
					if !several {
						several = true
						r.joined = append(r.joined, r.lines.bytes(data)...)
					}
					r.joined = append(append(r.joined, '\n'), r.lines.bytes(value)...)
				}
				data = value
			}
		}
		if size += len(text) + 1; size > r.most {
			r.err = ErrTooLong
			return Event{}, r.err
		}
		if len(text) > 0 && !e.Cut {
			continue
		}
		if data.from < 0 { // a comment that keeps the connection open, or an event without data: it is no event
			if e.Cut {
				return Event{}, io.EOF
			}
			typ = span{from: -1}
			continue
		}
		if typ.from >= 0 {
			e.Type = r.lines.bytes(typ)
		}
		e.Data, e.Raw = r.lines.bytes(data), r.lines.taken()
		if several {
			e.Data = r.joined
		}
		return e, nil
	}
}

// field cuts a line: how long the name of its field is, and where its value is, without one space before it. A comment has an
// empty name.
func field(line []byte) (name int, value span) {
	name = bytes.IndexByte(line, ':')
	if name < 0 {
		return len(line), span{len(line), len(line)}
	}
	from := name + 1
	if from < len(line) && line[from] == ' ' {
		from++
	}
	return name, span{from, len(line)}
}

// Lines reads lines of JSON.
type Lines struct {
	lines lines
	err   error
}

// NewLines reads lines of at most so many bytes from r.
func NewLines(r io.Reader, most int) *Lines {
	return &Lines{lines: lines{r: r, most: most}}
}

// Next reads the next line that is not blank, without its end; it is valid until the next call. cut says that the stream has
// ended behind it without an end of the line: it may be half of one. The errors are those of [Reader.Next].
func (l *Lines) Next() (line []byte, cut bool, err error) {
	for l.err == nil {
		l.lines.release()
		at, err := l.lines.next()
		if l.err = err; err != nil && !errors.Is(err, io.EOF) {
			break
		}
		if text := l.lines.bytes(at); len(bytes.TrimSpace(text)) > 0 {
			return text, err != nil, nil
		}
	}
	return nil, false, l.err
}

// span is a part of what a reader of lines holds.
type span struct{ from, to int }

// lines cuts a stream into lines, which end with "\n", "\r\n" or "\r", and holds what it has cut until release.
type lines struct {
	r    io.Reader
	most int
	buf  []byte
	from int  // where the first line since release begins
	at   int  // the first byte that is in no line yet
	lf   bool // the last line ended with "\r": a "\n" that comes now belongs to it
	err  error
}

func (l *lines) bytes(s span) []byte { return l.buf[s.from:s.to:s.to] }

// taken are all bytes of the lines since release.
func (l *lines) taken() []byte { return l.buf[l.from:l.at:l.at] }

// release forgets the lines that were handed out. Their room is used again once they are half of the buffer, so that many
// small events cost no more than their bytes.
func (l *lines) release() {
	if l.from = l.at; l.from > len(l.buf)/2 {
		l.buf = append(l.buf[:0], l.buf[l.at:]...)
		l.from, l.at = 0, 0
	}
}

// next finds the next line. With io.EOF comes what is behind the last end of a line, which may be nothing.
func (l *lines) next() (span, error) {
	scanned := l.at
	for {
		if l.lf && l.at < len(l.buf) {
			l.lf = false
			if l.buf[l.at] == '\n' {
				l.at++
				scanned = max(scanned, l.at)
			}
		}
		if i := bytes.IndexByte(l.buf[scanned:], '\n'); i >= 0 {
			return l.cut(scanned, scanned+i)
		}
		if i := bytes.IndexByte(l.buf[scanned:], '\r'); i >= 0 {
			return l.cut(scanned, scanned+i)
		}
		scanned = len(l.buf)
		if len(l.buf)-l.at > l.most {
			return span{}, ErrTooLong
		}
		if l.err != nil {
			rest := span{l.at, len(l.buf)}
			l.at = len(l.buf)
			return rest, l.err
		}
		l.fill()
	}
}

// cut ends a line at the first end between from and to, where there is one.
func (l *lines) cut(from, to int) (span, error) {
	if i := bytes.IndexByte(l.buf[from:to], '\r'); i >= 0 {
		to = from + i
	}
	line := span{l.at, to}
	if line.to-line.from > l.most {
		return span{}, ErrTooLong
	}
	l.lf = l.buf[to] == '\r'
	l.at = to + 1
	if l.lf && l.at < len(l.buf) {
		l.lf = false
		if l.buf[l.at] == '\n' {
			l.at++
		}
	}
	return line, nil
}

func (l *lines) fill() {
	const least = 4 << 10
	if cap(l.buf)-len(l.buf) < least {
		grown := make([]byte, len(l.buf), max(2*cap(l.buf), 2*least))
		copy(grown, l.buf)
		l.buf = grown
	}
	n, err := l.r.Read(l.buf[len(l.buf):cap(l.buf)])
	l.buf, l.err = l.buf[:len(l.buf)+n], err
}
