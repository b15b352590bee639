// Package anthropic speaks Anthropic's messages. It must never change a block that the server has signed: thinking is sent back
// byte for byte, or refused by the server.
package anthropic

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/transport"
)

// Name is the dialect.
const Name = "anthropic"

// Provider speaks messages.
type Provider struct{ server *transport.Server }

// New makes a provider. The error says which of the options is wrong.
func New(opts llm.Options) (*Provider, error) {
	if u, err := url.Parse(opts.BaseURL); err == nil && u.Host != "" && strings.Trim(u.Path, "/") == "" {
		opts.BaseURL = strings.TrimRight(opts.BaseURL, "/") + "/v1" // as the SDKs have it
	}
	s, err := transport.New(opts, transport.Dialect{
		BaseURL:    "https://api.anthropic.com/v1",
		Auth:       func(h http.Header, key string) { h.Set("X-Api-Key", key) },
		Headers:    map[string]string{"Anthropic-Version": "2023-06-01"},
		RequestIDs: []string{"Request-Id"},
		Limits:     limits,
		Fault:      fault,
	})
	if err != nil {
		return nil, err
	}
	return &Provider{s}, nil
}

// Traits are what is true of the server as a whole.
func (p *Provider) Traits() llm.Traits {
	return llm.Traits{Name: Name, CachedInputFree: true, OutputPrecharged: true}
}

// Embed is [llm.Unsupported]: there is no such call.
func (p *Provider) Embed(context.Context, *llm.EmbedRequest, llm.Watch) (*llm.Embeddings, error) {
	return nil, &llm.Error{Kind: llm.Unsupported, Message: "anthropic has no embeddings: use a model of another provider for them"}
}

// Complete sends one request.
func (p *Provider) Complete(ctx context.Context, r *llm.Request, w llm.Watch) (*llm.Answer, error) {
	stream := w.Delta != nil
	body, err := encodeRequest(r, stream)
	if err != nil {
		return nil, err
	}
	x, err := p.server.Send(ctx, transport.Call{
		Path: "/messages", Body: body, Stream: stream, Asked: transport.Asked(r), Input: transport.InputTokens(r), Watch: w,
	})
	if err != nil {
		return nil, err
	}
	defer x.Close()
	a := answer{x: x, blocks: map[int]*block{}}
	if x.Events() {
		return a.stream()
	}
	return a.whole()
}

// limits reads anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}.
func limits(h http.Header, now time.Time) (list []llm.Limit) {
	for _, l := range []struct{ name, what string }{
		{"Requests", llm.LimitRequests}, {"Tokens", llm.LimitTokens}, {"Input-Tokens", llm.LimitInput}, {"Output-Tokens", llm.LimitOutput},
	} {
		get := func(field string) string { return h.Get("Anthropic-Ratelimit-" + l.name + "-" + field) }
		most, left, reset := get("Limit"), get("Remaining"), get("Reset")
		if most == "" && left == "" && reset == "" { // to find out that nothing is a number, a time or a duration takes longer than all else
			continue
		}
		list = transport.Tighter(list, llm.Limit{What: l.what, Limit: transport.Number(most), Remaining: transport.Number(left), Reset: transport.Until(reset, now)})
	}
	return list
}

// fault reads why a request has failed. The code is in the details, where there are any.
func fault(body []byte) transport.Fault {
	var outer struct {
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
			Details struct {
				Code string `json:"error_code"`
			} `json:"details"`
		} `json:"error"`
		RequestID string `json:"request_id"`
	}
	if json.Unmarshal(body, &outer) != nil {
		return transport.Fault{}
	}
	e := outer.Error
	return transport.Fault{Code: e.Details.Code, Type: e.Type, Message: e.Message, RequestID: outer.RequestID}
}
