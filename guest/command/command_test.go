package command

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// What stands on the command line becomes this call.
func TestParse(t *testing.T) {
	for line, want := range map[string]string{
		"now":                    `time.now {}`,
		"self":                   `proc.self {}`,
		"sleep 1.5":              `time.sleep {"seconds":1.5}`,
		"sleep 2s":               `time.sleep {"seconds":2}`,
		"log hello --level=info": `log.write {"level":"info","message":"hello"}`,
		"log -- --level":         `log.write {"message":"--level"}`,
		"tool list":              `tool.list {}`,
		"tool list fs":           `tool.list {"server":"fs"}`,
		"tool describe fs.read":  `tool.describe {"server":"fs","tool":"read"}`,
		"tool call fs.read --arg path=/a=b --arg n:=5": `tool.call {"arguments":{"n":5,"path":"/a=b"},"server":"fs","tool":"read"}`,
		"tool call fs.a.b": `tool.call {"arguments":{},"server":"fs","tool":"a.b"}`,
		`tool call fs.w --json {"a":[1.0,"x"]} --arg b=c`:   `tool.call {"arguments":{"a":[1.0,"x"],"b":"c"},"server":"fs","tool":"w"}`,
		`tool call fs.w --json -`:                           `tool.call {"arguments":{"from":"stdin"},"server":"fs","tool":"w"}`,
		"state get k":                                       `state.get {"key":"k"}`,
		"state get k --default=":                            `state.get {"default":"","key":"k"}`,
		"state set k v":                                     `state.set {"key":"k","value":"v"}`,
		"state set k --json [1]":                            `state.set {"key":"k","value":[1]}`,
		"state delete k":                                    `state.delete {"key":"k"}`,
		"state keys":                                        `state.keys {}`,
		`call proc.spawn --arg source=x --arg args:=["a"]`:  `proc.spawn {"args":["a"],"source":"x"}`,
		`call rand.bytes --json {"n":99999999999999999999}`: `rand.bytes {"n":99999999999999999999}`,
	} {
		op, params, err := parse(strings.Fields(line), strings.NewReader(" {\"from\":\"stdin\"}\n"))
		if got := op + " " + string(params); err != nil || got != want {
			t.Errorf("kernel %s\nis %s, %v; want %s", line, got, err, want)
		}
	}
}

// What cannot be meant is refused, with a word on why.
func TestParseRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"": "nothing was asked for", "nothing": "there is no kernel nothing", "now 1": `"1" is too much`, "sleep": "seconds is missing",
		"sleep x": "no number of seconds", "sleep -1": "no number of seconds", "sleep NaN": "no number of seconds", "tool": "call, list or describe is missing", "tool burn": "there is no kernel tool burn",
		"tool call fs": "write SERVER.TOOL", "tool call .x": "write SERVER.TOOL", "tool call a.b --json [1]": "an object is needed", "tool call a.b --json {": "no JSON",
		"tool call a.b --arg x": "NAME=TEXT", "tool call a.b --arg x:=y": "no JSON behind :=", "now --arg a=b": "--arg means nothing here", "state set k": "the value is missing",
		"state get k --level x": "--level means nothing here", "now --json {}": "--json means nothing here", "now --frob x": "no option --frob", "now --json": "needs a value", "call": "the operation is missing",
	} {
		if _, _, err := parse(strings.Fields(line), strings.NewReader("")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("kernel %s: %v; want %q", line, err, want)
		}
	}
	if _, _, err := parse([]string{"tool", "-h"}, nil); !errors.Is(err, errHelp) {
		t.Errorf("%v", err)
	}
}

// A kernel that answers as it likes.
func answering(t *testing.T, reply string) dialer {
	return func() (io.ReadWriteCloser, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			for range 2 { // hello, call
				if _, err := receive(far); err != nil {
					t.Error(err)
					return
				}
			}
			if strings.HasPrefix(reply, "{") {
				frame := append(make([]byte, frameHead), reply...)
				binary.LittleEndian.PutUint32(frame, uint32(len(reply)))
				frame[frameHead-1] = kindJSON
				reply = string(frame)
			}
			_, _ = io.WriteString(far, reply)
		}()
		return near, nil
	}
}

// Results, errors and what is no answer at all.
func TestRun(t *testing.T) {
	for reply, want := range map[string]struct {
		code      int
		out, said string
	}{
		`{"type":"reply","id":1,"result":"text\nmore"}`:                                                            {0, "text\nmore\n", ""},
		`{"type":"reply","id":1,"result":null}`:                                                                    {0, "", ""},
		`{"type":"reply","id":1,"result":{"a":1.50}}`:                                                              {0, "{\"a\":1.50}\n", ""},
		`{"type":"reply","id":1,"error":{"code":"permission_denied","text":"permission_denied: no (--allow it)"}}`: {3, "", "kernel: permission_denied: no (--allow it)\n"},
		`{"type":"reply","id":1,"error":{"code":"tool_error","text":"tool_error: x"}}`:                             {1, "", "kernel: tool_error: x\n"},
		`{"type":"reply","id":2,"result":1}`:                                                                       {6, "", "kernel: the kernel does not answer: "},
		"":                                                                                                         {6, "", "kernel: the kernel does not answer: it hung up"},
		"\xff\xff\xff\xff{":                                                                                        {6, "", "kernel: the kernel does not answer: a frame of 4294967295 bytes"},
	} {
		var out, said bytes.Buffer
		code := run([]string{"now"}, nil, &out, &said, answering(t, reply))
		if code != want.code || out.String() != want.out || !strings.HasPrefix(said.String(), want.said) || (want.said == "") != (said.Len() == 0) {
			t.Errorf("%s\nends with %d, %q, %q; want %+v", reply, code, out.String(), said.String(), want)
		}
	}
	var out bytes.Buffer
	if code := run([]string{"--help"}, nil, &out, io.Discard, nil); code != 0 || out.String() != usage {
		t.Errorf("help: %d %s", code, out.String())
	}
}

// A message that the kernel would refuse is not sent.
func TestTooLong(t *testing.T) {
	long, err := json.Marshal(strings.Repeat("x", maxRequest))
	if err != nil {
		t.Fatal(err)
	}
	if err := send(io.Discard, json.RawMessage(long)); err == nil || !strings.Contains(err.Error(), "the limit is") {
		t.Errorf("%v", err)
	}
}
