package control_test

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"agentkernel/internal/llm"
)

// What a limit bounds, in the order of provider.limits.
const (
	requests = iota
	input
	output
	tokens
)

var names = [4]string{"requests", "input", "output", "tokens"}

// provider is a server with limits of its own. It knows nothing of ours.
type provider struct {
	limits     [4]float64 // a minute; 0: none
	windows    []time.Duration
	windowed   [4]bool // whether the windows bind it
	precharged bool
	kept       bool // precharged output is not given back
	headers    bool
	rounded    bool          // what remains, to thousands of tokens
	retryAfter time.Duration // with a refusal; 0: it does not say
	takes      [2]time.Duration
	most       int // calls at one moment; 0: no bound
	down       func(now time.Time) bool

	mu      sync.Mutex
	rnd     *rand.Rand
	level   [4]float64
	at      time.Time
	in      [4][4]map[int64]float64
	used    [4]float64 // since the last reset
	strange [4]float64 // of that, by strangers
	asked   int
	refused int
	running int
	calls   []string // who was let in, by request.model
}

func (p *provider) start() {
	p.at = time.Now()
	p.level = p.limits
	p.rnd = rand.New(rand.NewPCG(7, 7))
	for i := range p.in {
		for j := range p.in[i] {
			p.in[i][j] = map[int64]float64{}
		}
	}
}

func (p *provider) refill() {
	now := time.Now()
	for i, l := range p.limits {
		p.level[i] = min(l, p.level[i]+l/60*now.Sub(p.at).Seconds())
	}
	p.at = now
}

// take charges what a request needs at its beginning, if there is as much.
func (p *provider) take(needs [4]float64) bool {
	p.refill()
	for i, l := range p.limits {
		if l > 0 && p.level[i] < needs[i]-1e-6 {
			return false
		}
		for j, span := range p.windows {
			w := time.Now().UnixNano() / int64(span)
			if p.windowed[i] && l > 0 && p.in[i][j][w]+needs[i] > l*span.Seconds()/60+1e-6 {
				return false
			}
		}
	}
	for i := range p.limits {
		p.charge(i, needs[i])
	}
	return true
}

func (p *provider) charge(i int, n float64) {
	p.level[i] -= n
	p.used[i] += n
	for j, span := range p.windows {
		p.in[i][j][time.Now().UnixNano()/int64(span)] += n
	}
}

func (p *provider) head(status int) (h llm.Head) {
	h.Status = status
	if !p.headers {
		return h
	}
	for i, l := range p.limits {
		if l == 0 {
			continue
		}
		left := math.Floor(max(0, p.level[i]))
		if p.rounded && i != requests {
			left = math.Round(left/1000) * 1000
		}
		reset := time.Duration((l - p.level[i]) / l * 60e9).Round(time.Millisecond)
		h.Limits = append(h.Limits, llm.Limit{What: names[i], Limit: int64(l), Remaining: int64(left), Reset: reset})
	}
	return h
}

// request is what the provider is asked.
type request struct {
	who          string
	in, out, max int64
	cached       int64         // input that its cache has, and does not count
	takes        time.Duration // 0: the provider's own
}

func (p *provider) between(a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(p.rnd.Int64N(int64(b-a)))
}

// complete answers a request. Its body takes its time after its head.
func (p *provider) complete(ctx context.Context, r request, head func(llm.Head)) (*llm.Answer, error) {
	p.mu.Lock()
	p.asked++
	way, back, takes := p.between(time.Millisecond, 40*time.Millisecond), p.between(time.Millisecond, 20*time.Millisecond), p.between(p.takes[0], p.takes[1])
	p.mu.Unlock()
	if r.takes > 0 {
		takes = r.takes
	}
	if err := sleep(ctx, way); err != nil {
		return nil, err
	}
	needs := [4]float64{1, float64(r.in), 0, float64(r.in)}
	if p.precharged {
		needs[output], needs[tokens] = float64(r.max), float64(r.in+r.max)
	}
	p.mu.Lock()
	if p.down != nil && p.down(time.Now()) {
		p.mu.Unlock()
		return nil, &llm.Error{Kind: llm.Server, Status: 503, Sent: true, Message: "down"}
	}
	if p.most > 0 && p.running >= p.most || !p.take(needs) {
		p.refused++
		h := p.head(429)
		p.mu.Unlock()
		if err := sleep(ctx, back); err != nil {
			return nil, err
		}
		head(h)
		return nil, &llm.Error{Kind: llm.RateLimited, Status: 429, Sent: true, RetryAfter: p.retryAfter}
	}
	p.running++
	p.calls = append(p.calls, r.who)
	h := p.head(200)
	p.mu.Unlock()
	first := takes / 5
	err := sleep(ctx, first+back)
	if err == nil {
		head(h)
		err = sleep(ctx, takes-first)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.refill()
	for _, i := range []int{output, tokens} {
		switch {
		case !p.precharged:
			p.charge(i, float64(r.out))
		case !p.kept:
			p.charge(i, float64(r.out-r.max))
		}
	}
	if err != nil {
		return nil, err
	}
	return &llm.Answer{Usage: llm.Usage{Input: r.in, CacheRead: r.cached, Output: r.out}}, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return &llm.Error{Kind: llm.Canceled, Sent: true, Err: context.Cause(ctx)}
	}
}

// strangers use a part of a limit with the same key, at random moments.
func (p *provider) strangers(ctx context.Context, limit int, part float64, cost [4]float64) {
	for {
		p.mu.Lock()
		pause := p.rnd.ExpFloat64() * 60 * cost[limit] / p.limits[limit] / part
		p.mu.Unlock()
		if sleep(ctx, time.Duration(pause*1e9)) != nil {
			return
		}
		p.mu.Lock()
		if p.take(cost) {
			for i := range cost {
				p.strange[i] += cost[i]
			}
		}
		p.mu.Unlock()
	}
}
