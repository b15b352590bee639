package models

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/llm"
	"agentkernel/internal/nearest"
)

// Price is what a million tokens of each class cost. What is nil costs what its nearest class does: reading and writing a cache what
// input does, reasoning what output does, an hour what five minutes do.
type Price struct {
	Input        agentkernel.NanoUSD  `json:"input"`
	CacheRead    *agentkernel.NanoUSD `json:"cache_read,omitempty"`
	CacheWrite   *agentkernel.NanoUSD `json:"cache_write,omitempty"`
	CacheWrite1h *agentkernel.NanoUSD `json:"cache_write_1h,omitempty"`
	Output       agentkernel.NanoUSD  `json:"output"`
	Reasoning    *agentkernel.NanoUSD `json:"reasoning,omitempty"`
	// Context and MaxOutput are what the model takes and gives at most, in tokens; 0: not known.
	Context   int64  `json:"context,omitempty"`
	MaxOutput int64  `json:"max_output,omitempty"`
	Above     *Above `json:"above,omitempty"`
}

// Above are the prices of requests with more input than InputTokens; all of such a request costs that.
type Above struct {
	InputTokens int64                `json:"input_tokens"`
	Input       agentkernel.NanoUSD  `json:"input"`
	CacheRead   *agentkernel.NanoUSD `json:"cache_read,omitempty"`
	CacheWrite  *agentkernel.NanoUSD `json:"cache_write,omitempty"`
	Output      agentkernel.NanoUSD  `json:"output"`
}

// or is the price of a class, or that of its nearest.
func or(class *agentkernel.NanoUSD, nearest agentkernel.NanoUSD) agentkernel.NanoUSD {
	if class == nil {
		return nearest
	}
	return *class
}

// rates are the prices of all classes, for a million tokens each.
type rates struct{ input, read, write, write1h, output, reasoning agentkernel.NanoUSD }

// rates of a request with so much input.
func (p *Price) rates(inputs int64) rates {
	r := rates{input: p.Input, read: or(p.CacheRead, p.Input), write: or(p.CacheWrite, p.Input), output: p.Output, reasoning: or(p.Reasoning, p.Output)}
	r.write1h = or(p.CacheWrite1h, r.write)
	if a := p.Above; a != nil && inputs > a.InputTokens {
		r.input, r.output = a.Input, a.Output
		r.read, r.write = or(a.CacheRead, max(r.read, a.Input)), or(a.CacheWrite, max(r.write, a.Input))
		r.write1h, r.reasoning = max(r.write1h, r.write), max(r.reasoning, a.Output)
	}
	return r
}

// Cost is what an answer has cost, rounded up to a nano-dollar.
func (p *Price) Cost(u llm.Usage) agentkernel.NanoUSD {
	r := p.rates(u.Inputs())
	return sum([]int64{u.Input, u.CacheRead, u.CacheWrite, u.CacheWrite1h, u.Output, u.Reasoning},
		[]agentkernel.NanoUSD{r.input, r.read, r.write, r.write1h, r.output, r.reasoning})
}

// Bound is what a request can cost at most: all its input in the dearest class, and as much output as it may have.
func (p *Price) Bound(inputs, outputs int64) agentkernel.NanoUSD {
	r := p.rates(inputs)
	low := p.rates(0) // fewer tokens than were feared may cost more for each, if somebody writes such a table
	return sum([]int64{inputs, outputs}, []agentkernel.NanoUSD{
		max(r.input, r.read, r.write, r.write1h, low.input, low.read, low.write, low.write1h), max(r.output, r.reasoning, low.output, low.reasoning)})
}

// sum is what so many tokens cost at so much for a million.
func sum(tokens []int64, rates []agentkernel.NanoUSD) agentkernel.NanoUSD {
	const million = 1_000_000
	var hi, lo uint64
	for i, n := range tokens {
		h, l := bits.Mul64(uint64(max(n, 0)), uint64(max(rates[i], 0))) //nolint:gosec // neither is negative
		var carry uint64
		lo, carry = bits.Add64(lo, l, 0)
		hi, _ = bits.Add64(hi, h, carry)
	}
	if hi >= million {
		return math.MaxInt64
	}
	q, rest := bits.Div64(hi, lo, million)
	if rest > 0 {
		q++
	}
	return agentkernel.NanoUSD(min(q, math.MaxInt64)) //nolint:gosec // it fits
}

// parsePrice reads "INPUT/OUTPUT" in dollars for a million tokens.
func parsePrice(text string) (*Price, error) {
	in, out, both := strings.Cut(text, "/")
	if !both {
		return nil, fmt.Errorf("write INPUT/OUTPUT in dollars for a million tokens, such as 0.25/2")
	}
	var p Price
	for _, part := range []struct {
		text string
		to   *agentkernel.NanoUSD
	}{{in, &p.Input}, {out, &p.Output}} {
		n, err := agentkernel.ParseUSD(part.text)
		if err != nil {
			return nil, err
		}
		if *part.to = n; n < 0 {
			return nil, fmt.Errorf("it is negative")
		}
	}
	return &p, nil
}

// PriceOf is what a model costs, and where that is from; nil: nobody says. own are tables of the user's, which come first.
func (m *Model) PriceOf(own ...*Table) (p *Price, from string) {
	k := kinds[m.Kind]
	switch {
	case m.Price != nil:
		return m.Price, "its declaration"
	}
	for _, t := range append(own, Shipped()) {
		if t == nil {
			continue
		}
		for _, name := range []string{m.Kind + "/" + m.Name, k.known + "/" + m.Name} {
			if p := t.Models[name]; p != nil {
				return p, fmt.Sprintf("%s of %s", t.Source, t.Date)
			}
		}
	}
	if k.free {
		return &Price{}, "it runs on machines of yours"
	}
	return nil, ""
}

// Unpriced is the error for a model whose price is not known, where money is bounded.
func (m *Model) Unpriced() *agentkernel.Error {
	e := agentkernel.Errorf(agentkernel.CodeUnavailable, "models", "nobody says what %s:%s costs, and the process has a budget of dollars", m.Kind, m.Name)
	if near := nearest.One(kinds[m.Kind].known+"/"+m.Name, slices.Sorted(maps.Keys(Shipped().Models))); near != "" && alike(near, m.Name) {
		return e.WithHint("declare the model with price=INPUT/OUTPUT, in dollars for a million tokens (known is %s)", near)
	}
	return e.WithHint("declare the model with price=INPUT/OUTPUT, in dollars for a million tokens")
}

// alike says whether the name of a model of the table begins as another does.
func alike(known, name string) bool {
	_, known, _ = strings.Cut(known, "/")
	return len(name) >= 3 && strings.HasPrefix(known, name[:3])
}
