package llmtest

import (
	"bytes"
	"strings"
	"testing"

	"agentkernel/internal/llm"
)

// Escaped checks that an encoder sends a text as it was escaped before, wherever it stands, and that what is sent is what it would have
// written itself.
func Escaped(t *testing.T, pieces func(*llm.Request) ([][]byte, error)) {
	t.Helper()
	encode := func(r *llm.Request) ([]byte, error) {
		list, err := pieces(r)
		return bytes.Join(list, nil), err
	}
	for _, times := range []int{1, 100} { // a long one is a piece of its own
		escapedText(t, encode, strings.Repeat("a \"b\"\n\\ü", times), []byte(strings.Repeat(`a \"b\"\n\\ü`, times)), []byte(strings.Repeat("written before ", times)))
	}
}

func escapedText(t *testing.T, encode func(*llm.Request) ([]byte, error), plain string, escaped, mark []byte) {
	t.Helper()
	request := func(p llm.Part) *llm.Request {
		image := llm.Part{Image: &llm.Image{Type: "image/png", Data: []byte("x")}}
		return &llm.Request{Model: "m", MaxTokens: 9, Messages: []llm.Message{
			{Role: llm.System, Parts: []llm.Part{p}}, {Role: llm.User, Parts: []llm.Part{p, image}}, {Role: llm.Assistant, Parts: []llm.Part{p}},
			{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.ToolResult{ID: "1", Parts: []llm.Part{p}}}}}, {Role: llm.User, Parts: []llm.Part{p}}}}
	}
	want, err := encode(request(llm.Part{Text: plain}))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := encode(request(llm.Part{Text: plain, Escaped: escaped})); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s, %v; without what was written before it is %s", got, err, want)
	}
	if got, err := encode(request(llm.Part{Text: plain, Escaped: mark})); err != nil || bytes.Count(got, mark) != 5 {
		t.Errorf("%s, %v: not all five texts are what was written before", got, err)
	}
}
