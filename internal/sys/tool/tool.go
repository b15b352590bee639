// Package tool is the family of tools: tool.call, tool.list and tool.describe, and the binding of a program's imports to the
// tools of its servers.
package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/shellword"
	"agentkernel/internal/sys"
)

// Family is the family of tools.
func (b *Box) Family() sys.Family {
	op := func(admit func(*sys.Call) (sys.Admission, error), outside func(context.Context, *sys.Call) (sys.Outcome, error),
		desc agentkernel.Syscall) sys.Op {
		desc.Capability = "tool"
		desc.Guest = desc.Name
		return sys.Op{Admit: admit, Outside: outside, Syscall: desc}
	}
	call := op(b.admit, b.call, agentkernel.Syscall{Name: "tool.call", Effect: agentkernel.EffectByTool, Peer: "server",
		Doc: "Calls a tool by name; the imported function of the tool is the usual way.",
		Args: []agentkernel.Param{
			{Name: "server", Type: "string", Doc: "server name as in the configuration"},
			{Name: "tool", Type: "string", Doc: "tool name as the server declares it"},
			{Name: "arguments", Type: "object", Optional: true, Default: "None", Doc: "the tool's arguments"},
		},
		Result: "any", ResultDoc: "structured content if the tool has it, else text"})
	call.Subject, call.Plain = subject, true
	return sys.Family{Name: "tool", Ops: []sys.Op{
		call,
		op(nil, b.list, agentkernel.Syscall{Name: "tool.list", Effect: agentkernel.EffectRead,
			Doc:    "Names the tools that the process can import.",
			Args:   []agentkernel.Param{{Name: "server", Type: "string", Optional: true, Default: "None", Doc: "only those of this server"}},
			Result: "array", ResultDoc: "objects with server, name, python_name, description, effect"}),
		op(nil, b.describe, agentkernel.Syscall{Name: "tool.describe", Effect: agentkernel.EffectRead,
			Doc: "Describes one tool in full.",
			Args: []agentkernel.Param{
				{Name: "server", Type: "string"},
				{Name: "tool", Type: "string"},
			},
			Result: "object", ResultDoc: "import line, signature, docstring, input and output schema, effect"}),
	}}
}

