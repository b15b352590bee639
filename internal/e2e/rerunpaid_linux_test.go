package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/devllm"
)

// TestARerunPaysForNoAnswerTwice: an answer of a model that the past has is given again beyond the first difference, with a budget and
// without, unless somebody asks for it anew.
func TestARerunPaysForNoAnswerTwice(t *testing.T) {
	server, model := devModels(t, func(o *devllm.Options) { o.Script = nil })
	t.Setenv("OPENAI_API_KEY", "sk-made-up")
	k := openEmbedded(t, home(t), func(c *embedded.Config) { c.Models = []string{model} })
	const source = `
print(llm("one", max_tokens=20))
print(llm("two", max_tokens=20))
`
	for _, budget := range []agentkernel.NanoUSD{0, agentkernel.USD} {
		for _, again := range [][]string{nil, {"llm.ask"}, {"llm"}} {
			t.Run(fmt.Sprintf("budget %s, again %v", budget, again), func(t *testing.T) {
				s := program("from kernel import llm" + source + "1/0\n")
				s.Budget.USD = budget
				first := run(t, k, s)
				if first.State != agentkernel.StateFailed || !strings.Contains(first.stderr+fmt.Sprint(first.Error), "ZeroDivisionError") {
					t.Fatalf("%+v %v", first.Process, first.Error)
				}
				before := server.Totals(devllm.Filter{}).Requests
				s = program("from kernel import llm\nllm('zero', max_tokens=20)" + source)
				s.Budget.USD, s.Past = budget, &agentkernel.Past{PID: first.PID, Again: again}
				second := run(t, k, s)
				want := int64(1)
				if again != nil {
					want = 3
				}
				if n := server.Totals(devllm.Filter{}).Requests - before; second.State != agentkernel.StateExited || n != want {
					t.Errorf("%d requests, want %d, %+v %v", n, want, second.Process, second.Error)
				}
				if again == nil && second.stdout != first.stdout {
					t.Errorf("printed %q, then %q", first.stdout, second.stdout)
				}
			})
		}
	}
}

// TestARerunReadsAStreamOfItsPast: an answer that came as a stream, and was read to its end, is read again from the past; one of which the
// past has a part is asked for again, and where the program had begun to read it, it has that part.
func TestARerunReadsAStreamOfItsPast(t *testing.T) {
	server, model := devModels(t, func(o *devllm.Options) { o.Script, o.EchoTokens = nil, 40 })
	t.Setenv("OPENAI_API_KEY", "sk-made-up")
	k := openEmbedded(t, home(t), func(c *embedded.Config) { c.Models = []string{model} })
	const read = `
stream, said = llm.stream("one two three four five six seven", max_tokens=100), ""
while pieces := stream.next():
    said += "".join([p["text"] for p in pieces if "text" in p])
print(said)
`
	const begin = `
stream = llm.stream("eight nine ten", max_tokens=100)
print(len(stream.next()) > 0)
`
	past := func(source string, of agentkernel.PID, requests int64) outcome {
		t.Helper()
		s := program("from kernel import llm\n" + source)
		if of != 0 {
			s.Past = &agentkernel.Past{PID: of}
		}
		before := server.Totals(devllm.Filter{}).Requests
		o := run(t, k, s)
		if n := server.Totals(devllm.Filter{}).Requests - before; n != requests {
			t.Errorf("%d requests, want %d: %+v %v\n%s", n, requests, o.Process, o.Error, o.stdout)
		}
		return o
	}
	first := past(read+"1/0\n", 0, 1)
	second := past("llm('zero', max_tokens=20)"+read, first.PID, 1)
	if second.State != agentkernel.StateExited || second.stdout != first.stdout {
		t.Errorf("printed %q, then %q, %v", first.stdout, second.stdout, second.Error)
	}
	third := past("llm('another', max_tokens=20)"+read+begin, second.PID, 2)
	if third.State != agentkernel.StateExited || third.stdout != first.stdout+"True\n" {
		t.Errorf("a rerun of the rerun printed %q, %v", third.stdout, third.Error)
	}
	past("llm('one more', max_tokens=20)"+begin, third.PID, 2) // it was not read to its end
	last := past(begin+"1/0\n", 0, 1)
	part := past(strings.Replace(begin, "print(", "llm('and more', max_tokens=20)\nprint(", 1), last.PID, 1)
	if part.State != agentkernel.StateExited || part.stdout != "True\n" {
		t.Errorf("what was read of a stream before: %q, %v", part.stdout, part.Error)
	}
}
