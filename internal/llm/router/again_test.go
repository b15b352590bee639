package router_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/llm"
	"agentkernel/internal/llm/router"
)

// requeued asks as the kernel does: a query that waits for its turn again is planned anew, and each Ask may take so long.
func requeued(t *testing.T, r *router.Router, q *llm.Query, tell func(llm.Delta) error) (rounds int, res *llm.Result, used agentkernel.Amounts, err error) {
	t.Helper()
	q.ID, q.Requeues = "1/1 "+q.Request.Messages[0].Parts[0].Text, true
	var before llm.Plan
	for {
		rounds++
		p, err := r.Plan(q)
		if err != nil {
			t.Fatal(err)
		}
		if before != nil {
			before.Drop()
		}
		if before = p; !p.Ready() {
			if err := p.Wait(t.Context()); err != nil {
				p.Drop()
				return rounds, nil, used, err
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		own := ctx
		if tell != nil {
			at, _ := ctx.Deadline()
			own = llm.WithEnd(context.WithoutCancel(ctx), at)
		}
		res, more, err := p.Ask(own, tell)
		cancel()
		if used = used.Plus(more); !errors.Is(err, llm.ErrWaits) {
			p.Drop()
			return rounds, res, used, err
		}
	}
}

// TestWhatItWaitsIsNotItsTime: a query that a limit has refused waits in the queue for as long as that takes, as one that was not sent yet;
// what it takes itself counts over all its tries.
func TestWhatItWaitsIsNotItsTime(t *testing.T) {
	refused := &llm.Error{Kind: llm.RateLimited, Status: 429, Sent: true, RetryAfter: 10 * time.Minute, Message: "too many"}
	down := &llm.Error{Kind: llm.Network, Message: "connection refused", Err: syscall.ECONNREFUSED}
	paid := agentkernel.Amounts{"model openai:gpt-5-mini": 1}
	for about, c := range map[string]struct {
		next   func(n int) error
		rounds int
		code   agentkernel.Code
		says   string // the error, or its hint
		took   time.Duration
		used   agentkernel.Amounts // beside an answer
	}{
		"refused for ten minutes": {func(n int) error { return map[bool]error{true: refused}[n == 1] }, 2, "", "", 10*time.Minute + 2*time.Second, paid},
		"overloaded for ten minutes": {func(n int) error {
			return map[bool]error{true: &llm.Error{Kind: llm.Overloaded, Status: 503, Sent: true, RetryAfter: 10 * time.Minute}}[n == 1]
		}, 2, "", "", 10*time.Minute + 2*time.Second, paid},
		"refused for ever": {func(int) error {
			return &llm.Error{Kind: llm.RateLimited, Status: 429, Sent: true, Message: "too many"}
		}, 20, agentkernel.CodeUnavailable,
			"it was sent and refused 20 times", 0, paid},
		"down for a minute": {func(n int) error { return map[bool]error{true: down}[n <= 30] }, 31, "", "", 0, nil},
		"down for ever":     {func(int) error { return down }, 0, agentkernel.CodeTimeout, "did not answer in time: connection refused", 2 * time.Minute, nil},
		"lost, and then refused": {func(n int) error {
			return []error{nil, &llm.Error{Kind: llm.Network, Sent: true, Message: "reset"}, &llm.Error{Kind: llm.RateLimited, Status: 429, Sent: true, RetryAfter: time.Hour}}[min(n, 2)]
		}, 1, agentkernel.CodeTimeout, "it was sent and refused", 2 * time.Minute, nil},
	} {
		for _, streams := range []bool{false, true} {
			t.Run(about, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r, fakes := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(n int, _ *llm.Request) (*llm.Answer, error) {
						if err := c.next(n); err != nil {
							return nil, err
						}
						return text("pong")
					}}, "fast openai:gpt-5-mini price=1/10")
					q := ask("hi")
					var tell func(llm.Delta) error
					if streams {
						q.Streams, tell = true, func(llm.Delta) error { return nil }
						fakes["openai"].bits = func(int, func(llm.Delta) error) error { return nil }
					}
					begun := time.Now()
					rounds, res, used, err := requeued(t, r, q, tell)
					took := time.Since(begun)
					if agentkernel.CodeOf(err) != c.code || err == nil && res.Text() != "pong" {
						t.Errorf("%v", err)
					}
					if e := agentkernel.AsError(err, "", ""); err != nil && !strings.Contains(e.Error()+" "+e.Hint, c.says) {
						t.Errorf("%v (%s), want %q", e, e.Hint, c.says)
					}
					if c.took > 0 && (took < c.took-2*time.Second || took > c.took+time.Second) || c.rounds > 0 && rounds != c.rounds {
						t.Errorf("it took %s and %d rounds, want %s and %d", took, rounds, c.took, c.rounds)
					}
					if err != nil && c.used == nil && about != "lost, and then refused" && len(used) > 0 || err != nil && c.used != nil && used[agentkernel.AmountUSD] > 0 {
						t.Errorf("it has used %v", used)
					}
					if answer := (agentkernel.Amounts{"input": 1000, "cached": 2000, "output": 100, "reasoning": 100, "tokens": 3200, "model openai:gpt-5-mini": 1,
						"usd": 1000*1000 + 2000*1000 + 200*10_000}); err == nil && !maps.Equal(used, answer.Plus(c.used)) {
						t.Errorf("it has used %v", used)
					}
					if p, err := r.Plan(q); err != nil || p.Waiting() != "" {
						t.Errorf("it is remembered: %q, %v", p.Waiting(), err)
					}
				})
			})
		}
	}
}

