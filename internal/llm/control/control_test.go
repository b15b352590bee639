package control_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/control"
	"agentkernel/internal/sched/traffic"
)

// one is a configuration of one deployment, under the alias "m".
func one(limits traffic.Limits, traits llm.Traits) control.Config {
	return control.Config{
		Deployments: []control.Deployment{{Name: "d", Key: "a", Family: "f", Model: "m", Traits: traits, Limits: limits}},
		Aliases:     []control.Alias{{Name: "m", Deployments: []string{"d"}}},
	}
}

// two is one of two deployments with a key each, and "n" behind it with a third.
func two() control.Config {
	return control.Config{
		Deployments: []control.Deployment{{Name: "d", Key: "a", Family: "f", Model: "m"}, {Name: "e", Key: "b", Family: "f", Model: "m"}, {Name: "g", Key: "c", Family: "f", Model: "n"}},
		Aliases:     []control.Alias{{Name: "m", Deployments: []string{"d", "e"}, Fallback: []string{"n"}}, {Name: "n", Deployments: []string{"g"}}},
	}
}

func kind(err error) llm.Kind {
	var e *llm.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// answer is a send that takes a while and notes who was sent.
func answer(takes time.Duration, sent func(*control.Ticket)) func(context.Context, *control.Ticket) (*llm.Answer, error) {
	return func(ctx context.Context, t *control.Ticket) (*llm.Answer, error) {
		sent(t)
		if err := sleep(ctx, takes); err != nil {
			return nil, err
		}
		return &llm.Answer{Usage: llm.Usage{Input: 100, Output: 10}}, nil
	}
}

// TestWhyThereIsNoAnswer: while a call is sent again and again, whoever looks is told why, how often, and when the next time is.
func TestWhyThereIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := one(traffic.Limits{}, llm.Traits{})
		cfg.Retry, cfg.Rand = control.Retry{Base: 4 * time.Second, Most: 8 * time.Second}, func() float64 { return 1 }
		c := newControl(t, cfg)
		explained := func(want string) {
			t.Helper()
			synctest.Wait()
			if text, ok := c.Explain("x"); text != want || ok != (want != "") {
				t.Errorf("%v: %q, want %q", ok, text, want)
			}
		}
		n := 0
		var done sync.WaitGroup
		done.Go(func() {
			_, err := do(t.Context(), c, control.Call{ID: "x", Alias: "m", Namespace: "n"}, func(ctx context.Context, _ *control.Ticket) (*llm.Answer, error) {
				if n++; n == 3 {
					return &llm.Answer{}, sleep(ctx, 5*time.Second)
				}
				return nil, &llm.Error{Kind: llm.Network, Message: "dial tcp: it is not there", Err: &os.SyscallError{Syscall: "connect", Err: syscall.ECONNREFUSED}}
			})
			if err != nil {
				t.Error(err)
			}
		})
		explained("no answer yet, connection refused, tried once, again in 2.0 s")
		time.Sleep(2500 * time.Millisecond)
		explained("no answer yet, connection refused, tried 2 times, again in 1.5 s")
		time.Sleep(3 * time.Second)
		explained("no answer yet, connection refused, tried 2 times, asked again 1.5 s ago")
		done.Wait()
		explained("")
	})
}

// TestNothingListens: a call tries an address where nothing listens as often as it takes, every two seconds, for as long as it is sent
// again at all: that costs nothing, and who waits alone is who tries.
func TestNothingListens(t *testing.T) {
	for back, works := range map[time.Duration]bool{time.Minute: true, 9 * time.Minute: true, 11 * time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			cfg := one(traffic.Limits{}, llm.Traits{})
			cfg.Rand = func() float64 { return 1 }
			c := newControl(t, cfg)
			begun := time.Now()
			_, err := do(t.Context(), c, control.Call{ID: "x", Alias: "m", Namespace: "n"}, func(context.Context, *control.Ticket) (*llm.Answer, error) {
				if time.Since(begun) >= back {
					return &llm.Answer{}, nil
				}
				return nil, &llm.Error{Kind: llm.Network, Err: &os.SyscallError{Syscall: "connect", Err: syscall.ECONNREFUSED}}
			})
			if took := time.Since(begun); (err == nil) != works || works && took > back+3*time.Second || !works && took > 10*time.Minute+3*time.Second {
				t.Errorf("back after %s: %v after %s", back, err, took)
			}
		})
	}
}

