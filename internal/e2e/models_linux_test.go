package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/devllm"
)

// modelScript answers each question with its own name, so that an answer which came to another question shows.
const modelScript = `
rules:
  - when: {user: '/^say (?P<name>\S+)/'}
    answer: {text: 'It is {{name}}.'}
default: {error: {status: 400, message: no such question}}
`

// devModels serves a made-up provider that answers by modelScript, and declares it as the model "fast", with its limits and prices.
func devModels(t testing.TB, change ...func(*devllm.Options)) (*devllm.Server, string) {
	t.Helper()
	script, err := devllm.ParseScript("answers.yaml", []byte(modelScript))
	if err != nil {
		t.Fatal(err)
	}
	o := devllm.Options{Script: script}
	o.Profile, _ = devllm.ProfileByName("openai")
	for _, c := range change {
		c(&o)
	}
	s, err := devllm.New(o)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	l := o.Profile.Limits
	return s, fmt.Sprintf("fast openai:gpt-dev url=%s/v1 price=2.5/10 rpm=%d tpm=%d", web.URL, l.Requests, l.Total)
}

// asker asks until nothing is left of the budget, one question at a time and some together, and prints what became of each.
const asker = `
import asyncio
from kernel import llm
from kernel.aio import llm as later

spent = False

def became(name, e):
    global spent
    if isinstance(e, MemoryError):
        spent = True
    else:
        assert str(e).startswith("outcome_unknown: "), str(e)
        print("unknown", name)

def ask(name):
    try:
        assert llm("say " + name, max_tokens=24) == "It is " + name + "."
        print("answered", name)
    except (MemoryError, OSError) as e:
        became(name, e)

async def ask_later(name):
    try:
        assert await later("say " + name, max_tokens=24) == "It is " + name + "."
        print("answered", name)
    except (MemoryError, OSError) as e:
        became(name, e)

async def both(a, b):
    await asyncio.gather(ask_later(a), ask_later(b))

i = 0
while not spent:
    name = %q + "-" + str(i)
    if i %% 3 == 2:
        asyncio.run(both(name + "a", name + "b"))
    else:
        ask(name)
    i += 1
`

// askers starts programs and waits for them.
const askers = `
from kernel import spawn, wait
for pid in [spawn(p["source"], name=p["name"]) for p in %s]:
    r = wait(pid)
    assert r["state"] == "exited", str(r["error"])
`

// death is a span in which a kernel died: from before the signal until it was gone.
type death struct{ from, to time.Time }

// TestModelsUnderFire kills the kernel with SIGKILL at random moments while programs of both backends ask a model under one cap of
// dollars. The log of the provider says how often each question came, and what was charged for it.
func TestModelsUnderFire(t *testing.T) {
	deaths := kills(t, 8)
	const window = 500 * time.Millisecond
	t.Setenv(envSandboxes, systemPython(t))
	server, model := devModels(t, func(o *devllm.Options) {
		o.FirstToken = 300 * time.Millisecond // so that deaths meet many calls
		o.Profile.Limits = devllm.Limits{Requests: 3000, Total: 1_000_000}
	})
	const each = 100 * 1000 // about what a question costs, in nano-dollars
	programs := 8
	questions := 25 * deaths // by all programs: so many that none has ended when the last kernel dies
	var list []map[string]string
	for i := range programs {
		name := fmt.Sprintf("p%d", i)
		source := fmt.Sprintf(asker, name)
		if i%2 == 1 {
			source = "import decimal\n" + source // Monty has no such module: it runs in CPython
		}
		list = append(list, map[string]string{"name": name, "source": source})
	}
	s := program(fmt.Sprintf(askers, asJSON(t, list)))
	s.Budget, s.OnBudget = agentkernel.Budget{USD: agentkernel.NanoUSD(each * questions)}, agentkernel.BudgetRaise
	f := fire{t: t, server: server}
	k, root := f.burn(s, model, programs, deaths, window)
	f.answers(k, root, programs)
	f.requests()
	f.money(k, root, s.Budget.USD, programs)
}

// fire is what the provider and the programs say of a kernel that was killed.
type fire struct {
	t                 *testing.T
	server            *devllm.Server
	died              []death
	answered, unknown int
	short             int // how often too little was left to ask once more, after a death
}

