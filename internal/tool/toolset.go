package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/places"
	"agentkernel/internal/strictjson"
)

// Bounds of what one server may declare in all: the kernel holds it many times over, as texts, trees and compiled schemas.
const (
	maxTools      = 10_000
	maxParameters = 50_000
	maxListBytes  = 16 << 20
	maxPages      = 1_000
)

// toolset is the list of a server's tools at one moment.
type toolset struct {
	tools  []agentkernel.Tool
	bound  []*boundTool
	byName map[string]*boundTool // by the server's own name
	byPy   map[string]*boundTool
}

// boundTool is a tool with what is needed to check its arguments and read its answer.
type boundTool struct {
	agentkernel.Tool
	shape    shape
	params   map[string]*agentkernel.ToolParam // by schema name
	byPy     map[string]string                 // Python parameter name -> schema name, where they differ
	checker  *jsonschema.Resolved              // nil if the schema cannot be used for checking
	nullable map[string]bool                   // arguments for which null is a value
	unwrap   string                            // member of structured content that is the result, or ""
	schema   bool                              // it declares an output schema
}

func (ts *toolset) find(name string) *boundTool {
	if t := ts.byName[name]; t != nil {
		return t
	}
	return ts.byPy[name]
}

func (ts *toolset) names() []string {
	out := make([]string, len(ts.tools))
	for i := range ts.tools {
		out[i] = ts.tools[i].PythonName
	}
	return out
}

// wireTool is a tool as tools/list gives it.
type wireTool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
	Annotations  *struct {
		Title          string `json:"title"`
		ReadOnlyHint   bool   `json:"readOnlyHint"`
		IdempotentHint bool   `json:"idempotentHint"`
	} `json:"annotations"`
}

// listMethod is the request for the list of tools.
const listMethod = "tools/list"

// toolset gives the tools of the server, asking it if they are not known or have changed. The first list belongs to
// the start: a stdio server that does not give it in the time for a start is taken for dead.
func (inst *instance) toolset(ctx context.Context, python string) (*toolset, error) {
	if ts := inst.tools.Load(); ts != nil && !inst.stale.Load() {
		return ts, nil
	}
	began := time.Now()
	select {
	case <-inst.listing:
	case <-ctx.Done():
		return nil, inst.noList(ctx, began)
	}
	defer func() { inst.listing <- struct{}{} }()
	if ts := inst.tools.Load(); ts != nil && !inst.stale.Load() {
		return ts, nil
	}
	if inst.unlisted != nil {
		return nil, inst.unlisted
	}
	first := inst.tools.Load() == nil
	limit := &places.TimeUp{After: inst.startLimit}
	if first {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit.After, limit)
		defer cancel()
	}
	inst.stale.Store(false) // a change from here on is seen again
	list, err := inst.listTools(ctx)
	if err != nil {
		inst.stale.Store(!first)
		if overdue(ctx) && !inst.closing.Load() {
			err = inst.noList(ctx, began)
		}
		if errors.Is(context.Cause(ctx), limit) && inst.conn != nil {
			inst.unlisted = err
			inst.condemn("it did not answer " + listMethod + " within " + limit.After.String())
		}
		return nil, err
	}
	ts, err := newToolset(inst.entry, python, list)
	if err != nil {
		inst.stale.Store(!first)
		return nil, err
	}
	inst.tools.Store(ts)
	return ts, nil
}

// noList says why there is no list of tools when ctx has ended.
func (inst *instance) noList(ctx context.Context, began time.Time) error {
	if !overdue(ctx) {
		return inst.gaveUp(ctx, listMethod)
	}
	waited := time.Since(began).Round(time.Millisecond)
	up, ok := errors.AsType[*places.TimeUp](context.Cause(ctx))
	if ok {
		waited = up.After
	}
	err := inst.startError(ctx.Err(), listMethod+" within "+waited.String())
	if ok && up.After == inst.startLimit {
		return err
	}
	return err.WithHint("see %s, %s", inst.entry.file, inst.entry.where)
}

