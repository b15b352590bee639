package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/internal/tool/tooltest"
)

// cashier is a server behind an address, which outlives kernels. It remembers the keys of calls, as docs/tools.md advises, and books the
// amount of each key once.
type cashier struct {
	mu     sync.Mutex
	log    []string // "charge c1 <key>", in the order in which calls came
	booked map[string]string
	hang   bool // it books and does not answer
}

type customer struct {
	Customer string `json:"customer"`
}

// take is a tool of the cashier.
func (c *cashier) take(name string) mcp.ToolHandlerFor[customer, any] {
	return func(ctx context.Context, req *mcp.CallToolRequest, in customer) (*mcp.CallToolResult, any, error) {
		key, _ := req.Params.Meta["agentkernel/idempotency_key"].(string)
		if key == "" {
			return nil, nil, errors.New("no key")
		}
		c.mu.Lock()
		c.log = append(c.log, name+" "+in.Customer+" "+key)
		c.booked[key] = name + " " + in.Customer
		hang := c.hang
		c.mu.Unlock()
		if hang {
			<-ctx.Done()
			return nil, nil, ctx.Err()
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "charged " + in.Customer}}}, nil, nil
	}
}

// serve starts the cashier and gives the tools file that names it.
func (c *cashier) serve(t *testing.T) string {
	t.Helper()
	c.booked = map[string]string{}
	s := mcp.NewServer(&mcp.Implementation{Name: "cashier", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "charge", Description: "Books once per key, and does not say so."}, c.take("charge"))
	mcp.AddTool(s, &mcp.Tool{Name: "book", Description: "Books once per key.", Annotations: &mcp.ToolAnnotations{IdempotentHint: true}}, c.take("book"))
	mcp.AddTool(s, &mcp.Tool{Name: "look", Description: "Looks.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, c.take("look"))
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return tooltest.Config(t, map[string]tooltest.Server{"cashier": {"url": web.URL}})
}

func (c *cashier) hangs(hang bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hang = hang
}

// calls is how often the cashier was asked for something, and with how many keys.
func (c *cashier) calls(what string) (times, keys int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var seen []string
	for _, line := range c.log {
		if key, ok := strings.CutPrefix(line, what+" "); ok {
			times++
			seen = append(seen, key)
		}
	}
	slices.Sort(seen)
	return times, len(slices.Compact(seen))
}

// TestARerunChargesOnce: whatever a rerun makes again it makes with the key of the call that it stands for, also over crashes, in a rerun
// of the rerun and in children. So a server that remembers keys books each amount once; what was answered it is not asked for again.
func TestARerunChargesOnce(t *testing.T) {
	till, dir := &cashier{}, home(t)
	tools := till.serve(t)
	v := startVictim(t, dir)
	k := v.client(t, dir)
	restart := func() {
		t.Helper()
		v.kill()
		v = startVictim(t, dir)
		k = v.client(t, dir)
	}
	start := func(source string, past agentkernel.PID) agentkernel.PID {
		t.Helper()
		s := program(source)
		s.Tools, s.Allow, s.OnUnknown = []string{tools}, []string{"cashier.*"}, agentkernel.UnknownPause
		if past != 0 {
			s.Past = &agentkernel.Past{PID: past}
		}
		p, err := k.Spawn(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return p.PID
	}
	wait := func(pid agentkernel.PID, paused bool) {
		t.Helper()
		p, err := k.Wait(t.Context(), pid)
		if err != nil || p.Paused != paused {
			t.Fatalf("process %d: %+v %v %v", pid, p, p.Error, err)
		}
	}
	kill := func(pid agentkernel.PID) {
		t.Helper()
		if err := k.Signal(t.Context(), pid, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		wait(pid, false)
	}
	came := func(what string, times int) func() bool {
		return func() bool { n, _ := till.calls(what); return n == times }
	}
	expect := func(what string, times int) {
		t.Helper()
		if n, keys := till.calls(what); n != times || keys != 1 {
			t.Errorf("%s came %d times with %d keys, want %d times with one: %v", what, n, keys, times, till.log)
		}
	}

	// A write that was cut off, decided about in a rerun of a rerun, after a crash.
	const pay = `
from tools.cashier import charge, look
look(customer="A")
charge(customer="c1")
`
	till.hangs(true)
	first := start(strings.Replace(pay, "look(customer", "0 and look(customer", 1), 0)
	eventually(t, "the cashier is asked", came("charge c1", 1))
	restart()
	wait(first, true)
	kill(first)
	till.hangs(false)
	second := start(pay, first) // it looks first, which is a difference
	wait(second, true)
	restart()
	kill(second)
	third := start(pay, second)
	wait(third, true)
	restart()
	if err := k.Resolve(t.Context(), third, 2, agentkernel.Resolution{Decision: agentkernel.DecisionRetry}); err != nil {
		t.Fatal(err)
	}
	wait(third, false)
	expect("charge c1", 2)

	// What is idempotent: cut off it is made again with its key, finished it is not made again.
	const book = `
from tools.cashier import book
book(customer="c2")
book(customer="c3")
`
	till.hangs(true)
	first = start(`from tools.cashier import book
book(customer="c3")`, 0)
	eventually(t, "the cashier is asked", came("book c3", 1))
	kill(first)
	till.hangs(false)
	second = start(book, first)
	wait(second, false)
	expect("book c3", 2)
	third = start(`from tools.cashier import look
look(customer="B")`+book, second)
	wait(third, false)
	expect("book c2", 1)
	expect("book c3", 2)

	// A child that was mended.
	const parent = `
from kernel import spawn, wait
wait(spawn("""
from tools.cashier import charge
charge(customer="c4")
CHILD
"""))
`
	first = start(strings.Replace(parent, "CHILD", "1/0", 1), 0)
	wait(first, false)
	second = start(strings.Replace(parent, "CHILD", "charge(customer='c5')", 1), first)
	wait(second, false)
	expect("charge c4", 1)
	expect("charge c5", 1)
	if len(till.booked) != 7 { // c1 to c5, and A, which is looked at once, and B
		t.Errorf("booked: %v", till.booked)
	}
}