// TestAcquireNow: a call gets what is free, before nobody who waits, and nothing is left behind where it gets nothing.
func TestAcquireNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newControl(t, one(traffic.Limits{Concurrency: 1}, llm.Traits{CancelFree: true}))
		call := control.Call{ID: "x", Alias: "m", Namespace: "n", Restartable: true}
		if c.AcquireNow(control.Call{Alias: "none"}) != nil {
			t.Error("there is no such model")
		}
		first := c.AcquireNow(call)
		if first == nil || first.Deployment().Name != "d" {
			t.Fatalf("%+v", first)
		}
		urgent := call
		urgent.Priority = -1000
		if c.AcquireNow(urgent) != nil || c.Snapshot().Keys[0].Queued != 0 {
			t.Errorf("more than one goes, or waits: %+v", c.Snapshot())
		}
		var waited *control.Ticket
		var all sync.WaitGroup
		all.Go(func() {
			var err error
			if waited, err = c.Acquire(t.Context(), call); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if c.AcquireNow(urgent) != nil {
			t.Error("it goes before one that waits")
		}
		first.Done(&llm.Usage{Input: 1}, nil)
		all.Wait()
		waited.Drop()
		if again := c.AcquireNow(call); again == nil {
			t.Error("what was given back is not there")
		} else {
			again.Drop()
		}
		c.Close()
		if c.AcquireNow(call) != nil {
			t.Error("it goes although the controller is closed")
		}
	})
}

// TestARefusedConnectionIsTriedAgainSoon: to ask a server that is not there costs nothing, and it may be started at any moment.
func TestARefusedConnectionIsTriedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := one(traffic.Limits{}, llm.Traits{})
		cfg.Retry = control.Retry{Attempts: 1}
		c := newControl(t, cfg)
		ask := func(err error) error {
			_, err = do(t.Context(), c, control.Call{Alias: "m", Namespace: "n"}, func(context.Context, *control.Ticket) (*llm.Answer, error) { return &llm.Answer{}, err })
			return err
		}
		at := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7779}, Err: &os.SyscallError{Syscall: "connect", Err: syscall.ECONNREFUSED}}
		down := &llm.Error{Kind: llm.Network, Message: "dial tcp: it is not there", Err: at}
		if got := down.Brief(); got != "connection refused (127.0.0.1:7779)" {
			t.Error(got)
		}
		for range 12 { // the pauses do not grow
			_ = ask(down)
		}
		begun := time.Now()
		if err := ask(nil); err != nil || time.Since(begun) > 2*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}

// TestUrgent: something urgent is next, though the queue is full.
func TestUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newControl(t, one(traffic.Limits{Concurrency: 1}, llm.Traits{}))
		var sent []string
		var all sync.WaitGroup
		do := func(id string, priority int) {
			all.Go(func() {
				_, err := do(t.Context(), c, control.Call{ID: id, Alias: "m", Namespace: id, Priority: priority}, answer(time.Second, func(*control.Ticket) { sent = append(sent, id) }))
				if err != nil {
					t.Errorf("%s: %v", id, err)
				}
			})
			synctest.Wait()
		}
		for i := range 50 {
			do(fmt.Sprint(i), 10)
		}
		time.Sleep(2500 * time.Millisecond)
		do("urgent", 1)
		if text, ok := c.Explain("49"); !ok || text != "queued 2.5 s: calls at one moment of key a, 47 ahead" {
			t.Errorf("%v: %q", ok, text)
		}
		if text, ok := c.Explain("0"); ok {
			t.Errorf("one that was sent waits: %q", text)
		}
		all.Wait()
		if i := slices.Index(sent, "urgent"); i != 3 || len(sent) != 51 {
			t.Errorf("it was number %d of %d", i, len(sent))
		}
	})
}

