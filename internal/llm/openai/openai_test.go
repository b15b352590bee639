package openai_test

import (
	"testing"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/llmtest"
	"agentkernel/internal/llm/openai"
)

func flavour(f openai.Flavour) func(llm.Options) (llm.Provider, error) {
	return func(o llm.Options) (llm.Provider, error) { return openai.New(o, f) }
}

func TestChat(t *testing.T) {
	t.Parallel()
	llmtest.Run(t, llmtest.Subject{New: flavour(openai.OpenAI), Speaker: llmtest.Chat{OldCap: true}, Base: "/v1"})
}

func TestVLLM(t *testing.T) {
	t.Parallel()
	llmtest.Run(t, llmtest.Subject{New: flavour(openai.VLLM), Speaker: llmtest.Chat{OldCap: true}, Base: "/v1", Brief: true})
}

func TestOpenRouter(t *testing.T) {
	t.Parallel()
	llmtest.Run(t, llmtest.Subject{New: flavour(openai.OpenRouter), Speaker: llmtest.Chat{OldCap: true, Path: "/api/v1/chat/completions"}, Base: "/api/v1", Brief: true})
}

func TestAzure(t *testing.T) {
	t.Parallel()
	llmtest.Run(t, llmtest.Subject{
		New: flavour(openai.Azure), Speaker: llmtest.Chat{APIKey: true, Path: "/openai/deployments/my%2Fmodel/chat/completions?api-version=2025-01-01"},
		Options: llm.Options{APIVersion: "2025-01-01", Deployment: "my/model"}, Model: "my/model", Brief: true,
	})
}

func TestAzureV1(t *testing.T) {
	t.Parallel()
	llmtest.Run(t, llmtest.Subject{
		New: flavour(openai.Azure), Speaker: llmtest.Chat{APIKey: true, Path: "/openai/v1/chat/completions"}, Base: "/openai/v1/",
		Options: llm.Options{Deployment: "my-model"}, Model: "my-model", Brief: true,
	})
}

func TestResponses(t *testing.T) {
	t.Parallel()
	llmtest.Run(t, llmtest.Subject{
		New: func(o llm.Options) (llm.Provider, error) { return openai.NewResponses(o) }, Speaker: llmtest.Responses{}, Base: "/v1",
	})
}

func FuzzChat(f *testing.F) {
	llmtest.Fuzz(f, llmtest.Subject{New: flavour(openai.OpenAI), Speaker: llmtest.Chat{}})
}

func FuzzResponses(f *testing.F) {
	llmtest.Fuzz(f, llmtest.Subject{
		New: func(o llm.Options) (llm.Provider, error) { return openai.NewResponses(o) }, Speaker: llmtest.Responses{},
	})
}
