package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"agentkernel"
)

// frame is one Server-Sent Event. data is valid until the next one is read.
type frame struct {
	name string
	data []byte
}

// frames reads Server-Sent Events (WHATWG HTML 9.2.6): "field: value" lines, an empty line ends an event,
// a line that begins with a colon is a comment. Positions come from the data, so ids are not kept.
type frames struct {
	r    *bufio.Reader
	most int // bytes of an event
	line []byte
	data []byte
}

const readBuffer = 8 << 10

func newFrames(r io.Reader, most int) *frames {
	return &frames{r: bufio.NewReaderSize(r, readBuffer), most: most}
}

// next reads one event. Errors: those of the reader, io.ErrUnexpectedEOF at the end; CodeLimit when an event is
// larger than most.
func (f *frames) next() (frame, error) {
	var name string
	f.data = f.data[:0]
	for lines := 0; ; {
		line, err := f.readLine()
		if err != nil {
			return frame{}, err
		}
		if len(line) == 0 {
			if lines > 0 {
				return frame{name: name, data: f.data}, nil
			}
			name = "" // an event without data is none
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			if lines > 0 {
				f.data = append(f.data, '\n')
			}
			lines++
			f.data = append(f.data, value...)
			if len(f.data) > f.most {
				return frame{}, f.tooLarge()
			}
		}
	}
}

// readLine reads a line without its end; valid until the next call.
func (f *frames) readLine() ([]byte, error) {
	f.line = f.line[:0]
	for {
		part, err := f.r.ReadSlice('\n')
		if err == nil && len(f.line) == 0 {
			return trimLine(part), nil
		}
		f.line = append(f.line, part...)
		switch {
		case err == nil:
			return trimLine(f.line), nil
		case errors.Is(err, bufio.ErrBufferFull):
			if len(f.line) > f.most+len("data: \r\n") {
				return nil, f.tooLarge()
			}
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

func trimLine(b []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
}

func (f *frames) tooLarge() error {
	return agentkernel.Errorf(agentkernel.CodeLimit, "events", "an event is larger than %d bytes", f.most).
		WithHint("read the process's journal instead: agentkernel trace --json")
}
