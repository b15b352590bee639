package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/devllm"
)

// teller reads answers as they come, prints each piece, and in the end what became of the answer.
const teller = `
from kernel import llm

for i in range(%d):
    name = %q + "-" + str(i)
    said = ""
    try:
        stream = llm.stream("tell " + name, max_tokens=250)
        while pieces := stream.next():
            for piece in pieces:
                if "text" in piece:
                    said += piece["text"]
                    print("piece", name, piece["text"].replace(" ", "_"))
                elif "answer" in piece:
                    assert piece["answer"]["text"] == said, piece
                    print("told", name)
    except OSError as e:
        assert str(e).startswith("outcome_unknown: ") or str(e).startswith("session_lost: "), str(e)
        print("unknown", name)
`

// tellers starts programs and waits for them.
const tellers = `
from kernel import spawn, wait
for pid in [spawn(p["source"], name=p["name"]) for p in %s]:
    r = wait(pid)
    assert r["state"] == "exited", str(r["error"])
`

// generation is what the provider says when it is asked something for the n-th time, which is never the same.
func generation(name string, n int) string {
	words := make([]string, 12)
	for i := range words {
		words[i] = fmt.Sprintf("%s.%d.%d", name, n, i)
	}
	return strings.Join(words, " ")
}

// TestStreamsUnderFire kills the kernel with SIGKILL at random moments while programs of both backends read answers as they come.
// What a program has read of an answer is the beginning of one generation, however often the question was sent, and is all of it unless
// the program is told that the rest is lost. What the provider charged is charged.
func TestStreamsUnderFire(t *testing.T) {
	deaths := kills(t, 4)
	const window = 700 * time.Millisecond
	const programs = 4
	each := 6 * deaths // questions: so many that none has ended when the last kernel dies
	t.Setenv(envSandboxes, systemPython(t))
	var rules strings.Builder
	rules.WriteString("rules:\n")
	var list []map[string]string
	for i := range programs {
		name := fmt.Sprintf("p%d", i)
		source := fmt.Sprintf(teller, each, name)
		if i%2 == 1 {
			source = "import decimal\n" + source // Monty has no such module: it runs in CPython
		}
		list = append(list, map[string]string{"name": name, "source": source})
		for q := range each {
			for n := range 3 {
				fmt.Fprintf(&rules, "  - {when: {user: '/^tell %s-%d$/'}, times: 1, answer: {text: '%s'}}\n", name, q, generation(fmt.Sprintf("%s-%d", name, q), n))
			}
		}
	}
	server, model := devModels(t, func(o *devllm.Options) {
		script, err := devllm.ParseScript("told.yaml", []byte(rules.String()))
		if err != nil {
			t.Fatal(err)
		}
		o.Script, o.FirstToken, o.PerToken = script, 50*time.Millisecond, 3*time.Millisecond
		o.Profile.Limits = devllm.Limits{Requests: 6000, Total: 6_000_000}
	})
	s := program(fmt.Sprintf(tellers, asJSON(t, list)))
	s.Budget = agentkernel.Budget{USD: 100 * agentkernel.USD}
	f := fire{t: t, server: server}
	k, root := f.burn(s, model, programs, deaths, window)
	cut := f.told(k, root, programs*each)
	f.requests()
	b, err := k.Budget(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	charged := agentkernel.NanoUSD(server.Totals(devllm.Filter{}).Nanos)
	t.Logf("%d answers were lost behind their beginnings; $%s spent, $%s charged", cut, b.Spent.USD, charged)
	if b.Held.USD != 0 || b.Spent.USD < charged {
		t.Errorf("%+v, the provider has charged $%s", b, charged)
	}
}

// told looks what became of each of so many answers, and says how many have a beginning and no end.
func (f *fire) told(k agentkernel.Kernel, root agentkernel.PID, questions int) (cut int) {
	f.t.Helper()
	list, err := k.List(f.t.Context(), agentkernel.Filter{})
	if err != nil {
		f.t.Fatal(err)
	}
	said, became, on := map[string]string{}, map[string]string{}, map[string]int{}
	for _, p := range list {
		if p.PID == root {
			continue
		}
		on[p.Backend]++
		for line := range strings.Lines(stdoutOf(f.t, k, p.PID)) {
			what, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
			if name, piece, isPiece := strings.Cut(rest, " "); isPiece {
				said[name] += strings.ReplaceAll(piece, "_", " ")
			} else if became[rest] != "" {
				f.t.Errorf("%s is %s and %s", rest, became[rest], what)
			} else {
				became[rest] = what
			}
		}
	}
	for name, what := range became {
		of := -1
		for n := range 3 {
			if text := generation(name, n); said[name] == text || what == "unknown" && strings.HasPrefix(text, said[name]) {
				of = n
			}
		}
		if of < 0 {
			f.t.Errorf("%s is %s, and said %q", name, what, said[name])
		}
		if what == "told" {
			f.answered++
		} else if f.unknown++; said[name] != "" {
			cut++
		}
	}
	if len(became) != questions || on["monty"] == 0 || on["process"] == 0 {
		f.t.Errorf("%d of %d questions came to an end; backends: %v", len(became), questions, on)
	}
	return cut
}

// reader reads one answer as it comes, and prints what became of it.
const reader = `
from kernel import llm
said = ""
try:
    stream = llm.stream("say x", max_tokens=200)
    while pieces := stream.next():
        for piece in pieces:
            said += piece.get("text", "")
            if "answer" in piece:
                print("answered", piece["answer"]["text"] == said, piece["answer"]["usage"]["estimated"])
except (RuntimeError, TimeoutError) as e:
    print(len(said), str(e))
`

// TestBrokenStreams: what fails before the first bit of an answer has come is dealt with as always. Behind it nothing is sent again; the
// program is told how much had come, and what was held is charged.
func TestBrokenStreams(t *testing.T) {
	for _, c := range []struct {
		fault    devllm.Fault
		said     string // by the program, %d for characters
		requests int
		exact    bool // what was charged is known
	}{
		{devllm.Fault{Kind: "529"}, "answered True False", 2, true},
		{devllm.Fault{Kind: "429", RetryAfter: devllm.Span(100 * time.Millisecond)}, "answered True False", 2, true},
		{devllm.Fault{Kind: "no-usage"}, "answered True True", 1, false},
		{devllm.Fault{Kind: "cut", AfterEvents: 4}, "%d unavailable: the model fast: the stream broke after %d characters: the connection was closed before the end of the answer", 1, false},
		{devllm.Fault{Kind: "malformed", AfterEvents: 4}, "%d unavailable: the model fast: the stream broke after %d characters: the answer is not the JSON that it should be", 1, false},
		{devllm.Fault{Kind: "stall", AfterEvents: 4}, "%d timeout: stream.next 1.1 did not answer in time", 1, false},
	} {
		t.Run(c.fault.Kind, func(t *testing.T) {
			server, model := devModels(t, func(o *devllm.Options) {
				script, err := devllm.ParseScript("said.yaml", []byte("default: {text: '"+generation("x", 0)+"'}\n"))
				if err != nil {
					t.Fatal(err)
				}
				o.Script, o.Faults = script, []devllm.Fault{c.fault}
			})
			t.Setenv("OPENAI_API_KEY", "sk-made-up")
			k := openEmbedded(t, home(t), func(cfg *embedded.Config) { cfg.Models = []string{model} })
			s := program(reader)
			s.Budget.USD, s.Limits.CallWait = agentkernel.USD, agentkernel.Duration(3*time.Second)
			p, err := k.Spawn(t.Context(), s)
			if err == nil {
				p, err = k.Wait(t.Context(), p.PID)
			}
			if err != nil || p.State != agentkernel.StateExited {
				t.Fatalf("%s: %v %v", p.State, p.Error, err)
			}
			said, n := strings.TrimSpace(stdoutOf(t, k, p.PID)), 0
			want := c.said
			if strings.HasPrefix(want, "%d") {
				if _, err := fmt.Sscan(said, &n); err != nil || n == 0 {
					t.Errorf("said %q", said)
				}
				want = strings.ReplaceAll(want, "%d", fmt.Sprint(n))
			}
			if said != want {
				t.Errorf("said %q, want %q", said, want)
			}
			eventually(t, "the provider has seen the end", func() bool { return len(server.Log(devllm.Filter{})) >= c.requests })
			b, err := k.Budget(t.Context(), p.PID)
			charged := agentkernel.NanoUSD(server.Totals(devllm.Filter{}).Nanos)
			if err != nil || b.Held.USD != 0 || b.Spent.USD < charged && c.fault.Kind != "no-usage" || c.exact && b.Spent.USD != charged || len(server.Log(devllm.Filter{})) != c.requests {
				t.Errorf("%d requests, $%s charged: %+v %v", len(server.Log(devllm.Filter{})), charged, b, err)
			}
		})
	}
}
