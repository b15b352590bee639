package providers_test

import (
	"strings"
	"testing"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/providers"
)

func TestKinds(t *testing.T) {
	names := map[string]string{
		"openai": "openai", "openai-responses": "openai-responses", "azure": "openai", "vllm": "openai", "openrouter": "openai",
		"anthropic": "anthropic", "ollama": "ollama",
	}
	for _, kind := range providers.Kinds() {
		p, err := providers.New(kind, llm.Options{BaseURL: "https://models.example/v1"})
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if got := p.Traits(); got.Name != names[kind] || got.Priority != (kind == "vllm") || got.CancelFree != (kind == "vllm" || kind == "ollama") {
			t.Errorf("%s: %+v", kind, got)
		}
		if p, err := providers.New(kind, llm.Options{BaseURL: "not an address"}); err == nil || p != nil || !strings.Contains(err.Error(), kind) {
			t.Errorf("%s with a wrong address: %v, %v", kind, p, err)
		}
	}
	if len(names) != len(providers.Kinds()) {
		t.Errorf("%d kinds", len(providers.Kinds()))
	}
}

func TestWhatIsNoKind(t *testing.T) {
	for kind, want := range map[string]string{
		"bedrock": "use the kind openai", "vertex": "use the model's own provider", "antropic": "did you mean anthropic?",
		"open-ai": "did you mean openai", "zzz": "it is one of openai, ",
	} {
		if _, err := providers.New(kind, llm.Options{}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), kind) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestAzureNeedsAnAddress(t *testing.T) {
	for name, opts := range map[string]llm.Options{
		"nothing": {}, "no deployment": {BaseURL: "https://x.example", APIVersion: "2025-01-01"}, "no version": {BaseURL: "https://x.example", Deployment: "d"},
	} {
		if _, err := providers.New("azure", opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
