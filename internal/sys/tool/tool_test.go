package tool_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/sys"
	"agentkernel/internal/sys/systest"
	"agentkernel/internal/sys/tool"
)

// server is a source with one server, "s".
type server struct {
	tools  []agentkernel.Tool
	asked  int
	calls  []agentkernel.ToolCall
	result agentkernel.ToolResult
	err    error
}

func (s *server) Servers(context.Context) ([]agentkernel.ToolServer, error) {
	return []agentkernel.ToolServer{{Name: "s", PythonName: "s", Source: "mcp.json"}}, nil
}

func (s *server) Tools(_ context.Context, name string) ([]agentkernel.Tool, error) {
	s.asked++
	if name != "s" {
		return nil, agentkernel.Errorf(agentkernel.CodeNotFound, "tool", "no server %q", name)
	}
	return s.tools, nil
}

func (s *server) Turn(string, string, time.Time) agentkernel.ToolTurn { return nil }

func (s *server) Call(_ context.Context, c agentkernel.ToolCall) (agentkernel.ToolResult, error) {
	for _, t := range s.tools { // as it is now
		if t.Name == c.Tool && c.Admit != nil {
			if err := c.Admit(t); err != nil {
				return agentkernel.ToolResult{NotSent: true}, err
			}
		}
	}
	s.calls = append(s.calls, c)
	return s.result, s.err
}

func newServer() *server {
	one := func(name string, e agentkernel.Effect) agentkernel.Tool {
		return agentkernel.Tool{Server: "s", PythonServer: "s", Name: name, PythonName: strings.ReplaceAll(name, "-", "_"), Effect: e}
	}
	return &server{tools: []agentkernel.Tool{one("look", agentkernel.EffectRead), one("put-it", agentkernel.EffectIdempotent), one("add", agentkernel.EffectWrite)},
		result: agentkernel.ToolResult{Value: json.RawMessage(`"done"`), Incarnation: "1"}}
}

func newProcess(t *testing.T, s *server) (*systest.Process, *tool.Box) {
	b := tool.New(func([]string) (agentkernel.ToolSource, error) { return s, nil }, nil)
	p := systest.New(t, b.Family())
	p.Spec.Tools = []string{"mcp.json"}
	return p, b
}

func TestOnlyReadsNeedNoPermission(t *testing.T) {
	s := newServer()
	p, _ := newProcess(t, s)
	for _, c := range []struct {
		tool   string
		effect agentkernel.Effect
	}{{"look", agentkernel.EffectRead}, {"put-it", agentkernel.EffectIdempotent}, {"put_it", agentkernel.EffectIdempotent}, {"add", agentkernel.EffectWrite}} {
		a, err := p.Admit(t, "tool.call", `{"server":"s","tool":"`+c.tool+`","arguments":{"a":1}}`)
		if err != nil || a.Effect != c.effect || (a.Ask == nil) != (c.effect == agentkernel.EffectRead) {
			t.Errorf("%s: %s, asks %v, %v", c.tool, a.Effect, a.Ask != nil, err)
			continue
		}
		if a.Ask != nil && (agentkernel.CodeOf(a.Ask.Denied) != agentkernel.CodeDenied || string(a.Ask.Args) != `{"a":1}`) {
			t.Errorf("%s asks %s, and says %v", c.tool, a.Ask.Args, a.Ask.Denied)
		}
		for pattern, want := range map[string]bool{a.Pattern: true, "s.*": true, "s": true, "other": false, a.Name + "x": false} {
			if a.Matches(pattern) != want {
				t.Errorf("%s: the pattern %q matches: %v", a.Name, pattern, !want)
			}
		}
	}
	if len(s.calls) != 0 {
		t.Errorf("%d calls were made before they were admitted", len(s.calls))
	}
}

