package sse_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"agentkernel/internal/llm/sse"
)

// event is an Event that outlives the next call.
type event struct {
	Type, Data string
	Cut        bool
}

// read reads a stream to its end; raw is what the events had, together.
func read(r io.Reader, most int) (events []event, raw string, err error) {
	for stream := sse.NewReader(r, most); ; {
		e, err := stream.Next()
		if err != nil {
			if _, again := stream.Next(); !errors.Is(again, err) {
				return nil, "", errors.New("the error does not stay")
			}
			return events, raw, err
		}
		events = append(events, event{string(e.Type), string(e.Data), e.Cut})
		raw += string(e.Raw)
	}
}

func TestEvents(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []event
	}{
		"one":                            {"data: a\n\n", []event{{Data: "a"}}},
		"with a type":                    {"event: ping\ndata: {}\n\n", []event{{Type: "ping", Data: "{}"}}},
		"no space, two spaces":           {"data:a\n\ndata:  b\n\n", []event{{Data: "a"}, {Data: " b"}}},
		"several lines":                  {"data: a\ndata: b\ndata:\ndata: c\n\n", []event{{Data: "a\nb\n\nc"}}},
		"line ends of Windows":           {"event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []event{{Type: "x", Data: "a"}, {Data: "b"}}},
		"line ends of old":               {"data: a\r\rdata: b\r\r", []event{{Data: "a"}, {Data: "b"}}},
		"line ends of all kinds":         {"data: a\r\n\ndata: b\n\r\ndata: c\r\n\r", []event{{Data: "a"}, {Data: "b"}, {Data: "c"}}},
		"comments":                       {": keep alive\n\n:\n\ndata: a\n: more\n\n", []event{{Data: "a"}}},
		"a type without data":            {"event: lost\n\ndata: a\n\n", []event{{Data: "a"}}},
		"other fields":                   {"id: 7\nretry: 100\ndata: a\ndatum: b\n\n", []event{{Data: "a"}}},
		"a byte order mark":              {"\ufeffdata: a\n\n", []event{{Data: "a"}}},
		"empty data":                     {"data\n\ndata:\n\n", []event{{}, {}}},
		"nothing":                        {"", nil},
		"blank lines":                    {"\n\r\n\n", nil},
		"no blank line at the end":       {"data: a\n\ndata: [DONE]\n", []event{{Data: "a"}, {Data: "[DONE]", Cut: true}}},
		"no end of the line":             {"data: a\n\ndata: [DO", []event{{Data: "a"}, {Data: "[DO", Cut: true}}},
		"half of a field's name":         {"data: a\n\nda", []event{{Data: "a"}}},
		"letters of more than one byte":  {"data: {\"x\":\"äöü€😀\"}\n\n", []event{{Data: `{"x":"äöü€😀"}`}}},
		"a colon in the data":            {"data: a: b\n\n", []event{{Data: "a: b"}}},
		"a comment behind the last data": {"data: a\n\n: bye", []event{{Data: "a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			for way, wrap := range map[string]func(io.Reader) io.Reader{
				"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
				"by halves": iotest.HalfReader, "with its end": iotest.DataErrReader,
			} {
				got, raw, err := read(wrap(strings.NewReader(c.in)), 1<<10)
				if !errors.Is(err, io.EOF) || !reflect.DeepEqual(got, c.want) {
					t.Errorf("%s: %q gives %+v and %v, want %+v", way, c.in, got, err, c.want)
				}
				if !strings.HasPrefix(c.in, raw) {
					t.Errorf("%s: the raw bytes %q are not what %q begins with", way, raw, c.in)
				}
			}
		})
	}
}

// TestEventsComeAtOnce: an event is there as soon as its last byte is, not only with what comes behind it.
func TestEventsComeAtOnce(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\n\r\n", "\r\r"} {
		r, w := io.Pipe()
		go func() {
			io.WriteString(w, "data: a"+end)
			// Nothing more comes, and the pipe stays open.
		}()
		e, err := sse.NewReader(r, 1<<10).Next()
		if err != nil || string(e.Data) != "a" {
			t.Errorf("%q: %q, %v", end, e.Data, err)
		}
		r.Close()
	}
}

