package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/devllm"
)

// reuser asks one thing three times: as a text, whole, and again after it was journalled.
const reuser = `
from kernel import llm
print(llm("say pong", reuse=600))
a = llm.complete([{"role": "user", "content": "say pong"}], reuse=600)
print(a["text"], a.get("reused"), a["cost_usd"], a["usage"]["input"])
print(llm("say pong", reuse=600, max_tokens=16) == a["text"])
`

// TestReusedAnswers: what a namespace was told is not asked again by whoever lets it be reused: no request, no money, no turn, no call.
// Another namespace asks for itself, a replay gives what its journal has, and so does a kernel that was started anew.
func TestReusedAnswers(t *testing.T) {
	server, model := devModels(t)
	t.Setenv("OPENAI_API_KEY", "sk-made-up")
	dir := home(t)
	k := openEmbeddedToClose(t, dir, func(c *embedded.Config) { c.Models = []string{model} })
	requests := func() int64 { return server.Totals(devllm.Filter{}).Requests }
	ran := func(k agentkernel.Kernel, namespace, backend, want string, asked int64) agentkernel.PID {
		t.Helper()
		before := requests()
		s := program(reuser)
		s.Namespace, s.Backend, s.Budget.Turns = namespace, backend, 3
		o, err := tryRun(t.Context(), k, s)
		if err != nil || o.stdout != want {
			t.Fatalf("%q %v %v, want %q", o.stdout, o.Process.Error, err, want)
		}
		if n := requests() - before; n != asked {
			t.Errorf("%s: %d requests, want %d", namespace, n, asked)
		}
		b, err := k.Budget(t.Context(), o.Process.PID)
		if err != nil || b.Spent.Turns != asked || b.Spent.Calls != asked || (b.Spent.USD == 0) != (asked == 0) || b.Held.USD != 0 || b.Held.Calls != 0 {
			t.Errorf("%s: spent %+v, held %+v, %v, want %d", namespace, b.Spent, b.Held, err, asked)
		}
		return o.Process.PID
	}
	const first = "It is pong.\nIt is pong. True 0.0 0\nTrue\n"
	ran(k, "a", "monty", first, 2) // with another max_tokens it is another question
	again := ran(k, "a", "monty", first, 0)
	ran(k, "b", "monty", first, 2)
	spent, err := k.ModelUsage(t.Context(), agentkernel.UsageQuery{By: []agentkernel.UsageKey{agentkernel.UsageModel}})
	charged := agentkernel.NanoUSD(server.Totals(devllm.Filter{}).Nanos)
	if err != nil || spent.Total.USD != charged || spent.Total.Uncertain != 0 || len(spent.Rows) != 1 || spent.Rows[0].Model != "openai:gpt-dev" {
		t.Errorf("%+v %v, charged $%s", spent, err, charged)
	}
	entries, err := k.Journal(t.Context(), again, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	results := 0
	for _, e := range entries {
		if e.Kind != agentkernel.EntryResult {
			continue
		}
		results++
		if e.Settle == nil || len(e.Settle) > 0 || !strings.Contains(string(e.Data), "pong") {
			t.Errorf("%+v", e)
		}
		var whole struct {
			Reused bool
			Cost   *float64 `json:"cost_usd"`
		}
		if json.Unmarshal(e.Data, &whole) == nil && (!whole.Reused || whole.Cost == nil || *whole.Cost != 0) {
			t.Errorf("%s", e.Data)
		}
	}
	if results != 3 {
		t.Errorf("%d results in the journal", results)
	}
	before := requests()
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k = openEmbeddedToClose(t, dir, func(c *embedded.Config) { c.Models = []string{model} })
	defer k.Close()
	p, err := k.Process(t.Context(), again)
	if err != nil || !p.State.Terminal() || requests() != before {
		t.Errorf("%+v %v", p, err)
	}
	ran(k, "a", "monty", first, 2) // it was in the memory of the other kernel
}