// TestAQueryThatIsPlannedAnew: until the next try whoever looks is told why there is no answer, and nothing is remembered of a query that is left.
func TestAQueryThatIsPlannedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(int, *llm.Request) (*llm.Answer, error) {
			return nil, &llm.Error{Kind: llm.RateLimited, Status: 429, Sent: true, RetryAfter: time.Minute, Message: "too many"}
		}}, "fast openai:gpt-5-mini")
		q := ask("hi")
		q.ID, q.Requeues = "1/1", true
		first, err := r.Plan(q)
		if err != nil || !first.Ready() {
			t.Fatal(err)
		}
		if _, _, err := first.Ask(t.Context(), nil); !errors.Is(err, llm.ErrWaits) {
			t.Fatal(err)
		}
		second, err := r.Plan(q)
		if err != nil || second.Ready() {
			t.Fatalf("its turn comes at once, or %v", err)
		}
		first.Drop() // which comes late
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- second.Wait(ctx) }()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if text := second.Waiting(); !strings.HasPrefix(text, "no answer yet, HTTP 429: too many, tried once, queued 11.0 s: Retry-After of key ") {
			t.Errorf("it says %q", text)
		}
		cancel()
		if err := <-done; agentkernel.CodeOf(err) != agentkernel.CodeCanceled {
			t.Error(err)
		}
		second.Drop()
		if text := second.Waiting(); text != "" {
			t.Errorf("it is remembered: %q", text)
		}
	})
}

// TestARefusedQueryKeepsItsPlace: by its age it goes before those that were asked after it, however long it had waited before it was sent.
func TestARefusedQueryKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		r, _ := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(n int, q *llm.Request) (*llm.Answer, error) {
			order = append(order, q.Messages[0].Parts[0].Text)
			if n == 2 {
				return nil, &llm.Error{Kind: llm.RateLimited, Status: 429, Sent: true, RetryAfter: time.Minute, Message: "too many"}
			}
			return text("pong")
		}}, "fast openai:gpt-5-mini concurrent=1")
		var all sync.WaitGroup
		for _, name := range []string{"first", "old", "young", "younger"} {
			all.Go(func() {
				if _, _, _, err := requeued(t, r, ask(name), nil); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(100 * time.Millisecond)
		}
		all.Wait()
		if want := []string{"first", "old", "old", "young", "younger"}; !slices.Equal(order, want) {
			t.Errorf("they were sent in the order %v, want %v", order, want)
		}
	})
}

// TestOneRefusal: one 429, of which the server says nothing more, does not hold a few programs for minutes: it may mean anything.
func TestOneRefusal(t *testing.T) {
	for _, programs := range []int{1, 2, 5} {
		for _, warm := range []int{0, 3} {
			synctest.Test(t, func(t *testing.T) {
				r, _ := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(n int, _ *llm.Request) (*llm.Answer, error) {
					if n == warm+1 {
						return nil, &llm.Error{Kind: llm.RateLimited, Status: 429, Sent: true, Message: "too many"}
					}
					a, err := text("pong")
					a.Usage = llm.Usage{Input: 100, Output: 100}
					return a, err
				}}, "fast openai:gpt-5-mini")
				asks := func(name string, n int) {
					for i := range n {
						if _, _, _, err := requeued(t, r, ask(fmt.Sprint(strings.Repeat("word ", 80), name, i)), nil); err != nil {
							t.Error(err)
						}
					}
				}
				asks("before", warm)
				begun := time.Now()
				var all sync.WaitGroup
				for i := range programs {
					all.Go(func() { asks(fmt.Sprint("program ", i, " "), 10) })
				}
				all.Wait()
				if took := time.Since(begun); took > 85*time.Second {
					t.Errorf("%d programs with ten questions each took %s, after %d answers", programs, took, warm)
				}
			})
		}
	}
}
