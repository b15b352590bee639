package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/devllm"
)

var agentsSection = section{
	name: "agents", title: "Fifty agents and one key",
	about: "Each agent asks a model, works for 0.2 s with what it was told, asks again, and in the end for a report of all. All begin at once, with one key, before `devllm` with the profile of OpenAI: it takes `max_tokens` of each request off the " +
		"limit in advance. Peer: clients that retry as the official ones do (two more attempts, `Retry-After` obeyed, else half a second and twice that, with jitter). Use of the limit: what `devllm` charged, of what its limit " +
		"allowed until the last request that was let in: a minute's amount at once, and as much in each minute.",
	run: measureAgents,
}

// agentsKey is the variable in which the kernel finds the key.
const agentsKey = "AGENTKERNEL_BENCH_KEY"

// experiment is what both sides do.
type experiment struct {
	agents, steps int
	maxTokens     int64
	limits        devllm.Limits
}

// agentProgram is an agent as a program of the kernel.
const agentProgram = `from kernel import llm, sleep
notes = []
for step in range(%[2]d):
    notes.append(llm("Agent %[1]d, step " + str(step) + ": what follows from this? " + " ".join(notes[-1:]), max_tokens=%[3]d))
    sleep(0.2)
llm("Agent %[1]d: write a report of this. " + " ".join(notes), max_tokens=%[3]d)
`

func measureAgents(ctx context.Context, b *bench) ([]table, error) {
	x := experiment{agents: b.pick(50, 50, 3), steps: b.pick(6, 5, 1), maxTokens: 200, limits: devllm.Limits{Requests: 500, Total: 60_000}}
	raw, err := x.against(ctx, x.raw)
	if err != nil {
		return nil, err
	}
	b.tell("without the kernel: %s", raw)
	ours, err := x.against(ctx, func(ctx context.Context, url string) (int, error) { return x.kernel(ctx, b, url) })
	if err != nil {
		return nil, err
	}
	b.tell("with the kernel: %s", ours)
	if err := b.draw(x.chart(raw, ours)); err != nil {
		return nil, err
	}
	var rows []row
	for _, r := range []struct {
		what string
		of   func(trial) string
	}{
		{"requests refused with 429", func(t trial) string { return strconv.FormatInt(t.refused, 10) }},
		{"agents that failed, of " + strconv.Itoa(x.agents), func(t trial) string { return strconv.Itoa(t.failed) }},
		{"answers", func(t trial) string { return strconv.FormatInt(t.answers, 10) }},
		{"time to the end", func(t trial) string { return span(t.took) }},
		{"use of the limit", trial.used},
	} {
		rows = append(rows, figure(r.what+", without the kernel", rolePeer, "%s", r.of(raw)), figure(r.what+", with it", roleOurs, "%s", r.of(ours)))
	}
	rows[1].judge("at most 0.5 %", ours.refused*200 <= ours.refused+ours.answers)
	rows[3].judge("none", ours.failed == 0)
	rows[9].judge("at least 97 %", ours.use >= 0.97)
	return []table{{Rows: rows, Notes: []string{fmt.Sprintf("%d agents, %d requests each; the limit: %d requests and %d tokens a minute, in continuous buckets that are full at first",
		x.agents, x.steps+1, x.limits.Requests, x.limits.Total)}}}, nil
}

// trial is how it went.
type trial struct {
	refused, answers int64
	failed           int
	took             time.Duration
	use              float64 // of the limit
	timeline         []answered
}

func (t trial) used() string { return fmt.Sprintf("%.1f %%", 100*t.use) }

func (t trial) String() string {
	return fmt.Sprintf("%d refused, %d agents failed, %s, %s of the limit", t.refused, t.failed, span(t.took), t.used())
}

// against lets all agents run against a provider of its own, and counts at the provider.
func (x *experiment) against(ctx context.Context, run func(ctx context.Context, url string) (failed int, err error)) (t trial, err error) {
	o := devllm.Options{EchoTokens: 60, FirstToken: 300 * time.Millisecond, PerToken: 5 * time.Millisecond}
	o.Profile, _ = devllm.ProfileByName("openai")
	o.Profile.Limits = x.limits
	s, err := devllm.New(o)
	if err != nil {
		return t, err
	}
	web := httptest.NewServer(s)
	defer web.Close()
	begun := time.Now()
	if t.failed, err = run(ctx, web.URL); err != nil {
		return t, err
	}
	t.took = time.Since(begun)
	total := s.Totals(devllm.Filter{})
	t.answers, t.refused = total.Statuses["200"], total.Statuses["429"]
	list := s.Log(devllm.Filter{})
	t.timeline = timeline(list, begun)
	if len(list) == 0 {
		return t, errors.New("the provider was not asked")
	}
	var last time.Time
	for _, e := range list {
		if e.Status == http.StatusOK && e.Time.After(last) {
			last = e.Time
		}
	}
	since := float64(last.Sub(begun)) / float64(time.Minute)
	charged := s.Totals(devllm.Filter{Until: last.Add(1)}).Charged
	t.use = max(float64(charged.Total)/float64(x.limits.Total), float64(charged.Requests)/float64(x.limits.Requests)) / (1 + since)
	return t, nil
}