// A tool that is bound is not looked up again; one that is not, or has changed, is.
func TestLookup(t *testing.T) {
	s := newServer()
	p, b := newProcess(t, s)
	bound, _, err := b.Bind(t.Context(), &p.Spec, []agentkernel.ToolRef{{Server: "s", Name: "look"}})
	if err != nil || len(bound.Tools) != 1 {
		t.Fatalf("%+v, %v", bound, err)
	}
	p.Bound = bound
	admit := func(name string) (asked int, err error) {
		before := s.asked
		_, err = p.Admit(t, "tool.call", `{"server":"s","tool":"`+name+`"}`)
		return s.asked - before, err
	}
	if asked, err := admit("look"); asked != 0 || err != nil {
		t.Errorf("a bound tool: the server was asked %d times, %v", asked, err)
	}
	if asked, err := admit("add"); asked != 1 || err != nil {
		t.Errorf("another tool: the server was asked %d times, %v", asked, err)
	}
	if _, err := admit("ad"); agentkernel.CodeOf(err) != agentkernel.CodeNotFound || !strings.Contains(agentkernel.AsError(err, "", "").Hint, "add") {
		t.Errorf("a tool that is not there: %v", err)
	}
	p.Again = true
	if asked, err := admit("look"); asked != 1 || err != nil {
		t.Errorf("a call that is made again: the server was asked %d times, %v", asked, err)
	}
}

// Between the admission and the call a server may start again, and describe its tool otherwise.
func TestAToolThatBecomesDangerous(t *testing.T) {
	s := newServer()
	p, b := newProcess(t, s)
	bound, _, err := b.Bind(t.Context(), &p.Spec, []agentkernel.ToolRef{{Server: "s", Name: "*"}})
	if err != nil {
		t.Fatal(err)
	}
	p.Bound = &sys.Binding{Tools: slices.Clone(bound.Tools)}
	s.tools[0].Effect = agentkernel.EffectWrite
	out, err := p.Outside(t.Context(), t, "tool.call", `{"server":"s","tool":"look"}`)
	if agentkernel.CodeOf(err) != agentkernel.CodeDenied || !out.Settled || len(s.calls) != 0 {
		t.Errorf("a read that is a write now: settled %v, %v, %d calls", out.Settled, err, len(s.calls))
	}
	s.tools[0].Effect, s.tools[0].Changed = agentkernel.EffectRead, &agentkernel.ToolChange{What: []string{"description"}, Accepted: time.Now()}
	if _, err = p.Outside(t.Context(), t, "tool.call", `{"server":"s","tool":"look"}`); err != nil {
		t.Errorf("a read that has changed and still reads: %v", err)
	}
	s.tools[2].Changed = s.tools[0].Changed
	if _, err = p.Outside(t.Context(), t, "tool.call", `{"server":"s","tool":"add"}`); agentkernel.CodeOf(err) != agentkernel.CodeDenied ||
		!strings.Contains(agentkernel.AsError(err, "", "").Hint, "tools accept s add") {
		t.Errorf("a write that has changed: %v", err)
	}
	if len(s.calls) != 1 {
		t.Errorf("%d calls were made", len(s.calls))
	}
}