func TestBounds(t *testing.T) {
	long := strings.Repeat("x", 100)
	for name, in := range map[string]string{
		"a line":                    "data: " + long + "\n\n",
		"a line without an end":     "data: " + long,
		"a comment":                 ": " + long + "\n\n",
		"an event of many lines":    strings.Repeat("data: x\n", 20),
		"comments without an event": strings.Repeat(": x\n", 40),
	} {
		if _, _, err := read(strings.NewReader(in), 50); !errors.Is(err, sse.ErrTooLong) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, _, err := read(strings.NewReader(strings.Repeat("data: x\n\n", 100)), 50); len(got) != 100 || !errors.Is(err, io.EOF) {
		t.Errorf("many small events: %d, %v", len(got), err)
	}
}

func TestBrokenStream(t *testing.T) {
	broken := io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(io.ErrUnexpectedEOF))
	got, _, err := read(broken, 1<<10)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !reflect.DeepEqual(got, []event{{Data: "a"}}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLines(t *testing.T) {
	for in, want := range map[string][]string{
		"":                              nil,
		"{}\n":                          {"{}"},
		"{\"a\":1}\n\n{\"b\":2}\r\n{}":  {`{"a":1}`, `{"b":2}`, "{} cut"},
		"  \n{\"x\":\"é\"}\n{\"half\":": {`{"x":"é"}`, `{"half": cut`},
	} {
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
			var got []string
			stream := sse.NewLines(r, 1<<10)
			line, cut, err := stream.Next()
			for ; err == nil; line, cut, err = stream.Next() {
				text := string(line)
				if cut {
					text += " cut"
				}
				got = append(got, text)
			}
			if !errors.Is(err, io.EOF) || !reflect.DeepEqual(got, want) {
				t.Errorf("%q gives %q and %v, want %q", in, got, err, want)
			}
		}
	}
	if _, _, err := sse.NewLines(strings.NewReader(strings.Repeat("x", 100)), 50).Next(); !errors.Is(err, sse.ErrTooLong) {
		t.Errorf("a long line: %v", err)
	}
}

// inPieces hands out a text in pieces as sizes says, each at most 16 bytes.
type inPieces struct{ text, sizes []byte }

func (p *inPieces) Read(b []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := len(p.text)
	if len(p.sizes) > 0 {
		n, p.sizes = min(n, 1+int(p.sizes[0])%16), p.sizes[1:]
	}
	n = copy(b, p.text[:n])
	p.text = p.text[n:]
	return n, nil
}

// FuzzEvents: however a stream is cut into pieces, its events are the same, and no byte of it is lost or changed.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("event: a\r\ndata: {\"x\":\"é\"}\r\n\r\n: ping\n\ndata: [DONE]\n\n"), []byte{1, 2, 3})
	f.Add([]byte("data: a\rdata: b\r\r\n\ndata: c"), []byte{0, 0, 0, 0})
	f.Add([]byte("\ufeffdata\n\n"), []byte{1})
	f.Fuzz(func(t *testing.T, text, sizes []byte) {
		const most = 64
		whole, raw, err := read(bytes.NewReader(text), most)
		pieces, rawPieces, errPieces := read(&inPieces{text, sizes}, most)
		// The last byte of "\r\n" may come too late for its event, which does not wait for it.
		raw, rawPieces = strings.TrimSuffix(raw, "\n"), strings.TrimSuffix(rawPieces, "\n")
		if !reflect.DeepEqual(whole, pieces) || raw != rawPieces || !errors.Is(errPieces, err) {
			t.Fatalf("in one: %+v %q %v\nin pieces: %+v %q %v", whole, raw, err, pieces, rawPieces, errPieces)
		}
		if !bytes.HasPrefix(text, []byte(raw)) {
			t.Fatalf("%q is not what %q begins with", raw, text)
		}
		for _, e := range whole {
			if strings.Contains(e.Data, "\r") || strings.ContainsAny(e.Type, "\r\n") {
				t.Fatalf("an end of a line in %+v", e)
			}
		}
		for stream := sse.NewLines(bytes.NewReader(text), most); ; {
			line, _, err := stream.Next()
			if err != nil {
				break
			}
			if len(line) > most || bytes.ContainsAny(line, "\r\n") {
				t.Fatalf("the line %q", line)
			}
		}
	})
}
