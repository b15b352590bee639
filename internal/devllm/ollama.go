package devllm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// ollamaDialect is Ollama's own chat.
type ollamaDialect struct{}

func (ollamaDialect) name() string        { return "ollama" }
func (ollamaDialect) mediaType() string   { return "application/x-ndjson" }
func (ollamaDialect) frame(s step) []byte { return ndjson(s) }
func (ollamaDialect) failBody(f *failure, _ string) any {
	return map[string]any{"error": f.message}
}
func (d ollamaDialect) midError(f *failure) step { return step{data: d.failBody(f, "")} }

func ndjson(s step) []byte {
	if s.raw != "" {
		return []byte(s.raw + "\n")
	}
	return []byte(compact(s.data) + "\n")
}

type ollamaBody struct {
	Model    string          `json:"model"`
	Messages []ollamaMessage `json:"messages"`
	Stream   *bool           `json:"stream"`
	Tools    []chatTool      `json:"tools"`
	Format   json.RawMessage `json:"format"`
	Think    json.RawMessage `json:"think"`
	Options  struct {
		NumCtx     int64 `json:"num_ctx"`
		NumPredict int64 `json:"num_predict"`
	} `json:"options"`
}

type ollamaMessage struct {
	Role      string   `json:"role"`
	Content   string   `json:"content"`
	Images    []string `json:"images"`
	ToolName  string   `json:"tool_name"`
	ToolCalls []struct {
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// ollamaWindow is the context that Ollama makes where none is asked for.
const ollamaWindow = 4096

func (ollamaDialect) read(_ *http.Request, body []byte) (*request, *failure) {
	var b ollamaBody
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, badRequest("%v", err)
	}
	if b.Model == "" {
		return nil, badRequest("model is required")
	}
	out := &request{model: b.Model, stream: b.Stream == nil || *b.Stream, maxOutput: max(b.Options.NumPredict, 0), window: b.Options.NumCtx, thinking: string(b.Think) != "false"}
	if out.window <= 0 {
		out.window = ollamaWindow
	}
	var word string
	switch {
	case len(b.Format) == 0 || string(b.Format) == "null" || string(b.Format) == `""`:
	case json.Unmarshal(b.Format, &word) == nil && word == "json":
		out.jsonMode = true
	case b.Format[0] == '{':
		out.schema = b.Format
	default:
		return nil, badRequest("invalid format: %s; expected \"json\" or a valid JSON Schema object", b.Format)
	}
	for _, t := range b.Tools {
		out.tools = append(out.tools, tool{t.Function.Name, t.Function.Parameters})
		out.blocks = append(out.blocks, block{text: compact(t.Function)})
	}
	for _, m := range b.Messages {
		pic := block{text: m.Content, images: int64(len(m.Images)), pictures: strings.Join(m.Images, " ")}
		msg := message{role: m.Role, text: m.Content}
		for _, c := range m.ToolCalls {
			msg.calls = append(msg.calls, call{"", c.Function.Name, string(c.Function.Arguments)})
			pic.text += "\n" + c.Function.Name + string(c.Function.Arguments)
		}
		out.blocks = append(out.blocks, pic)
		if m.Role == "system" {
			out.system = strings.TrimPrefix(out.system+"\n"+m.Content, "\n")
			continue
		}
		out.msgs = append(out.msgs, msg)
	}
	return out, nil
}

// dropFront leaves out the oldest messages of a prompt that is too long, and says nothing of it, as Ollama does. The
// system text and tools stay. What does not fit even then loses its beginning.
func (s *Server) dropFront(r *request, window int64) {
	if r.inputs != nil {
		return
	}
	first := len(r.blocks) - len(r.msgs) // tools and the system text come first, as far as clients write them so
	for r.promptTokens > window && len(r.msgs) > 1 {
		n := s.tokensOf(r.blocks[first])
		r.blocks, r.msgs = slices.Delete(r.blocks, first, first+1), r.msgs[1:]
		r.promptTokens -= n
		r.cutTokens += n
	}
	if over := r.promptTokens - window; over > 0 && len(r.msgs) == 1 {
		head, _ := s.tokens.cut(r.blocks[first].text, over)
		rest := r.blocks[first].text[len(head):]
		r.blocks[first].text, r.msgs[0].text = rest, rest
		s.countPrompt(r)
		r.cutTokens += over
	}
}

func (ollamaDialect) stamp(x *exchange) map[string]any {
	return map[string]any{"model": x.req.model, "created_at": x.start.UTC().Format(time.RFC3339Nano), "done": false}
}

func (d ollamaDialect) end(x *exchange, msg map[string]any) map[string]any {
	m := d.stamp(x)
	took := x.s.opts.Clock.Now().Sub(x.start)
	m["message"], m["done"] = msg, true
	m["done_reason"] = [...]string{stopped: "stop", cutShort: "length", wantsTools: "stop", refused: "stop", windowFull: "length"}[x.ans.finish]
	m["total_duration"], m["load_duration"] = int64(took), 0
	if !x.req.noUsage {
		m["prompt_eval_count"], m["prompt_eval_duration"] = x.tokens.Input(), int64(x.s.opts.FirstToken)
		m["eval_count"], m["eval_duration"] = x.tokens.Answer(), int64(took-min(took, x.s.opts.FirstToken))
	}
	return m
}

func (ollamaDialect) calls(a *answer) (calls []any) {
	for _, c := range a.calls {
		calls = append(calls, map[string]any{"function": map[string]any{"name": c.name, "arguments": input(c)}})
	}
	return calls
}

func (d ollamaDialect) whole(x *exchange) any {
	msg := map[string]any{"role": "assistant", "content": x.ans.text + x.ans.refusal}
	if x.ans.reasoning != "" && x.req.thinking {
		msg["thinking"] = x.ans.reasoning
	}
	if calls := d.calls(x.ans); calls != nil {
		msg["tool_calls"] = calls
	}
	return d.end(x, msg)
}

func (d ollamaDialect) steps(x *exchange, yield func(step) bool) {
	chunk := func(msg map[string]any, n int64) bool {
		m := d.stamp(x)
		msg["role"] = "assistant"
		m["message"] = msg
		return yield(step{data: m, tokens: n})
	}
	ok := x.pieces(x.ans.reasoning, func(p string, n int64) bool {
		if !x.req.thinking {
			return yield(step{silent: true, tokens: n})
		}
		return chunk(map[string]any{"content": "", "thinking": p}, n)
	}) && x.pieces(x.ans.text+x.ans.refusal, func(p string, n int64) bool {
		return chunk(map[string]any{"content": p}, n)
	})
	for _, c := range x.ans.calls { // each in one piece
		n := x.s.tokens.count(c.name) + x.s.tokens.count(c.args)
		ok = ok && chunk(map[string]any{"content": "", "tool_calls": d.calls(&answer{calls: []call{c}})}, n)
	}
	if ok {
		yield(step{data: d.end(x, map[string]any{"role": "assistant", "content": ""})})
	}
}

func (s *Server) ollamaTags(w http.ResponseWriter, _ *http.Request) {
	list := []any{}
	for _, m := range s.opts.Profile.Models {
		list = append(list, map[string]any{"name": m.Name, "model": m.Name, "modified_at": "2026-01-01T00:00:00Z", "size": 0,
			"digest": bodyHash([]byte(m.Name)), "details": map[string]any{"format": "gguf", "family": m.family()}})
	}
	writeJSON(w, http.StatusOK, map[string]any{"models": list})
}

// ollamaEmbed is Ollama's own way to ask for vectors.
type ollamaEmbed struct{ ollamaDialect }

func (ollamaEmbed) name() string { return "ollama.embed" }

func (ollamaEmbed) read(_ *http.Request, body []byte) (*request, *failure) {
	var b struct {
		Model      string          `json:"model"`
		Input      json.RawMessage `json:"input"`
		Dimensions int             `json:"dimensions"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, badRequest("%v", err)
	}
	return readInputs(b.Model, b.Input, b.Dimensions)
}

func (ollamaEmbed) whole(x *exchange) any {
	list := make([][]float32, 0, len(x.req.inputs))
	for _, text := range x.req.inputs {
		list = append(list, embed(text, x.dims()))
	}
	return map[string]any{"model": x.req.model, "embeddings": list, "total_duration": 0, "load_duration": 0, "prompt_eval_count": x.tokens.Input()}
}

// readInputs are the texts of which vectors are asked: one, or a list; or tokens, as numbers.
func readInputs(model string, input json.RawMessage, dims int) (*request, *failure) {
	out := &request{model: model, dims: dims, inputs: []string{}}
	var one string
	var list []json.RawMessage
	switch {
	case model == "":
		return nil, badRequest("you must provide a model parameter").at("model")
	case dims < 0 || dims > 8192:
		return nil, badRequest("dimensions: %d is not between 1 and 8192", dims).at("dimensions")
	case json.Unmarshal(input, &one) == nil && len(input) > 0:
		out.inputs = append(out.inputs, one)
	case json.Unmarshal(input, &list) == nil && len(list) > 0 && len(list) <= 2048:
		if list[0][0] != '"' && list[0][0] != '[' { // the tokens of one text
			list = []json.RawMessage{input}
		}
		for _, item := range list {
			if json.Unmarshal(item, &one) != nil {
				one = fmt.Sprint(string(item))
			}
			out.inputs = append(out.inputs, one)
		}
	default:
		return nil, badRequest("'$.input' is invalid: a text, or a list of 1 to 2048").at("input")
	}
	for _, text := range out.inputs {
		out.blocks = append(out.blocks, block{text: text})
	}
	return out, nil
}

// dims is how long vectors are.
func (x *exchange) dims() int {
	if x.req.dims > 0 {
		return x.req.dims
	}
	return x.model.Dims
}
