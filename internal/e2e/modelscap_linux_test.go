package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/devllm"
)

// many asks at once.
const many = `
import asyncio
from kernel.aio import llm

async def ask(i):
    return len(await llm("%s, question " + str(i), max_tokens=2000)) > 0

async def main():
    return await asyncio.gather(*[ask(i) for i in range(%d)])

answers = asyncio.run(main())
assert answers == [True] * %d
`

// TestACapOverManyCalls makes a thousand calls at once under a cap that is enough for half of them, by the prices of the provider.
// It charges no more than the cap; the programs stand still, and go on when more is allowed.
func TestACapOverManyCalls(t *testing.T) {
	const (
		processes, each = 20, 50
		most, more      = 5 * agentkernel.USD, 7 * agentkernel.USD
	)
	server, model := devModels(t, func(o *devllm.Options) {
		o.FirstToken = 200 * time.Millisecond // so that many are under way
		o.Script, o.EchoTokens = nil, 1000    // a cent each, and half of what is held for it
		o.Profile.Limits = devllm.Limits{Requests: 100_000, Total: 10_000_000}
	})
	t.Setenv("OPENAI_API_KEY", "sk-made-up")
	k := openEmbedded(t, home(t), func(c *embedded.Config) { c.Models = []string{model} })
	var list []map[string]string
	for i := range processes {
		name := fmt.Sprintf("p%d", i)
		list = append(list, map[string]string{"name": name, "source": fmt.Sprintf(many, name, each, each)})
	}
	s := program(fmt.Sprintf(askers, asJSON(t, list)))
	s.Budget.USD, s.Limits.Processes = most, processes+1
	p, err := k.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	paused := 0
	eventually(t, "each program has ended or stands still", func() bool {
		got, err := k.List(t.Context(), agentkernel.Filter{})
		if err != nil || len(got) != processes+1 {
			return false
		}
		paused = 0
		for _, c := range got {
			if c.Paused {
				paused++
			} else if c.PID != p.PID && !c.State.Terminal() {
				return false
			}
		}
		b, err := k.Budget(t.Context(), p.PID)
		return err == nil && b.Held.USD == 0
	})
	money := func(limit agentkernel.NanoUSD) agentkernel.NanoUSD {
		b, err := k.Budget(t.Context(), p.PID)
		total := server.Totals(devllm.Filter{})
		charged := agentkernel.NanoUSD(total.Nanos)
		if err != nil || charged > limit || b.Spent.USD != charged {
			t.Errorf("charged $%s, spent $%s under a cap of $%s, %v", charged, b.Spent.USD, limit, err)
		}
		u, err := k.ModelUsage(t.Context(), agentkernel.UsageQuery{Tree: p.PID, By: []agentkernel.UsageKey{agentkernel.UsageAgent, agentkernel.UsageModel}})
		rows := agentkernel.NanoUSD(0)
		for _, r := range u.Rows {
			rows += r.USD
		}
		if err != nil || rows != u.Total.USD || u.Total.USD != b.Spent.USD || u.Total.HeldUSD != b.Held.USD || u.Total.Calls != total.Requests || u.Total.Uncertain != 0 {
			t.Errorf("usage: %d rows, %+v, %v", len(u.Rows), u.Total, err)
		}
		t.Logf("cap $%s: %d calls, $%s charged, $%s spent", limit, total.Requests, charged, b.Spent.USD)
		if n := total.Requests - total.Statuses["200"]; n > 0 {
			t.Errorf("%d calls failed: %v", n, total.Statuses)
		}
		return charged
	}
	const atMost = 2000*10_000 + 100*2500 // what a call holds
	if charged := money(most); paused == 0 || most-charged >= atMost {
		t.Errorf("%d programs stand still, and of $%s only $%s was charged", paused, most, charged)
	}
	if _, err := k.AddBudget(t.Context(), p.PID, agentkernel.Budget{USD: more}); err != nil {
		t.Fatal(err)
	}
	if got, err := k.Wait(t.Context(), p.PID); err != nil || got.State != agentkernel.StateExited {
		t.Fatalf("%s: %v %v", got.State, got.Error, err)
	}
	money(most + more)
	if n := server.Totals(devllm.Filter{}).Requests; n != processes*each {
		t.Errorf("%d calls were made", n)
	}
}

// TestTurns: what is bounded is how often a model is asked, and one that was not asked is not counted.
func TestTurns(t *testing.T) {
	server, model := devModels(t, func(o *devllm.Options) { o.Script, o.EchoTokens = nil, 3 })
	t.Setenv("OPENAI_API_KEY", "sk-made-up")
	k := openEmbedded(t, home(t), func(c *embedded.Config) { c.Models = []string{model} })
	s := program(`
from kernel import llm
for i in range(3):
    try:
        print(len(llm("question " + str(i), max_tokens=20)) > 0)
    except Exception as e:
        print(e)
`)
	s.Budget.Turns, s.OnBudget = 2, agentkernel.BudgetRaise
	o, err := tryRun(t.Context(), k, s)
	if err != nil || o.stdout != "True\nTrue\nlimit_exceeded: the call costs 1 turn, and the budget of process 1 is 2 turns: spent 2 turns (for whoever runs agentkernel: agentkernel budget add 1 --turns 1 while it lives; when it has ended, agentkernel rerun 1 --budget-turns 3 goes on from what it did)\n" {
		t.Errorf("%q %v", o.stdout, err)
	}
	b, err := k.Budget(t.Context(), o.Process.PID)
	if n := server.Totals(devllm.Filter{}).Requests; err != nil || b.Spent.Turns != 2 || b.Spent.Calls != 2 || b.Spent.Tokens == 0 || n != 2 {
		t.Errorf("%+v %v, %d requests", b, err, n)
	}
}