// A call reserves its price; a read that has one is paid for, and needs no permission all the same.
func TestPrices(t *testing.T) {
	s := newServer()
	price, free := 5*agentkernel.USD/1000, agentkernel.NanoUSD(0)
	s.tools[0].CostUSD, s.tools[2].CostUSD = &price, &price
	p, b := newProcess(t, s)
	admit := func(name string) (sys.Admission, error) {
		return p.Admit(t, "tool.call", `{"server":"s","tool":"`+name+`"}`)
	}
	bound, _, err := b.Bind(t.Context(), &p.Spec, []agentkernel.ToolRef{{Server: "s", Name: "look"}})
	if err != nil {
		t.Fatal(err)
	}
	var noted []agentkernel.Tool // a process that is recovered has the tools of its journal
	if err := json.Unmarshal(bound.Noted(), &noted); err != nil {
		t.Fatal(err)
	}
	for _, p.Bound = range []*sys.Binding{nil, bound, {Tools: noted}} {
		if a, err := admit("look"); err != nil || a.Effect != agentkernel.EffectPaid || a.Ask != nil || a.Reserve["usd"] != 5_000_000 || len(a.Reserve) != 1 {
			t.Errorf("a read with a price: %+v, %v", a, err)
		}
	}
	if a, err := admit("add"); err != nil || a.Effect != agentkernel.EffectWrite || a.Ask == nil || a.Reserve["usd"] != 5_000_000 {
		t.Errorf("a write with a price: %+v, %v", a, err)
	}
	if a, err := admit("put-it"); err != nil || a.Reserve != nil {
		t.Errorf("without a budget a tool needs no price: %+v, %v", a, err)
	}

	p.BoundsUSD, p.Budgeted = true, true
	s.tools[1].CostUSD = nil
	_, err = admit("put-it")
	if agentkernel.CodeOf(err) != agentkernel.CodeDenied || !strings.Contains(agentkernel.AsError(err, "", "").Hint, `"cost_usd": 0 if nothing, in mcp.json`) {
		t.Errorf("a tool without a price within a budget: %v", err)
	}
	p.Again = true
	if _, err := admit("put-it"); err != nil {
		t.Errorf("a call that is made again was admitted before: %v", err)
	}
	p.Again, s.tools[1].CostUSD = false, &free
	if a, err := admit("put-it"); err != nil || a.Reserve != nil || a.Effect != agentkernel.EffectIdempotent {
		t.Errorf("a tool that costs nothing: %+v, %v", a, err)
	}
	p.BoundsUSD, s.tools[1].CostUSD = false, nil
	if _, err := admit("put-it"); err != nil {
		t.Errorf("a budget of calls alone: %v", err)
	}

	// What was not sent costs nothing; a read that is paid for still may not become a write.
	p.Budgeted = false
	for name, settles := range map[string]bool{"look": true, "add": true, "put-it": false} {
		for _, notSent := range []bool{false, true} {
			s.result.NotSent, s.err = notSent, agentkernel.Errorf(agentkernel.CodeUnavailable, "tool", "it failed")
			if out, _ := p.Outside(t.Context(), t, "tool.call", `{"server":"s","tool":"`+name+`"}`); (out.Settle != nil) != (settles && notSent) || len(out.Settle) > 0 {
				t.Errorf("%s, not sent %v: settles %v", name, notSent, out.Settle)
			}
		}
	}
	s.err, s.calls, p.Bound = nil, nil, bound
	for _, now := range []agentkernel.Effect{agentkernel.EffectIdempotent, agentkernel.EffectWrite} {
		s.tools = slices.Clone(s.tools)
		s.tools[0].Effect = now
		if _, err := p.Outside(t.Context(), t, "tool.call", `{"server":"s","tool":"look"}`); agentkernel.CodeOf(err) != agentkernel.CodeDenied || len(s.calls) != 0 {
			t.Errorf("a paid read that is %s now: %v", now, err)
		}
	}
}

// A failure is settled if it is known what became of the call; all others may have changed something.
func TestWhichFailuresAreSettled(t *testing.T) {
	s := newServer()
	p, _ := newProcess(t, s)
	for code, want := range map[agentkernel.Code]bool{
		agentkernel.CodeTool: true, agentkernel.CodeAnswerLost: true, agentkernel.CodeInvalid: true, agentkernel.CodeNotFound: true,
		agentkernel.CodeSessionLost: true, agentkernel.CodeDenied: true, agentkernel.CodeLimit: true,
		agentkernel.CodeUnavailable: false, agentkernel.CodeTimeout: false, agentkernel.CodeInternal: false, agentkernel.CodeInterrupted: false,
	} {
		for _, notSent := range []bool{false, true} {
			s.result.NotSent, s.err = notSent, agentkernel.Errorf(code, "tool", "it failed")
			out, err := p.Outside(t.Context(), t, "tool.call", `{"server":"s","tool":"add","arguments":{"b":2}}`)
			if agentkernel.CodeOf(err) != code || out.Settled != (want || notSent) {
				t.Errorf("%s, not sent %v: settled %v, %v", code, notSent, out.Settled, err)
			}
		}
	}
	c := s.calls[0]
	if c.Server != "s" || c.Tool != "add" || string(c.Arguments) != `{"b":2}` || c.Key != "key" {
		t.Errorf("%+v", c)
	}
}

// The room of an answer is given back when the kernel has the result, and not before.
func TestTheKernelSaysWhenItHasTheResult(t *testing.T) {
	s, done := newServer(), 0
	s.result.Done = func() { done++ }
	p, _ := newProcess(t, s)
	out, err := p.Outside(t.Context(), t, "tool.call", `{"server":"s","tool":"look"}`)
	if err != nil || out.Done == nil || done != 0 {
		t.Fatalf("%v, done %d times", err, done)
	}
	if out.Done(true); done != 1 {
		t.Errorf("done %d times", done)
	}
}

