package devllm

// Price is what a model costs, in dollars per thousand million tokens, which is nano-dollars a token: 3000 is $3 a
// million. Reasoning costs what output costs.
type Price struct {
	Input        int64 `json:"input"`
	CacheRead    int64 `json:"cache_read"`
	CacheWrite   int64 `json:"cache_write"`    // for 5 minutes, or as long as an automatic cache keeps it
	CacheWrite1h int64 `json:"cache_write_1h"` // for an hour
	Output       int64 `json:"output"`
}

// Tokens are counted in classes that do not overlap: their sum is what was processed.
type Tokens struct {
	Uncached     int64 `json:"uncached"`
	CacheRead    int64 `json:"cache_read"`
	CacheWrite   int64 `json:"cache_write"`
	CacheWrite1h int64 `json:"cache_write_1h"`
	Output       int64 `json:"output"` // without reasoning
	Reasoning    int64 `json:"reasoning"`
}

// Input are all tokens of the prompt.
func (t Tokens) Input() int64 { return t.Uncached + t.CacheRead + t.CacheWrite + t.CacheWrite1h }

// Answer are all tokens that were made.
func (t Tokens) Answer() int64 { return t.Output + t.Reasoning }

func (t Tokens) plus(o Tokens) Tokens {
	return Tokens{t.Uncached + o.Uncached, t.CacheRead + o.CacheRead, t.CacheWrite + o.CacheWrite,
		t.CacheWrite1h + o.CacheWrite1h, t.Output + o.Output, t.Reasoning + o.Reasoning}
}

// nanos is what the tokens cost, in nano-dollars.
func (p Price) nanos(t Tokens) int64 {
	return t.Uncached*p.Input + t.CacheRead*p.CacheRead + t.CacheWrite*p.CacheWrite + t.CacheWrite1h*p.CacheWrite1h + t.Answer()*p.Output
}
