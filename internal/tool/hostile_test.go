package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/tool"
	"agentkernel/internal/tool/tooltest"
)

// What a lying MCP server can do to the kernel and to the people who look at it. docs/security.md lists the
// attacks; each test here is one that has to fail.

// liar opens a server that says what script tells it to (tooltest/server/lies.go).
func liar(t testing.TB, cfg tool.Config, script obj) agentkernel.ToolSource {
	t.Helper()
	raw, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "lies.json")
	if err := os.WriteFile(file, []byte(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(raw))), 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, cfg, map[string]tooltest.Server{"liar": tooltest.Stdio(t, "-lies", file)})
}

// cheap fails the test if f takes long or much memory.
func cheap(t testing.TB, memory uint64, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	f()
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if took > 2*time.Minute { // seconds at most, where it took hours
		t.Errorf("took %s", took)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > memory {
		t.Errorf("%d MB of memory", used>>20)
	}
}

func list(name string, more obj) obj {
	one := obj{"name": name, "inputSchema": obj{"type": "object"}}
	for k, v := range more {
		one[k] = v
	}
	return obj{"tools": []obj{one}}
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// text is what the server says as it stands, JSON or not.
func text(s string) string { return s }

// TestSchemaBombs: whatever a server declares, its tools are listed in a moment, and their texts are short.
func TestSchemaBombs(t *testing.T) {
	nest := func(open, inner, end string, n int) json.RawMessage {
		return raw(strings.Repeat(open, n) + inner + strings.Repeat(end, n))
	}
	wide := func(n int, piece string) json.RawMessage { // piece with its number, n times
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf(piece, i)
		}
		return raw("{" + strings.Join(parts, ",") + "}")
	}
	refs := func(keyword string, n int) json.RawMessage {
		return raw(`{"$defs":{"a":{"` + keyword + `":[` + strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/a"},`, n), ",") +
			`]}},"type":"object","properties":{"x":{"$ref":"#/$defs/a"}}}`)
	}
	self := wide(60, `"p%d":{"$ref":"#"}`)
	for name, schema := range map[string]json.RawMessage{
		"strange keywords at each level": nest(`{"required":5,"items":`, `{}`, `}`, 60),
		"deep items":                     nest(`{"items":`, `{}`, `}`, 4000),
		"deep properties":                nest(`{"type":"object","properties":{"a":`, `{}`, `}}`, 2000),
		"deep anyOf":                     nest(`{"anyOf":[`, `{}`, `]}`, 3000),
		"references to itself":           raw(`{"$ref":"#"}`),
		"references in a circle":         raw(`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"properties":{"x":{"$ref":"#/$defs/a"}}}`),
		"anyOf of itself":                refs("anyOf", 200),
		"oneOf of itself":                refs("oneOf", 200),
		"allOf of itself":                refs("allOf", 200),
		"properties that are itself":     raw(`{"type":"object","properties":` + string(self) + `}`),
		"many properties":                raw(`{"type":"object","properties":` + string(wide(30_000, `"p%d":{"type":"string"}`)) + `}`),
		"many properties with one name":  raw(`{"type":"object","properties":` + string(wide(20_000, `"é%d!":{"type":"string"}`)) + `}`),
		"properties that collide":        raw(`{"type":"object","properties":{"` + strings.Join(collisions(20_000), `":{},"`) + `":{}}}`),
		"many required":                  raw(`{"type":"object","required":["` + strings.Join(collisions(50_000), `","`) + `"]}`),
		"a long enumeration":             raw(`{"properties":{"x":{"enum":["` + strings.Join(collisions(50_000), `","`) + `"]}}}`),
		"many constants":                 raw(`{"properties":{"x":{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{"const":1},{"const":"a"},`, 50_000), ",") + `]}}}`),
		"a long pattern":                 raw(`{"properties":{"x":{"pattern":"` + strings.Repeat("(a{1,1000}", 50) + strings.Repeat(")", 50) + `"}}}`),
		"a long description":             raw(`{"description":"` + strings.Repeat("x", 3<<20) + `","properties":{"x":{"description":"` + strings.Repeat("y", 3<<20) + `"}}}`),
		"a long default":                 raw(`{"properties":{"x":{"default":"` + strings.Repeat("x", 3<<20) + `"}}}`),
		"a long name":                    raw(`{"properties":{"` + strings.Repeat("x", 3<<20) + `":{}}}`),
		"not a schema":                   raw(`[[[[1]]]]`),
	} {
		t.Run(name, func(t *testing.T) {
			var doc strings.Builder
			doc.WriteString(strings.Repeat("word ", 1<<20))
			src := liar(t, tool.Config{}, obj{"tools": list("bomb", obj{"inputSchema": schema, "outputSchema": schema, "description": doc.String()}),
				"results": obj{"bomb": obj{"content": []obj{}}}})
			cheap(t, 2<<30, func() {
				tools, err := src.Tools(t.Context(), "liar")
				if agentkernel.CodeOf(err) == agentkernel.CodeUnavailable || agentkernel.CodeOf(err) == agentkernel.CodeTool {
					return // the whole list is refused
				}
				if err != nil || len(tools) != 1 {
					t.Fatalf("%d tools, %v", len(tools), err)
				}
				b := tools[0]
				n := len(b.Signature) + len(b.Doc) + len(b.Description) + len(b.Title)
				for _, p := range b.Params {
					n += len(p.Name) + len(p.Python) + len(p.Type) + len(p.Default) + len(p.Doc)
				}
				if n > 1<<20 {
					t.Errorf("the texts of the tool are %d bytes long: signature %d, doc %d, description %d, %d params",
						n, len(b.Signature), len(b.Doc), len(b.Description), len(b.Params))
				}
			})
			cheap(t, 2<<30, func() {
				_, _ = call(t, src, "liar", "bomb", obj{"x": obj{"x": []int{1, 2, 3}}}) // an answer or an error
			})
		})
	}
}

