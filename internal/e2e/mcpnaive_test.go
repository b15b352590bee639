package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/client"
	"agentkernel/internal/datadir"
	"agentkernel/internal/tool/tooltest"
)

// mortal is a kernel that is killed again and again, and the tool server that outlives it: its log is all that the world
// knows of what programs did.
type mortal struct {
	home     string
	engine   string
	recovers bool // a kernel that starts continues everything by itself

	mu    sync.Mutex
	rng   *rand.Rand
	cmd   *exec.Cmd
	kills int // that are left
	calls int
	after bool // the kernel dies when the line is written, and never knows
	log   map[string]int
}

// callsPerKill is how many calls of the tool a kernel sees at most.
const callsPerKill = 4

// note is the tool: it writes a line, and the kernel dies before that, after it, or when the answer is on its way.
func (m *mortal) note(key string) {
	m.mu.Lock()
	when := 0
	if m.calls++; m.kills > 0 && m.calls%callsPerKill == 0 {
		if when = 1 + m.rng.IntN(3); m.after {
			when = 2
		}
	}
	if when == 1 {
		m.kill()
	}
	m.log[key]++
	if when == 2 {
		m.kill()
	}
	m.mu.Unlock()
	if when == 3 {
		go func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.kill()
		}()
	}
}

// kill is kill -9; mu is held.
func (m *mortal) kill() {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
	m.cmd = nil
	m.kills--
}

// start starts a kernel, as a client does that finds none.
func (m *mortal) start(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd != nil {
		return nil
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), envChild+"=1", envHome+"="+m.home, envLeave+"="+map[bool]string{false: "1"}[m.recovers], "AGENTKERNEL_MONTY="+m.engine)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	_ = stdin // held until it is killed
	if err := cmd.Start(); err != nil {
		return err
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "ready\n" {
		_ = cmd.Wait()
		return fmt.Errorf("the kernel did not come up: %q %w", line, err)
	}
	m.cmd = cmd
	return nil
}

