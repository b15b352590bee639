package router

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/clip"
)

// harmless are the fields of providers that a program may set. What is not here could let a provider do what the program may not (search
// the web, call a server, fetch a file, read an answer that it has stored for another), or cost more than is reserved.
var harmless = []string{
	"chat_template_kwargs", "format", "frequency_penalty", "guided_choice", "guided_grammar", "guided_json", "guided_regex", "logit_bias", "logprobs",
	"min_p", "parallel_tool_calls", "presence_penalty", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "repetition_penalty",
	"safety_identifier", "seed", "stop_token_ids", "text", "think", "thinking", "top_a", "top_k", "top_logprobs", "truncation", "typical_p", "user", "verbosity",
}

// harmlessOptions are those of Ollama's own settings.
var harmlessOptions = []string{
	"dynatemp_exponent", "dynatemp_range", "frequency_penalty", "min_p", "mirostat", "mirostat_eta", "mirostat_tau", "num_ctx", "num_keep", "penalize_newline",
	"presence_penalty", "repeat_last_n", "repeat_penalty", "seed", "stop", "temperature", "tfs_z", "top_k", "top_p", "typical_p",
}

// costly are the fields that would let a call cost more than it has reserved.
var costly = []string{"n", "best_of", "max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict", "service_tier", "speed"}

// checkExtra refuses fields of the provider's own that a program may not set.
func checkExtra(extra map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		switch {
		case name == "options":
			var options map[string]json.RawMessage
			if json.Unmarshal(extra[name], &options) != nil {
				return agentkernel.Errorf(agentkernel.CodeInvalid, "llm", "extra: options is no object")
			}
			for _, option := range slices.Sorted(maps.Keys(options)) {
				if !slices.Contains(harmlessOptions, option) {
					return refused("options."+option, option)
				}
			}
		case !slices.Contains(harmless, name):
			return refused(name, name)
		}
	}
	return nil
}

// refused is the error for a field.
func refused(path, name string) error {
	if slices.Contains(costly, name) {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "llm", "extra: %s changes what a call costs, and a call reserves before it is sent", path).
			WithHint("max_tokens caps the answer; for several answers make several calls")
	}
	return agentkernel.Errorf(agentkernel.CodeInvalid, "llm", "extra: %s is none of the fields that a program may set", clip.Short(path)).
		WithHint("they are %s, and options", strings.Join(harmless, ", "))
}
