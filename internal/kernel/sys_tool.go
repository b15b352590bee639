package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/journal"
)

// toolCalls is the family of tools.
var toolCalls = map[string]handler{
	"tool.call":     {outside: toolCall},
	"tool.list":     {outside: toolList},
	"tool.describe": {outside: toolDescribe},
}

type toolArgs struct {
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// maxToolName bounds the names of a server and of a tool, in bytes: they stand in messages and tables.
const maxToolName = 256

func (a *toolArgs) decode(f *inflight) error {
	if err := decodeArgs(f, a); err != nil {
		return err
	}
	if len(a.Server) > maxToolName || len(a.Tool) > maxToolName {
		return agentkernel.Errorf(agentkernel.CodeNotFound, f.op, "no tool %q of a server %q can be: names are at most %d bytes long",
			clip(a.Tool), clip(a.Server), maxToolName)
	}
	return nil
}

// admitTool finds the tool behind a tool.call and asks whether this process may call it. A tool that the
// program imported is known; any other is looked up first, which may start its server.
func (k *Kernel) admitTool(p *process, f *inflight, canonical json.RawMessage) {
	var a toolArgs
	if err := a.decode(f); err != nil {
		k.answer(p, f, canonical, nil, err)
		return
	}
	p.describe(f, nil, "tool.call "+a.Server+"."+a.Tool)
	p.mu.Lock()
	bound := p.bound
	p.mu.Unlock()
	if bound != nil {
		if t := bound.find(a.Server, a.Tool); t != nil && t.Changed == nil { // else it may have been accepted since
			k.permit(p, f, canonical, t)
			return
		}
	}
	k.lookUpTool(p, f, a, func(t *agentkernel.Tool, err error) {
		if err != nil {
			k.answer(p, f, canonical, nil, err)
			return
		}
		k.permit(p, f, canonical, t)
	})
}

// lookUpTool asks the tool's server, in a goroutine of its own; the call shows as in flight meanwhile.
func (k *Kernel) lookUpTool(p *process, f *inflight, a toolArgs, then func(*agentkernel.Tool, error)) {
	ctx, cancel := context.WithTimeout(p.context(), time.Duration(p.spec.limits.CallWait))
	p.mu.Lock()
	f.cancel = cancel
	p.inflight.add(f)
	p.mu.Unlock()
	if !k.external.enter() {
		cancel()
		return
	}
	go func() {
		defer k.external.leave()
		defer cancel()
		t, err := k.findTool(ctx, p, a)
		if !p.lifeOver() {
			then(t, err)
		}
	}()
}

func (k *Kernel) findTool(ctx context.Context, p *process, a toolArgs) (*agentkernel.Tool, error) {
	src, err := k.toolSource(&p.spec.Spec)
	if err != nil {
		return nil, err
	}
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

// permit lets a call of a known tool through: read-only ones always, others if a pattern allows them or a
// human says yes.
func (k *Kernel) permit(p *process, f *inflight, canonical json.RawMessage, t *agentkernel.Tool) {
	p.describe(f, t, "tool.call "+t.Server+"."+t.Name)
	if t.Refused() {
		k.answer(p, f, canonical, nil, hasChanged(f, t))
		return
	}
	if t.Effect == agentkernel.EffectRead || k.allowed(p, t) {
		k.callTool(p, f, canonical)
		return
	}
	p.mu.Lock()
	asker := p.spec.Interactive && hasAsker(p.watchers)
	if f.dropped {
		p.mu.Unlock()
		return
	}
	if asker {
		f.asking = true
		p.inflight.add(f)
		k.publish(p, agentkernel.Event{Kind: agentkernel.EventAsk, Ask: f.question()})
	}
	p.mu.Unlock()
	if !asker {
		k.answer(p, f, canonical, nil, notAllowed(f, t))
	}
}

func hasAsker(ws []*watcher) bool {
	for _, w := range ws {
		if w.asks {
			return true
		}
	}
	return false
}

// question is what a human is asked about a call; the process's mutex is held.
func (f *inflight) question() *agentkernel.Ask {
	args := f.args
	if canonical, err := journal.Canonical(f.args); err == nil { // else it was refused before
		args = canonical
	}
	return &agentkernel.Ask{ID: f.id, Call: f.tool.Server + "." + f.tool.Name, Effect: f.tool.Effect, Args: askArgs(args)}
}

func askArgs(canonical json.RawMessage) json.RawMessage {
	var a toolArgs
	if json.Unmarshal(canonical, &a) != nil {
		return canonical
	}
	return a.Arguments
}

func notAllowed(f *inflight, t *agentkernel.Tool) *agentkernel.Error {
	name := t.Server + "." + t.Name
	return agentkernel.Errorf(agentkernel.CodeDenied, f.op, "%s may change things (%s) and was not allowed", name, t.Effect).
		WithHint("allow it with --allow '%s'", name)
}

// hasChanged refuses a tool that is not the one that was accepted.
func hasChanged(f *inflight, t *agentkernel.Tool) *agentkernel.Error {
	name, c := t.Server+"."+t.Name, t.Changed
	return agentkernel.Errorf(agentkernel.CodeDenied, f.op, "%s may change things (%s), and is not what was accepted on %s: %s changed. It is refused until somebody accepts it\n%s",
		name, t.Effect, c.Accepted.Format(time.DateOnly), strings.Join(c.What, ", "), c.Diff).
		WithHint("agentkernel tools accept %s %s", t.Server, t.Name)
}

// stillAdmitted looks at a tool again right before its call is sent: its server may have started again since, and say
// another thing of it.
func stillAdmitted(f *inflight, now *agentkernel.Tool) error {
	switch {
	case now.Refused():
		return hasChanged(f, now)
	case f.effect.Stricter(now.Effect) != f.effect:
		return agentkernel.Errorf(agentkernel.CodeDenied, f.op, "%s.%s was admitted as %s, and its server now says that it is %s; the call was not sent",
			now.Server, now.Name, f.effect, now.Effect).WithHint("call it again, if it may change things")
	}
	return nil
}

// allowed says whether a pattern of the Spec, or an answer "always", covers the tool.
func (k *Kernel) allowed(p *process, t *agentkernel.Tool) bool {
	p.mu.Lock()
	approved := p.account.Allowed
	p.mu.Unlock()
	for _, patterns := range [][]string{p.spec.Allow, approved} {
		for _, pattern := range patterns {
			if allows(pattern, t) {
				return true
			}
		}
	}
	return false
}

// allows matches "server.tool" patterns with * and ?, by the configured or the Python names; a pattern
// without a dot is a server.
func allows(pattern string, t *agentkernel.Tool) bool {
	for _, server := range []string{t.Server, t.PythonServer} {
		if ok, err := path.Match(pattern, server); err == nil && ok {
			return true
		}
		for _, name := range []string{t.Name, t.PythonName} {
			if ok, err := path.Match(pattern, server+"."+name); err == nil && ok {
				return true
			}
		}
	}
	return pattern == "*"
}

// Answer answers the question whether a call may run.
func (k *Kernel) Answer(_ context.Context, pid agentkernel.PID, ask int64, a agentkernel.Answer) error {
	p := k.lookup(pid)
	if p == nil {
		return agentkernel.Errorf(agentkernel.CodeNotFound, "answer", "process %d is not running here", pid)
	}
	p.mu.Lock()
	f := p.inflight.find(ask)
	if f == nil || !f.asking {
		p.mu.Unlock()
		return agentkernel.Errorf(agentkernel.CodeNotFound, "answer", "nothing was asked under number %d", ask).WithPID(pid)
	}
	f.asking = false
	if a == agentkernel.AnswerAlways {
		k.append(p, agentkernel.Entry{Kind: agentkernel.EntryAllowed, Note: agentkernel.ExactPattern(f.tool.Server + "." + f.tool.Name)})
	}
	p.mu.Unlock()
	canonical, err := journal.Canonical(f.args)
	if err != nil {
		return err
	}
	if a == agentkernel.AnswerYes || a == agentkernel.AnswerAlways {
		k.callTool(p, f, canonical)
		return nil
	}
	k.answer(p, f, canonical, nil, notAllowed(f, f.tool))
	return nil
}

func (k *Kernel) callTool(p *process, f *inflight, canonical json.RawMessage) {
	if k.doneByPast(p, f, canonical) {
		return
	}
	if k.intend(p, f, canonical) {
		k.goOutside(p, f)
	}
}

// readmitTool runs a repeatable call of an earlier life again. Its permission was settled when its intent
// was journalled.
func (k *Kernel) readmitTool(p *process, f *inflight) {
	var a toolArgs
	if err := decodeArgs(f, &a); err != nil {
		k.complete(p, f, nil, "", err)
		return
	}
	k.lookUpTool(p, f, a, func(t *agentkernel.Tool, err error) {
		if err != nil {
			k.complete(p, f, nil, "", err)
			return
		}
		p.describe(f, t, f.label)
		k.goOutside(p, f)
	})
}

func toolCall(ctx context.Context, k *Kernel, p *process, f *inflight) (json.RawMessage, string, error) {
	var a toolArgs
	if err := decodeArgs(f, &a); err != nil {
		return nil, "", err
	}
	src, err := k.toolSource(&p.spec.Spec)
	if err != nil {
		return nil, "", err
	}
	p.mu.Lock()
	expect := p.servers[f.tool.Server]
	p.mu.Unlock()
	r, err := src.Call(ctx, agentkernel.ToolCall{Server: f.tool.Server, Tool: f.tool.Name, Arguments: a.Arguments,
		Key: fmt.Sprintf("%s/%d/%d", k.origin.UUIDOf(p.pid), p.pid, f.id), Expect: expect,
		Admit: func(now agentkernel.Tool) error { return stillAdmitted(f, &now) }})
	if err != nil {
		return nil, r.Incarnation, toolFailure(ctx, f, r, err)
	}
	return r.Value, r.Incarnation, nil
}

// toolFailure says what a failed call means for the program: a write that was sent and not answered may
// have happened.
func toolFailure(ctx context.Context, f *inflight, r agentkernel.ToolResult, err error) error {
	e := agentkernel.AsError(err, agentkernel.CodeUnavailable, f.op)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && e.Code != agentkernel.CodeTimeout {
		e = agentkernel.Errorf(agentkernel.CodeTimeout, f.op, "%s did not answer in time", f.label)
	}
	switch e.Code {
	case agentkernel.CodeTool, agentkernel.CodeAnswerLost, agentkernel.CodeInvalid, agentkernel.CodeNotFound, agentkernel.CodeSessionLost, agentkernel.CodeDenied:
		return e
	}
	if f.effect == agentkernel.EffectWrite && !r.NotSent {
		return outcomeUnknown(f, e)
	}
	return e
}

func toolList(ctx context.Context, k *Kernel, p *process, f *inflight) (json.RawMessage, string, error) {
	var a toolArgs
	if err := a.decode(f); err != nil {
		return nil, "", err
	}
	src, err := k.toolSource(&p.spec.Spec)
	if err != nil {
		return nil, "", err
	}
	tools, err := listTools(ctx, src, a.Server)
	if err != nil {
		return nil, "", err
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
	return out, "", err
}

func toolDescribe(ctx context.Context, k *Kernel, p *process, f *inflight) (json.RawMessage, string, error) {
	var a toolArgs
	if err := a.decode(f); err != nil {
		return nil, "", err
	}
	t, err := k.findTool(ctx, p, a)
	if err != nil {
		return nil, "", err
	}
	out, err := json.Marshal(map[string]any{
		"import":    fmt.Sprintf("from tools.%s import %s", t.PythonServer, t.PythonName),
		"signature": t.Signature, "doc": t.Doc, "effect": t.Effect,
		"input_schema": t.InputSchema, "output_schema": t.OutputSchema,
	})
	return out, "", err
}
