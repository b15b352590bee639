package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/internal/policy"
	"agentkernel/internal/strictjson"
)

// definition is one tool of the server.
type definition struct {
	name, say string
	reads     bool // changes nothing
	destroys  bool // may change or delete what was there
	again     bool // twice is as once
	shown     bool // its output schema names what is in it
	minimal   bool // offered with Config.Minimal too
	needsPlan bool
	runs      bool // programs, which may have to ask
	in, out   reflect.Type
	call      func(ctx context.Context, c *call, raw json.RawMessage) (any, error)
}

func (d *definition) offered(cfg *Config) bool {
	return (d.minimal || !cfg.Minimal) && (!d.needsPlan || cfg.Plan != nil || cfg.Agent != nil)
}

// Surface describes the tools for docs: the same tables that clients are served from.
func Surface() []ToolInfo {
	h := &server{} // nothing is called
	var out []ToolInfo
	for _, d := range h.tools() {
		out = append(out, ToolInfo{Name: d.name, Description: d.say, Input: schemaOf(d.in, true), Output: outputOf(d.out), ReadOnly: d.reads, Minimal: d.minimal})
	}
	return out
}

// Instructions is what a client's model is told once, beside the tools.
func Instructions() string { return instructions }

// ToolInfo is one tool of the surface.
type ToolInfo struct {
	Name, Description string
	Input, Output     json.RawMessage
	ReadOnly, Minimal bool
}

// tools is the one table, in the order in which clients see it.
func (h *server) tools() []*definition {
	var all []*definition
	for _, family := range [][]*definition{h.executeTools(), h.findTools(), h.taskTools(), h.stateTools(), h.skillTools(), h.versionTools()} {
		all = append(all, family...)
	}
	return all
}

// handle makes a definition's function of one with types; Out is a pointer to a struct.
func handle[In, Out any](d *definition, fn func(ctx context.Context, c *call, in In) (Out, error)) *definition {
	d.in, d.out = reflect.TypeFor[In](), reflect.TypeFor[Out]().Elem()
	d.call = func(ctx context.Context, c *call, raw json.RawMessage) (any, error) {
		var in In
		if err := decodeArguments(d, raw, &in); err != nil {
			return nil, err
		}
		out, err := fn(ctx, c, in)
		if err != nil {
			return nil, err
		}
		return out, nil
	}
	return d
}

// decodeArguments reads arguments strictly, but for types whose meaning is plain. Text that is not UTF-8 is refused: JSON would mend it silently,
// and another program would run than the one that was meant.
func decodeArguments(d *definition, raw json.RawMessage, into any) error {
	bad := func(format string, args ...any) error {
		return agentkernel.Errorf(agentkernel.CodeInvalid, d.name, format, args...).
			WithHint("arguments of %s: %s", d.name, strings.Join(argumentNames(d.in), ", "))
	}
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	if !utf8.Valid(raw) {
		return bad("the arguments are not valid UTF-8")
	}
	if at := strictjson.LoneSurrogate(raw); at >= 0 {
		return bad("%s is half of a character: what is no text cannot be sent", raw[at:at+len(`\uXXXX`)])
	}
	plain := plainly(raw, d.in)
	dec := json.NewDecoder(bytes.NewReader(plain))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return bad("%s", strictjson.Explain(err, "the arguments", plain))
	}
	if err := strictjson.Check(raw, into); err != nil {
		return bad("%s", err)
	}
	var given map[string]json.RawMessage
	if json.Unmarshal(raw, &given) != nil {
		return bad("the arguments are not an object")
	}
	for i := range d.in.NumField() {
		name, options, _ := strings.Cut(d.in.Field(i).Tag.Get("json"), ",")
		if _, ok := given[name]; !ok && options != "omitempty" {
			return bad("%s is missing", name)
		}
	}
	return nil
}

// texter is a result with words of its own; others are shown as JSON.
type texter interface{ text() string }

// failer is a result that is an error for the model, with everything that there is to know.
type failer interface{ failed() bool }

// attacher is a result with more than text: images, and (to clients that know them) links.
type attacher interface {
	attached(links bool) []mcp.Content
}

// add registers the tool with the SDK.
func (d *definition) add(s *mcp.Server, h *server) {
	s.AddTool(&mcp.Tool{Name: d.name, Description: d.say, InputSchema: schemaOf(d.in, h.cfg.Packages != nil), OutputSchema: d.output(), Annotations: d.annotations()},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return d.serve(ctx, h, req), nil
		})
}

