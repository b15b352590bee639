package anthropic_test

import (
	"testing"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/anthropic"
	"agentkernel/internal/llm/llmtest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	llmtest.Run(t, llmtest.Subject{
		New: func(o llm.Options) (llm.Provider, error) { return anthropic.New(o) }, Speaker: llmtest.Anthropic{}, Base: "/v1",
	})
}

func FuzzAnswer(f *testing.F) {
	llmtest.Fuzz(f, llmtest.Subject{
		New: func(o llm.Options) (llm.Provider, error) { return anthropic.New(o) }, Speaker: llmtest.Anthropic{},
	})
}
