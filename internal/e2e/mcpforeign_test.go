package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"agentkernel/internal/mcpserver"
)

const (
	firstNameless  = "nameless-token-a-0123456789"
	secondNameless = "nameless-token-b-0123456789"
)

// rawMCP speaks MCP over HTTP byte by byte, as no well-behaved client would.
type rawMCP struct {
	t     *testing.T
	url   string
	token string // "": none
}

func (c rawMCP) do(method, session, body string, headers ...string) *http.Response {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

const rawHello = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`

// hello begins an MCP session.
func (c rawMCP) hello() string {
	c.t.Helper()
	res := c.do("POST", "", rawHello)
	_, _ = io.Copy(io.Discard, res.Body)
	session := res.Header.Get("Mcp-Session-Id")
	if session == "" {
		c.t.Fatalf("no session: HTTP %d", res.StatusCode)
	}
	c.do("POST", session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return session
}

// rawEvent is one event of a stream.
type rawEvent struct{ id, name, retry, data string }

// events reads a stream up to the event that is wanted.
func eventWith(t *testing.T, r *bufio.Reader, want string) (rawEvent, []rawEvent) {
	t.Helper()
	var ev rawEvent
	var before []rawEvent
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("no event has %q: %v after %+v", want, err, before)
		}
		key, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		switch key {
		case "id":
			ev.id = value
		case "event":
			ev.name = value
		case "retry":
			ev.retry = value
		case "data":
			ev.data = value
		case "":
			if ev != (rawEvent{}) && strings.Contains(ev.data, want) {
				return ev, before
			}
			before, ev = append(before, ev), rawEvent{}
		}
	}
}

// An MCP session is only his who began it. For everybody else it is as if there were none, whatever he sends there: he does
// not end it, read from it, or answer the question whether a program may write.
func TestMCPForeignSessions(t *testing.T) {
	k := newKeys(t)
	signed := func(sub string) string { return sign(t, jwt.SigningMethodES256, k.ec, claims(sub), "e") }
	cfg := askingServer(t)
	url := serveHandler(t, cfg, mcpserver.HTTPConfig{
		Tokens: map[string]string{firstNameless: "", secondNameless: "", annToken: "ann", boToken: "bo"},
		JWT:    &mcpserver.JWTConfig{Keys: k.jwks, Audience: audience}})
	people := map[string]string{"nameless A": firstNameless, "nameless B": secondNameless, "named": annToken, "another named": boToken,
		"signed": signed("carl"), "signed, another": signed("dora"), "signed, named like a listed one": signed("ann"), "signed by another": sign(t, jwt.SigningMethodES256, k.ec, claims("carl", func(c jwt.MapClaims) { c["iss"] = "https://else.example" }), "e"), "none": ""}
	for _, owner := range []string{"nameless A", "named", "signed"} {
		t.Run(owner, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "lines")
			own := rawMCP{t, url, people[owner]}
			session := own.hello()
			stream := own.do("POST", session, rawCall(2, "execute_code", args{"code": importAppend + append1(file, "owner")}))
			answers := bufio.NewReader(stream.Body)
			asked, before := eventWith(t, answers, "elicitation/create")
			if len(before) == 0 || before[0].id == "" || before[0].data != "" || before[0].retry == "" {
				t.Fatalf("the stream does not begin with an event to take it up at: %+v", before)
			}
			var question struct{ ID json.RawMessage }
			if err := json.Unmarshal([]byte(asked.data), &question); err != nil {
				t.Fatal(err)
			}
			attempts := foreignAttempts(string(question.ID), before[0].id)
			for who, token := range people {
				if who == owner {
					continue
				}
				other := rawMCP{t, url, token}
				for what, a := range attempts {
					foreign, unknown := other.do(a.method, session, a.body, a.headers...), other.do(a.method, "NOSUCHSESSION", a.body, a.headers...)
					want := http.StatusNotFound
					if token == "" {
						want = http.StatusUnauthorized
					}
					if a, b := said(t, foreign), said(t, unknown); foreign.StatusCode != want || a != b {
						t.Errorf("%s: %s: %s, and for an unknown session %s", who, what, a, b)
					}
				}
			}
			if got := lines(t, file); got != "" {
				t.Fatalf("a foreign answer let the program write: %q", got)
			}
			res := own.do("POST", session, attempts["the answer to a question"].body) // and the question is still there
			if res.StatusCode != http.StatusAccepted {
				t.Fatalf("the owner's answer: %s", said(t, res))
			}
			eventWith(t, answers, `"id":2`)
			_, _ = io.Copy(io.Discard, answers) // the stream is its reader's until it ends
			if got := lines(t, file); got != "owner " {
				t.Errorf("the owner said yes: %q", got)
			}
			resumed := own.do("GET", session, "", "Last-Event-ID", before[0].id)
			eventWith(t, bufio.NewReader(resumed.Body), `"id":2`)
			if res := own.do("DELETE", session, ""); res.StatusCode != http.StatusNoContent {
				t.Errorf("the owner's goodbye: %s", said(t, res))
			}
		})
	}
}

type attempt struct {
	method, body string
	headers      []string
}

// foreignAttempts is everything that can be sent to an MCP session.
func foreignAttempts(question, event string) map[string]attempt {
	response := func(result string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, question, result)
	}
	return map[string]attempt{
		"initialize":               {"POST", rawHello, nil},
		"notification":             {"POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil},
		"cancellation":             {"POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`, nil},
		"ping":                     {"POST", `{"jsonrpc":"2.0","id":9,"method":"ping"}`, nil},
		"list":                     {"POST", `{"jsonrpc":"2.0","id":9,"method":"tools/list"}`, nil},
		"program":                  {"POST", rawCall(9, "execute_code", args{"code": "1"}), nil},
		"task":                     {"POST", rawCall(9, "dispatch_background_task", args{"code": "1"}), nil},
		"tasks":                    {"POST", rawCall(9, "list_background_tasks", nil), nil},
		"cancel of a task":         {"POST", rawCall(9, "cancel_background_task", args{"task_id": "1"}), nil},
		"resource":                 {"POST", `{"jsonrpc":"2.0","id":9,"method":"resources/read","params":{"uri":"agentkernel://output/1"}}`, nil},
		"prompt":                   {"POST", `{"jsonrpc":"2.0","id":9,"method":"prompts/get","params":{"name":"program","arguments":{"task":"x"}}}`, nil},
		"the answer to a question": {"POST", response(`{"action":"accept","content":{"answer":"once"}}`), nil},
		"a no":                     {"POST", response(`{"action":"decline"}`), nil},
		"an answer of a model":     {"POST", response(`{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}`), nil},
		"an error as the answer":   {"POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"no"}}`, question), nil},
		"stream":                   {"GET", "", nil},
		"stream taken up":          {"GET", "", []string{"Last-Event-ID", event}},
		"delete":                   {"DELETE", "", nil},
	}
}

func rawCall(id int, name string, a args) string {
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": map[string]any{"name": name, "arguments": a}})
	if err != nil {
		panic(err) // it is the test's own
	}
	return string(b)
}

// said is what a refusal says.
func said(t *testing.T, res *http.Response) string {
	t.Helper()
	if res.StatusCode == http.StatusOK {
		return "HTTP 200" // it may be a stream without an end
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, 1000))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("HTTP %d %s %q", res.StatusCode, res.Header.Get("Content-Type"), b)
}
