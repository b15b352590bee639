package tool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/incoming"
)

// pipeProcess is a process that never was: only its stdout exists.
func pipeProcess(t testing.TB) (*process, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	dead := make(chan struct{})
	close(dead)
	p := &process{cmd: &exec.Cmd{}, stdin: in, stdout: r, stderr: &clip.Tail{}, dead: dead, ended: dead}
	t.Cleanup(func() { _, _, _ = r.Close(), w.Close(), in.Close() })
	return p, w
}

func TestReadMessages(t *testing.T) {
	big := strings.Repeat("x", 3000)
	for _, c := range []struct {
		name, input string
		pending     int64  // a request with this id waits
		messages    int    // that arrive
		fatal       string // reason for the end; "": the input ended
		tooBig      bool   // for the request that waits
	}{
		{"one a line", "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\r\n\n  {\"jsonrpc\":\"2.0\",\"method\":\"b\"}\n", 0, 2, "", false},
		{"the last without a newline", `{"jsonrpc":"2.0","method":"a"}`, 0, 1, "", false},
		{"a batch", `[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"result":{}}]` + "\n", 0, 2, "", false},
		{"a banner first", "Listening\n3.14\n{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n", 0, 1, "", false},
		{"words first", "Listening on stdio\n{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n", 0, 1, "", false},
		{"words later", "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\nTraceback\n{\"jsonrpc\":\"2.0\",\"method\":\"b\"}\n", 0, 2, "", false},
		{"a log in JSON", "{\"level\":\"info\"}\n[INFO] ready\n[1, {}]\n[]\n{\"jsonrpc\":\"2.0\",\"method\":\"b\"}\n", 0, 1, "", false},
		{"a byte order mark", "\ufeff{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\r\n\ufeff\n", 0, 1, "", false},
		{"words in a batch", `[{"jsonrpc":"2.0","method":"a"},7]` + "\n", 0, 0, "", false},
		{"a message that is none", `{"jsonrpc":"2.0","id":{}}` + "\n", 0, 0, "no JSON-RPC message", false},
		{"words without an end", strings.Repeat(strings.Repeat("y", 1000)+"\n", 1100), 0, 0, "more than 1 MB to stdout that is no message", false},
		{"words between messages", strings.Repeat(strings.Repeat(strings.Repeat("y", 1000)+"\n", 600)+"{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n", 3), 0, 3, "", false},
		{"half an object first", "{\"jsonrpc\":\n", 0, 0, "not JSON", false},
		{"too big, id first", `{"jsonrpc":"2.0","id":7,"result":"` + big + "\"}\n" + `{"jsonrpc":"2.0","method":"a"}` + "\n", 7, 2, "", true},
		{"too big, id last", `{"result":"` + big + `","jsonrpc":"2.0","id":7}` + "\n" + `{"jsonrpc":"2.0","method":"a"}` + "\n", 7, 2, "", true},
		{"too big, whose is unknown", `{"x":"` + big + "\"}\n", 7, 0, "more than 1 kB", true},
		{"far too big", strings.Repeat("y", 200_000), 7, 0, "more than 1 kB", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, w := pipeProcess(t)
			conn := newLineConn(p, 1024)
			tr := new(track)
			if c.pending != 0 {
				id, _ := jsonrpc.MakeID(float64(c.pending))
				conn.pending[id] = tr
			}
			go func() {
				_, _ = io.WriteString(w, c.input)
				_ = w.Close()
			}()
			n := 0
			for {
				if _, err := conn.Read(context.Background()); err != nil {
					break
				}
				n++
			}
			_ = conn.Close()
			fatal := ""
			if err := conn.failure(); err != nil {
				fatal = err.Error()
			}
			if n != c.messages || !strings.Contains(fatal, c.fatal) || (c.fatal == "") != (fatal == "") || tr.outcome().tooBig != c.tooBig {
				t.Errorf("%d messages, %q, too big %v", n, fatal, tr.outcome().tooBig)
			}
		})
	}
}

