package ollama_test

import (
	"testing"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/llmtest"
	"agentkernel/internal/llm/ollama"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	llmtest.Run(t, llmtest.Subject{New: func(o llm.Options) (llm.Provider, error) { return ollama.New(o) }, Speaker: llmtest.Ollama{}})
}

func FuzzAnswer(f *testing.F) {
	llmtest.Fuzz(f, llmtest.Subject{New: func(o llm.Options) (llm.Provider, error) { return ollama.New(o) }, Speaker: llmtest.Ollama{}})
}