// TestCancelled: a call that is cancelled leaves the queue at once, was not sent, and those behind it move up.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newControl(t, one(traffic.Limits{Requests: minute(60)}, llm.Traits{}))
		for range 60 {
			ticket, err := c.Acquire(t.Context(), control.Call{Alias: "m"})
			if err != nil {
				t.Fatal(err)
			}
			ticket.Done(&llm.Usage{}, nil)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error)
		go func() {
			_, err := c.Acquire(ctx, control.Call{Alias: "m", Priority: 1})
			failed <- err
		}()
		synctest.Wait()
		began := time.Now()
		next := make(chan time.Duration)
		go func() {
			ticket, err := c.Acquire(t.Context(), control.Call{Alias: "m", Priority: 10})
			if err != nil {
				t.Error(err)
			} else {
				ticket.Done(&llm.Usage{}, nil)
			}
			next <- time.Since(began)
		}()
		synctest.Wait()
		if n := c.Snapshot().Keys[0].Queued; n != 2 {
			t.Errorf("%d wait", n)
		}
		why := errors.New("not wanted")
		cancel(why)
		var e *llm.Error
		if err := <-failed; !errors.As(err, &e) || e.Kind != llm.Canceled || e.Sent || !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
		if n := c.Snapshot().Keys[0].Queued; n != 1 {
			t.Errorf("%d wait", n)
		}
		if took := <-next; took > 1100*time.Millisecond {
			t.Errorf("the one behind it has waited for %s", took)
		}
	})
}

// TestTicket: a ticket is ended once; one that is dropped has cost nothing.
func TestTicket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newControl(t, one(traffic.Limits{Requests: minute(60), Tokens: minute(10_000)}, llm.Traits{}))
		left := func() string {
			s := c.Snapshot().Keys[0]
			return fmt.Sprintf("%.3f %.3f %d", s.Limits[0].Left, s.Limits[1].Left, s.Running)
		}
		before := left()
		for range 500 {
			ticket, err := c.Acquire(t.Context(), control.Call{Alias: "m", Content: traffic.Content{Text: 4000}, MaxTokens: 1000})
			if err != nil {
				t.Fatal(err)
			}
			if x := ticket.Expected(); x.Input < 2000 || x.Output != 1000 {
				t.Fatalf("it is expected to use %+v", x)
			}
			ticket.Drop()
			ticket.Done(&llm.Usage{Input: 5000}, nil)
			ticket.Head(llm.Head{Limits: []llm.Limit{{What: llm.LimitRequests, Limit: 1}}})
		}
		if after := left(); after != before {
			t.Errorf("%s, before: %s", after, before)
		}
		if _, err := c.Acquire(t.Context(), control.Call{Alias: "x"}); kind(err) != llm.NoModel {
			t.Errorf("an unknown model: %v", err)
		}
	})
}

// TestRetryAfter: when a server wants to be left alone, nobody sends anything.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newControl(t, one(traffic.Limits{Concurrency: 4}, llm.Traits{}))
		refused := time.Now().Add(3500 * time.Millisecond)
		var sent atomic.Int64
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				_, err := do(t.Context(), c, control.Call{ID: "x", Alias: "m"}, func(ctx context.Context, ticket *control.Ticket) (*llm.Answer, error) {
					if now := time.Now(); now.After(refused) && now.Before(refused.Add(7*time.Second)) {
						t.Errorf("one is sent %s after the refusal", now.Sub(refused))
					}
					if sent.Add(1) == 15 {
						time.Sleep(time.Until(refused))
						return nil, &llm.Error{Kind: llm.RateLimited, Status: 429, RetryAfter: 7 * time.Second}
					}
					return answer(time.Second, func(*control.Ticket) {})(ctx, ticket)
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if text, _ := c.Explain("x"); !strings.Contains(text, "Retry-After of key a") {
			t.Errorf("it says %q", text)
		}
		all.Wait()
		if n := sent.Load(); n != 21 {
			t.Errorf("%d were sent", n)
		}
	})
}

