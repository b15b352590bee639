package openai

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzQuick: what is read quickly is what encoding/json reads.
func FuzzQuick(f *testing.F) {
	for _, raw := range []string{
		`{"id":"1","object":"chat.completion","created":5,"model":"m","choices":[{"index":0,"logprobs":null,"finish_reason":"stop","message":{"role":"assistant","content":"a\n\"b\"","refusal":null,"annotations":[]}}],"usage":{"prompt_tokens":100,"completion_tokens":2,"total_tokens":102,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":null},"service_tier":"x"}`,
		`{"id":"1","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}],"usage":null}`, `{"choices":[]}`, `{"choices":null}`, `{"choices":[1]}`, `[]`, `null`, `{"error":{"code":1}}`,
		`{"choices":[{"message":{"tool_calls":[{"id":"c"}]}}]}`, `{"choices":[{"message":{"content":[{"type":"text","text":"a"}]}}]}`, `{"choices":[{"index":1e2}]}`, `{"ID":"a","id":"b"}`,
		`{"choices":[{"index":0}],"choices":[{"finish_reason":"stop"}]}`, `{"id":"\u00e9"}`, `{"usage":{"prompt_tokens":1.5}}`, `{"choices":[{"delta":{"content":"a"},"delta":{"content":null}}]}`,
		`{"choices":[{"stop_reason":5},null]}`, `{"usage":{"prompt_tokens":-1,"input_tokens":7}}`,
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var got, want chunk
		if !json.Valid(raw) || !got.quick(raw) {
			return
		}
		if err := json.Unmarshal(raw, &want); err != nil || !cmp.Equal(want, got, cmpopts.EquateEmpty()) {
			t.Errorf("%q: %+v, want %+v, %v", raw, got, want, err)
		}
		var used, uses usage
		if !said(got.Usage) || !used.quick(got.Usage) {
			return
		}
		if err := json.Unmarshal(got.Usage, &uses); err != nil || uses != used {
			t.Errorf("%q: %+v, want %+v, %v", got.Usage, used, uses, err)
		}
	})
}

// TestUsualIsQuick: answers as servers give them are read without encoding/json.
func TestUsualIsQuick(t *testing.T) {
	for _, raw := range []string{
		`{"id":"1","object":"chat.completion","created":5,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Yes.","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":2,"total_tokens":102,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"system_fingerprint":"fp"}`,
		`{"id":"1","object":"chat.completion.chunk","created":5,"model":"m","choices":[{"index":0,"delta":{"content":" and"},"logprobs":null,"finish_reason":null}],"usage":null}`,
	} {
		var c chunk
		var u usage
		if !c.quick([]byte(raw)) || said(c.Usage) && !u.quick(c.Usage) {
			t.Errorf("%s is not", raw)
		}
	}
}
