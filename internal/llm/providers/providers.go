// Package providers makes a provider of a kind that settings name. It must never open a connection: what is wrong with a key or
// a server shows with the first request.
package providers

import (
	"fmt"
	"strings"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/anthropic"
	"agentkernel/internal/llm/ollama"
	"agentkernel/internal/llm/openai"
	"agentkernel/internal/nearest"
)

// Kinds are the names of the kinds, in the order in which they are shown.
func Kinds() []string {
	return []string{"openai", "openai-responses", "azure", "vllm", "openrouter", "anthropic", "ollama"}
}

// New makes a provider of a kind. The error says what is wrong and what to do; it has no value of a key or a header.
func New(kind string, opts llm.Options) (llm.Provider, error) {
	var p llm.Provider
	var err error
	secret := opts.Key != nil
	if secret {
		opts = maskingFor(opts)
	}
	switch kind {
	case "openai", "azure", "vllm", "openrouter":
		p, err = openai.New(opts, openai.Flavour(kind))
	case "openai-responses":
		p, err = openai.NewResponses(opts)
	case "anthropic":
		p, err = anthropic.New(opts)
	case "ollama":
		p, err = ollama.New(opts)
	case "bedrock":
		return nil, fmt.Errorf("bedrock is not supported: its requests are signed. Run a gateway that speaks chat completions in front of it, " +
			"and use the kind openai with the gateway's base URL; or use the model's own provider, such as anthropic")
	case "vertex":
		return nil, fmt.Errorf("vertex is not supported: its tokens are Google's. Use the kind openai with the base URL of Gemini's API " +
			"(https://generativelanguage.googleapis.com/v1beta/openai) and a key of it; or use the model's own provider, such as anthropic")
	default:
		text := fmt.Sprintf("there is no kind of provider %q", kind)
		if near := nearest.Question(kind, Kinds()); near != "" {
			return nil, fmt.Errorf("%s: %s", text, near)
		}
		return nil, fmt.Errorf("%s: it is one of %s", text, strings.Join(Kinds(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", kind, err)
	}
	if secret {
		return masking{p}, nil
	}
	return p, nil
}
