package ollama

import (
	"context"
	"encoding/json"
	"slices"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/encode"
	"agentkernel/internal/llm/transport"
)

// Embed makes vectors of texts.
func (p *Provider) Embed(ctx context.Context, r *llm.EmbedRequest, w llm.Watch) (*llm.Embeddings, error) {
	size := r.Size()
	b := encode.NewBody(int(size) + 256).Open('{').Key("model").String(r.Model).Key("truncate").Bool(false)
	if r.Dimensions != 0 {
		b.Key("dimensions").Int(int64(r.Dimensions))
	}
	b.Extra(r.Extra, "input").Key("input").Strings(r.Texts)
	body, err := done(b.Close('}'))
	if err != nil {
		return nil, err
	}
	x, err := p.server.Send(ctx, transport.Call{
		Path: "/api/embed", Body: body, Asked: slices.Values(r.Texts), Input: transport.Tokens(size), Vectors: true, Watch: llm.Watch{Leaves: w.Leaves, Head: w.Head},
	})
	if err != nil {
		return nil, err
	}
	defer x.Close()
	var reply struct {
		Model   string          `json:"model"`
		Vectors [][]float32     `json:"embeddings"`
		Input   *int64          `json:"prompt_eval_count"`
		Error   json.RawMessage `json:"error"`
	}
	if err := x.JSON(&reply); err != nil {
		return nil, err
	}
	if len(reply.Error) > 0 && string(reply.Error) != "null" {
		raw := encode.Object{{Name: "error", Value: reply.Error}}.Bytes()
		return nil, x.Refuse(fault(raw), nil)
	}
	out := &llm.Embeddings{Model: reply.Model, Vectors: reply.Vectors, Usage: llm.Usage{Input: transport.Tokens(size), Estimated: true}}
	if reply.Input != nil {
		out.Usage = llm.Usage{Input: llm.Tokens(*reply.Input)}
	}
	if len(reply.Vectors) != len(r.Texts) {
		return nil, x.Fail(transport.Malformed("%d vectors came for %d texts", len(reply.Vectors), len(r.Texts)), &out.Usage)
	}
	for _, v := range reply.Vectors {
		if len(v) == 0 || len(v) != len(reply.Vectors[0]) {
			return nil, x.Fail(transport.Malformed("the vectors are empty, or differ in length"), &out.Usage)
		}
	}
	x.Done()
	return out, nil
}