// kernel runs the agents as processes.
func (x *experiment) kernel(ctx context.Context, b *bench, url string) (failed int, err error) {
	if err := os.Setenv(agentsKey, "sk-bench"); err != nil {
		return 0, err
	}
	defer func() { _ = os.Unsetenv(agentsKey) }()
	k, err := b.open(ctx, embedded.Config{Models: []string{fmt.Sprintf("fast openai:gpt-dev url=%s/v1 key=env:%s rpm=%d tpm=%d", url, agentsKey, x.limits.Requests, x.limits.Total)}})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	var pids []agentkernel.PID
	for i := range x.agents {
		s := python("agent.py", fmt.Sprintf(agentProgram, i, x.steps, x.maxTokens))
		p, err := k.Spawn(ctx, s)
		if err != nil {
			return 0, err
		}
		pids = append(pids, p.PID)
	}
	for _, pid := range pids {
		p, err := k.Wait(ctx, pid)
		if err != nil {
			return 0, err
		}
		if why := finished(p); why != nil {
			b.tell("%v", why)
			failed++
		}
	}
	return failed, nil
}

// raw runs the agents as goroutines with clients of their own.
func (x *experiment) raw(ctx context.Context, url string) (int, error) {
	var failed atomic.Int64
	var all sync.WaitGroup
	for i := range x.agents {
		all.Go(func() {
			if x.rawAgent(ctx, url, i) != nil {
				failed.Add(1)
			}
		})
	}
	all.Wait()
	return int(failed.Load()), ctx.Err()
}

// rawAgent is agentProgram without a kernel.
func (x *experiment) rawAgent(ctx context.Context, url string, i int) error {
	var notes []string
	for step := range x.steps {
		note, err := x.ask(ctx, url, fmt.Sprintf("Agent %d, step %d: what follows from this? %s", i, step, strings.Join(notes[max(0, len(notes)-1):], " ")))
		if err != nil {
			return err
		}
		notes = append(notes, note)
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	_, err := x.ask(ctx, url, fmt.Sprintf("Agent %d: write a report of this. %s", i, strings.Join(notes, " ")))
	return err
}

// ask asks as the official clients of OpenAI do: max_retries=2, Retry-After if it is at most a minute, else 0.5 s, 1 s, up to 8 s, of which
// jitter takes up to a quarter.
func (x *experiment) ask(ctx context.Context, url, prompt string) (string, error) {
	body, err := json.Marshal(map[string]any{"model": "gpt-dev", "max_completion_tokens": x.maxTokens, "messages": []any{map[string]any{"role": "user", "content": prompt}}})
	if err != nil {
		return "", err
	}
	for attempt := 0; ; attempt++ {
		text, wait, err := askOnce(ctx, url, body)
		if err == nil || wait < 0 || attempt == 2 {
			return text, err
		}
		if wait == 0 || wait > time.Minute {
			wait = time.Duration(float64(min(500*time.Millisecond<<attempt, 8*time.Second)) * (1 - rand.Float64()/4)) //nolint:gosec // it spreads attempts in time
		}
		if err := pause(ctx, wait); err != nil {
			return "", err
		}
	}
}

// askOnce sends one request. wait is what the server says of the next attempt; 0: nothing; negative: it makes no sense.
func askOnce(ctx context.Context, url string, body []byte) (text string, wait time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "", -1, err
	}
	req.Header.Set("Authorization", "Bearer sk-bench")
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return "", 0, err
	}
	if res.StatusCode != http.StatusOK {
		wait = -1
		if res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 500 {
			seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
			wait = time.Duration(seconds) * time.Second
		}
		return "", wait, fmt.Errorf("status %d", res.StatusCode)
	}
	var a struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal(raw, &a); err != nil || len(a.Choices) == 0 {
		return "", -1, fmt.Errorf("no answer: %.100s", raw)
	}
	return a.Choices[0].Message.Content, 0, nil
}