// TestAbsurdUsage: limits that are found out by a refusal are numbers of tokens that calls can have, whatever the server of another alias under the
// same key says that it has used.
func TestAbsurdUsage(t *testing.T) {
	for _, u := range []llm.Usage{{Input: math.MaxInt64, Output: math.MaxInt64}, {Input: 1 << 62, CacheRead: 1 << 62, Output: 1 << 62, Reasoning: 1 << 62}, {CacheRead: 1 << 61, Output: -5}} {
		synctest.Test(t, func(t *testing.T) { absurdUsage(t, u) })
	}
}

func absurdUsage(t *testing.T, u llm.Usage) {
	c := newControl(t, control.Config{
		Deployments: []control.Deployment{{Name: "d", Key: "a", Family: "f", Model: "m"}, {Name: "e", Key: "a", Family: "f", Model: "n"}},
		Aliases:     []control.Alias{{Name: "m", Deployments: []string{"d"}}, {Name: "n", Deployments: []string{"e"}}},
	})
	call := func(alias string, fails error, used llm.Usage) {
		_, err := do(t.Context(), c, control.Call{Alias: alias, Content: traffic.Content{Text: 100}}, func(context.Context, *control.Ticket) (*llm.Answer, error) {
			failed := fails
			fails = nil
			return &llm.Answer{Usage: used}, failed
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	call("m", nil, u)
	call("n", &llm.Error{Kind: llm.RateLimited, Status: 429, RetryAfter: time.Second}, llm.Usage{Input: 100, Output: 10})
	call("n", nil, llm.Usage{Input: 100, Output: 10})
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("%+v: the calls took %s", u, took)
	}
	for _, l := range c.Snapshot().Keys[0].Limits {
		if per := l.Pace * l.Period.Seconds(); per < 0 || per > 10e6 || l.Left > 10e6 {
			t.Errorf("%+v: the limit of %s is %g in %s, %g are left", u, l.What, per, l.Period, l.Left)
		}
	}
}

// TestRetryAfterOfAnyFailure: whatever the server calls its failure, what it says of when to ask again holds, for all calls of the key.
func TestRetryAfterOfAnyFailure(t *testing.T) {
	for _, e := range []llm.Error{
		{Kind: llm.RateLimited, Status: 429, Sent: true}, {Kind: llm.Overloaded, Status: 503, Sent: true}, {Kind: llm.Server, Status: 500, Sent: true}, {Kind: llm.Timeout, Status: 504},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newControl(t, one(traffic.Limits{Concurrency: 1}, llm.Traits{}))
			began, n := time.Now(), 0
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() {
					_, err := do(t.Context(), c, control.Call{Alias: "m"}, func(context.Context, *control.Ticket) (*llm.Answer, error) {
						if n++; n == 1 {
							failed := e
							failed.RetryAfter = 40 * time.Second
							return nil, &failed
						}
						if waited := time.Since(began); waited < 40*time.Second || waited > 41*time.Second {
							t.Errorf("%s: one was sent %s after it", e.Kind, waited)
						}
						return &llm.Answer{}, nil
					})
					if err != nil {
						t.Errorf("%s: %v", e.Kind, err)
					}
				})
			}
			all.Wait()
		})
	}
}

// TestRetries: what may be sent again is, so often and for so long as is said, with pauses that grow and are random; nothing else is.
func TestRetries(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		sent int
		most time.Duration
	}{
		{"server", &llm.Error{Kind: llm.Server, Status: 500, Sent: true}, 4, 7 * time.Second},
		{"network", &llm.Error{Kind: llm.Network}, 4, 7 * time.Second},
		{"half an answer", &llm.Error{Kind: llm.Network, Sent: true, Began: true}, 1, 0},
		{"a bad request", &llm.Error{Kind: llm.Invalid, Status: 400, Sent: true}, 1, 0},
		{"a wrong key, and no other", &llm.Error{Kind: llm.Auth, Status: 401, Sent: true}, 1, 0},
		{"no money", &llm.Error{Kind: llm.Quota, Status: 429, Sent: true}, 1, 0},
		{"refusals", &llm.Error{Kind: llm.RateLimited, Status: 429, Sent: true}, control.MostRefusals, time.Hour},
		{"what may have cost", &llm.Error{Kind: llm.Malformed, Status: 200, Sent: true}, control.MostPaid + 1, 7 * time.Second},
		{"what has cost", &llm.Error{Kind: llm.Overloaded, Status: 529, Sent: true, Usage: &llm.Usage{Input: 10}}, control.MostPaid + 1, 7 * time.Second},
		{"an error of the caller's", errors.New("mine"), 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := one(traffic.Limits{}, llm.Traits{})
				cfg.Retry = control.Retry{Attempts: 4, Base: time.Second, Time: time.Hour}
				cfg.Breaker.Failures = 100
				c := newControl(t, cfg)
				sent := 0
				began := time.Now()
				_, err := do(t.Context(), c, control.Call{Alias: "m"}, func(context.Context, *control.Ticket) (*llm.Answer, error) {
					sent++
					return nil, test.err
				})
				if !errors.Is(err, test.err) || sent != test.sent {
					t.Errorf("%d were sent, want %d: %v", sent, test.sent, err)
				}
				if took := time.Since(began); took > test.most {
					t.Errorf("it took %s, at most %s", took, test.most)
				}
				if n := c.Snapshot().Keys[0].Running; n != 0 {
					t.Errorf("%d are under way", n)
				}
			})
		})
	}
}

