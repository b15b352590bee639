package control_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/control"
	"agentkernel/internal/sched/traffic"
)

// TestNothingIsLost: whatever calls do (they are cancelled at any moment, dropped, fail in each way, panic), in the end nothing is
// queued or under way, and the limits are whole again.
func TestNothingIsLost(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { lose(t, seed) }) })
	}
}

func lose(t *testing.T, seed uint64) {
	cfg := two()
	for i := range cfg.Deployments {
		cfg.Deployments[i].Limits = traffic.Limits{Requests: minute(600), Input: minute(100_000), Output: minute(50_000), Tokens: minute(120_000), Concurrency: 10}
		cfg.Deployments[i].Traits = llm.Traits{CancelFree: i == 0, OutputPrecharged: i == 1}
	}
	cfg.Retry = control.Retry{Attempts: 3, Time: time.Minute}
	c := newControl(t, cfg)
	var all sync.WaitGroup
	for i := range 300 {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			for range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.ExpFloat64()*20*float64(time.Second)))
				call := control.Call{ID: fmt.Sprint(i), Alias: []string{"m", "n"}[rnd.IntN(2)], Namespace: fmt.Sprint(rnd.IntN(3)), Tree: fmt.Sprint(rnd.IntN(20)), Priority: rnd.IntN(30),
					Conversation: fmt.Sprint(rnd.IntN(30)), Content: traffic.Content{Text: rnd.Int64N(5000), Code: rnd.Int64N(5000)}, MaxTokens: rnd.Int64N(1000), Restartable: rnd.IntN(2) == 0}
				if rnd.IntN(3) == 0 {
					if ticket, err := c.Acquire(ctx, call); err == nil {
						time.Sleep(time.Duration(rnd.IntN(2000)) * time.Millisecond)
						ticket.Drop()
					}
				} else {
					func() {
						defer func() { recover() }()
						_, _ = do(ctx, c, call, func(ctx context.Context, ticket *control.Ticket) (*llm.Answer, error) {
							return outcome(ctx, rnd, ticket)
						})
					}()
				}
				cancel()
			}
		})
	}
	all.Wait()
	time.Sleep(2 * time.Minute)
	for _, s := range c.Snapshot().Keys {
		if s.Queued != 0 || s.Running != 0 {
			t.Errorf("%d wait, %d are under way", s.Queued, s.Running)
		}
		for _, l := range s.Limits {
			if whole := l.Amount * 0.999; l.Pace == 0 && l.Left < whole {
				t.Errorf("%s: %.1f of %.0f are left", l.What, l.Left, l.Amount)
			}
		}
	}
	for _, d := range c.Snapshot().Deployments {
		if d.Queued != 0 {
			t.Errorf("%d wait for %s", d.Queued, d.Name)
		}
	}
	for i := range 300 {
		if text, ok := c.Explain(fmt.Sprint(i)); ok {
			t.Errorf("a call that has ended is %s", text)
		}
	}
}

// outcome is what may become of a request.
func outcome(ctx context.Context, rnd *rand.Rand, ticket *control.Ticket) (*llm.Answer, error) {
	if err := sleep(ctx, time.Duration(rnd.IntN(3000))*time.Millisecond); err != nil {
		return nil, err
	}
	kinds := []llm.Kind{llm.RateLimited, llm.Overloaded, llm.Quota, llm.Auth, llm.TooLong, llm.Server, llm.Network, llm.Timeout, llm.Malformed}
	if n := rnd.IntN(40); n < len(kinds) {
		e := &llm.Error{Kind: kinds[n], Status: []int{0, 429, 500}[rnd.IntN(3)], Sent: rnd.IntN(2) == 0, Began: rnd.IntN(4) == 0}
		if rnd.IntN(3) == 0 {
			e.RetryAfter = time.Duration(rnd.IntN(3000)) * time.Millisecond
		}
		if rnd.IntN(3) == 0 {
			e.Usage = &llm.Usage{Input: rnd.Int64N(3000)}
		}
		return nil, e
	} else if n == len(kinds) {
		panic("the caller's own")
	}
	ticket.Head(llm.Head{Status: 200})
	if err := sleep(ctx, time.Duration(rnd.IntN(5000))*time.Millisecond); err != nil {
		return nil, err
	}
	return &llm.Answer{Usage: llm.Usage{Input: rnd.Int64N(2000), CacheRead: rnd.Int64N(500), Output: rnd.Int64N(1000), Estimated: rnd.IntN(5) == 0}}, nil
}

// BenchmarkAcquire is what the way through the controller costs a call that need not wait.
func BenchmarkAcquire(b *testing.B) {
	c, err := control.New(one(traffic.Limits{Requests: minute(6e12), Tokens: minute(6e15), Concurrency: 1000}, llm.Traits{}))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	call := control.Call{ID: "x", Alias: "m", Namespace: "n", Tree: "t", Priority: 10, Content: traffic.Content{Text: 1000}, MaxTokens: 500}
	b.ReportAllocs()
	for b.Loop() {
		ticket, err := c.Acquire(b.Context(), call)
		if err != nil {
			b.Fatal(err)
		}
		ticket.Done(&llm.Usage{Input: 250, Output: 100}, nil)
	}
}