// collisions are names that become the same identifier.
func collisions(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "a" + strings.Repeat("-", i%7) + strings.Map(func(r rune) rune {
			if r == '1' {
				return '+'
			}
			return '-'
		}, fmt.Sprintf("%016b", i))
	}
	return out
}

// TestArgumentsAreCheckedInAMoment: a schema can make its own check take for ever.
func TestArgumentsAreCheckedInAMoment(t *testing.T) {
	doubling := `{"type":"object","$ref":"#/$defs/d0","$defs":{`
	for i := range 40 {
		doubling += fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	doubling += `"d40":{"type":"object"}}}`
	tree := `{"type":"object","properties":{"x":{"$ref":"#/$defs/t"}},"$defs":{"t":{"items":{"anyOf":[` +
		strings.TrimSuffix(strings.Repeat(`{"allOf":[{"$ref":"#/$defs/t"},false]},`, 50), ",") + `]}}}}`
	deep := strings.Repeat("[", 90) + strings.Repeat("]", 90)
	for name, c := range map[string]struct{ schema, args string }{
		"each level twice":       {doubling, `{}`},
		"itself":                 {`{"$ref":"#"}`, `{}`},
		"itself by another":      {`{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"$ref":"#"}]}}}`, `{}`},
		"itself by not":          {`{"not":{"$ref":"#"}}`, `{}`},
		"itself by a dynamic":    {`{"$dynamicAnchor":"a","$dynamicRef":"#a"}`, `{}`},
		"itself if then":         {`{"if":true,"then":{"$ref":"#"}}`, `{}`},
		"fifty ways at a level":  {tree, `{"x":` + deep + `}`},
		"a million items":        {`{"properties":{"x":{"type":"array","uniqueItems":true,"items":{"pattern":"^(a+)+$"}}}}`, `{"x":["` + strings.Repeat(`a","`, 1<<20) + `"]}`},
		"contains in contains":   {`{"properties":{"x":{"contains":{"contains":{"contains":{"contains":{"const":1}}}}}}}`, `{"x":` + deep + `}`},
		"a tree, and its data":   {`{"properties":{"x":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"array","items":{"$ref":"#/$defs/n"}}}}`, `{"x":` + deep + `}`},
		"depends on each other":  {`{"dependentSchemas":{"x":{"$ref":"#"}}}`, `{"x":1}`},
		"properties of the same": {`{"patternProperties":{"":{"$ref":"#"}}}`, `{"x":{"x":{"x":{}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			src := liar(t, tool.Config{}, obj{"tools": list("t", obj{"inputSchema": raw(c.schema)}), "results": obj{"t": obj{"content": []obj{}}}})
			cheap(t, 4<<30, func() {
				_, _ = src.Call(t.Context(), agentkernel.ToolCall{Server: "liar", Tool: "t", Arguments: raw(c.args)}) // an answer or an error
			})
		})
	}
}

// TestListsWithoutEnd: a server that has ever more to say of its tools is cut off.
func TestListsWithoutEnd(t *testing.T) {
	debug.FreeOSMemory()
	for name, script := range map[string]obj{
		"large pages":  {"pages": text(`{"tools":[{"name":"tPAGE","inputSchema":{"type":"object","description":"<<3000000|x>>"}}],"nextCursor":"cPAGE"}`)},
		"many pages":   {"pages": text(`{"tools":[],"nextCursor":"cPAGE"}`)},
		"one page":     {"pages": text(`{"tools":[],"nextCursor":"same"}`)},
		"many tools":   {"tools": text(`{"tools":[{"name":"x","inputSchema":{}}<<300000|,{"name":"x","inputSchema":{}}>>]}`)},
		"no list":      {"tools": text(`{"tools":{"a":1}}`)},
		"no name":      {"tools": text(`{"tools":[{"inputSchema":{}},{"name":"","inputSchema":{}}]}`)},
		"a long name":  {"tools": text(`{"tools":[{"name":"<<4000000|x>>","inputSchema":{"type":"object"}}]}`)},
		"hostile name": {"tools": text(`{"tools":[{"name":"a\u001b[2J\nb","inputSchema":{"type":"object"}}]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			src := liar(t, tool.Config{}, script)
			cheap(t, 3<<30, func() {
				tools, err := src.Tools(t.Context(), "liar")
				for _, tl := range tools {
					if len(tl.Name) > 1<<10 || len(tl.PythonName) > 1<<10 || len(tl.Signature) > 1<<16 {
						t.Errorf("a tool with a name of %d bytes", len(tl.Name))
					}
				}
				if e := agentkernel.AsError(err, "", ""); e != nil && len(e.GuestText()) > 8<<10 {
					t.Errorf("the error is %d bytes long", len(e.GuestText()))
				}
			})
		})
	}
}

// A server is refused that declares more than can be held, with an error that names the bound.
func TestListsBeyondTheBounds(t *testing.T) {
	properties := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"p%d":{}`, i)
		}
		return b.String()[1:]
	}
	var tools strings.Builder
	for i := range 60 {
		fmt.Fprintf(&tools, `,{"name":"t%d","inputSchema":{"type":"object","properties":{%s}}}`, i, properties(1000))
	}
	for want, script := range map[string]obj{
		"more than 16 MB of tools":            {"pages": text(`{"tools":[{"name":"tPAGE","inputSchema":{"type":"object","description":"<<3000000|x>>"}}],"nextCursor":"cPAGE"}`)},
		"more than 10000 tools":               {"tools": text(`{"tools":[{"name":"x","inputSchema":{}}<<10000|,{"name":"x","inputSchema":{}}>>]}`)},
		"more than 50000 parameters of tools": {"tools": text(`{"tools":[` + tools.String()[1:] + `]}`)},
	} {
		src := liar(t, tool.Config{}, script)
		_, err := src.Tools(t.Context(), "liar")
		wantCode(t, err, agentkernel.CodeUnavailable, want)
	}
}

// TestHostileResults: a result costs in proportion to its length, and what a server says of a failure is
// short.
func TestHostileResults(t *testing.T) {
	results, errs := obj{}, obj{}
	for name, body := range map[string]string{
		"deep":           `{"structuredContent":{"a":<<5000|[>><<5000|]>>}}`,
		"deep_dollars":   `{"structuredContent":{"a":<<4000|{"$a":>>1<<4000|}>>}}`,
		"many_lists":     `{"structuredContent":{"a":[[]<<300000|,[]>>]}}`,
		"many_dollars":   `{"structuredContent":{"a":[{}<<500000|,{"$x":1}>>]}}`,
		"large":          `{"content":[{"type":"text","text":"<<12000000|x>>"}]}`,
		"many_parts":     `{"content":[{"type":"text","text":"x"}<<300000|,{"type":"text","text":"x"}>>]}`,
		"a_large_int":    `{"structuredContent":{"a":<<3000000|1>>}}`,
		"a_large_float":  `{"structuredContent":{"a":1e<<3000000|1>>}}`,
		"no_base64":      `{"content":[{"type":"image","data":"<<3000000|!>>"}]}`,
		"one_name_twice": `{"structuredContent":{"a":1,"a":2}}`,
		"long_error":     `{"isError":true,"content":[{"type":"text","text":"<<4000000|x>>"}]}`,
		"nothing":        `null`,
		"a_list":         `[1,2]`,
		"no_content":     `{}`,
	} {
		results[name] = text(body)
	}
	errs["long_refusal"] = text(`{"code":-32000,"message":"<<4000000|x>>"}`)
	errs["escapes"] = text(`{"code":-32000,"message":"\u001b]0;owned\u0007\u001b[2J\u009b31m"}`)
	tools := []obj{}
	for _, m := range []obj{results, errs} {
		for name := range m {
			tools = append(tools, obj{"name": name, "inputSchema": obj{"type": "object"}, "outputSchema": obj{"type": "object"}})
		}
	}
	src := liar(t, tool.Config{}, obj{"tools": obj{"tools": tools}, "results": results, "errors": errs, "stderr": "<<100000|\u001b[31mx\n>>"})
	for _, tl := range tools {
		name := tl["name"].(string)
		t.Run(name, func(t *testing.T) {
			cheap(t, 2<<30, func() {
				v, err := call(t, src, "liar", name, obj{})
				if err == nil && !json.Valid([]byte(v)) {
					t.Errorf("no JSON: %.100q", v)
				}
				e := agentkernel.AsError(err, "", "")
				if e != nil && len(e.GuestText()) > 64<<10 {
					t.Errorf("the error is %d bytes long", len(e.GuestText()))
				}
				if e != nil && strings.ContainsAny(e.GuestText(), "\x1b\x07\u009b") {
					t.Errorf("the error moves the cursor: %q", e.GuestText())
				}
			})
		})
	}
}

// TestFloods: a server that does not stop talking is slowed down or cut off, and does not fill the memory.
func TestFloods(t *testing.T) {
	for name, c := range map[string]struct {
		flood string
		deaf  bool
	}{
		"of pings whose answers it does not read": {`<<1000|{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n" + `>>`, true},
		"of pings":                         {`<<1000|{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n" + `>>`, false},
		"of questions":                     {`<<1000|{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}` + "\n" + `>>`, true},
		"of notifications":                 {`<<1000|{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n" + `>>`, false},
		"of unknown notices":               {`<<1000|{"jsonrpc":"2.0","method":"x"}` + "\n" + `>>`, true},
		"of answers that nobody asked for": {`<<1000|{"jsonrpc":"2.0","id":777,"result":{}}` + "\n" + `>>`, true},
		"of empty lines":                   {"<<1000|\n>>", true},
		"without a line end":               {"<<1000000|x>>", true},
		"of spaces":                        {"<<1000000| >>", true},
	} {
		t.Run(name, func(t *testing.T) {
			src := liar(t, tool.Config{CallTimeout: time.Second, StopGrace: 100 * time.Millisecond}, obj{"tools": list("t", nil),
				"results": obj{"t": obj{"content": []obj{}}}, "flood": c.flood, "deaf": c.deaf})
			_, _ = call(t, src, "liar", "t", obj{})
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			for ctx.Err() == nil { // calls go on to be answered or refused, one way or the other
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				if m.HeapAlloc > 600<<20 {
					t.Fatalf("the heap has %d MB", m.HeapAlloc>>20)
				}
				_, _ = src.Call(ctx, agentkernel.ToolCall{Server: "liar", Tool: "t", Timeout: 200 * time.Millisecond})
			}
		})
	}
}

// TestHTTPListsWithoutEnd: the same from the network.
func TestHTTPListsWithoutEnd(t *testing.T) {
	for _, stream := range []bool{false, true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var req struct {
				ID     json.RawMessage
				Method string
			}
			if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&req) != nil || len(req.ID) == 0 {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			body := `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"liar","version":"1"}}`
			if req.Method == "tools/list" {
				body = `{"tools":[{"name":"x","inputSchema":{}}` + strings.Repeat(`,{"name":"x","inputSchema":{}}`, 300_000) + `]}`
			}
			before, after := "", ""
			w.Header().Set("Content-Type", "application/json")
			if stream {
				w.Header().Set("Content-Type", "text/event-stream")
				before, after = "data: ", "\n\n"
			}
			_, _ = fmt.Fprintf(w, `%s{"jsonrpc":"2.0","id":%s,"result":%s}%s`, before, req.ID, body, after) // the kernel may have left
		}))
		src := open(t, tool.Config{StartTimeout: 10 * time.Minute}, map[string]tooltest.Server{"liar": {"url": server.URL}})
		cheap(t, 2<<30, func() {
			_, err := src.Tools(t.Context(), "liar")
			wantCode(t, err, agentkernel.CodeUnavailable, "declares more than 10000 tools")
		})
		server.Close()
	}
}

