package client

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"agentkernel"
)

// most is small, so that the bound is tested without much memory.
const most = 4 << 20

func readAll(r io.Reader) (got []string, err error) {
	f := newFrames(r, most)
	for {
		fr, err := f.next()
		if err != nil {
			return got, err
		}
		got = append(got, fr.name+"="+string(fr.data))
	}
}

func TestFrames(t *testing.T) {
	long := strings.Repeat("x", 3*readBuffer)
	for _, tc := range []struct{ name, stream, want string }{
		{"one", "id: 1\nevent: a\ndata: {}\n\n", "a={}"},
		{"without a space", "event:a\ndata:{}\n\n", "a={}"},
		{"only the first space goes", "data:  x\n\n", "= x"},
		{"several lines of data", "data: x\ndata: y\n\n", "=x\ny"},
		{"carriage returns", "event: a\r\ndata: x\r\n\r\n", "a=x"},
		{"comments", ":\n\n: hello\n\nevent: a\n: in between\ndata: x\n\n", "a=x"},
		{"unknown fields", "retry: 5\nwhatever\ndata: x\n\n", "=x"},
		{"an event without data is none", "event: a\n\ndata: x\n\n", "=x"},
		{"empty data is an event", "event: a\ndata:\n\n", "a="},
		{"names do not stick", "event: a\ndata: x\n\ndata: y\n\n", "a=x|=y"},
		{"longer than the buffer", "event: a\ndata: " + long + "\n\nevent: b\ndata: y\n\n", "a=" + long + "|b=y"},
		{"cut", "event: a\ndata: x\n\nevent: b\ndata: y\n", "a=x"},
		{"cut in a line", "data: x\n\ndata: y", "=x"},
		{"nothing", "", ""},
	} {
		for kind, r := range map[string]io.Reader{
			"whole": strings.NewReader(tc.stream), "by the byte": iotest.OneByteReader(strings.NewReader(tc.stream)),
		} {
			got, err := readAll(r)
			if strings.Join(got, "|") != tc.want || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s, %s: %.80q, %v; want %.80q", tc.name, kind, got, err, tc.want)
			}
		}
	}
}

// endless is a line that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestFramesAreBounded(t *testing.T) {
	lines := strings.NewReader("data: " + strings.Repeat("data: y\n", 10))
	for name, r := range map[string]io.Reader{
		"one line":   io.MultiReader(lines, endless{}),
		"many lines": &repeat{text: "data: " + strings.Repeat("x", 1<<20) + "\n"},
	} {
		_, err := readAll(r)
		if agentkernel.CodeOf(err) != agentkernel.CodeLimit {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// repeat is a text that comes again and again.
type repeat struct {
	text string
	at   int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

func TestALargeEventComesWhole(t *testing.T) {
	data := strings.Repeat("x", most)
	got, err := readAll(strings.NewReader("data: " + data + "\n\n"))
	if len(got) != 1 || got[0] != "="+data || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d events, %v", len(got), err)
	}
}

func FuzzFrames(f *testing.F) {
	for _, s := range []string{"event: a\ndata: x\n\n", "data\ndata\n\n", ":\n\n", "\r\n\r\n", "data: x", "event: a\n\ndata: y\n\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		whole, err1 := readAll(bytes.NewReader(b))
		parts, err2 := readAll(iotest.OneByteReader(bytes.NewReader(b)))
		if strings.Join(whole, "|") != strings.Join(parts, "|") || (err1 == nil) != (err2 == nil) {
			t.Errorf("%q: %q, %v; by the byte %q, %v", b, whole, err1, parts, err2)
		}
		if strings.Count(string(b), "data") < len(whole) {
			t.Errorf("%q: events out of nothing: %q", b, whole)
		}
	})
}