// server is the tool server, over HTTP.
func (m *mortal) server(t *testing.T) string {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "log", Version: "1"}, nil)
	type in struct {
		Key string `json:"key"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "note", Description: "writes a line"}, func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		m.note(a.Key)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "ok"}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "hang", Description: "writes a line and does not return"}, func(ctx context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		m.note(a.Key)
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	far := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(func() { far.CloseClientConnections(); far.Close() })
	return tooltest.Config(t, map[string]tooltest.Server{"log": {"type": "http", "url": far.URL}})
}

// newMortal is a kernel that will be killed so often, and a client of it that starts another one.
func newMortal(t *testing.T, recovers bool, kills int, seed uint64) (*mortal, agentkernel.Kernel, string) {
	t.Helper()
	m := &mortal{home: home(t), engine: engine(t), recovers: recovers, rng: rand.New(rand.NewPCG(seed, 1)), kills: kills, log: map[string]int{}}
	cfg := m.server(t)
	if err := m.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.kill()
	})
	dir, err := datadir.Open(m.home)
	if err != nil {
		t.Fatal(err)
	}
	k, err := client.Dial(t.Context(), client.Options{Socket: dir.Socket(), Version: testVersion})
	if err != nil {
		t.Fatal(err)
	}
	k.Revive(m.start)
	t.Cleanup(func() { k.Revive(nil); _ = k.Close() })
	return m, k, cfg
}

// naive makes a call again and again, word for word, until it is told that it was done, or is told the same twice.
func naive(t *testing.T, cs *mcp.ClientSession, name string, a args) string {
	t.Helper()
	last := ""
	for range 20 {
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: a})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text := textOf(res)
		if !res.IsError || text == last {
			return text
		}
		runs := name == "execute_code" || name == "dispatch_background_task"
		if strings.HasPrefix(text, "unavailable: ") && (runs && !strings.Contains(text, "may have") || !strings.Contains(text, "same call again") || strings.Contains(text, "agentkernel ")) {
			t.Errorf("the error does not say what is unknown and what to do: %s", text)
		}
		last = text
	}
	t.Fatalf("%s: no end: %s", name, last)
	return ""
}

func textOf(res *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range res.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			b.WriteString(text.Text)
		}
	}
	return b.String()
}

// A client that simply makes the same call again after each error, whatever the error says, doubles nothing: kernels are
// killed around each write, and the far end's own log is counted.
func TestMCPNaiveClient(t *testing.T) {
	deaths := kills(t, 8)
	rounds := 2 * deaths // some end early
	for _, recovers := range []bool{false, true} {
		for name, way := range map[string]func(t *testing.T, cs *mcp.ClientSession, code string) string{
			"session": func(t *testing.T, cs *mcp.ClientSession, code string) string {
				return naive(t, cs, "execute_code", args{"code": code})
			},
			"by itself": func(t *testing.T, cs *mcp.ClientSession, code string) string {
				return naive(t, cs, "execute_code", args{"code": code, "session": "none"})
			},
			"new session": func(t *testing.T, cs *mcp.ClientSession, code string) string {
				return naive(t, cs, "execute_code", args{"code": code, "session": "new"})
			},
			"with a key": func(t *testing.T, cs *mcp.ClientSession, code string) string {
				return naive(t, cs, "execute_code", args{"code": code, "session": "new", "idempotency_key": "key of " + code})
			},
			"task": func(t *testing.T, cs *mcp.ClientSession, code string) string {
				naive(t, cs, "dispatch_background_task", args{"code": code, "timeout": 3600})
				list := naive(t, cs, "list_background_tasks", nil)
				id, _, _ := strings.Cut(list, " ")
				return naive(t, cs, "wait_for_background_task", args{"task_id": id, "timeout": 600})
			},
		} {
			t.Run(fmt.Sprintf("%s, recovers %v", name, recovers), func(t *testing.T) {
				seed := uint64(time.Now().UnixNano())
				t.Logf("seed %d", seed)
				m, k, cfg := newMortal(t, recovers, deaths, seed)
				cs := connectMCP(t, mcpConfig(k, cfg))
				var wanted []string
				var told strings.Builder
				for i := range rounds {
					keys := []string{fmt.Sprintf("%d-a", i), fmt.Sprintf("%d-b", i), fmt.Sprintf("%d-c", i)}
					wanted = append(wanted, keys...)
					fails := "print('unknown', key)"
					if i%3 == 2 {
						fails = "raise" // and the rest is left to the client
					}
					told.WriteString(way(t, cs, fmt.Sprintf("from tools.log import note\nfor key in ['%s']:\n    try:\n        note(key=key)\n    except OSError:\n        %s\nprint('end %d')",
						strings.Join(keys, "', '"), fails, i)))
				}
				m.mu.Lock()
				defer m.mu.Unlock()
				if left := m.kills; left > 1 {
					t.Errorf("%d of %d kernels were not killed: the test proves little", left, deaths)
				}
				raised := 0
				for i, key := range wanted {
					switch n := m.log[key]; {
					case n > 1:
						t.Errorf("%s was written %d times", key, n)
					case n == 0 && !strings.Contains(told.String(), "unknown "+key) && i/3%3 != 2:
						t.Errorf("%s was lost: %s", key, told.String())
					case n == 0:
						raised++
					}
				}
				t.Logf("%d keys, %d kernels killed, %d not written and told", len(wanted), deaths-m.kills, raised)
			})
		}
	}
}

// die kills the kernel now, or in the next call of the tool.
func (m *mortal) die(inCall bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kills = 1
	if inCall {
		m.calls, m.after = callsPerKill-1, true
		return
	}
	m.kill()
}

func (m *mortal) written(key string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log[key]
}

// Variables outlive the kernel. Code whose answer was lost is named in the error, and code that comes after it says what
// became of it. What ended in doubt is not run again for the asking.
func TestMCPCodeAfterACrash(t *testing.T) {
	m, k, cfg := newMortal(t, false, 0, 1)
	cs := connectMCP(t, mcpConfig(k, cfg))
	first := tool(t, cs, "execute_code", args{"code": "n = 41"}, "")
	m.die(false)
	tool(t, cs, "execute_code", args{"code": "n + 1"}, "result: 42")

	revive := k.(*client.Client).Revive
	revive(nil)
	m.die(true)
	cut := "from tools.log import note\nn += 1\ntry:\n    note(key='cut')\nexcept OSError as e:\n    print('told', e)\nn"
	lost := textOf(call(t, cs, "execute_code", args{"code": cut}))
	for _, want := range []string{"unavailable: ", fmt.Sprintf("session %v", first["session"]), "may have written", "make the same call again"} {
		if !strings.Contains(lost, want) {
			t.Errorf("the error does not say %q: %s", want, lost)
		}
	}
	revive(m.start)
	tool(t, cs, "execute_code", args{"code": "n"}, "whose answer was lost, has run: told outcome_unknown")
	tool(t, cs, "execute_code", args{"code": "n"}, "result: 42")
	tool(t, cs, "execute_code", args{"code": cut}, "result: 43") // it is new code now, and runs
	if n := m.written("cut"); n != 2 {
		t.Errorf("written %d times", n)
	}

	m.die(true)
	doubt := args{"code": "note(key='doubt')"}
	for range 3 {
		if got := naive(t, cs, "execute_code", doubt); !strings.Contains(got, "outcome_unknown: ") || !strings.Contains(got, "not run again") {
			t.Errorf("what is in doubt: %s", got)
		}
	}
	tool(t, cs, "execute_code", args{"code": "note(key='doubt')  # once more"}, "ok")
	if n := m.written("doubt"); n != 2 {
		t.Errorf("in doubt, and written %d times", n)
	}
}

// cancelling is a kernel whose client gives up at the moment at which it dies.
type cancelling struct {
	agentkernel.Kernel
	cancel context.CancelFunc
}

func (k *cancelling) Feed(ctx context.Context, pid agentkernel.PID, cell agentkernel.Cell, fn func(agentkernel.Event) error) (agentkernel.CellEnd, error) {
	end, err := k.Kernel.Feed(ctx, pid, cell, fn)
	if err != nil && k.cancel != nil { // it went away, or the next one has not taken the session up
		k.cancel()
		<-ctx.Done()
		err = ctx.Err()
	}
	return end, err
}

// A client that cancels code whose kernel has just died keeps its variables: the code is stopped where the next kernel finds
// it, and its session is not.
func TestMCPCancelledAfterACrash(t *testing.T) {
	m, k, cfg := newMortal(t, false, 0, 1)
	mine := &cancelling{Kernel: k}
	cs := connectMCP(t, mcpConfig(mine, cfg))
	tool(t, cs, "execute_code", args{"code": "n = 41"}, "")
	ctx, cancel := context.WithCancel(t.Context())
	mine.cancel = cancel
	m.die(true)
	cut := args{"code": "from tools.log import hang\nhang(key='cut')"}
	res, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "execute_code", Arguments: cut})
	if err == nil {
		t.Errorf("it was not cancelled: %s", textOf(res))
	}
	tool(t, cs, "execute_code", args{"code": "n"}, "result: 41\nnote: the code before this, whose answer was lost, has run: ")
	for range 2 { // it may have written, which other code in between does not change
		got := naive(t, cs, "execute_code", cut)
		stopped := strings.Contains(got, "outcome_unknown: ") || strings.Contains(got, "interrupted: ") // at its call, or before it had come there again
		if !stopped || !strings.Contains(got, "not run again") {
			t.Errorf("the same code again: %s", got)
		}
	}
	if n := m.written("cut"); n != 1 {
		t.Errorf("written %d times", n)
	}
}

// A client's own key makes two calls one: in its session, by itself, as a task; also when it comes back on another connection, to
// another server.
func TestMCPOwnKeys(t *testing.T) {
	m, k, cfg := newMortal(t, false, 0, 1)
	note := func(key string) string { return fmt.Sprintf("from tools.log import note\nnote(key=%q)\n%q", key, key) }
	server := mcpConfig(k, cfg)
	task := ""
	for round := range 3 {
		cs := connectMCP(t, server)
		for range 2 {
			tool(t, cs, "execute_code", args{"code": note("session"), "idempotency_key": "a"}, `result: "session"`)
			tool(t, cs, "execute_code", args{"code": note("new"), "idempotency_key": "b", "session": "new"}, `result: "new"`)
			tool(t, cs, "execute_code", args{"code": note("alone"), "idempotency_key": "c", "session": "none"}, `result: "alone"`)
			got := tool(t, cs, "dispatch_background_task", args{"code": note("task"), "idempotency_key": "d"}, "task")
			if id := fmt.Sprint(got["task_id"]); task == "" {
				task = id
			} else if id != task {
				t.Errorf("two tasks: %s and %s", task, id)
			}
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "execute_code", Arguments: args{"code": note("meta")}, Meta: mcp.Meta{"agentkernel/idempotency_key": "e"}})
			if err != nil || res.IsError {
				t.Errorf("a key in _meta: %v %v", res, err)
			}
		}
		tool(t, cs, "execute_code", args{"code": "1", "idempotency_key": "a"}, "!belongs to another cell")
		tool(t, cs, "execute_code", args{"code": "1", "idempotency_key": strings.Repeat("x", 300)}, "!invalid_argument")
		tool(t, cs, "wait_for_background_task", args{"task_id": task}, "completed")
		_ = cs.Close()
		if round == 1 {
			m.die(false)
		}
	}
	for _, key := range []string{"session", "new", "alone", "task", "meta"} {
		if n := m.written(key); n != 1 {
			t.Errorf("%s was written %d times", key, n)
		}
	}
}

// dying is a kernel that is killed when its next cell comes: it has not written the cell down, and its client cannot know.
type dying struct {
	agentkernel.Kernel
	kill func()
}

func (k *dying) Feed(ctx context.Context, pid agentkernel.PID, cell agentkernel.Cell, fn func(agentkernel.Event) error) (agentkernel.CellEnd, error) {
	if kill := k.kill; kill != nil {
		k.kill = nil
		kill()
		return agentkernel.CellEnd{}, agentkernel.Errorf(agentkernel.CodeUnavailable, agentkernel.OpKernel, "the kernel went away before it answered")
	}
	return k.Kernel.Feed(ctx, pid, cell, fn)
}

// The same call with the same key after its kernel died, before it had the cell or in the middle of it, is that call: neither
// its own answer nor that of the next call has a note that other code ran before it.
func TestMCPOwnKeyAfterACrash(t *testing.T) {
	m, k, cfg := newMortal(t, false, 0, 1)
	revive := k.(*client.Client).Revive
	mine := &dying{Kernel: k}
	cs := connectMCP(t, mcpConfig(mine, cfg))
	tool(t, cs, "execute_code", args{"code": "n = 41"}, "")
	for i, kill := range map[string]func(){
		"before": func() { mine.kill = func() { m.die(false) } },
		"within": func() { m.die(true) },
	} {
		revive(nil)
		kill()
		key := "key " + i
		a := args{"code": fmt.Sprintf("from tools.log import note\nn = 41\ntry:\n    note(key=%q)\nexcept OSError:\n    pass\nn + 1", key), "idempotency_key": key}
		if res := call(t, cs, "execute_code", a); !res.IsError {
			t.Errorf("%s: its kernel did not die: %s", i, textOf(res))
		}
		revive(m.start)
		other := args{"code": "'not what had the key'", "idempotency_key": key}
		for range 2 {
			if got := textOf(call(t, cs, "execute_code", a)); !strings.Contains(got, "result: 42") || strings.Contains(got, "has run") {
				t.Errorf("%s: the same call: %s", i, got)
			}
		}
		tool(t, cs, "execute_code", other, "!belongs to another cell")
		if got := textOf(call(t, cs, "execute_code", args{"code": "n"})); !strings.Contains(got, "result: 41") || strings.Contains(got, "has run") {
			t.Errorf("%s: the next call: %s", i, got)
		}
		if n := m.written(key); n != 1 {
			t.Errorf("%s: written %d times", i, n)
		}
	}
}

// Calls with one key that are made at the same moment, over connections of one server and of others, in sessions and by
// themselves, are one call, and all have its answer.
func TestMCPOwnKeyAtOnce(t *testing.T) {
	m, k, cfg := newMortal(t, false, 0, 1)
	servers := []string{serveHTTP(t, mcpConfig(k, cfg)), serveHTTP(t, mcpConfig(k, cfg))}
	var clients []*mcp.ClientSession
	for i := range 6 {
		clients = append(clients, dialHTTP(t, servers[i%2], annToken, nil))
	}
	shared := fmt.Sprint(tool(t, clients[0], "execute_code", args{"code": "0"}, "")["session"])
	for round, sessions := range [][]any{{shared}, {nil}, {"new"}, {"none"}, {"none", "new", nil}, {nil}, {"none", "new", nil}} {
		key := fmt.Sprintf("key %d", round)
		code := fmt.Sprintf("from tools.log import note\nnote(key=%q)\n'done'", key)
		var all sync.WaitGroup
		for i, cs := range clients {
			a := args{"code": code, "idempotency_key": key}
			if session := sessions[i%len(sessions)]; session == shared && i%2 == 1 {
				continue // a session is known to the server that began it
			} else if session != nil {
				a["session"] = session
			}
			all.Go(func() {
				res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "execute_code", Arguments: a})
				if err != nil || res.IsError || !strings.Contains(textOf(res), "done") {
					t.Errorf("%v: %v %+v", a, err, res)
				}
			})
		}
		all.Wait()
		if n := m.written(key); n != 1 {
			t.Errorf("%v: written %d times", sessions, n)
		}
	}
}

// Code that was stopped in the middle of a write is not run again for the asking; other code that was stopped is.
func TestMCPCutOffWrite(t *testing.T) {
	m, k, cfg := newMortal(t, false, 0, 1)
	cs := connectMCP(t, mcpConfig(k, cfg))
	for _, session := range []any{nil, "new", "none"} {
		inTime(t, func(limit float64) bool {
			key := fmt.Sprintf("session %v, %v s", session, limit)
			a := args{"code": fmt.Sprintf("from tools.log import hang\nhang(key=%q)", key), "timeout": limit}
			if session != nil {
				a["session"] = session
			}
			for range 3 {
				res := call(t, cs, "execute_code", a)
				if m.written(key) == 0 {
					return false
				}
				if !res.IsError || !strings.Contains(textOf(res), "not run again") {
					t.Errorf("%s: %s", key, textOf(res))
				}
				a["timeout"] = 60 // it has ended
				tool(t, cs, "execute_code", args{"code": "'other code'"}, "other code")
			}
			if n := m.written(key); n != 1 {
				t.Errorf("%s: written %d times", key, n)
			}
			inTime(t, func(limit float64) bool {
				a["code"], a["timeout"] = fmt.Sprint(a["code"], "  # once more"), limit
				_ = call(t, cs, "execute_code", a)
				return m.written(key) > 1
			})
			return true
		})
	}
	inTime(t, func(limit float64) bool {
		key := fmt.Sprintf("before %v s", limit)
		a := args{"code": fmt.Sprintf("from tools.log import note\nnote(key=%q)\nprint('noted')\nwhile True:\n    pass", key), "timeout": limit}
		for range 2 {
			text := textOf(call(t, cs, "execute_code", a))
			if !strings.Contains(text, "noted") {
				return false
			}
			if strings.Contains(text, "not run again") {
				t.Errorf("its write had happened: %s", text)
			}
		}
		if n := m.written(key); n != 2 {
			t.Errorf("what was stopped outside a write was run %d times", n)
		}
		return true
	})
}

// inTime calls fn with longer and longer time limits, in seconds, until one leaves code the time to come to where it is to be
// cut off.
func inTime(t *testing.T, fn func(limit float64) bool) {
	t.Helper()
	for limit := 0.3; !fn(limit); limit *= 2 {
		if limit > 60 {
			t.Fatalf("code did nothing within %v s", limit)
		}
	}
}

// Code that has run is answered as it was, whatever became of its session since.
func TestMCPOwnKeyOfAKilledSession(t *testing.T) {
	_, k, cfg := newMortal(t, false, 0, 1)
	cs := connectMCP(t, mcpConfig(k, cfg))
	a := args{"code": "print('hi')\n5", "idempotency_key": "a"}
	first := tool(t, cs, "execute_code", a, "result: 5")
	pid, err := agentkernel.ParsePID(fmt.Sprint(first["session"]))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Signal(t.Context(), pid, agentkernel.SignalKill); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		again := tool(t, cs, "execute_code", a, "result: 5")
		if again["exit_code"] != nil || again["session"] != nil || again["state"] != "idle" {
			t.Errorf("%v", again)
		}
	}
}

// A client's own key holds however many sessions, and calls with other keys, have come since.
func TestMCPOwnKeyIsNotForgotten(t *testing.T) {
	m, k, cfg := newMortal(t, false, 0, 1)
	server := mcpConfig(k, cfg)
	once := args{"code": "from tools.log import note\nnote(key='once')\n'done'", "idempotency_key": "once"}
	first, second := connectMCP(t, server), connectMCP(t, server)
	tool(t, first, "execute_code", once, "done")
	for i := range 1001 {
		a := args{"code": "1", "idempotency_key": fmt.Sprintf("other %d", i)}
		if i < 101 {
			a["session"] = "new"
		}
		tool(t, second, "execute_code", a, "1")
	}
	tool(t, second, "execute_code", once, "done")
	_ = first.Close()
	_ = second.Close()
	tool(t, connectMCP(t, mcpConfig(k, cfg)), "execute_code", once, "done")
	if n := m.written("once"); n != 1 {
		t.Errorf("written %d times", n)
	}
}

// A request over HTTP that arrives twice, since what lies between sends it again, is one request.
func TestMCPRequestThatArrivesTwice(t *testing.T) {
	m, k, cfg := newMortal(t, false, 0, 1)
	c := rawMCP{t, serveHTTP(t, mcpConfig(k, cfg)), annToken}
	session := c.hello()
	for i, how := range []string{`"code":"%s"`, `"code":"%s","session":"none"`} {
		key := fmt.Sprintf("twice %d", i)
		code := fmt.Sprintf(how, fmt.Sprintf("from tools.log import note\\nnote(key='%s')", key))
		for range 2 {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"execute_code","arguments":{%s}}}`, 20+i, code)
			eventWith(t, bufio.NewReader(c.do("POST", session, body).Body), `"ok"`)
		}
		if n := m.written(key); n != 1 {
			t.Errorf("%s: written %d times", key, n)
		}
	}
}

func call(t *testing.T, cs *mcp.ClientSession, name string, a args) *mcp.CallToolResult {
	t.Helper()
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: a})
	if err != nil {
		t.Fatal(err)
	}
	return res
}
