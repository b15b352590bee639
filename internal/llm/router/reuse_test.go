package router_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/llm"
	"agentkernel/internal/llm/router"
)

// again asks something whose answer may be as old as a minute.
func again(prompt string, change ...func(*llm.Query)) *llm.Query {
	q := ask(prompt)
	q.Reuse = time.Minute
	for _, c := range change {
		c(q)
	}
	return q
}

// counted answers with how often it was asked, after a second.
func counted(n int, _ *llm.Request) (*llm.Answer, error) { return text(fmt.Sprint(n)) }

// TestReuse: the same question of the same namespace is answered from memory for as long as its asker allows. That reserves, uses and
// costs nothing, and takes no time.
func TestReuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0 // of all deployments
		r, _ := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(int, *llm.Request) (*llm.Answer, error) {
			asked++
			return text(fmt.Sprint(asked))
		}},
			"fast openai:gpt-5-mini price=1/10 rpm=100 concurrent=1", "other openai:gpt-5-mini", "odd openai:nobody-knows")
		said := func(q *llm.Query) string {
			t.Helper()
			began := time.Now()
			p, err := r.Plan(q)
			if err != nil {
				t.Fatal(err)
			}
			reserved := p.Reserve()
			if err := p.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			res, used, err := p.Ask(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			if res.Reused && (len(reserved) != 1 || reserved.Model() == "" || used == nil || len(used) != 0 || *res.Cost != 0 || res.Usage.Inputs()+res.Usage.Outputs() != 0 || took != 0 || p.Waiting() != "") {
				t.Errorf("given again after %s: reserved %v, used %v, %+v", took, reserved, used, res)
			}
			if !res.Reused && (reserved[agentkernel.AmountTokens] == 0 || used[agentkernel.AmountTokens] == 0 || took < time.Second) {
				t.Errorf("asked: reserved %v, used %v, %+v", reserved, used, res)
			}
			return fmt.Sprint(res.Text(), " ", res.Reused)
		}
		for i, c := range []struct {
			q     *llm.Query
			after time.Duration
			want  string
		}{
			{ask("ping"), 0, "1 false"}, // nothing is kept of it
			{again("ping"), 0, "2 false"},
			{again("ping"), 0, "2 true"},
			{again("ping"), 59 * time.Second, "2 true"}, // that makes it no younger
			{again("ping"), 2 * time.Second, "3 false"},
			{again("ping", func(q *llm.Query) { q.Reuse = time.Hour }), 50 * time.Minute, "3 true"},
			{ask("ping"), 0, "4 false"},
			{again("ping!"), 0, "5 false"},
			{again("ping", func(q *llm.Query) { q.Namespace = "m" }), 0, "6 false"},
			{again("ping", func(q *llm.Query) { q.Model = "other" }), 0, "7 false"},
			{again("ping", func(q *llm.Query) { q.Request.MaxTokens = 50 }), 0, "8 false"},
			{again("ping", func(q *llm.Query) { q.Streams = true }), 0, "9 false"},
			{again("ping", func(q *llm.Query) { q.PID, q.Tree, q.Priority, q.Reuse = 7, 7, 1, time.Hour }), 0, "3 true"},
			{again("ping", func(q *llm.Query) { q.Model = "odd" }), 0, "10 false"},
			{again("ping", func(q *llm.Query) { q.Model, q.Bounded = "odd", true }), 0, "10 true"}, // it costs nothing, whatever its price
		} {
			time.Sleep(c.after)
			if got := said(c.q); got != c.want {
				t.Errorf("%d: %s, want %s", i, got, c.want)
			}
		}
		if asked != 10 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// TestReuseWhileItWaits: of ten equal questions of which one may be asked at a time, nine meet the answer to the first when their turn
// comes, and give back what they had reserved. Who was given one holds it, whatever becomes of what is kept.
func TestReuseWhileItWaits(t *testing.T) {
	for range 50 { // who is first is chance
		synctest.Test(t, reuseWhileItWaits)
	}
}

func reuseWhileItWaits(t *testing.T) {
	r, fakes := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": counted}, "fast openai:gpt-5-mini price=1/10 concurrent=1")
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			p, err := r.Plan(again("ping"))
			if err == nil {
				err = p.Wait(t.Context())
			}
			if err != nil {
				t.Error(err)
				return
			}
			reserved := p.Reserve()[agentkernel.AmountUSD]
			if res, used, err := p.Ask(t.Context(), nil); err != nil || res.Text() != "1" || res.Reused != (reserved == 0) || res.Reused != (len(used) == 0) {
				t.Errorf("%+v %v %v", res, used, err)
			}
		})
	}
	began := time.Now()
	all.Wait()
	if took := time.Since(began); took != time.Second || len(fakes["openai"].asked) != 1 {
		t.Errorf("%d requests in %s", len(fakes["openai"].asked), took)
	}
	held, err := r.Plan(again("ping"))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Hour)
	if res, _, err := held.Ask(t.Context(), nil); err != nil || !res.Reused {
		t.Errorf("%+v %v", res, err)
	}
	if k := r.Limits().Keys[0]; k.Running != 0 || k.Queued != 0 {
		t.Errorf("%+v", k)
	}
}