// listTools asks for all pages.
func (inst *instance) listTools(ctx context.Context) ([]wireTool, error) {
	var all []wireTool
	cursor, size := "", int64(0)
	seen := map[string]bool{}
	for range maxPages {
		ctx, t := withTrack(ctx)
		_, err := inst.session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		o := t.outcome()
		defer o.held.Release()
		if o.result == nil {
			return nil, inst.callError(ctx, listMethod, o, err)
		}
		var page struct {
			Tools      json.RawMessage `json:"tools"`
			NextCursor string          `json:"nextCursor"`
		}
		if size += int64(len(o.result)); size > maxListBytes {
			return nil, declaresTooMuch(inst.entry, megabytes(maxListBytes)+" of tools")
		}
		err = json.Unmarshal(inst.entry.secrets.result(o.result), &page)
		var tools []wireTool
		if err == nil && page.Tools != nil {
			if strictjson.AreObjects(page.Tools, math.MaxInt) && !strictjson.AreObjects(page.Tools, maxTools) { // a tool takes much more than {}
				return nil, declaresTooMuch(inst.entry, fmt.Sprintf("%d tools", maxTools))
			}
			err = json.Unmarshal(page.Tools, &tools)
		}
		if err != nil {
			return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "tool.list",
				"server %q answered tools/list with something that is no list of tools", inst.entry.name)
		}
		all = append(all, tools...)
		cursor = page.NextCursor
		if len(all) > maxTools {
			return nil, declaresTooMuch(inst.entry, fmt.Sprintf("%d tools", maxTools))
		}
		if cursor == "" {
			return all, nil
		}
		if seen[cursor] {
			break
		}
		seen[cursor] = true
	}
	return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "tool.list",
		"server %q does not come to an end of its list of tools (%d so far)", inst.entry.name, len(all))
}

// declaresTooMuch is the error of a server whose list of tools is beyond a bound.
func declaresTooMuch(e *entry, bound string) error {
	return agentkernel.Errorf(agentkernel.CodeUnavailable, "tool.list", "server %q declares more than %s: none of them can be used", e.name, bound).
		WithHint("let it offer fewer tools; see %s, %s", e.file, e.where)
}

func newToolset(e *entry, pythonServer string, list []wireTool) (*toolset, error) {
	ts := &toolset{byName: map[string]*boundTool{}, byPy: map[string]*boundTool{}}
	var names []string
	for _, w := range list {
		if len(w.Name) <= maxName {
			names = append(names, w.Name)
		}
	}
	python := PythonNames(names)
	parameters := 0
	for _, w := range list {
		if w.Name == "" || len(w.Name) > maxName || ts.byName[w.Name] != nil {
			continue // nameless, or nothing that anybody would write, or listed twice
		}
		b := bindTool(e, pythonServer, python[w.Name], w)
		if parameters += len(b.params); parameters > maxParameters {
			return nil, declaresTooMuch(e, fmt.Sprintf("%d parameters of tools", maxParameters))
		}
		ts.bound = append(ts.bound, b)
		ts.tools = append(ts.tools, b.Tool)
		ts.byName[w.Name] = b
		ts.byPy[b.PythonName] = b
	}
	return ts, nil
}

// anyResult is the type of results of which the server says nothing.
const anyResult = "Any"

// bindTool makes the Python face of one tool.
func bindTool(e *entry, pythonServer, python string, w wireTool) *boundTool {
	in := parseSchema(w.InputSchema)
	b := &boundTool{params: map[string]*agentkernel.ToolParam{}, byPy: map[string]string{}}
	b.shape = in.shape()
	b.nullable = nullables(in, b.shape)
	params := in.params(b.shape)
	result, out := anyResult, (*schemaDoc)(nil)
	var inner *schema
	if !emptySchema(w.OutputSchema) {
		out = parseSchema(w.OutputSchema)
		b.schema = true
		b.unwrap, inner = out.unwrapped()
		result = out.pythonType(inner)
	}
	title := w.Title
	if title == "" && w.Annotations != nil {
		title = w.Annotations.Title
	}
	title, description := printable(clip.At(title, maxName)), printable(clip.At(w.Description, maxText))
	b.Tool = agentkernel.Tool{
		Server: e.name, Name: w.Name, PythonServer: pythonServer, PythonName: python, Title: title,
		Description: description, Effect: effect(e, w), Signature: signature(python, params, result),
		Doc: printable(docstring(orText(description, title), in, out, params, inner)), Params: params,
	}
	if readable(w.InputSchema) {
		b.Tool.InputSchema = w.InputSchema
	}
	if b.schema && readable(w.OutputSchema) {
		b.Tool.OutputSchema = w.OutputSchema
	}
	for i := range params {
		params[i].Doc = printable(params[i].Doc)
		b.params[params[i].Name] = &params[i]
		if params[i].Python != params[i].Name {
			b.byPy[params[i].Python] = params[i].Name
		}
	}
	b.checker = compile(w.InputSchema)
	return b
}

// effect reads the annotations, which count only if the server is trusted.
func effect(e *entry, w wireTool) agentkernel.Effect {
	switch {
	case !e.trusted || w.Annotations == nil:
		return agentkernel.EffectWrite
	case w.Annotations.ReadOnlyHint:
		return agentkernel.EffectRead
	case w.Annotations.IdempotentHint:
		return agentkernel.EffectIdempotent
	}
	return agentkernel.EffectWrite
}

func (b *boundTool) String() string { return fmt.Sprintf("%s.%s", b.Server, b.Name) }