// TestRetriesEnd: after the time that is said, nothing is sent again.
func TestRetriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := one(traffic.Limits{}, llm.Traits{})
		cfg.Retry = control.Retry{Attempts: 1000, Time: time.Minute}
		c := newControl(t, cfg)
		began := time.Now()
		_, err := do(t.Context(), c, control.Call{Alias: "m"}, func(ctx context.Context, _ *control.Ticket) (*llm.Answer, error) {
			return nil, cmpErr(sleep(ctx, 7*time.Second), &llm.Error{Kind: llm.Server, Status: 500, Sent: true})
		})
		if took := time.Since(began); kind(err) != llm.Server || took < time.Minute || took > 3*time.Minute {
			t.Errorf("it took %s: %v", took, err)
		}
	})
}

// TestCancelledBetweenAttempts: the error says that the call is not wanted any more, and whether an attempt may have cost something.
func TestCancelledBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := one(traffic.Limits{}, llm.Traits{})
		cfg.Retry.Base, cfg.Retry.Most = time.Hour, time.Hour
		c := newControl(t, cfg)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		_, err := do(ctx, c, control.Call{Alias: "m"}, func(context.Context, *control.Ticket) (*llm.Answer, error) {
			return nil, &llm.Error{Kind: llm.Timeout, Sent: true}
		})
		var e *llm.Error
		if !errors.As(err, &e) || e.Kind != llm.Canceled || !e.Sent || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 10*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

func cmpErr(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// TestDown: a server that is down for a minute gets few requests in that time, one at a time once that is known, and nobody
// hears of it.
func TestDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		up := began.Add(time.Minute)
		p := &provider{limits: [4]float64{requests: 6000}, takes: [2]time.Duration{time.Second, 2 * time.Second}, down: func(now time.Time) bool { return now.Before(up) }}
		p.start()
		c := newControl(t, one(traffic.Limits{}, llm.Traits{}))
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				_, err := do(t.Context(), c, control.Call{ID: fmt.Sprint(i), Alias: "m"}, func(ctx context.Context, ticket *control.Ticket) (*llm.Answer, error) {
					return p.complete(ctx, request{in: 10, out: 10, max: 10}, ticket.Head)
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		says := regexp.MustCompile(`^(queued 30\.0 s: no deployment of model m is up; d: HTTP 503: down, tried again in \d+\.\d s|no answer yet, HTTP 503: down, tried (once|\d+ times), again in \d+\.\d s)$`)
		tried := 0 // those that were sent say what became of it, and no other words while they wait for the deployment
		for i := range 100 {
			text, ok := c.Explain(fmt.Sprint(i))
			if strings.Contains(text, "no answer yet") {
				tried++
			}
			if !ok || !says.MatchString(text) {
				t.Errorf("%d: %q", i, text)
			}
		}
		if tried == 0 || tried == 100 {
			t.Errorf("%d of 100 were sent", tried)
		}
		if d := c.Snapshot().Deployments[0]; d.DownUntil.IsZero() || d.Reason == "" || !d.Since.After(began) || time.Since(d.Since) < 20*time.Second {
			t.Errorf("%+v", d)
		}
		if n := c.Snapshot().Unplaced; n != 100 {
			t.Errorf("%d of 100 wait until it is up", n)
		}
		p.mu.Lock()
		asked := p.asked
		p.mu.Unlock()
		if asked > 20 {
			t.Errorf("%d requests in half a minute", asked)
		}
		all.Wait()
		if took := time.Since(up); took > time.Minute+30*time.Second {
			t.Errorf("it took until %s after it was up", took)
		}
		if d := c.Snapshot().Deployments[0]; !d.DownUntil.IsZero() || d.Reason != "" || d.Failures != 0 || d.Since.Before(up) || d.Since.After(up.Add(time.Minute)) {
			t.Errorf("%+v", d)
		}
	})
}

