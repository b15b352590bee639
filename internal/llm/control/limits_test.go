package control_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/control"
	"agentkernel/internal/sched/traffic"
)

// scenario is a server, what is known of it beforehand, and what is to come of it.
type scenario struct {
	name     string
	provider *provider
	traits   llm.Traits
	kept     bool
	limits   traffic.Limits
	change   func(p *provider) // midway
	foreign  float64
	cached   int64   // times as much input that is not counted
	scarce   int     // what limit is used up
	use      float64 // of the limit, after the warm-up
	refused  float64 // of our calls after the warm-up, at most
	learning int     // calls that may be refused before that
}

func minute(n int64) traffic.Limit { return traffic.Limit{Amount: n} }

func scenarios() []scenario {
	return []scenario{
		{name: "requests", provider: &provider{limits: [4]float64{requests: 600, tokens: 2e6}, headers: true}, scarce: requests, use: 0.97},
		{name: "tokens, output as it comes", provider: &provider{limits: [4]float64{requests: 6000, tokens: 600_000}, headers: true}, scarce: tokens, use: 0.97},
		{name: "input, from the configuration, no headers", provider: &provider{limits: [4]float64{requests: 6000, input: 500_000}}, limits: traffic.Limits{Requests: minute(6000), Input: minute(500_000)}, scarce: input, use: 0.97},
		{name: "output, rounded, given back", provider: &provider{limits: [4]float64{requests: 4000, input: 2e6, output: 80_000}, precharged: true, headers: true, rounded: true},
			traits: llm.Traits{OutputPrecharged: true}, scarce: output, use: 0.97},
		{name: "cached input is free", provider: &provider{limits: [4]float64{requests: 4000, input: 400_000, output: 2e6}, precharged: true, headers: true, rounded: true, takes: [2]time.Duration{5 * time.Second, 40 * time.Second}},
			traits: llm.Traits{OutputPrecharged: true, CachedInputFree: true}, cached: 9, scarce: input, use: 0.97},
		{name: "tokens, max_tokens in advance and kept", provider: &provider{limits: [4]float64{requests: 6000, tokens: 600_000}, precharged: true, kept: true, headers: true},
			traits: llm.Traits{OutputPrecharged: true}, kept: true, scarce: tokens, use: 0.97},
		{name: "1 s and 10 s", provider: &provider{limits: [4]float64{requests: 600, tokens: 2e6}, windows: []time.Duration{time.Second, 10 * time.Second}, windowed: [4]bool{requests: true}, headers: true},
			limits: traffic.Limits{Requests: traffic.Limit{Amount: 600, Second: true, Ten: true}}, scarce: requests, use: 0.92},
		{name: "10 s of tokens", provider: &provider{limits: [4]float64{requests: 6000, tokens: 600_000}, precharged: true, kept: true, windows: []time.Duration{10 * time.Second}, windowed: [4]bool{tokens: true}, headers: true},
			traits: llm.Traits{OutputPrecharged: true}, kept: true, limits: traffic.Limits{Tokens: traffic.Limit{Amount: 600_000, Ten: true}}, scarce: tokens, use: 0.92},
		{name: "1 s and 10 s, not known", provider: &provider{limits: [4]float64{requests: 600, tokens: 2e6}, windows: []time.Duration{time.Second, 10 * time.Second}, windowed: [4]bool{requests: true}, headers: true},
			scarce: requests, use: 0.92, learning: 20},
		{name: "halved midway", provider: &provider{limits: [4]float64{requests: 600, tokens: 1e6}, headers: true},
			change: func(p *provider) { p.limits = [4]float64{requests: 300, tokens: 0.5e6} }, scarce: requests, use: 0.97, refused: 0.005},
		{name: "no headers", provider: &provider{limits: [4]float64{requests: 600, tokens: 2e6}}, scarce: requests, use: 0.97, refused: 0.005, learning: 60},
		{name: "no headers, tokens", provider: &provider{limits: [4]float64{requests: 6000, tokens: 600_000}}, scarce: tokens, use: 0.97, refused: 0.005, learning: 60},
		{name: "no headers, halved midway", provider: &provider{limits: [4]float64{requests: 600, tokens: 2e6}},
			change: func(p *provider) { p.limits = [4]float64{requests: 300, tokens: 1e6} }, scarce: requests, use: 0.94, refused: 0.005, learning: 60},
		{name: "strangers", provider: &provider{limits: [4]float64{requests: 600, tokens: 2e6}, headers: true}, foreign: 0.3, scarce: requests, use: 0.97, refused: 0.005, learning: 20},
		{name: "strangers, tokens", provider: &provider{limits: [4]float64{requests: 6000, tokens: 600_000}, precharged: true, headers: true, retryAfter: time.Second}, traits: llm.Traits{OutputPrecharged: true},
			foreign: 0.3, scarce: tokens, use: 0.97, refused: 0.005, learning: 20},
		{name: "strangers, no headers, from the configuration", provider: &provider{limits: [4]float64{requests: 600, tokens: 2e6}}, limits: traffic.Limits{Requests: minute(600), Tokens: minute(2e6)},
			foreign: 0.3, scarce: requests, use: 0.94, refused: 0.01, learning: 40},
	}
}

