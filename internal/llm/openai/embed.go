package openai

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/encode"
	"agentkernel/internal/llm/transport"
)

// Embed makes vectors of texts.
func (s *server) Embed(ctx context.Context, r *llm.EmbedRequest, w llm.Watch) (*llm.Embeddings, error) {
	size := r.Size()
	b := encode.NewBody(int(size) + 256).Open('{').Key("model").String(s.modelOf(r.Model))
	if r.Dimensions != 0 {
		b.Key("dimensions").Int(int64(r.Dimensions))
	}
	if s.official {
		b.Key("encoding_format").String("base64") // a third of the bytes, and nothing to parse
	}
	b.Extra(r.Extra, "input").Key("input").Strings(r.Texts)
	body, err := done(b.Close('}'))
	if err != nil {
		return nil, err
	}
	x, err := s.Send(ctx, transport.Call{Path: s.call("/embeddings"), Body: body, Asked: slices.Values(r.Texts), Input: transport.Tokens(size), Vectors: true, Watch: llm.Watch{Leaves: w.Leaves, Head: w.Head}})
	if err != nil {
		return nil, err
	}
	defer x.Close()
	var answer struct {
		Model string `json:"model"`
		Data  []struct {
			Index     int             `json:"index"`
			Embedding json.RawMessage `json:"embedding"`
		} `json:"data"`
		Usage json.RawMessage `json:"usage"`
		Error json.RawMessage `json:"error"`
	}
	if err := x.JSON(&answer); err != nil {
		return nil, err
	}
	used := usageOf(answer.Usage)
	if said(answer.Error) {
		return nil, x.Refuse(fault(answer.Error), used)
	}
	out := &llm.Embeddings{Model: answer.Model, Vectors: make([][]float32, len(r.Texts)), Usage: llm.Usage{Input: transport.Tokens(size), Estimated: true}}
	if used != nil {
		out.Usage = *used
	}
	if len(answer.Data) != len(r.Texts) {
		return nil, x.Fail(transport.Malformed("%d vectors came for %d texts", len(answer.Data), len(r.Texts)), used)
	}
	for _, d := range answer.Data {
		if d.Index < 0 || d.Index >= len(r.Texts) || out.Vectors[d.Index] != nil {
			return nil, x.Fail(transport.Malformed("the vectors have wrong numbers"), used)
		}
		if out.Vectors[d.Index], err = vector(d.Embedding); err != nil {
			return nil, x.Fail(err, used)
		}
		if len(out.Vectors[d.Index]) != len(out.Vectors[answer.Data[0].Index]) {
			return nil, x.Fail(transport.Malformed("the vectors differ in length"), used)
		}
	}
	x.Done()
	return out, nil
}

// vector reads numbers, or the bytes of floats in base64.
func vector(raw json.RawMessage) (v []float32, err error) {
	if len(raw) > 0 && raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, err
		}
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(b) == 0 || len(b)%4 != 0 {
			return nil, transport.Malformed("a vector is not floats in base64")
		}
		v = make([]float32, len(b)/4)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		return v, nil
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	if len(v) == 0 {
		return nil, transport.Malformed("a vector is empty")
	}
	return v, nil
}
