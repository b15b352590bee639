package mcpserver

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLinesThatAreNoMessages(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"
	for _, tc := range []struct{ name, in, passed, answers string }{
		{"messages", ping + ping, ping + ping, ""},
		{"a batch", "[" + strings.TrimSpace(ping) + "]\n", "[" + strings.TrimSpace(ping) + "]\n", ""},
		{"empty lines", "\n \r\n" + ping, "\n \r\n" + ping, ""},
		{"without an end", ping + strings.TrimSpace(ping), ping + strings.TrimSpace(ping), ""},
		{"no JSON", "hello\n" + ping, ping, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the line is not JSON: line 1, column 1: a value should begin here, not 'h'`},
		{"cut off", ping + `{"jsonrpc":`, ping, "the JSON ends too early"},
		{"two on a line", strings.TrimSpace(ping) + ping + ping, ping, "nothing may follow the value"},
		{"a number", "42\n" + ping, ping, `"code":-32600`},
		{"another object", "{\"a\":1}\n" + ping, ping, `"code":-32600`},
	} {
		for _, reader := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.DataErrReader} {
			var answers bytes.Buffer
			passed, err := io.ReadAll(newLines(io.NopCloser(reader(strings.NewReader(tc.in))), &answers))
			if err != nil || string(passed) != tc.passed || (tc.answers == "") != (answers.Len() == 0) || !strings.Contains(answers.String(), tc.answers) {
				t.Errorf("%s: passed %q (%v), answered %q", tc.name, passed, err, answers.String())
			}
		}
	}
}

// What is longer than any message is not kept until its end.
func TestALineWithoutEndIsPassedOn(t *testing.T) {
	l := newLines(io.NopCloser(io.LimitReader(endless{}, 2*maxRequest)), io.Discard)
	if n, err := io.Copy(io.Discard, l); n != 2*maxRequest || err != nil || len(l.rest) > 0 {
		t.Errorf("%d bytes (%v)", n, err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