// serve answers one call. What goes wrong is an answer too: the model can act on it.
func (d *definition) serve(ctx context.Context, h *server, req *mcp.CallToolRequest) *mcp.CallToolResult {
	client, err := h.clients.of(req.Session, req.Extra)
	if err != nil {
		return failed(err)
	}
	client.calls.Add(1)
	defer client.calls.Add(-1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(client.here, cancel)()
	c := &call{h: h, req: req, tool: d.name, client: client, asks: asksNot}
	if d.runs {
		c.asks = howToAsk(req.Session)
	}
	if c.asks != asksReturns {
		return d.answer(ctx, c)
	}
	var r *running
	if state := req.Params.RequestState; state == "" {
		r = c.start(ctx, d)
	} else if r = client.resume(state, req.Params.InputResponses); r == nil {
		return failed(agentkernel.Errorf(agentkernel.CodeNotFound, d.name, "the question was not answered in time, and the program was stopped").
			WithHint("call again without requestState"))
	}
	return client.next(ctx, r)
}

// answer is what a call gives in the end.
func (d *definition) answer(ctx context.Context, c *call) *mcp.CallToolResult {
	out, err := d.call(ctx, c, c.req.Params.Arguments)
	if err != nil {
		return failed(c.h.withPackages(agentkernel.AsError(c.cutShort(err), agentkernel.CodeInternal, "")))
	}
	res := answer(out)
	if a, ok := out.(attacher); ok {
		res.Content = append(res.Content, a.attached(!c.h.cfg.Minimal && speaks(c.req.Session, richerSince))...)
	}
	return res
}

// output is the output schema. All answers are objects; what is in the frequent ones is named, the others
// speak for themselves, and a client pays for every word.
func (d *definition) output() json.RawMessage {
	if d.shown {
		return outputOf(d.out)
	}
	return json.RawMessage(`{"type":"object"}`)
}

// annotations says what is not the default of MCP, which is a tool that may destroy.
func (d *definition) annotations() *mcp.ToolAnnotations {
	no := false
	switch {
	case d.reads:
		return &mcp.ToolAnnotations{ReadOnlyHint: true}
	case d.destroys && d.again:
		return &mcp.ToolAnnotations{IdempotentHint: true}
	case !d.destroys:
		return &mcp.ToolAnnotations{DestructiveHint: &no}
	}
	return nil
}

// call is one call of a tool.
type call struct {
	h      *server
	req    *mcp.CallToolRequest
	client *client
	tool   string

	asks    asking
	running *running // asksReturns only
}

// kernel is the kernel as the caller may see it. Whoever has a token sees the namespace of its user alone, whatever a handler
// forgets to ask; on stdio the caller is whoever has started the server.
func (c *call) kernel() agentkernel.Kernel {
	if c.client.principal == "" {
		return c.h.cfg.Kernel
	}
	return policy.Scoped(c.h.cfg.Kernel, agentkernel.Principal{Name: c.client.user, Namespace: c.namespace(), Rights: userRights()})
}

// userRights are those of each user: what programs may reach is not the user's choice, but stands in Config.Spec.
func userRights() []agentkernel.Right {
	return slices.DeleteFunc(agentkernel.Rights(), func(r agentkernel.Right) bool { return r == agentkernel.RightAdmin })
}

// documents keeps the state files of all users in the namespace of the server, told apart by their owners and not by
// namespaces: where they are is what users find them by, and older than principals.
func (c *call) documents() agentkernel.Library { return c.h.cfg.Kernel }

// answer makes the SDK's result of a handler's.
func answer(out any) *mcp.CallToolResult {
	raw, err := json.Marshal(out)
	if err != nil {
		return failed(agentkernel.AsError(err, agentkernel.CodeInternal, "mcp"))
	}
	text := string(raw)
	if t, ok := out.(texter); ok {
		text = t.text()
	}
	res := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.ToValidUTF8(text, "\ufffd")}}, StructuredContent: json.RawMessage(raw)}
	if f, ok := out.(failer); ok {
		res.IsError = f.failed()
	}
	return res
}

// failed is a tool error that the model can act on: the code, the message, and what to do.
func failed(err error) *mcp.CallToolResult {
	e := agentkernel.AsError(err, agentkernel.CodeInternal, "")
	if agentkernel.KernelGone(e) && !strings.Contains(e.Hint, sameCall) {
		e = e.WithHint(sameCall + ": another kernel answers it")
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: strings.ToValidUTF8(e.TextFor(agentkernel.OverMCP), "\ufffd")}}}
}