type args struct {
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// maxName bounds the names of a server and of a tool, in bytes: they stand in messages and tables.
const maxName = 256

func decode(c *sys.Call) (a args, err error) {
	if err := c.Decode(&a); err != nil {
		return a, err
	}
	if len(a.Server) > maxName || len(a.Tool) > maxName {
		return a, c.Errorf(agentkernel.CodeNotFound, "no tool %q of a server %q can be: names are at most %d bytes long",
			clip.Short(a.Tool), clip.Short(a.Server), maxName)
	}
	return a, nil
}

// subject names the tool of a journalled call.
func subject(raw json.RawMessage) string {
	a := args{Server: "?", Tool: "?"}
	if json.Unmarshal(raw, &a) != nil {
		return "?.?"
	}
	return a.Server + "." + a.Tool
}

// admit finds the tool behind a call. One that the program imported is known; any other is looked up first, which may start
// its server.
func (b *Box) admit(c *sys.Call) (sys.Admission, error) {
	a, err := decode(c)
	if err != nil {
		return sys.Admission{}, err
	}
	src, err := b.Source(c.Spec)
	if err != nil {
		return sys.Admission{}, err
	}
	adm := sys.Admission{Subject: a.Server + "." + a.Tool}
	turn := src.Turn(a.Server, c.Spec.Namespace, c.Since)
	if turn != nil {
		adm.Turn, adm.Waiting = turn, turn.Waiting
	}
	if t := c.Bound.Find(a.Server, a.Tool); t != nil && t.Changed == nil && !c.Again { // else it may have been accepted since
		return admission(c, a, t, adm)
	}
	found := adm
	adm.Later = func(ctx context.Context) (sys.Admission, error) {
		t, err := find(ctx, src, a)
		if err != nil {
			return found, err
		}
		return admission(c, a, t, found)
	}
	return adm, nil
}

// admitted is what a call that was admitted calls.
type admitted struct {
	tool      *agentkernel.Tool
	arguments json.RawMessage
	turn      bool
}

// price is what a call of a tool reserves; nil: nothing.
func price(t *agentkernel.Tool) agentkernel.Amounts {
	if t.CostUSD == nil || *t.CostUSD == 0 {
		return nil
	}
	return agentkernel.Amounts{agentkernel.AmountUSD: int64(*t.CostUSD)}
}

// effect is the class of a call of a tool: to make again what only reads changes nothing, and may cost.
func effect(t *agentkernel.Tool) agentkernel.Effect {
	if t.Effect == agentkernel.EffectRead && price(t) != nil {
		return agentkernel.EffectPaid
	}
	return t.Effect
}

// admission completes what a call of a tool needs, which has its turn: permission if it does not only read.
func admission(c *sys.Call, a args, t *agentkernel.Tool, adm sys.Admission) (sys.Admission, error) {
	name := t.Server + "." + t.Name
	adm.Effect, adm.Reserve, adm.Subject, adm.Name, adm.Matches, adm.Pattern = effect(t), price(t), name, name, t.AllowedBy, agentkernel.ExactPattern(t.Server, t.Name)
	adm.Value = admitted{t, a.Arguments, adm.Turn != nil}
	switch {
	case c.Again: // permission was settled when it was made first
	case t.Refused():
		return adm, hasChanged(c, t)
	case t.CostUSD == nil && c.BoundsUSD:
		return adm, c.Errorf(agentkernel.CodeDenied, "a budget or an allowance bounds what this process spends, and nothing says what %s costs", name).
			WithHint(`say what calls of the server %q cost, "cost_usd": 0 if nothing, in %s`, t.Server, strings.Join(c.Spec.Tools, " or "))
	case t.Effect != agentkernel.EffectRead:
		adm.Ask = &sys.Question{Args: a.Arguments, Denied: c.Errorf(agentkernel.CodeDenied, "%s may change things (%s) and was not allowed", name, t.Effect).
			WithHint("allow it with --allow %s", shellword.Quoted(adm.Pattern))}
	}
	return adm, nil
}

func find(ctx context.Context, src agentkernel.ToolSource, a args) (*agentkernel.Tool, error) {
	tools, err := src.Tools(ctx, a.Server)
	if err != nil {
		return nil, err
	}
	for i := range tools {
		if tools[i].Name == a.Tool || tools[i].PythonName == a.Tool {
			return &tools[i], nil
		}
	}
	return nil, noSuchTool(a.Server, a.Tool, tools)
}

// hasChanged refuses a tool that is not the one that was accepted.
func hasChanged(c *sys.Call, t *agentkernel.Tool) *agentkernel.Error {
	name, change := t.Server+"."+t.Name, t.Changed
	return c.Errorf(agentkernel.CodeDenied, "%s may change things (%s), and is not what was accepted on %s: %s changed. It is refused until somebody accepts it\n%s",
		name, t.Effect, change.Accepted.Format(time.DateOnly), strings.Join(change.What, ", "), change.Diff).
		WithHint("agentkernel tools accept %s", shellword.Names(t.Server, t.Name))
}

// stillAdmitted looks at a tool again right before its call is sent: its server may have started again since, and say
// another thing of it.
func stillAdmitted(c *sys.Call, now *agentkernel.Tool) error {
	was := c.Effect
	if was == agentkernel.EffectPaid { // it only reads
		was = agentkernel.EffectRead
	}
	switch {
	case now.Refused():
		return hasChanged(c, now)
	case was.Stricter(now.Effect) != was:
		return c.Errorf(agentkernel.CodeDenied, "%s.%s was admitted as %s, and its server now says that it is %s; the call was not sent",
			now.Server, now.Name, c.Effect, now.Effect).WithHint("call it again, if it may change things")
	}
	return nil
}

// call calls the tool. A write that was sent and not answered may have happened.
func (b *Box) call(ctx context.Context, c *sys.Call) (sys.Outcome, error) {
	src, err := b.Source(c.Spec)
	if err != nil {
		return sys.Outcome{}, err
	}
	a := c.Admitted.(admitted)
	held := false
	r, err := src.Call(ctx, agentkernel.ToolCall{Server: a.tool.Server, Tool: a.tool.Name, Arguments: a.arguments, Key: c.Key, Expect: c.Expect, HasTurn: a.turn,
		Admit: func(now agentkernel.Tool) error {
			if held = c.Held != nil && c.Held(); held { // its server has taken its time to say what its tools are
				return sys.ErrWaits
			}
			return stillAdmitted(c, &now)
		}})
	if err != nil && r.NotSent && (held || r.Waits) {
		return sys.Outcome{Settle: agentkernel.Amounts{}}, sys.ErrWaits
	}
	out := sys.Outcome{Result: r.Value, Incarnation: r.Incarnation, Settled: r.NotSent}
	if r.Done != nil {
		out.Done = func(bool) { r.Done() }
	}
	if r.NotSent && (price(a.tool) != nil || c.Budgeted) {
		out.Settle = agentkernel.Amounts{} // it costs nothing
	}
	switch agentkernel.CodeOf(err) {
	case agentkernel.CodeTool, agentkernel.CodeAnswerLost, agentkernel.CodeInvalid, agentkernel.CodeNotFound, agentkernel.CodeSessionLost, agentkernel.CodeDenied,
		agentkernel.CodeLimit: // an answer for which there was no room
		out.Settled = true
	}
	return out, err
}

func (b *Box) list(ctx context.Context, c *sys.Call) (sys.Outcome, error) {
	a, err := decode(c)
	if err != nil {
		return sys.Outcome{}, err
	}
	src, err := b.Source(c.Spec)
	if err != nil {
		return sys.Outcome{}, err
	}
	tools, err := listTools(ctx, src, a.Server)
	if err != nil {
		return sys.Outcome{}, err
	}
	type row struct {
		Server      string             `json:"server"`
		Name        string             `json:"name"`
		PythonName  string             `json:"python_name"`
		Description string             `json:"description"`
		Effect      agentkernel.Effect `json:"effect"`
	}
	rows := make([]row, 0, len(tools))
	for _, t := range tools {
		rows = append(rows, row{t.Server, t.Name, t.PythonName, t.Description, t.Effect})
	}
	out, err := json.Marshal(rows)
	return sys.Outcome{Result: out}, err
}

func (b *Box) describe(ctx context.Context, c *sys.Call) (sys.Outcome, error) {
	a, err := decode(c)
	if err != nil {
		return sys.Outcome{}, err
	}
	src, err := b.Source(c.Spec)
	if err != nil {
		return sys.Outcome{}, err
	}
	t, err := find(ctx, src, a)
	if err != nil {
		return sys.Outcome{}, err
	}
	out, err := json.Marshal(map[string]any{
		"import":    fmt.Sprintf("from tools.%s import %s", t.PythonServer, t.PythonName),
		"signature": t.Signature, "doc": t.Doc, "effect": t.Effect,
		"input_schema": t.InputSchema, "output_schema": t.OutputSchema,
	})
	return sys.Outcome{Result: out}, err
}
