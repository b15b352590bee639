package mcpserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"agentkernel/internal/strictjson"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// lines passes the messages on that come from a client on standard input, one a line. A line that is none is answered with an
// error, as JSON-RPC 2.0 (section 5.1) has it, and left out: the SDK would end the session of all that is under way.
type lines struct {
	io.Closer
	in      *bufio.Reader
	answers io.Writer
	rest    []byte // of the line that is being passed on
	long    bool   // a line is longer than any message may be: the SDK says so, and the session ends
}

func newLines(in io.ReadCloser, answers io.Writer) *lines {
	return &lines{Closer: in, in: bufio.NewReaderSize(in, 64<<10), answers: answers}
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if l.long {
			return l.in.Read(p)
		}
		line, err := l.next()
		if !l.long && len(bytes.TrimSpace(line)) > 0 {
			if refusal := refuse(line); refusal != nil {
				line = nil
				if _, werr := l.answers.Write(refusal); werr != nil {
					return 0, werr
				}
			}
		}
		l.rest = line
		if err != nil && len(line) == 0 {
			return 0, err // the end comes again, if there was a last line without one
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// next reads a line with its end.
func (l *lines) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.in.ReadSlice('\n')
		line = append(line, part...)
		if l.long = len(line) > maxRequest; l.long || !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// Codes of JSON-RPC.
const (
	parseError     = -32700
	invalidRequest = -32600
)

// refuse is the answer to a line that is no message; nil: it is one. A batch is for the SDK, which knows what was agreed.
func refuse(line []byte) []byte {
	code, text := invalidRequest, "this is no message of JSON-RPC"
	var raw json.RawMessage
	if err := json.Unmarshal(line, &raw); err != nil {
		code, text = parseError, fmt.Sprintf("the line is not JSON: %s. Messages are JSON objects, one a line", strictjson.Wrong(err, line))
	} else if raw[0] == '[' {
		return nil
	} else if _, err := jsonrpc.DecodeMessage(raw); err == nil {
		return nil
	}
	answer := struct {
		Version string `json:"jsonrpc"`
		ID      any    `json:"id"`
		Error   struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}{Version: "2.0"}
	answer.Error.Code, answer.Error.Message = code, text
	b, err := json.Marshal(answer)
	if err != nil {
		return nil // texts and numbers always encode
	}
	return append(b, '\n')
}

// oneWriter lets more than one write whole messages.
type oneWriter struct {
	mu sync.Mutex
	io.Writer
}

// Write implements io.Writer.
func (w *oneWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Writer.Write(p)
}

// Close implements io.Closer: standard output is not ours to close.
func (*oneWriter) Close() error { return nil }