// A server whose fault is known is told by its fault, and not by how it went when the kernel hung up.
func TestServersAreToldTheirFault(t *testing.T) {
	const hello = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"%s","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`
	const tools = `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"put","inputSchema":{"type":"object"}}]}}`
	deep := `{"jsonrpc":"2.0","id":3,"result":` + strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000) + "}"
	for name, tc := range map[string]struct {
		lines []string // each is the answer to a line, the notification of the handshake aside
		says  string
	}{
		"a version nobody knows": {[]string{fmt.Sprintf(hello, "1999-01-01")}, `unsupported protocol version: "1999-01-01"; known are 20`},
		"an answer without one":  {[]string{fmt.Sprintf(hello, "2025-06-18"), "", tools, `{"jsonrpc":"2.0","id":3}`}, "neither a result nor an error"},
		"an answer too deep":     {[]string{fmt.Sprintf(hello, "2025-06-18"), "", tools, deep}, "nested more than 10,000 deep"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "lines")
			if err := os.WriteFile(file, []byte(strings.Join(tc.lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			src := open(t, tool.Config{}, map[string]tooltest.Server{"x": {"command": "sh",
				"args": []string{"-c", `while read -r heard && read -r line <&3; do test -z "$line" || printf '%s\n' "$line"; done 3<"$0"; cat >/dev/null`, file}}})
			_, err := call(t, src, "x", "put", obj{})
			wantCode(t, err, agentkernel.CodeUnavailable, tc.says)
		})
	}
}

