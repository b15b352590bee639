package router_test

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/llm"
)

// TestACallThatIsLeft: what a call has used that nobody waits for any more is known as long as no request is on its way, and from then
// on none goes out.
func TestACallThatIsLeft(t *testing.T) {
	down := &llm.Error{Kind: llm.Network, Message: "connection refused"}
	lame := &llm.Error{Kind: llm.Server, Sent: true, Status: 500, Usage: &llm.Usage{Input: 7}}
	broken := &llm.Error{Kind: llm.Network, Sent: true, Message: "the connection broke"}
	type test struct {
		about string
		dials time.Duration
		fails error
		after time.Duration // Ask has begun; 0: before
		want  agentkernel.Amounts
		sent  int
	}
	for _, c := range []test{
		{"before it is asked", 0, nil, 0, agentkernel.Amounts{}, 0},
		{"while nobody takes the connection", time.Minute, nil, 30 * time.Second, agentkernel.Amounts{}, 0},
		{"between two tries, of which none was charged", 0, down, 1100 * time.Millisecond, agentkernel.Amounts{}, 1},
		{"between two tries, of which one was charged", 0, lame, 1100 * time.Millisecond, agentkernel.Amounts{"input": 7, "tokens": 7, "model openai:gpt-5-mini": 1, "usd": 7000}, 1},
		{"between two tries, of which one may have been", 0, broken, 1100 * time.Millisecond, nil, 1},
		{"while it is on its way", 0, nil, 500 * time.Millisecond, nil, 1},
		{"when it was answered", 0, nil, 2 * time.Second, agentkernel.Amounts{"input": 1000, "cached": 2000, "output": 100, "reasoning": 100, "tokens": 3200,
			"model openai:gpt-5-mini": 1, "usd": 1000*1000 + 2000*1000 + 200*10_000}, 1},
	} {
		t.Run(c.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, fakes := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(int, *llm.Request) (*llm.Answer, error) {
					if c.fails != nil {
						return nil, c.fails
					}
					return text("pong")
				}}, "fast openai:gpt-5-mini max_tokens=300 price=1/10")
				p, err := r.Plan(ask("hi"))
				if err != nil || !p.Ready() {
					t.Fatal(err)
				}
				fakes["openai"].dials = c.dials
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				begin := func() { go func() { _, _, err := p.Ask(ctx, nil); done <- err }() }
				if c.after > 0 {
					begin()
					time.Sleep(c.after)
					synctest.Wait()
				}
				if got := p.Leave(); !maps.Equal(got, c.want) || (got == nil) != (c.want == nil) {
					t.Errorf("it has used %v, want %v", got, c.want)
				}
				if c.after == 0 {
					begin()
				}
				time.Sleep(2 * time.Minute) // whoever leaves it cancels it, too, and this is late
				cancel()
				err = <-done
				if answered := c.sent > 0 && c.fails == nil; (err == nil) != answered {
					t.Errorf("%v", err)
				}
				if f := fakes["openai"]; f.sent != c.sent {
					t.Errorf("it went out %d times, want %d", f.sent, c.sent)
				}
				for _, k := range r.Limits().Keys {
					if k.Running != 0 || k.Queued != 0 {
						t.Errorf("%d are under way, and %d wait", k.Running, k.Queued)
					}
				}
			})
		})
	}
}

// TestAQueryThatIsHeldBack: it is not sent, or not once more, and says what it has cost; its place is free.
func TestAQueryThatIsHeldBack(t *testing.T) {
	for _, c := range []struct {
		about string
		fails error
		after time.Duration
		want  agentkernel.Amounts
		sent  int
	}{
		{"before it is asked", nil, 0, agentkernel.Amounts{}, 0},
		{"between two tries, of which none was charged", &llm.Error{Kind: llm.Overloaded, Sent: true, Status: 503}, 1100 * time.Millisecond,
			agentkernel.Amounts{"model openai:gpt-5-mini": 1}, 1},
		{"between two tries that did not reach a server", &llm.Error{Kind: llm.Network, Message: "connection refused"}, 1100 * time.Millisecond, agentkernel.Amounts{}, 1},
	} {
		t.Run(c.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, fakes := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(int, *llm.Request) (*llm.Answer, error) {
					if c.fails != nil {
						return nil, c.fails
					}
					return text("pong")
				}}, "fast openai:gpt-5-mini max_tokens=300 price=1/10")
				var held atomic.Bool
				q := ask("hi")
				q.Held = held.Load
				p, err := r.Plan(q)
				if err != nil || !p.Ready() {
					t.Fatal(err)
				}
				time.AfterFunc(c.after, func() { held.Store(true) })
				if c.after == 0 {
					synctest.Wait()
					time.Sleep(time.Nanosecond)
				}
				_, used, err := p.Ask(t.Context(), nil)
				if !errors.Is(err, llm.ErrWaits) || !maps.Equal(used, c.want) {
					t.Errorf("%v, and it has used %v, want %v", err, used, c.want)
				}
				if f := fakes["openai"]; f.sent != c.sent {
					t.Errorf("it went out %d times, want %d", f.sent, c.sent)
				}
				for _, k := range r.Limits().Keys {
					if k.Running != 0 || k.Queued != 0 {
						t.Errorf("%d are under way, and %d wait", k.Running, k.Queued)
					}
				}
			})
		})
	}
}