func TestWrongArguments(t *testing.T) {
	s := newServer()
	p, _ := newProcess(t, s)
	long := strings.Repeat("x", 257)
	for args, want := range map[string]agentkernel.Code{
		`{"server":"s","tool":1}`:                       agentkernel.CodeInvalid,
		`{"server":"s","tool":"look","Arguments":{}}`:   "", // encoding/json would take it; the kernel refuses it before
		`{"server":"s","tool":"look","argument":{}}`:    agentkernel.CodeInvalid,
		`{"server":"` + long + `","tool":"look"}`:       agentkernel.CodeNotFound,
		`{"server":"s","tool":"` + long + `"}`:          agentkernel.CodeNotFound,
		`{"server":"t","tool":"look"}`:                  agentkernel.CodeNotFound,
		`{"server":"s","tool":"look","arguments":null}`: "",
	} {
		if _, err := p.Outside(t.Context(), t, "tool.call", args); agentkernel.CodeOf(err) != want {
			t.Errorf("%.60s: %v; want %q", args, err, want)
		}
	}
}

func TestListAndDescribe(t *testing.T) {
	p, _ := newProcess(t, newServer())
	out, err := p.Outside(t.Context(), t, "tool.list", `{}`)
	var rows []struct {
		Name   string `json:"name"`
		Python string `json:"python_name"`
		Effect string `json:"effect"`
	}
	if err != nil || json.Unmarshal(out.Result, &rows) != nil || len(rows) != 3 || rows[1].Name != "put-it" || rows[1].Python != "put_it" || rows[1].Effect != "idempotent" {
		t.Errorf("%s, %v", out.Result, err)
	}
	if _, err := p.Outside(t.Context(), t, "tool.list", `{"server":"t"}`); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("a server that is not there: %v", err)
	}
	out, err = p.Outside(t.Context(), t, "tool.describe", `{"server":"s","tool":"put_it"}`)
	if err != nil || !strings.Contains(string(out.Result), `"from tools.s import put_it"`) {
		t.Errorf("%s, %v", out.Result, err)
	}
}

func TestWithoutTools(t *testing.T) {
	p := systest.New(t, tool.New(nil, nil).Family())
	if _, err := p.Outside(t.Context(), t, "tool.call", `{"server":"s","tool":"look"}`); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Error(err)
	}
	if out, err := p.Outside(t.Context(), t, "tool.list", `{}`); err != nil || string(out.Result) != "[]" {
		t.Errorf("%s, %v", out.Result, err)
	}
}

// Equal imports share a binding while it is fresh; then the servers are looked at again.
func TestBindingsAreFresh(t *testing.T) {
	s, now := newServer(), time.Now()
	b := tool.New(func([]string) (agentkernel.ToolSource, error) { return s, nil }, func() time.Time { return now })
	spec := &agentkernel.Spec{Tools: []string{"mcp.json"}}
	refs := []agentkernel.ToolRef{{Server: "s", Name: "add"}, {Server: "s", Name: "look"}}
	if b.Bound(spec, refs) != nil {
		t.Error("a binding before it was made")
	}
	made, _, err := b.Bind(t.Context(), spec, refs)
	if err != nil || s.asked != 1 {
		t.Fatalf("two imports of one server asked it %d times, %v", s.asked, err)
	}
	if b.Bound(spec, refs) != made {
		t.Error("a fresh binding is not shared")
	}
	if turned := []agentkernel.ToolRef{refs[1], refs[0]}; b.Bound(spec, turned) != nil {
		t.Error("imports in another order share a binding")
	}
	if b.Bound(&agentkernel.Spec{Tools: []string{"other.json"}}, refs) != nil {
		t.Error("imports from other files share a binding")
	}
	now = now.Add(3 * time.Second)
	if b.Bound(spec, refs) != nil {
		t.Error("a stale binding is shared")
	}
	if _, ref, err := b.Bind(t.Context(), spec, []agentkernel.ToolRef{refs[0], {Server: "s", Name: "nothing"}}); agentkernel.CodeOf(err) != agentkernel.CodeNotFound || ref.Name != "nothing" {
		t.Errorf("an import that is not there: %+v, %v", ref, err)
	}
}

// A local module of a server's name is refused, with both names.
func TestShadowed(t *testing.T) {
	p, b := newProcess(t, newServer())
	p.Spec.Program.Language = agentkernel.Python
	if err := b.Shadowed(t.Context(), &p.Spec, map[string]string{"tools.other.x": "", "s.x": ""}); err != nil {
		t.Error(err)
	}
	err := b.Shadowed(t.Context(), &p.Spec, map[string]string{"tools.s.x": ""})
	if agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(err.Error(), "tools/s/x.py") || !strings.Contains(err.Error(), "mcp.json") {
		t.Error(err)
	}
}