// TestProbe: the head of an answer shows that a deployment is up; nobody waits for the rest of it.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newControl(t, one(traffic.Limits{}, llm.Traits{}))
		for range 5 {
			ticket, err := c.Acquire(t.Context(), control.Call{Alias: "m"})
			if err != nil {
				t.Fatal(err)
			}
			ticket.Done(nil, &llm.Error{Kind: llm.Network})
		}
		began := time.Now()
		probe, err := c.Acquire(t.Context(), control.Call{Alias: "m"})
		if took := time.Since(began); err != nil || took < 4*time.Second {
			t.Fatalf("it was left alone for %s: %v", took, err)
		}
		sent := make(chan *control.Ticket)
		go func() {
			ticket, err := c.Acquire(t.Context(), control.Call{Alias: "m"})
			if err != nil {
				t.Error(err)
			}
			sent <- ticket
		}()
		time.Sleep(time.Minute)
		select {
		case <-sent:
			t.Error("a second one tries it")
		default:
		}
		probe.Head(llm.Head{Status: 200})
		(<-sent).Done(&llm.Usage{}, nil)
		probe.Done(&llm.Usage{}, nil)
	})
}

// TestFallback: where a deployment cannot be had, another is tried, and then another model; and the first one again when it is back.
func TestFallback(t *testing.T) {
	for _, test := range []struct {
		name string
		bad  map[string]error
		want string // where it is answered
	}{
		{"all is well", nil, "d"},
		{"a wrong key", map[string]error{"d": &llm.Error{Kind: llm.Auth, Status: 401, Sent: true}}, "e"},
		{"no money, and down", map[string]error{"d": &llm.Error{Kind: llm.Quota, Status: 429, Sent: true}, "e": &llm.Error{Kind: llm.Server, Status: 500, Sent: true}}, "g"},
		{"both are down", map[string]error{"d": &llm.Error{Kind: llm.Network}, "e": &llm.Error{Kind: llm.Overloaded, Status: 529}}, "g"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newControl(t, two())
				var sent []string
				send := func(ctx context.Context, ticket *control.Ticket) (*llm.Answer, error) {
					name := ticket.Deployment().Name
					sent = append(sent, name)
					if err := test.bad[name]; err != nil {
						return nil, err
					}
					return &llm.Answer{}, nil
				}
				for range 10 {
					if _, err := do(t.Context(), c, control.Call{Alias: "m"}, send); err != nil {
						t.Fatal(err)
					}
					if last := sent[len(sent)-1]; last != test.want {
						t.Errorf("it was answered by %s: %v", last, sent)
					}
				}
				if len(sent) > 10+2*5 {
					t.Errorf("%d were sent: %v", len(sent), sent)
				}
				test.bad = nil
				time.Sleep(5 * time.Minute)
				if _, err := do(t.Context(), c, control.Call{Alias: "m"}, send); err != nil || sent[len(sent)-1] == "g" {
					t.Errorf("%v: %v", sent, err)
				}
			})
		})
	}
}

// TestNoneLeft: where every deployment refuses the key, the caller hears so.
func TestNoneLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newControl(t, two())
		for range 3 {
			sent := 0
			_, err := do(t.Context(), c, control.Call{Alias: "m"}, func(context.Context, *control.Ticket) (*llm.Answer, error) {
				sent++
				return nil, &llm.Error{Kind: llm.Auth, Status: 401, Sent: true}
			})
			if kind(err) != llm.Auth || sent != 3 {
				t.Errorf("%d were sent: %v", sent, err)
			}
		}
	})
}

