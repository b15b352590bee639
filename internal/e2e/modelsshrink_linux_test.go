package e2e_test

import (
	"testing"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/devllm"
)

// shrinker goes on with a conversation that its model cannot take whole.
const shrinker = `
from kernel import llm

said = [{"role": "system", "content": "You repeat."}]
for i in range(40):
    said.append({"role": "user", "content": "say " + str(i) + " " + "word " * 50})
    said.append({"role": "assistant", "content": "It is " + str(i) + "."})
said.append({"role": "user", "content": "say last"})
try:
    llm.complete(said, max_tokens=100)
except MemoryError as e:
    print(str(e).split(":")[0], "shrink=True" in str(e))
answer = llm.complete(said, max_tokens=100, shrink=True)
print(answer["text"], answer["left_out"] % 2, 0 < answer["left_out"] < 80)
stream = llm.stream(said, max_tokens=100, shrink=True)
while pieces := stream.next():
    for piece in pieces:
        if "answer" in piece:
            print(piece["answer"]["text"], piece["answer"]["left_out"] == answer["left_out"])
`

// TestAConversationThatIsTooLong: it is refused with what to do about it, or sent once more without its oldest turns.
func TestAConversationThatIsTooLong(t *testing.T) {
	server, model := devModels(t, func(o *devllm.Options) {
		o.Profile.Models = []devllm.Model{{Name: "gpt-dev", Window: 2000, Price: devllm.Price{Input: 2500, CacheRead: 2500, Output: 10_000}}}
	})
	t.Setenv("OPENAI_API_KEY", "sk-made-up")
	k := openEmbedded(t, home(t), func(c *embedded.Config) { c.Models = []string{model} })
	s := program(shrinker)
	s.Budget.USD = agentkernel.USD
	o, err := tryRun(t.Context(), k, s)
	if want := "limit_exceeded True\nIt is last. 0 True\nIt is last. True\n"; err != nil || o.stdout != want {
		t.Errorf("%q %v %v, want %q", o.stdout, o.Process.Error, err, want)
	}
	if n := server.Totals(devllm.Filter{}).Statuses; n["400"] != 3 || n["200"] != 2 {
		t.Errorf("the provider answered %v", n)
	}
	b, err := k.Budget(t.Context(), o.Process.PID)
	if charged := agentkernel.NanoUSD(server.Totals(devllm.Filter{}).Nanos); err != nil || b.Held.USD != 0 || b.Spent.USD != charged {
		t.Errorf("%+v %v, charged $%s", b, err, charged)
	}
}