// TestLimits: as long as there is more to send than limits allow, the limits are used, and nothing is refused but by the doing of
// strangers, or where a server says nothing. No caller hears of any of it.
func TestLimits(t *testing.T) {
	for i, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			// In which order 400 agents come to their turns is another each time: in some hundred runs one falls short. Then two more have to pass.
			short := false
			for tries := 1; tries > 0; tries-- {
				synctest.Test(t, func(t *testing.T) {
					if problems := scenarios()[i].run(t); len(problems) > 0 && short {
						t.Errorf("once more: %s", strings.Join(problems, "; "))
					} else if len(problems) > 0 {
						t.Logf("to be tried twice again: %s", strings.Join(problems, "; "))
						short, tries = true, 3
					}
				})
			}
		})
	}
}

const (
	warm  = 4 * time.Minute
	lasts = 16 * time.Minute
)

// run says what was not as it has to be.
func (s scenario) run(t *testing.T) (problems []string) {
	p := s.provider
	if p.takes == [2]time.Duration{} {
		p.takes = [2]time.Duration{500 * time.Millisecond, 8 * time.Second}
	}
	p.start()
	c := newControl(t, control.Config{
		Deployments: []control.Deployment{{Name: "d", Key: "a", Family: "f", Model: "m", Traits: s.traits, OutputKept: s.kept, Limits: s.limits}},
		Aliases:     []control.Alias{{Name: "m", Deployments: []string{"d"}}},
	})
	ctx, stop := context.WithCancel(t.Context())
	var agents sync.WaitGroup
	if s.foreign > 0 {
		agents.Go(func() { p.strangers(ctx, s.scarce, s.foreign, [4]float64{1, 700, 200, 900}) })
	}
	for i := range 400 {
		agents.Go(func() {
			if err := s.agent(ctx, c, i); err != nil {
				t.Error(err)
			}
		})
	}
	begin := time.Now()
	at := func(d time.Duration) { time.Sleep(d - time.Since(begin)); synctest.Wait() }
	at(warm)
	p.mu.Lock()
	learning := p.refused
	p.mu.Unlock()
	var use float64
	var asked, refused int
	measure := func(from, to time.Duration) {
		at(from)
		p.mu.Lock()
		p.used, p.strange = [4]float64{}, [4]float64{}
		asked0, refused0 := p.asked, p.refused
		p.mu.Unlock()
		at(to)
		p.mu.Lock()
		use = p.used[s.scarce] / (p.limits[s.scarce] / 60 * (to - from).Seconds())
		asked, refused = asked+p.asked-asked0, refused+p.refused-refused0
		p.mu.Unlock()
		if use < s.use {
			problems = append(problems, fmt.Sprintf("%.4f of the limit were used from %s to %s, want %.2f: %+v", use, from, to, s.use, c.Snapshot().Keys[0]))
		}
	}
	if s.change == nil {
		measure(warm, lasts)
	} else {
		measure(warm, lasts/2)
		p.mu.Lock()
		p.refill()
		s.change(p)
		p.mu.Unlock()
		if p.headers {
			measure(lasts/2, lasts/2+warm/2)
		}
		measure(lasts/2+warm/2, lasts)
	}
	if learning > s.learning {
		problems = append(problems, fmt.Sprintf("%d were refused in the warm-up, at most %d", learning, s.learning))
	}
	if part := float64(refused) / float64(asked); part > s.refused {
		problems = append(problems, fmt.Sprintf("%d of %d were refused: %.4f", refused, asked, part))
	}
	t.Logf("%.4f of the limit, %.2f of it by strangers; refused: %d, and %d of %d afterwards", use, p.strange[s.scarce]/max(1, p.used[s.scarce]), learning, refused, asked)
	stop()
	agents.Wait()
	return problems
}

// agent asks one thing after the other.
func (s scenario) agent(ctx context.Context, c *control.Control, i int) error {
	rnd := rand.New(rand.NewPCG(uint64(i), 1))
	for turn := 0; ; turn++ {
		r := request{max: 500, out: 50 + rnd.Int64N(300)}
		content := traffic.Content{Text: 400 + rnd.Int64N(6000)}
		r.in = int64(float64(content.Text) * (0.22 + 0.06*rnd.Float64()))
		call := control.Call{Alias: "m", Namespace: fmt.Sprint(i % 3), Tree: fmt.Sprint(i % 50), Priority: 10, Content: content, MaxTokens: r.max}
		if s.cached > 0 {
			call.Conversation, call.Content.Text = fmt.Sprint(i), content.Text*(1+s.cached)
			if turn > 0 {
				r.cached = r.in * s.cached
			} else {
				r.in += r.in * s.cached
			}
			call.Cached = r.cached
		}
		_, err := do(ctx, c, call, func(ctx context.Context, t *control.Ticket) (*llm.Answer, error) {
			return s.provider.complete(ctx, r, t.Head)
		})
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the test is over
		case err != nil:
			return err
		}
	}
}

func newControl(t *testing.T, cfg control.Config) *control.Control {
	t.Helper()
	rnd := rand.New(rand.NewPCG(3, 4))
	var mu sync.Mutex
	if cfg.Rand == nil {
		cfg.Rand = func() float64 {
			mu.Lock()
			defer mu.Unlock()
			return rnd.Float64()
		}
	}
	c, err := control.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// do sends a call for an answer.
func do(ctx context.Context, c *control.Control, call control.Call, send func(context.Context, *control.Ticket) (*llm.Answer, error)) (answer *llm.Answer, err error) {
	err = c.Run(ctx, nil, call, func(ctx context.Context, t *control.Ticket) (*llm.Usage, error) {
		if answer, err = send(ctx, t); err != nil {
			return nil, err
		}
		return &answer.Usage, nil
	})
	return answer, err
}