// TestAffinity: a conversation stays where it is, unless it would have to wait for long; others go where they wait least.
func TestAffinity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := two()
		for i := range cfg.Deployments {
			cfg.Deployments[i].Limits.Requests = minute(60)
		}
		c := newControl(t, cfg)
		call := func(conversation string) string {
			ticket, err := c.Acquire(t.Context(), control.Call{Alias: "m", Conversation: conversation})
			if err != nil {
				t.Fatal(err)
			}
			ticket.Done(&llm.Usage{Input: 1}, nil)
			return ticket.Deployment().Name
		}
		first := call("c")
		for range 30 {
			if at := call("c"); at != first {
				t.Fatalf("it moves from %s to %s", first, at)
			}
		}
		ticket, err := c.Acquire(t.Context(), control.Call{Alias: "m", Conversation: "c"})
		if err != nil {
			t.Fatal(err)
		}
		ticket.Done(nil, &llm.Error{Kind: llm.RateLimited, Status: 429, RetryAfter: time.Minute})
		if at := call("c"); at == first {
			t.Error("it waits for a minute")
		}
	})
}

// TestPreempt: where cancelling is free, something urgent gets the place of what nobody has seen yet, which is answered later; where it is
// not, it waits.
func TestPreempt(t *testing.T) {
	for _, free := range []bool{true, false} {
		t.Run(fmt.Sprint("free ", free), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newControl(t, one(traffic.Limits{Concurrency: 2}, llm.Traits{CancelFree: free}))
				var mu sync.Mutex
				sent := map[string]int{}
				ended := map[string]time.Duration{}
				began := time.Now()
				var all sync.WaitGroup
				do := func(name string, priority int, restartable bool) {
					all.Go(func() {
						_, err := do(t.Context(), c, control.Call{Alias: "m", Priority: priority, Restartable: restartable}, answer(10*time.Second, func(*control.Ticket) {
							mu.Lock()
							defer mu.Unlock()
							sent[name]++
						}))
						if err != nil {
							t.Errorf("%s: %v", name, err)
						}
						mu.Lock()
						defer mu.Unlock()
						ended[name] = time.Since(began)
					})
					synctest.Wait()
				}
				do("seen", 20, false)
				do("idle", 20, true)
				time.Sleep(2 * time.Second)
				do("urgent", 1, true)
				do("urgent, too", 1, true)
				all.Wait()
				want := "map[idle:1 seen:1 urgent:1 urgent, too:1] map[idle:10s seen:10s urgent:20s urgent, too:20s]"
				if free {
					want = "map[idle:2 seen:1 urgent:1 urgent, too:1] map[idle:22s seen:10s urgent:12s urgent, too:20s]"
				}
				if got := fmt.Sprint(sent, ended); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			})
		})
	}
}

// TestTheTimeOfACall: what a call takes itself is its time: not what it waits for its turn, nor what others have had of its place.
func TestTheTimeOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newControl(t, one(traffic.Limits{Concurrency: 1}, llm.Traits{CancelFree: true}))
		tries := c.Tries(control.Call{ID: "x", Alias: "m", Priority: 20, Restartable: true, Requeues: true})
		defer tries.End()
		n := 0
		send := func(ctx context.Context, _ *control.Ticket) (*llm.Usage, error) {
			if n++; n == 1 {
				return nil, &llm.Error{Kind: llm.RateLimited, Status: 429, Sent: true, RetryAfter: time.Minute}
			}
			return &llm.Usage{}, sleep(ctx, 10*time.Second)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := tries.Run(ctx, nil, send); !errors.Is(err, control.ErrAgain) || tries.Took() != 0 {
			t.Fatalf("refused: %v after %s", err, tries.Took())
		}
		var urgent sync.WaitGroup
		time.AfterFunc(62*time.Second, func() {
			urgent.Go(func() {
				if _, err := do(t.Context(), c, control.Call{Alias: "m", Priority: 1}, answer(time.Minute, func(*control.Ticket) {})); err != nil {
					t.Error(err)
				}
			})
		})
		if err := tries.Run(t.Context(), nil, send); !errors.Is(err, control.ErrAgain) || tries.Took() != 0 {
			t.Fatalf("preempted: %v after %s", err, tries.Took())
		}
		if times, last := tries.Failed(); times != 1 || last.Kind != llm.RateLimited {
			t.Errorf("it has failed %d times, at last by %v", times, last)
		}
		began := time.Now()
		if err := tries.Run(t.Context(), nil, send); err != nil || tries.Took() != 10*time.Second || time.Since(began) < time.Minute {
			t.Errorf("%v: it has taken %s of %s", err, tries.Took(), time.Since(began))
		}
		urgent.Wait()
	})
}

