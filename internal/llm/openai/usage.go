package openai

import (
	"bytes"
	"encoding/json"

	"agentkernel/internal/llm"
)

// usage is what a server says it has used, in either protocol.
type usage struct {
	Prompt        int64        `json:"prompt_tokens"`
	Completion    int64        `json:"completion_tokens"`
	Input         int64        `json:"input_tokens"`
	Output        int64        `json:"output_tokens"`
	Total         int64        `json:"total_tokens"`
	CacheHit      int64        `json:"prompt_cache_hit_tokens"` // DeepSeek's
	PromptDetails usageDetails `json:"prompt_tokens_details"`
	InputDetails  usageDetails `json:"input_tokens_details"`
	ComplDetails  usageDetails `json:"completion_tokens_details"`
	OutputDetails usageDetails `json:"output_tokens_details"`
}

type usageDetails struct {
	Cached     int64 `json:"cached_tokens"`
	CacheWrite int64 `json:"cache_write_tokens"`
	Reasoning  int64 `json:"reasoning_tokens"`
}

// numbers are all of it.
func (u *usage) numbers() []*int64 {
	return []*int64{&u.Prompt, &u.Completion, &u.Input, &u.Output, &u.Total, &u.CacheHit, &u.PromptDetails.Cached, &u.PromptDetails.CacheWrite,
		&u.InputDetails.Cached, &u.InputDetails.CacheWrite, &u.ComplDetails.Reasoning, &u.OutputDetails.Reasoning}
}

// usageOf makes the classes of usage disjoint: a server counts what its cache had as input, too, and reasoning as output. The
// answer is nil where the server says nothing.
func usageOf(raw json.RawMessage) *llm.Usage {
	var u usage
	if !said(raw) {
		return nil
	}
	if !u.quick(raw) {
		u = usage{}
		if json.Unmarshal(raw, &u) != nil {
			return nil
		}
	}
	for _, n := range u.numbers() {
		*n = llm.Tokens(*n)
	}
	in, out := max(u.Prompt, u.Input), max(u.Completion, u.Output) // gateways say the same under both names
	if in == 0 && out == 0 {
		return nil
	}
	read := max(u.PromptDetails.Cached, u.InputDetails.Cached, u.CacheHit)
	write := max(u.PromptDetails.CacheWrite, u.InputDetails.CacheWrite)
	reasoning := max(u.ComplDetails.Reasoning, u.OutputDetails.Reasoning)
	if reasoning > 0 && u.Total == in+out+reasoning { // xAI counts it beside the output
		out += reasoning
	}
	read = min(read, in)
	write = min(write, in-read)
	reasoning = min(reasoning, out)
	return &llm.Usage{Input: in - read - write, CacheRead: read, CacheWrite: write, Output: out - reasoning, Reasoning: reasoning, Raw: bytes.Clone(raw)}
}