// Nothing is offered to servers: no roots, no sampling, no elicitation.
func TestServersAreOfferedNothing(t *testing.T) {
	heard := filepath.Join(t.TempDir(), "heard")
	src := open(t, tool.Config{}, map[string]tooltest.Server{"ear": {"command": "sh", "args": []string{"-c", `head -n 1 >"$0"`, heard}}})
	_, err := call(t, src, "ear", "listen", obj{})
	wantCode(t, err, agentkernel.CodeUnavailable)
	raw, err := os.ReadFile(heard)
	if err != nil {
		t.Fatal(err)
	}
	var hello struct {
		Method string
		Params struct{ Capabilities map[string]json.RawMessage }
	}
	if err := json.Unmarshal(raw, &hello); err != nil || hello.Method != "initialize" || len(hello.Params.Capabilities) != 0 {
		t.Errorf("a server is greeted with %s %v", raw, err)
	}
}

// What a server says of itself when it greets would reach the model as if the user had said it: nobody is shown it.
func TestInstructionsAreShownToNobody(t *testing.T) {
	var log bytes.Buffer
	src := liar(t, tool.Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))},
		obj{"tools": obj{"tools": []obj{{"name": "f", "inputSchema": obj{"type": "object"}}}}, "results": obj{"f": `{"content":[{"type":"text","text":"x"}]}`}})
	got, err := call(t, src, "liar", "f", obj{})
	servers, err2 := src.Servers(t.Context())
	tools, err3 := src.Tools(t.Context(), "liar")
	shown, err4 := json.Marshal([]any{servers, tools})
	if err := errors.Join(err, err2, err3, err4); err != nil || got != `"x"` || len(servers) != 1 || len(tools) != 1 {
		t.Fatalf("%s %v %s", got, err, shown)
	}
	if all := string(shown) + log.String(); strings.Contains(all, "obey") {
		t.Error(all)
	}
}
