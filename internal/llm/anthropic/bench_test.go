package anthropic

import (
	"fmt"
	"testing"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/llmtest"
)

// BenchmarkEncode is what the body of a conversation costs.
func BenchmarkEncode(b *testing.B) {
	encoders := []struct {
		name   string
		encode func(*llm.Request) ([][]byte, error)
	}{
		{"messages", func(r *llm.Request) ([][]byte, error) { return encodeRequest(r, true) }},
	}
	for _, kB := range []int{2, 64, 512} {
		r := llmtest.Conversation(kB << 10)
		for _, e := range encoders {
			b.Run(fmt.Sprintf("%s/%dkB", e.name, kB), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					body, err := e.encode(r)
					if err != nil {
						b.Fatal(err)
					}
					size := 0
					for _, piece := range body {
						size += len(piece)
					}
					b.SetBytes(int64(size))
				}
			})
		}
	}
}

// A text that was escaped before is sent so.
func TestEscapedBefore(t *testing.T) {
	llmtest.Escaped(t, func(r *llm.Request) ([][]byte, error) { return encodeRequest(r, true) })
}
