package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/llm"
	"agentkernel/internal/llm/models"
)

// market is the models of a simulation, and those who serve them. It outlives kernels, and remembers what it was asked and what that
// has cost: what kernels count is compared with it.
type market struct {
	declared []models.Model
	texts    []string // as the setting has them
	sick     uint64   // how many requests of a hundred fail
	refuses  uint64   // how many of a hundred a limit refuses, because of somebody else who has the key
	slowest  time.Duration

	mu       sync.Mutex
	requests map[string][]*request // by call: "5/3"
	answers  int                   // that were begun
	underWay map[string]int        // by limiter, of the present kernel
	taken    map[string][]taking   // by limiter, of the present kernel
	alone    map[string][2]time.Time
}

// request is one request, as its server has it.
type request struct {
	call    string
	to      *models.Model
	kernel  int // the generation that has sent it
	life    int // how often its call had been begun again by then
	turns   int // how often it had gone back to waiting for its turn
	open    bool
	whole   bool                // it was answered, to the end
	known   bool                // and whoever sent it was told what it has cost
	free    bool                // whoever sent it knows that it has cost nothing
	charged agentkernel.NanoUSD // whatever became of the answer
	pieces  []string            // of the answer
	usage   llm.Usage           // of the whole answer
}

// text is the whole answer.
func (q *request) text() string { return strings.Join(q.pieces, "") }

// taking is what a request takes of the limits of its server.
type taking struct {
	at     time.Time
	tokens int64
}

// newMarket makes the models of a seed.
func newMarket(rng *rand.Rand, slowest time.Duration) *market {
	m := &market{requests: map[string][]*request{}, slowest: slowest}
	m.kernelBegins()
	kinds := []string{"openai:gpt url=http://one", "vllm:open url=http://two", "anthropic:claude-small-1 url=http://three"}
	limits := func() (text string) {
		if rng.IntN(2) == 0 {
			text += fmt.Sprintf(" concurrent=%d", 1+rng.IntN(3))
		}
		if rng.IntN(3) == 0 {
			text += fmt.Sprintf(" rpm=%d", 20+rng.IntN(60))
		}
		if rng.IntN(4) == 0 {
			text += fmt.Sprintf(" tpm=%d", 500+rng.IntN(2000))
		}
		return text
	}
	price := func() string { return fmt.Sprintf(" price=0.000%d/0.00%d", 100+rng.IntN(800), 1+rng.IntN(5)) }
	declare := func(alias, more string) {
		m.texts = append(m.texts, alias+" "+kinds[rng.IntN(len(kinds))]+fmt.Sprintf(" max_tokens=%d", 4+rng.IntN(8))+price()+limits()+more)
	}
	declare(modelNames[0], "")
	if rng.IntN(2) == 0 {
		declare(modelNames[0], "")
	}
	declare(modelNames[1], []string{"", " fallback=" + modelNames[0]}[rng.IntN(2)])
	m.sick = []uint64{0, 3, 10, 30}[rng.IntN(4)]
	m.refuses = []uint64{0, 0, 5, 20}[rng.IntN(4)]
	declared, err := models.ParseAll(m.texts)
	if err != nil {
		panic(err) // they are written as the setting is
	}
	m.declared = declared
	return m
}

// modelNames are the aliases that programs ask.
var modelNames = []string{"m0", "m1"}

// kernelBegins forgets what a crash has ended.
func (m *market) kernelBegins() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range m.requests {
		for _, q := range of {
			q.open = false
		}
	}
	m.underWay, m.taken, m.alone = map[string]int{}, map[string][]taking{}, map[string][2]time.Time{}
}

// of are the requests of a call, in their order.
func (m *market) of(pid agentkernel.PID, call int64) []request {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []request
	for _, q := range m.requests[fmt.Sprintf("%d/%d", pid, call)] {
		out = append(out, *q)
	}
	return out
}

// limiter names what the limits of a model are of.
func limiter(m *models.Model) string { return m.KeyName() + " " + m.Family() }

// costs is what tokens cost, rounded up, without the kernel's code.
func costs(m *models.Model, input, output int64) agentkernel.NanoUSD {
	const million = 1_000_000
	return (agentkernel.NanoUSD(input)*m.Price.Input + agentkernel.NanoUSD(output)*m.Price.Output + million - 1) / million
}

// inputs is how many tokens a text has: less than anybody fears.
func inputs(text string) int64 { return 8 + int64(len(text)/2) }

// provider is one of those who serve models, as one generation of kernels reaches it.
type provider struct {
	e     *engine
	model *models.Model
}

var _ llm.Provider = (*provider)(nil)

func (p *provider) Traits() llm.Traits {
	return llm.Traits{Name: p.model.Kind, CancelFree: p.model.Kind == "vllm"}
}

func (p *provider) Embed(context.Context, *llm.EmbedRequest, llm.Watch) (*llm.Embeddings, error) {
	return nil, &llm.Error{Kind: llm.Unsupported, Message: "no vectors are made here"}
}

func (p *provider) Count(context.Context, *llm.Request) (int64, error) {
	return 0, &llm.Error{Kind: llm.Unsupported, Message: "nothing is counted here"}
}

// fate is what becomes of a request.
type fate int

const (
	answered    fate = iota
	unreachable      // it does not arrive
	refused          // by a limit
	overloaded
	failed  // and no model has seen it
	broken  // amid the answer, which is charged as far as it came
	garbled // the answer cannot be read, but for what it has cost
	lame    // it fails, and says what it has cost to read what was asked
)

// fateOf is decided by the seed.
func (m *market) fateOf(roll uint64) fate {
	switch n := roll % 100; {
	case n < m.refuses:
		return refused
	case n < m.refuses+m.sick:
		return []fate{unreachable, overloaded, failed, broken, broken, garbled, lame}[(roll>>8)%7]
	}
	return answered
}