// A server that asks and does not read the answers is not read any more, and then taken for dead: each of its requests would
// wait in memory. One that reads them may ask as often as it likes, all at once and with ids that it used before.
func TestRequestsWithoutEnd(t *testing.T) {
	const requests = 1000
	for _, c := range []struct {
		name     string
		answers  bool
		messages int
		fatal    string
	}{
		{"answers are not read", false, 64, "it sent more than 64 requests and did not read the answers"},
		{"answers are read", true, requests, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, w := pipeProcess(t)
			r, in, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			p.stdin = in
			conn := newLineConn(p, 1024)
			if !c.answers {
				conn.patience = time.Millisecond
			}
			go func() {
				for i := range requests {
					_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i%900)
				}
				_ = w.Close()
			}()
			answers := make(chan jsonrpc.Message, requests)
			var answering sync.WaitGroup
			answering.Go(func() {
				for msg := range answers {
					if err := conn.Write(t.Context(), msg); err != nil {
						t.Error(err)
					}
				}
			})
			if c.answers {
				go func() { _, _ = io.Copy(io.Discard, r) }()
			}
			n := 0
			for {
				msg, err := conn.Read(t.Context())
				if err != nil {
					break
				}
				n++
				if c.answers {
					answers <- &jsonrpc.Response{ID: msg.(*jsonrpc.Request).ID, Result: json.RawMessage(`{}`)}
				}
			}
			close(answers)
			answering.Wait()
			_ = conn.Close()
			fatal := ""
			if err := conn.failure(); err != nil {
				fatal = err.Error()
			}
			if n != c.messages || fatal != c.fatal {
				t.Errorf("%d messages, %q", n, fatal)
			}
		})
	}
}

func FuzzDecodeLine(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	f.Add([]byte(`[{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}]`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, line []byte) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return
		}
		c := &lineConn{pending: map[jsonrpc.ID]*track{}}
		_ = c.decode(line)
		for _, m := range c.queue {
			c.deliver(m)
		}
		_ = c.dropped(line, errTooBig)
	})
}

func TestHTTPAnswers(t *testing.T) {
	const shown = `"result":{"tools":[],"content":[]}}`
	for _, c := range []struct {
		name, body string
		stream     bool
		want       string
		sdk        string // what the SDK reads, if not the same
	}{
		{"json", `{"jsonrpc":"2.0","id":1,"result":{"a":1.0}}`, false, `{"a":1.0}`, `{"jsonrpc":"2.0","id":1,` + shown},
		{"an event", "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":1.0}}\n\n", true, `{"a":1.0}`,
			"event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1," + shown + "\n\n"},
		{"after notifications", "data: {\"method\":\"progress\"}\n\n: hello\n\nid: 4\r\ndata: {\"id\":\"x\",\r\ndata: \"result\":7}\r\n\r\n", true, `7`,
			"data: {\"method\":\"progress\"}\n\n: hello\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"x\"," + shown + "\n\n"},
		{"without an end", "data: {\"id\":1,\"result\":7}", true, `7`, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1," + shown + "\n\n"},
		{"not complete", "data: {\"id\":1,\"resu", true, ``, ``},
		{"no json", `<html>`, false, ``, ``},
		{"nothing", "", true, ``, ``},
	} {
		_, track := withTrack(t.Context())
		r := &answerBody{body: io.NopCloser(iotest.OneByteReader(strings.NewReader(c.body))), limit: 1 << 20, stream: c.stream, track: track}
		sdk, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := track.outcome(); string(got.result) != c.want {
			t.Errorf("%s: %s", c.name, got.result)
		}
		if want := cmp.Or(c.sdk, c.body); string(sdk) != want {
			t.Errorf("%s: the SDK reads %q, want %q", c.name, sdk, want)
		}
	}
	_, track := withTrack(t.Context())
	failed := &answerBody{body: io.NopCloser(strings.NewReader(`{"id":1,"error":{"code":-32602,"message":"no"}}`)), limit: 1 << 20, track: track}
	if _, err := io.ReadAll(failed); err != nil || track.outcome().failed == nil || track.outcome().failed.Message != "no" {
		t.Errorf("%v %+v", err, track.outcome())
	}
	for _, stream := range []bool{true, false} {
		_, track := withTrack(t.Context())
		r := &answerBody{body: io.NopCloser(strings.NewReader("data: " + strings.Repeat("x", 100))), limit: 50, stream: stream, track: track}
		if _, err := io.ReadAll(r); !errors.Is(err, errTooBig) || !track.outcome().tooBig {
			t.Errorf("stream %v: %v %+v", stream, err, track.outcome())
		}
	}
}

