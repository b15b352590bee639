package process

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"agentkernel"
)

func rawFrame(kind byte, payload string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
	return append(append(b, kind), payload...)
}

func readerOf(data []byte, step, limit int) *frames {
	r := bytes.NewReader(data)
	return &frames{max: limit, fill: func(into []byte) (int, error) { return r.Read(into[:min(step, len(into))]) }}
}

// Frames come out as they went in, however the stream is cut.
func TestFrames(t *testing.T) {
	long := strings.Repeat("x", 300<<10)
	var stream []byte
	for _, p := range []string{"{}", "", long, "{\"a\":1}", long + long} {
		stream = append(stream, rawFrame(kindJSON, p)...)
		stream = append(stream, rawFrame(kindStdout, p)...)
		stream = append(stream, rawFrame(kindDrain, "")...)
	}
	for _, step := range []int{1, 3, 1 << 10, 1 << 20} {
		f := readerOf(stream, step, 1<<20)
		for _, want := range []string{"{}", "", long, "{\"a\":1}", long + long} {
			for _, k := range []byte{kindJSON, kindStdout, kindDrain} {
				kind, payload, err := f.next()
				if k == kindDrain {
					want = ""
				}
				if err != nil || kind != k || string(payload) != want {
					t.Fatalf("step %d: kind %q, %d bytes, %v", step, kind, len(payload), err)
				}
			}
		}
		if _, _, err := f.next(); err != io.EOF { //nolint:errorlint // what next promises
			t.Errorf("at the end: %v", err)
		}
	}
}

// What lies about itself is refused at once, and what breaks off is told from what ends.
func TestBadFrames(t *testing.T) {
	huge := append(binary.LittleEndian.AppendUint32(nil, 0xfffffff0), kindJSON)
	for name, c := range map[string]struct {
		data    []byte
		hostile bool
	}{
		"longer than allowed": {huge, true},
		"unknown kind":        {rawFrame('x', "a"), true},
		"drain with payload":  {rawFrame(kindDrain, "a"), true},
		"half a head":         {[]byte{1, 0}, false},
		"half a payload":      {rawFrame(kindJSON, "{}")[:6], false},
		"less than promised":  {append(binary.LittleEndian.AppendUint32(nil, 900<<10), kindJSON, 'a'), false},
	} {
		_, _, err := readerOf(c.data, 1<<20, 1<<20).next()
		if _, hostile := errors.AsType[errProtocol](err); hostile != c.hostile || err == nil || !hostile && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBadMessages(t *testing.T) {
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for _, text := range []string{
		"", "null", "[]", "{", `{"type":"call"}`, `{"type":"nothing"}`, `{"type":7}`, `{"type":"call","id":1,"op":"x","args":[]}`,
		`{"type":"call","id":1,"op":"","args":{}}`, `{"type":"call","id":1,"op":"a b","args":{}}`, `{"type":"call","id":"1","op":"x","args":{}}`,
		`{"type":"call","id":1e99,"op":"x","args":{}}`, "{\"type\":\"call\",\"id\":1,\"op\":\"\xff\",\"args\":{}}", `{"type":"exit","code":256}`, `{"type":"exit","code":-1}`,
		`{"type":"call","id":1,"op":"x","args":{"a":` + deep + `}}`, `{"type":"call","id":1,"op":"` + strings.Repeat("x", 200) + `","args":{}}`,
	} {
		if m, err := decodeMessage([]byte(text)); err == nil {
			t.Errorf("%.60s: %+v", text, m)
		}
	}
	const list = 100_000
	for _, kind := range []string{"call", "checked"} { // only what is found before a program runs is read as lists, whatever a running one says
		text := []byte(`{"type":"` + kind + `","id":3,"op":"x","args":{},"missing":[{}` + strings.Repeat(",{}", list) + `],"tools":[{},{}],"imports":["",""]}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decodeMessage(text)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; err != nil || used > uint64(len(text)) {
			t.Errorf("%s: %d bytes for %d, %v", kind, used, len(text), err)
		}
		if v, err := decodeVerdict(text); err != nil || len(v.Missing) != list+1 || len(v.Tools) != 2 || len(v.Imports) != 2 {
			t.Errorf("%+v %v", v, err)
		}
	}
	m, err := decodeMessage([]byte(`{"type":"call","id":3,"op":"state.get","args": {"key":"k"} ,"async":true,"more":1}`))
	if err != nil || m.ID != 3 || m.Op != "state.get" || string(m.Args) != `{"key":"k"}` || !m.Async {
		t.Errorf("%+v %v", m, err)
	}
}

// Whatever a guest sends, reading it ends, costs no more memory than the bytes that came, and gives a message that has
// the form of one, or an error.
func FuzzFrames(f *testing.F) {
	f.Add(rawFrame(kindJSON, `{"type":"call","id":1,"op":"time.now","args":{}}`))
	f.Add(append(rawFrame(kindStdout, "text"), rawFrame(kindDrain, "")...))
	f.Add(rawFrame(kindJSON, `{"type":"exit","code":1,"result":{"$tuple":[1]}}`))
	f.Add([]byte{0xff, 0xff, 0xff, 0x7f, '{'})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := readerOf(data, 7, 1<<20)
		for used := 0; ; {
			kind, payload, err := r.next()
			if err != nil {
				return
			}
			if used += frameHead + len(payload); used > len(data) {
				t.Fatalf("%d bytes out of %d", used, len(data))
			}
			if kind != kindJSON {
				continue
			}
			if m, err := decodeMessage(payload); err == nil && m.Type == "call" && !json.Valid(m.Args) {
				t.Fatalf("arguments that are not JSON: %q", m.Args)
			}
		}
	})
}

// Bytes of two streams become text whatever their cuts.
func TestOutputText(t *testing.T) {
	var got strings.Builder
	told := "[stderr " + agentkernel.NotText + "]"
	o := output{room: 40 + int64(len(agentkernel.NotText)), emit: func(stream, text string) { got.WriteString("[" + stream + " " + text + "]") }}
	for _, p := range []struct {
		stream int
		data   string
	}{{0, "a\xc3"}, {1, "\xe2\x82"}, {0, "\xa4"}, {1, "\xac"}, {0, "\xff\xfe"}, {0, "\xf0\x9f"}, {1, "x"}} {
		if err := o.write(p.stream, []byte(p.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.end(); err != nil {
		t.Fatal(err)
	}
	if want := "[stdout a][stdout ä][stderr €][stdout \uFFFD\uFFFD][stderr x][stdout \uFFFD\uFFFD]" + told; got.String() != want {
		t.Errorf("%s, want %s", got.String(), want)
	}
	if err := o.write(0, []byte(strings.Repeat("ä", 40))); !errors.Is(err, errOutput) {
		t.Errorf("too much: %v", err)
	}
	if !strings.HasSuffix(got.String(), "ä]") || strings.Contains(got.String()[len(got.String())-20:], "\uFFFD") {
		t.Errorf("cut within a character: %q", got.String())
	}
}