// burn starts a program that starts others, kills its kernel so often with SIGKILL, each time at a random moment of the window that begins
// when all of them have asked again, and waits until it has exited. The last kernel is k.
func (f *fire) burn(s agentkernel.Spec, model string, programs, deaths int, window time.Duration) (k agentkernel.Kernel, root agentkernel.PID) {
	t := f.t
	t.Helper()
	t.Setenv(envModels, model)
	t.Setenv("OPENAI_API_KEY", "sk-made-up")
	dir := home(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	s.Limits.Processes = programs + 1
	v := startVictim(t, dir)
	k = v.client(t, dir)
	p, err := k.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for range deaths {
		before := len(f.server.Log(devllm.Filter{}))
		eventually(t, "all programs go on, or have ended", func() bool {
			got, err := k.Process(t.Context(), p.PID)
			return len(f.server.Log(devllm.Filter{})) >= before+programs || err == nil && got.State.Terminal()
		})
		time.Sleep(time.Duration(rng.Int64N(int64(window)))) //nolint:forbidigo // the random moment is what is tested
		if got, err := k.Budget(t.Context(), p.PID); err == nil && got.Spent.USD+got.Held.USD > s.Budget.USD {
			t.Errorf("beyond the cap: %+v", got)
		}
		from := time.Now()
		v.kill()
		f.died = append(f.died, death{from, time.Now()})
		v = startVictim(t, dir)
		k = v.client(t, dir)
	}
	if got, err := k.Wait(t.Context(), p.PID); err != nil || got.State != agentkernel.StateExited {
		t.Fatalf("ended as %s: %v %v\n%s", got.State, got.Error, err, tracebackOf(got.Error))
	}
	return k, p.PID
}

// answers looks that each question of each program became one thing, and that the journals have one result for each call.
func (f *fire) answers(k agentkernel.Kernel, root agentkernel.PID, programs int) {
	f.t.Helper()
	list, err := k.List(f.t.Context(), agentkernel.Filter{})
	if err != nil || len(list) != programs+1 {
		f.t.Fatalf("%d processes, %v", len(list), err)
	}
	became, on := map[string]string{}, map[string]int{}
	for _, p := range list {
		if p.PID == root {
			continue
		}
		on[p.Backend]++
		for line := range strings.Lines(stdoutOf(f.t, k, p.PID)) {
			what, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			if before := became[name]; before != "" {
				f.t.Errorf("%s is %s and %s", name, before, what)
			}
			if became[name] = what; what == "answered" {
				f.answered++
			} else {
				f.unknown++
			}
		}
		f.results(k, p.PID)
	}
	if on["monty"] != programs/2 || on["process"] != programs/2 {
		f.t.Errorf("backends: %v", on)
	}
}

// results looks that a journal has one result for each call.
func (f *fire) results(k agentkernel.Kernel, pid agentkernel.PID) {
	f.t.Helper()
	entries, err := k.Journal(f.t.Context(), pid, 1, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	open := map[int64]int{}
	for _, e := range entries {
		switch {
		case e.Kind == agentkernel.EntryCall && e.Op == "llm.ask":
			if open[e.Call]++; e.Done {
				open[e.Call]--
			}
		case e.Kind == agentkernel.EntryResult:
			if _, ours := open[e.Call]; ours {
				open[e.Call]--
				if e.Err != nil && e.Err.Code == agentkernel.CodeLimit {
					f.short++
				}
			}
		}
	}
	for call, n := range open {
		if n != 0 {
			f.t.Errorf("process %d: call %d lacks %d results", pid, call, n)
		}
	}
}

// requests looks that no question came more often than the deaths explain, and none was refused.
func (f *fire) requests() {
	f.t.Helper()
	of := map[string][]devllm.Entry{}
	for _, e := range f.server.Log(devllm.Filter{}) {
		if e.Model == "" && e.Status == 499 {
			continue // its kernel died before the question was whole
		}
		if of[e.Request] = append(of[e.Request], e); e.Status != 200 && e.Status != 499 {
			f.t.Errorf("the provider answered with %d (%s)", e.Status, e.Limit)
		}
	}
	again := 0
	for id, sent := range of {
		if len(sent) > 2 {
			f.t.Errorf("%s was sent %d times", id, len(sent))
		}
		if len(sent) == 2 {
			again++
			if sent[1].Time.Before(sent[0].Time) {
				sent[0], sent[1] = sent[1], sent[0]
			}
			if !f.between(sent[0].Time, sent[1].Time) {
				f.t.Errorf("%s was sent at %v and again at %v, and no kernel died between", id, sent[0].Time, sent[1].Time)
			}
		}
	}
	if n := len(of); n < f.answered || n > f.answered+f.unknown+f.short {
		f.t.Errorf("the provider had %d questions; %d were answered, of %d nobody knows", n, f.answered, f.unknown)
	}
	f.t.Logf("%d kills: %d questions answered, %d sent twice, of %d the program was told that nobody knows; the provider's answers: %v",
		len(f.died), f.answered, again, f.unknown, f.server.Totals(devllm.Filter{}).Statuses)
}

func (f *fire) between(from, to time.Time) bool {
	for _, d := range f.died {
		if d.from.Before(to) && d.to.After(from) {
			return true
		}
	}
	return false
}

// money looks that what the provider charged was spent, that the cap holds, and that it is used up: less is left than a call may cost.
func (f *fire) money(k agentkernel.Kernel, pid agentkernel.PID, most agentkernel.NanoUSD, programs int) {
	f.t.Helper()
	got, err := k.Budget(f.t.Context(), pid)
	if err != nil {
		f.t.Fatal(err)
	}
	charged := agentkernel.NanoUSD(f.server.Totals(devllm.Filter{}).Nanos)
	f.t.Logf("$%s of $%s spent, $%s charged", got.Spent.USD, most, charged)
	if got.Held.USD != 0 || got.Spent.USD > most || got.Spent.USD < charged {
		f.t.Errorf("%+v, cap $%s, the provider has charged $%s", got, most, charged)
	}
	u, err := k.ModelUsage(f.t.Context(), agentkernel.UsageQuery{Tree: pid, By: []agentkernel.UsageKey{agentkernel.UsageDay, agentkernel.UsageAgent}})
	if err != nil || u.Total.USD != got.Spent.USD || u.Total.Tokens != got.Spent.Tokens || u.Total.Open != 0 || u.Total.UncertainUSD > u.Total.USD {
		f.t.Errorf("usage: %+v, and the budget has %+v: %v", u.Total, got.Spent, err)
	}
	if known := u.Total.USD - u.Total.UncertainUSD; known > charged {
		f.t.Errorf("usage: $%s are certain, and the provider has charged $%s", known, charged)
	}
	f.t.Logf("%d calls, %d of unknown outcome for $%s", u.Total.Calls, u.Total.Uncertain, u.Total.UncertainUSD)
	const atMost = 24*10_000 + (2*16+len("say p0-1000a"))*2500                          // what one call reserves
	if left := most - got.Spent.USD; left >= agentkernel.NanoUSD(atMost*(1+programs)) { // each may have had one under way when the last was refused
		f.t.Errorf("$%s of $%s are left, and programs were told that it is too little", left, most)
	}
}
