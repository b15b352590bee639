// Package llm is the family of language models: llm.ask, llm.complete, llm.stream and llm.embed. What a program says of a conversation
// becomes a request here, and an answer becomes a value; which server is asked, when, and what it costs is the matter of
// an [llm.Engine].
package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/llm"
	"agentkernel/internal/sys"
)

// Hosts says whether a program may reach an address: an agentkernel.Fetcher does.
type Hosts interface {
	Admit(r agentkernel.FetchRequest) error
}

// Family is the family of models, which engine asks; nil: there are none. A provider fetches what a program names: hosts says which
// addresses it may name; nil: none.
func Family(engine llm.Engine, hosts Hosts) sys.Family {
	if engine == nil {
		engine = none{}
	}
	f := family{engine, hosts, newMemo(), newTalks()}
	model := agentkernel.Param{Name: "model", Type: "string", Optional: true, Default: "None", Doc: "an alias of the setting `models`; the first one, if there is none"}
	common := []agentkernel.Param{
		model,
		{Name: "schema", Type: "object", Optional: true, Default: "None", Doc: "JSON Schema of the answer, which is parsed and checked then"},
		{Name: "max_tokens", Type: "integer", Optional: true, Default: "None", Doc: "what it may answer at most, reasoning included"},
		{Name: "temperature", Type: "number", Optional: true, Default: "None"},
		{Name: "reasoning", Type: "string", Optional: true, Default: "None", Doc: "how much it is to think: none, low, medium or high"},
	}
	reuse := agentkernel.Param{Name: "reuse", Type: "number", Optional: true, Default: "None", Doc: "seconds: an answer that the namespace got to the very same question at most so long ago is given again, and costs nothing"}
	asking := slices.Concat(common, []agentkernel.Param{reuse})
	conversation := append([]agentkernel.Param{
		{Name: "tools", Type: "array", Optional: true, Default: "None", Doc: `what it may call: list of {"name", "description", "schema"}`},
		{Name: "tool_choice", Type: "string", Optional: true, Default: "None", Doc: "auto, none, required, or the name of a tool"},
		{Name: "stop", Type: "array", Optional: true, Default: "None", Doc: "texts at which it stops"},
		{Name: "top_p", Type: "number", Optional: true, Default: "None"},
		{Name: "seed", Type: "integer", Optional: true, Default: "None"},
		{Name: "cache", Type: "string", Optional: true, Default: "None", Doc: "how long the provider is to keep the beginning: 5m or 1h"},
		{Name: "extra", Type: "object", Optional: true, Default: "None", Doc: "fields of the provider's own"},
		{Name: "shrink", Type: "boolean", Optional: true, Default: "False", Doc: "if it is too long for the model: leave out its oldest turns and ask once more; `left_out` of the answer says how many messages"},
	}, common...)
	op := func(admit func(*sys.Call) (sys.Admission, error), desc agentkernel.Syscall) sys.Op {
		desc.Guest, desc.Effect, desc.Capability = desc.Name, agentkernel.EffectPaid, "llm"
		return sys.Op{Subject: subject, Admit: admit, Outside: f.ask, Syscall: desc}
	}
	streams := func(o sys.Op) sys.Op {
		o.Opens, o.Outside = true, f.open
		return o
	}
	return sys.Family{Name: "llm", Check: f.check, Ops: []sys.Op{
		op(f.admitAsk, agentkernel.Syscall{Name: "llm.ask", Bare: true,
			Doc: "Asks a model one thing: `llm(\"...\")`. It waits its turn: no limit of the provider is passed.",
			Args: append([]agentkernel.Param{
				{Name: "prompt", Type: "string"},
				{Name: "system", Type: "string", Optional: true, Default: "None", Doc: "what it is to know and to obey first"},
				{Name: "images", Type: "array", Optional: true, Default: "None", Doc: "bytes of PNG, JPEG, GIF or WebP, or addresses of pictures"},
			}, asking...),
			Result: "any", ResultDoc: "its text, or with a schema the value"}),
		op(f.admitComplete, agentkernel.Syscall{Name: "llm.complete",
			Doc: "Asks a model to go on with a conversation.",
			Args: append([]agentkernel.Param{
				{Name: "messages", Type: "array", Doc: `list of {"role": "system" | "user" | "assistant" | "tool", "content": "..."}; docs/llm.md has the other fields`},
			}, slices.Concat(conversation, []agentkernel.Param{reuse})...),
			Result: "object", ResultDoc: "text, data, message (to be appended to the messages), tool_calls, stop, model, usage, cost_usd"}),
		streams(op(f.admitStream, agentkernel.Syscall{Name: "llm.stream",
			Doc: "Asks as llm.complete does, and returns the answer as it comes: `for piece in llm.stream(\"...\"): ...`",
			Args: append([]agentkernel.Param{
				{Name: "messages", Type: "any", Doc: "as of llm.complete, or one str"},
			}, conversation...),
			Result: "Stream", ResultDoc: `{"text": "..."} and {"reasoning": "..."}, bits of {"call": {"index", "id", "name", "arguments"}}, and at the end {"answer": ...}, which is what llm.complete returns`})),
		op(f.admitEmbed, agentkernel.Syscall{Name: "llm.embed",
			Doc: "Makes vectors of texts.",
			Args: []agentkernel.Param{
				{Name: "texts", Type: "array", Doc: "list of str, or one str"},
				model,
				{Name: "dimensions", Type: "integer", Optional: true, Default: "None"},
				reuse,
			},
			Result: "array", ResultDoc: "a list of float for each text"}),
	}}
}

