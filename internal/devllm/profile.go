package devllm

import (
	"slices"
	"strings"
	"time"
)

// Profile is how a provider behaves. Those of Profiles are copies that may be changed before they are handed to New.
type Profile struct {
	Name   string
	Limits Limits
	Models []Model

	// Headers is the form in which clients are told of limits: "openai", "azure", "anthropic", "openrouter" or "none".
	Headers string
	// RetryAfter is how a 429 says when to come back: "seconds" (rounded up), "ms" (both headers), or "none".
	RetryAfter string
	// Rounding is what remaining tokens are rounded to, a half up; 0 or 1: not at all.
	Rounding int64

	// Precharge takes max_tokens when a request is let in; else the answer's tokens are taken when it ends.
	Precharge bool
	// Refund gives back at the end what was taken in advance and not used.
	Refund bool
	// EstimateChars takes a quarter of a prompt's characters for its tokens, as far as limits go. Bills are exact.
	EstimateChars bool
	// FreeCacheReads leaves tokens that were read from the cache out of input limits.
	FreeCacheReads bool
	// CountRefused takes a request that is refused for a limit as a request all the same.
	CountRefused bool

	// Parallel is how many requests are served at once, 0: all; Queue is how many may wait for their turn.
	Parallel, Queue int
	// Drains says that an answer that nobody reads any more is made to its end, and billed.
	Drains bool
	// KeyNeeded says that a request without a key is refused, also where Options.Keys names none.
	KeyNeeded bool

	// Piece is the most letters of a token, and ImageTokens what a picture costs.
	Piece       int
	ImageTokens int64
	// CacheMin is the shortest prefix that the prompt cache keeps, in tokens, where a model does not say; CacheLife is how
	// long an automatic cache keeps it; 0: there is none.
	CacheMin  int64
	CacheLife time.Duration
}

// Model is one of a profile's.
type Model struct {
	Name   string
	Family string // limits are pooled by it; "": the name
	Window int64  // tokens of prompt and answer together
	Output int64  // tokens of an answer at most; 0: the window's rest
	Dims   int    // above 0: it makes vectors of so many numbers, and nothing else
	// CacheMin is the shortest prefix that is cached, in tokens; 0: the profile's.
	CacheMin int64
	// CacheWrites says that an automatic cache reports and bills what it writes.
	CacheWrites bool
	Price       Price
}

func (m Model) family() string {
	if m.Family == "" {
		return m.Name
	}
	return m.Family
}

// ProfileNames are those that ProfileByName knows.
func ProfileNames() []string {
	return []string{"openai", "anthropic", "azure", "ollama", "vllm", "openrouter"}
}

// ProfileByName returns a profile with its usual limits, and false if there is none of that name. The numbers are of the
// size of a small account's; models and prices are invented, so that nobody takes them for a provider's.
func ProfileByName(name string) (Profile, bool) {
	gpt := []Model{
		{Name: "gpt-dev", Window: 128_000, Output: 16_384, Price: Price{Input: 2500, CacheRead: 1250, Output: 10_000}},
		{Name: "gpt-dev-mini", Window: 128_000, Output: 16_384, Price: Price{Input: 150, CacheRead: 75, Output: 600}},
		{Name: "gpt-dev-next", Window: 400_000, Output: 128_000, CacheWrites: true, Price: Price{Input: 1250, CacheRead: 125, CacheWrite: 1563, Output: 10_000}},
		{Name: "text-embedding-dev", Window: 8192, Dims: 1536, Price: Price{Input: 20}},
	}
	claude := []Model{
		{Name: "claude-dev-large", Family: "claude-dev", Window: 200_000, Output: 32_000, Price: Price{Input: 5000, CacheRead: 500, CacheWrite: 6250, CacheWrite1h: 10_000, Output: 25_000}},
		{Name: "claude-dev", Family: "claude-dev", Window: 200_000, Output: 64_000, Price: Price{Input: 3000, CacheRead: 300, CacheWrite: 3750, CacheWrite1h: 6000, Output: 15_000}},
		{Name: "claude-dev-small", Window: 200_000, Output: 8192, CacheMin: 4096, Price: Price{Input: 1000, CacheRead: 100, CacheWrite: 1250, CacheWrite1h: 2000, Output: 5000}},
	}
	local := func(names ...string) (list []Model) {
		for _, n := range names {
			m := Model{Name: n, Window: 32_768}
			if strings.Contains(n, "embed") {
				m.Window, m.Dims = 2048, 768
			}
			list = append(list, m)
		}
		return list
	}
	all := map[string]Profile{
		"openai": {Limits: Limits{Requests: 500, Total: 200_000}, Models: gpt, Headers: "openai", RetryAfter: "seconds", Precharge: true,
			CountRefused: true, KeyNeeded: true, Piece: 6, ImageTokens: 765, CacheMin: 1024, CacheLife: 10 * time.Minute},
		"azure": {Limits: Limits{Requests: 300, Total: 50_000, Window: Span(10 * time.Second)}, Models: gpt, Headers: "azure", RetryAfter: "ms", Precharge: true,
			EstimateChars: true, KeyNeeded: true, Piece: 6, ImageTokens: 765, CacheMin: 1024, CacheLife: 10 * time.Minute},
		"anthropic": {Limits: Limits{Requests: 50, Input: 30_000, Output: 8000}, Models: claude, Headers: "anthropic", RetryAfter: "seconds", Rounding: 1000,
			Precharge: true, Refund: true, FreeCacheReads: true, KeyNeeded: true, Piece: 4, ImageTokens: 1600, CacheMin: 1024},
		"ollama": {Models: local("llama-dev:3b", "nomic-embed-dev:latest"), Headers: "none", RetryAfter: "none", Parallel: 1, Queue: 512, Drains: false,
			Piece: 5, ImageTokens: 576},
		"vllm": {Models: local("dev/llama-8b", "dev/embed"), Headers: "none", RetryAfter: "none", Parallel: 256, Queue: 1 << 20, Piece: 5, ImageTokens: 576,
			CacheMin: 16, CacheLife: time.Hour},
		"openrouter": {Limits: Limits{Requests: 20}, Headers: "openrouter", RetryAfter: "none", Drains: true, KeyNeeded: true, Piece: 5, ImageTokens: 1000,
			CacheMin: 1024, CacheLife: 5 * time.Minute},
	}
	for _, m := range slices.Concat(gpt[:2], claude[1:2]) {
		p := all["openrouter"]
		m.Family, m.Name = "", map[byte]string{'g': "openai/", 'c': "anthropic/"}[m.Name[0]]+m.Name
		p.Models = append(p.Models, m)
		all["openrouter"] = p
	}
	p, ok := all[name]
	p.Name = name
	return p, ok
}

func (p *Profile) model(name string) (Model, bool) {
	i := slices.IndexFunc(p.Models, func(m Model) bool {
		return m.Name == name || p.Name == "ollama" && m.Name == name+":latest"
	})
	if i < 0 {
		return Model{}, false
	}
	return p.Models[i], true
}
