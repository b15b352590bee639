// Package ollama speaks Ollama's own protocol. It must never take an answer to half of a prompt for one: a server that is left
// to itself drops the front of a conversation that is too long, and says nothing.
package ollama

import (
	"context"
	"encoding/json"
	"net/http"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/transport"
)

// Name is the dialect.
const Name = "ollama"

// Provider speaks Ollama's protocol.
type Provider struct{ server *transport.Server }

// New makes a provider. The error says which of the options is wrong.
func New(opts llm.Options) (*Provider, error) {
	s, err := transport.New(opts, transport.Dialect{
		BaseURL: "http://localhost:11434",
		Auth:    func(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) },
		Fault:   fault,
	})
	if err != nil {
		return nil, err
	}
	return &Provider{s}, nil
}

// Traits are what is true of the server as a whole.
func (p *Provider) Traits() llm.Traits { return llm.Traits{Name: Name, CancelFree: true} }

func fault(body []byte) transport.Fault {
	var outer struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &outer) != nil {
		return transport.Fault{}
	}
	var f transport.Fault
	if json.Unmarshal(outer.Error, &f.Message) == nil {
		return f
	}
	var inner struct {
		Message string `json:"message"`
		Type    string `json:"type"`
	}
	if json.Unmarshal(outer.Error, &inner) != nil {
		return transport.Fault{}
	}
	return transport.Fault{Message: inner.Message, Type: inner.Type}
}

// Complete sends one request. Request.Extra["options"] is an object of the server's own settings, num_ctx among them.
func (p *Provider) Complete(ctx context.Context, r *llm.Request, w llm.Watch) (*llm.Answer, error) {
	stream := w.Delta != nil
	most := contextSize(r)
	if most > 0 && mostWords(r) > most {
		if least := leastTokens(r); least > most {
			return nil, tooLong(least, most)
		}
	}
	body, err := encodeRequest(r, stream)
	if err != nil {
		return nil, err
	}
	x, err := p.server.Send(ctx, transport.Call{
		Path: "/api/chat", Body: body, Stream: stream, Asked: transport.Asked(r), Input: transport.InputTokens(r), Watch: w,
	})
	if err != nil {
		return nil, err
	}
	defer x.Close()
	a := answer{x: x, asked: r, most: most}
	if x.Events() {
		return a.stream()
	}
	return a.whole()
}