// Complete answers a request: it arrives, is charged, and is answered bit by bit, in steps between which anything may happen.
func (p *provider) Complete(ctx context.Context, r *llm.Request, watch llm.Watch) (*llm.Answer, error) {
	a, _ := ctx.Value(askingKey{}).(*asking)
	name, turn := a.next()
	roll, ok, err := p.e.w.gate.wait(ctx, p.e.generation, "send "+name, 0)
	fate := p.e.w.market.fateOf(roll)
	switch {
	case !ok:
		return nil, &llm.Error{Kind: llm.Network, Err: crashed()}
	case err != nil:
		return nil, &llm.Error{Kind: llm.Canceled, Err: err}
	case fate == unreachable:
		return nil, &llm.Error{Kind: llm.Network, Message: "nobody is there"}
	}
	if watch.Leaves != nil {
		if err := watch.Leaves(); err != nil {
			return nil, &llm.Error{Kind: llm.Canceled, Err: err}
		}
	}
	p.e.w.checkHeld(a.name)
	q := p.arrives(a, r, fate, roll, turn)
	defer p.ends(q)
	switch fate {
	case refused, overloaded, failed, lame:
		return nil, p.refuse(ctx, q, name, fate, roll)
	}
	if watch.Head != nil {
		watch.Head(llm.Head{Status: http.StatusOK})
	}
	stops := len(q.pieces)
	if fate == broken {
		stops = int(roll >> 16 % uint64(len(q.pieces)))
	}
	for i, piece := range q.pieces {
		if watch.Delta == nil && i < len(q.pieces)-1 { // who waits for the whole gets it at once
			continue
		}
		_, ok, err := p.e.w.gate.wait(ctx, p.e.generation, fmt.Sprintf("piece %s %d", name, i), p.latency(roll>>i))
		began := watch.Delta != nil && i > 0
		switch {
		case !ok:
			return nil, &llm.Error{Kind: llm.Network, Sent: true, Began: began, Err: crashed()}
		case err != nil:
			p.canceled(q)
			return nil, &llm.Error{Kind: llm.Canceled, Sent: true, Began: began, Err: err}
		case i >= stops:
			return nil, &llm.Error{Kind: llm.Network, Sent: true, Began: began, Message: "the connection broke"}
		}
		if watch.Delta == nil {
			break
		}
		if err := watch.Delta(llm.Delta{Text: piece}); err != nil {
			p.canceled(q)
			return nil, &llm.Error{Kind: llm.Canceled, Sent: true, Began: true, Err: err}
		}
	}
	return p.answer(q, fate, watch.Delta != nil)
}

// answer is what has come of a request.
func (p *provider) answer(q *request, fate fate, began bool) (*llm.Answer, error) {
	p.e.w.market.mu.Lock()
	defer p.e.w.market.mu.Unlock()
	q.known = true
	if fate == garbled {
		return nil, &llm.Error{Kind: llm.Malformed, Status: http.StatusOK, Sent: true, Began: began, Usage: &q.usage, Message: "what is that"}
	}
	q.whole = true
	return &llm.Answer{Model: p.model.Name, Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Text: q.text()}}}, Stop: llm.StopEnd, Usage: q.usage}, nil
}

// refuse answers a request that no model sees.
func (p *provider) refuse(ctx context.Context, q *request, name string, fate fate, roll uint64) error {
	_, ok, err := p.e.w.gate.wait(ctx, p.e.generation, "refuse "+name, p.latency(roll))
	switch {
	case !ok:
		return &llm.Error{Kind: llm.Network, Sent: true, Err: crashed()}
	case err != nil:
		p.canceled(q)
		return &llm.Error{Kind: llm.Canceled, Sent: true, Err: err}
	}
	m := p.e.w.market
	m.mu.Lock()
	defer m.mu.Unlock()
	q.free = fate != lame
	e := &llm.Error{Kind: llm.Server, Status: http.StatusInternalServerError, Sent: true, Message: "it has failed"}
	switch fate {
	case lame:
		q.known, e.Usage = true, &llm.Usage{Input: q.usage.Inputs()}
	case refused:
		e.Kind, e.Status, e.Message = llm.RateLimited, http.StatusTooManyRequests, "too many"
	case overloaded:
		e.Kind, e.Status, e.Message = llm.Overloaded, http.StatusServiceUnavailable, "too much to do"
	}
	if q.free && fate != failed && (roll>>24)%2 == 0 {
		e.RetryAfter = time.Duration(1+(roll>>25)%3000) * time.Millisecond
		now := time.Now()
		if until := now.Add(e.RetryAfter); until.After(m.alone[limiter(p.model)][1]) {
			m.alone[limiter(p.model)] = [2]time.Time{now, until}
		}
	}
	return e
}

// canceled is the end of a request that nobody waits for any more. Where that is free, it is not charged.
func (p *provider) canceled(q *request) {
	p.e.w.market.mu.Lock()
	defer p.e.w.market.mu.Unlock()
	if q.free = p.Traits().CancelFree; q.free {
		q.charged = 0
	}
}

// latency is how long the next bit takes at least.
func (p *provider) latency(roll uint64) time.Duration {
	roll >>= 8
	if roll%4 > 0 {
		return time.Duration(roll % uint64(2*time.Millisecond))
	}
	return time.Duration(roll % uint64(p.e.w.market.slowest))
}

// ends notes that a request is over.
func (p *provider) ends(q *request) {
	m := p.e.w.market
	m.mu.Lock()
	defer m.mu.Unlock()
	if q.open { // else its kernel has crashed
		q.open = false
		m.underWay[limiter(p.model)]--
	}
}