// A tool that answered has run: only what it says itself, or what it asks for, means that nothing happened.
func TestWhatAnAnswerSaysOfTheCall(t *testing.T) {
	b := bindTool(&entry{name: "s"}, "s", "f", wireTool{Name: "f"})
	for raw, code := range map[string]agentkernel.Code{
		`{"content":[{"type":"text","text":"x"}]}`:                "",
		`{"content":[{"type":"text","text":"x"}],"isError":true}`: agentkernel.CodeTool,
		`{"resultType":"input_required"}`:                         agentkernel.CodeTool,
		`{"content":"hello"}`:                                     agentkernel.CodeAnswerLost,
		`5`:                                                       agentkernel.CodeAnswerLost,
		`{"content":[{"type":"image","data":"!!!","mimeType":"image/png"}]}`: agentkernel.CodeAnswerLost,
		`{"content":[7]}`: agentkernel.CodeAnswerLost,
		`{"structuredContent":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`: agentkernel.CodeAnswerLost,
	} {
		_, err := b.result(json.RawMessage(raw), &redactor{})
		if agentkernel.CodeOf(err) != code || code == agentkernel.CodeAnswerLost && !strings.Contains(err.Error(), "the tool ran, its answer is lost") {
			t.Errorf("%.80s: %v, want code %q", raw, err, code)
		}
	}
}

func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"x"}],"structuredContent":{"$a":1e999}}`))
	f.Add([]byte(`{"content":[{"type":"image","data":"eA","mimeType":"a"},{"type":"resource","resource":{"blob":"eA=="}}]}`))
	b := bindTool(&entry{name: "s"}, "s", "f", wireTool{Name: "f", OutputSchema: json.RawMessage(`{"properties":{"result":{}}}`)})
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := b.result(raw, &redactor{})
		if err == nil && !json.Valid(v) {
			t.Errorf("%q became %q", raw, v)
		}
	})
}

// awaits notes that a request with this id waits for its answer.
func awaits(c *lineConn, id float64, until time.Time) *track {
	of, _ := jsonrpc.MakeID(id)
	t := &track{until: until}
	c.mu.Lock()
	c.pending[of] = t
	c.mu.Unlock()
	return t
}

// TestNoRoomForMessages: a large message counts with its copies until whoever waited for it has done with it. One for which there is
// no room is skipped, its call learns why, and the connection goes on.
func TestNoRoomForMessages(t *testing.T) {
	p, w := pipeProcess(t)
	conn := newLineConn(p, 4<<20)
	conn.room = incoming.Exactly(2*incoming.Copies*(3<<19) - 1)
	big := strings.Repeat("x", 3<<19)
	soon := time.Now().Add(time.Hour)
	first, second, third := awaits(conn, 1, soon), awaits(conn, 2, soon), awaits(conn, 3, soon)
	go func() {
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":"`+big+`"}`+"\n")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":2,"result":"`+big+`"}`+"\n")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","method":"log","params":"`+big+`"}`+"\n"+`{"jsonrpc":"2.0","method":"small"}`+"\n")
	}()
	read := func() jsonrpc.Message {
		msg, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err, conn.failure())
		}
		return msg
	}
	read()
	held := first.outcome().held
	if used := conn.room.Used(); used != incoming.Copies*int64(len(big)+2) {
		t.Errorf("%d bytes are taken", used)
	}
	if resp, ok := read().(*jsonrpc.Response); !ok || resp.Error == nil || !second.outcome().noRoom || second.outcome().result != nil {
		t.Errorf("%+v", second.outcome())
	}
	if req, ok := read().(*jsonrpc.Request); !ok || req.Method != "small" {
		t.Errorf("%+v", req)
	}
	held.Release()
	if used := conn.room.Used(); used != 0 {
		t.Errorf("%d bytes are taken", used)
	}
	go func() { _, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":3,"result":"`+big+`"}`+"\n") }()
	read()
	if o := third.outcome(); o.noRoom || len(o.result) != len(big)+2 {
		t.Errorf("%+v", o.noRoom)
	}
}