type family struct {
	engine llm.Engine
	hosts  Hosts
	memo   *memo
	talks  talks
}

// check refuses models that a process may not bring.
func (f family) check(s *agentkernel.Spec) error {
	if len(s.Models) == 0 {
		return nil
	}
	return f.engine.Check(s.Models)
}

// none is the engine of a kernel without models.
type none struct{}

func (none) Check([]string) error {
	return agentkernel.Errorf(agentkernel.CodeUnsupported, "models", "this kernel asks no models")
}

func (none) Plan(*llm.Query) (llm.Plan, error) {
	return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "llm", "no model is configured").
		WithHint(`the setting models declares them: models = ["fast openai:gpt-5-mini"]; docs/llm.md says how`)
}

// subject names the model of a journalled call.
func subject(raw json.RawMessage) string {
	model, _ := journal.TextOf(raw, "model")
	return model
}

// admit plans a query: what it may cost is known at once, its turn comes later.
func (f family) admit(c *sys.Call, q *llm.Query) (sys.Admission, error) {
	q.ID = fmt.Sprintf("%d/%d", c.PID, c.ID)
	q.PID, q.Tree, q.Namespace, q.Priority = c.PID, agentkernel.RootOf(c.PID, c.Spec.Ancestors), c.Spec.Namespace, c.Spec.Priority
	q.Brought = c.Spec.Models
	q.Bounded, q.Capped, q.Held, q.Requeues = c.BoundsUSD, c.Budgeted, c.Held, true
	for i := range q.Request.Messages {
		if err := f.reach(c, q.Request.Messages[i].Parts); err != nil {
			return sys.Admission{}, named(c, err)
		}
	}
	p, err := f.engine.Plan(q)
	if err != nil {
		return sys.Admission{}, named(c, err)
	}
	return sys.Admission{Subject: p.Alias(), Value: p, Turn: turn{p, c}, Leave: p.Leave, Waiting: p.Waiting, Name: c.Op.Name, Pattern: c.Op.Name,
		Matches: c.Matches}, nil
}

// turn is that of a query.
type turn struct {
	llm.Plan
	c *sys.Call
}

var _ sys.Priced = turn{}

// Ready is that of the plan, where nothing has to be found out about budgets: a book may have to be read first, which takes its time.
func (t turn) Ready() bool { return !t.c.Budgeted && t.Plan.Ready() }

func (t turn) Wait(ctx context.Context) error { return named(t.c, t.Plan.Wait(ctx)) }

// reach refuses addresses of pictures that the program could not fetch itself: with the provider's hands it could tell anybody anything.
func (f family) reach(c *sys.Call, parts []llm.Part) error {
	for i := range parts {
		p := &parts[i]
		if p.Result != nil {
			if err := f.reach(c, p.Result.Parts); err != nil {
				return err
			}
		}
		if p.Image == nil || p.Image.URL == "" {
			continue
		}
		if f.hosts == nil {
			return agentkernel.Errorf(agentkernel.CodeDenied, c.Op.Name, "no program of this kernel reaches the network, by a picture's address neither")
		}
		if err := f.hosts.Admit(agentkernel.FetchRequest{URL: p.Image.URL, Method: http.MethodGet, Hosts: c.Spec.AllowHosts}); err != nil {
			return err
		}
	}
	return nil
}

// ask asks.
func (f family) ask(ctx context.Context, c *sys.Call) (sys.Outcome, error) {
	a, used, err := c.Admitted.(llm.Plan).Ask(ctx, nil)
	out := sys.Outcome{Settle: used}
	if err != nil {
		return out, named(c, err)
	}
	out.Result, err = result(c.Op.Name, a)
	return out, err
}

// named is an error of a call: with its name, and of one of the codes.
func named(c *sys.Call, err error) error {
	switch {
	case err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, llm.ErrWaits):
		return sys.ErrWaits
	}
	e := *agentkernel.AsError(err, agentkernel.CodeUnavailable, c.Op.Name)
	e.Op = c.Op.Name
	return &e
}