// TestClose: who waits is told; who is under way may end.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newControl(t, one(traffic.Limits{Concurrency: 1}, llm.Traits{}))
		ticket, err := c.Acquire(t.Context(), control.Call{Alias: "m"})
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error)
		go func() {
			_, err := c.Acquire(t.Context(), control.Call{Alias: "m"})
			failed <- err
		}()
		synctest.Wait()
		c.Close()
		if err := <-failed; !errors.Is(err, control.ErrClosed) {
			t.Errorf("got %v", err)
		}
		ticket.Done(&llm.Usage{}, nil)
		if _, err := c.Acquire(t.Context(), control.Call{Alias: "m"}); !errors.Is(err, control.ErrClosed) {
			t.Errorf("got %v", err)
		}
		if n := c.Snapshot().Keys[0].Running; n != 0 {
			t.Errorf("%d are under way", n)
		}
	})
}

// TestOneTimer: however many wait, and for whatever, there is one timer.
func TestOneTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := one(traffic.Limits{Requests: minute(600)}, llm.Traits{})
		var mu sync.Mutex
		set, most := map[*bool]bool{}, 0
		cfg.Clock.After = func(d time.Duration, f func()) func() bool {
			mu.Lock()
			defer mu.Unlock()
			id := new(bool)
			set[id] = true
			most = max(most, len(set))
			unset := func() {
				mu.Lock()
				defer mu.Unlock()
				delete(set, id)
			}
			timer := time.AfterFunc(d, func() {
				unset()
				f()
			})
			return func() bool {
				unset()
				return timer.Stop()
			}
		}
		c := newControl(t, cfg)
		var all sync.WaitGroup
		for i := range 2000 {
			all.Go(func() {
				failed := false
				_, err := do(t.Context(), c, control.Call{Alias: "m"}, func(ctx context.Context, ticket *control.Ticket) (*llm.Answer, error) {
					if i%50 == 0 && !failed { // they wait for their pauses
						failed = true
						return nil, &llm.Error{Kind: llm.Server, Status: 500, Sent: true}
					}
					return answer(time.Second, func(*control.Ticket) {})(ctx, ticket)
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most != 1 || len(set) != 0 {
			t.Errorf("%d timers were set at one moment, and %d are at the end", most, len(set))
		}
	})
}

// TestValidate: a configuration that makes no sense is refused with the reason.
func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*control.Config){
		`deployment "": a name, a key and a family are needed`: func(c *control.Config) { c.Deployments[0].Name = "" },
		`deployment "d" is there twice`:                        func(c *control.Config) { c.Deployments[1].Name = "d" },
		`model "m" has no deployment`:                          func(c *control.Config) { c.Aliases[0].Deployments = nil },
		`model "m": there is no deployment "x"`:                func(c *control.Config) { c.Aliases[0].Deployments = []string{"x"} },
		`model "n" is there twice`:                             func(c *control.Config) { c.Aliases[0].Name = "n" },
		`reserved shares: 1.5 of namespace "x" is not possible; they are from 0 to 1, and 1 together at most`: func(c *control.Config) { c.Reserved = map[string]float64{"x": 1.5} },
		`model "m" cannot fall back to "m"`: func(c *control.Config) { c.Aliases[0].Fallback = []string{"m"} },
	} {
		cfg := two()
		change(&cfg)
		if _, err := control.New(cfg); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