// TestNotReused: an answer that failed, that was cut or refused, or that another model gave is asked for again.
func TestNotReused(t *testing.T) {
	stops := func(stop llm.Stop) func(int, *llm.Request) (*llm.Answer, error) {
		return func(n int, r *llm.Request) (*llm.Answer, error) {
			a, err := counted(n, r)
			a.Stop = stop
			return a, err
		}
	}
	for name, c := range map[string]struct {
		next   func(int, *llm.Request) (*llm.Answer, error)
		schema string
		asked  int
	}{
		"whole":        {stops(llm.StopEnd), "", 1},
		"calls":        {stops(llm.StopToolCalls), "", 1},
		"stopped":      {stops(llm.StopSequence), "", 1},
		"fits":         {stops(llm.StopEnd), `{"type":"integer"}`, 1},
		"cut":          {stops(llm.StopLength), "", 2},
		"refused":      {stops(llm.StopRefusal), "", 2},
		"paused":       {stops(llm.StopPause), "", 2},
		"does not fit": {stops(llm.StopEnd), `{"type":"string"}`, 2},
		"failed": {func(int, *llm.Request) (*llm.Answer, error) {
			return nil, &llm.Error{Kind: llm.Invalid, Status: 400, Sent: true}
		}, "", 2},
		"refused by a key": {func(int, *llm.Request) (*llm.Answer, error) { return nil, &llm.Error{Kind: llm.Auth, Status: 401} }, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				r, _ := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(n int, q *llm.Request) (*llm.Answer, error) {
					asked = n
					return c.next(n, q)
				}}, "fast openai:gpt-5-mini")
				for range 2 {
					_, _, _ = answered(t, r, again("ping", func(q *llm.Query) {
						if c.schema != "" {
							q.Request.Schema = json.RawMessage(c.schema)
						}
					}))
				}
				if asked != c.asked {
					t.Errorf("asked %d times, want %d", asked, c.asked)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r, fakes := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"vllm": counted, "openai": func(int, *llm.Request) (*llm.Answer, error) {
			return nil, &llm.Error{Kind: llm.Auth, Status: 401}
		}}, "fast openai:gpt-5-mini fallback=local", "local vllm:llama url=http://h/v1")
		for _, want := range []string{"1", "2"} {
			if res, _, err := answered(t, r, again("ping")); err != nil || res.Reused || res.Text() != want {
				t.Errorf("of a fallback: %+v %v, want %s", res, err, want)
			}
		}
		if n := len(fakes["vllm"].asked); n != 2 {
			t.Errorf("the fallback was asked %d times", n)
		}
	})
}

// TestVectorsAgain: vectors are kept as answers are, and are no answer to a conversation.
func TestVectorsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := set(t, nil, "embed openai:text-embedding-3-small")
		for i, c := range []struct {
			texts []string
			dims  int
			again bool
		}{{[]string{"a", "b"}, 0, false}, {[]string{"a", "b"}, 0, true}, {[]string{"b", "a"}, 0, false}, {[]string{"ab"}, 0, false}, {[]string{"a", "b"}, 2, false}} {
			q := &llm.Query{Namespace: "n", Reuse: time.Minute, Embed: &llm.EmbedRequest{Texts: c.texts, Dimensions: c.dims}}
			if res, used, err := answered(t, r, q); err != nil || res.Reused != c.again || len(res.Embeddings.Vectors) != len(c.texts) || c.again != (used[agentkernel.AmountTokens] == 0) {
				t.Errorf("%d: %+v %v %v", i, res, used, err)
			}
		}
	})
}

// Several namespaces ask at once, and each gets its own answers.
func TestReuseAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(_ int, q *llm.Request) (*llm.Answer, error) {
			return text(q.Messages[1].Parts[0].Text)
		}}, "fast openai:gpt-5-mini")
		var all sync.WaitGroup
		for i := range 60 {
			namespace := fmt.Sprint("n", i%3)
			all.Go(func() {
				for j := range 5 {
					q := again(fmt.Sprint("question ", j), func(q *llm.Query) {
						q.Namespace = namespace
						q.Request.Messages = append(q.Request.Messages, llm.Message{Role: llm.User, Parts: []llm.Part{{Text: namespace}}})
					})
					if res, err := whole(r, q); err != nil || res.Text() != namespace {
						t.Errorf("%+v %v", res, err)
					}
				}
			})
		}
		all.Wait()
	})
}

// whole plans, waits and asks.
func whole(r *router.Router, q *llm.Query) (*llm.Result, error) {
	p, err := r.Plan(q)
	if err == nil {
		err = p.Wait(context.Background())
	}
	if err != nil {
		return nil, err
	}
	res, _, err := p.Ask(context.Background(), nil)
	return res, err
}