// TestHalfAMessageHoldsNoRoom: a server that sends half of a large message and no more has no room for longer than the calls may
// take to which it may be the answer.
func TestHalfAMessageHoldsNoRoom(t *testing.T) {
	p, w := pipeProcess(t)
	conn := newLineConn(p, 4<<20)
	conn.room = incoming.Exactly(64 << 20)
	late := awaits(conn, 1, time.Now())
	messages := make(chan jsonrpc.Message, 2)
	go func() {
		defer close(messages)
		for {
			msg, err := conn.Read(context.Background())
			if err != nil {
				return
			}
			messages <- msg
		}
	}()
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":"`+strings.Repeat("x", 2<<20)) // more than a pipe has: it is being read
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for conn.room.Used() != 0 {
		<-tick.C
	}
	_, _ = io.WriteString(w, "\"}\n"+`{"jsonrpc":"2.0","method":"small"}`+"\n")
	<-messages
	if o := late.outcome(); !o.noRoom || o.result != nil {
		t.Errorf("%+v", o)
	}
	if req, ok := (<-messages).(*jsonrpc.Request); !ok || req.Method != "small" {
		t.Errorf("%+v, %v", req, conn.failure())
	}
	_ = w.Close()
}

// An answer that comes when nobody waits any more is not held.
func TestLateAnswersHoldNoRoom(t *testing.T) {
	room := incoming.Exactly(100)
	held := room.Hold()
	held.Set(50)
	_, track := withTrack(t.Context())
	track.outcome()
	if track.answer(nil, nil, held); room.Used() != 0 {
		t.Errorf("%d bytes are taken", room.Used())
	}
}

func TestNoRoomForHTTPAnswers(t *testing.T) {
	result := `"` + strings.Repeat("x", 3<<19) + `"`
	for _, stream := range []bool{false, true} {
		room := incoming.Exactly(2 * incoming.Copies * (3 << 19))
		answer := func() (outcome, error) {
			_, track := withTrack(t.Context())
			body := "data: {\"id\":1,\"result\":" + result + "}\n\n"
			if !stream {
				body = `{"id":1,"result":` + result + `}`
			}
			r := &answerBody{body: io.NopCloser(strings.NewReader(body)), limit: 4 << 20, stream: stream, track: track, held: room.Hold()}
			_, err := io.ReadAll(r)
			return track.outcome(), err
		}
		first, err := answer()
		if err != nil || string(first.result) != result || room.Used() < incoming.Copies*int64(len(result)) {
			t.Errorf("stream %v: %v, %d bytes are taken", stream, err, room.Used())
		}
		if o, err := answer(); !errors.Is(err, errNoRoom) || !o.noRoom || o.result != nil {
			t.Errorf("stream %v: %v, %v", stream, err, o.noRoom)
		}
		if first.held.Release(); room.Used() != 0 {
			t.Errorf("stream %v: %d bytes are taken", stream, room.Used())
		}
	}
	// What a server says by itself, in a stream that stays.
	said := strings.Repeat("data: {}\r\n\r\n", 100_000)
	if got, err := io.ReadAll(&answerBody{body: io.NopCloser(strings.NewReader(said)), limit: 4 << 20, stream: true}); err != nil || string(got) != said {
		t.Errorf("%d bytes of many events: %v", len(got), err)
	}
	if _, err := io.ReadAll(&answerBody{body: io.NopCloser(strings.NewReader("data: " + result)), limit: 4 << 20, stream: true}); !errors.Is(err, errTooBig) {
		t.Errorf("a large event: %v", err)
	}
}
