package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/devllm"
	"agentkernel/internal/llm"
	"agentkernel/internal/llm/models"
	"agentkernel/internal/llm/router"
)

// direct reaches a server without a network, so that both live in the time of a test.
type direct struct{ server http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.server.ServeHTTP(w, r)
	return w.Result(), nil
}

// bigAndSmall answers questions of two sizes, and its log has which.
const bigAndSmall = `
rules:
  - {name: big, when: {user: '/^big/'}, answer: {tokens: 60}}
  - {name: small, when: {user: '/^small/'}, answer: {tokens: 20}}
`

// sharedModels is a made-up provider with a limit of tokens, and a router that asks it for namespaces with reserved shares.
func sharedModels(t *testing.T, l devllm.Limits, reserved map[string]float64) (*devllm.Server, *router.Router) {
	t.Helper()
	script, err := devllm.ParseScript("answers.yaml", []byte(bigAndSmall))
	if err != nil {
		t.Fatal(err)
	}
	o := devllm.Options{Script: script, FirstToken: 500 * time.Millisecond}
	o.Profile, _ = devllm.ProfileByName("openai")
	o.Profile.Limits = l
	server, err := devllm.New(o)
	if err != nil {
		t.Fatal(err)
	}
	declared, err := models.ParseAll([]string{fmt.Sprintf("fast openai:gpt-dev url=http://provider/v1 price=1/1 rpm=%d tpm=%d", l.Requests, l.Total)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := router.New(router.Config{Models: declared, Reserved: reserved, Client: &http.Client{Transport: direct{server}},
		Weight: func(namespace string) int { return map[string]int{"small": 100}[namespace] + 1 }, // what is reserved counts, and not this
		Lookup: func(string) (string, bool) { return "sk-made-up", true }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return server, r
}

// TestModelShares: of two namespaces that always have more to ask than the limit of a provider lets through, with 70 % and 30 % reserved,
// each gets its part of the tokens, whatever its weight and the size of its questions are. One alone gets all.
func TestModelShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perMinute = 60_000
		server, r := sharedModels(t, devllm.Limits{Requests: 6000, Total: perMinute}, map[string]float64{"big": 0.7, "small": 0.3})
		asks := func(namespace, prompt string, most int64, until time.Time) error {
			for i := 0; time.Now().Before(until); i++ {
				q := &llm.Query{ID: fmt.Sprint(namespace, prompt, i), PID: 1, Tree: 1, Namespace: namespace, Priority: 10,
					Request: llm.Request{MaxTokens: most, Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: fmt.Sprint(prompt, i)}}}}}}
				p, err := r.Plan(q)
				if err == nil {
					err = p.Wait(context.Background())
				}
				if err == nil {
					_, _, err = p.Ask(context.Background(), nil)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}
		began := time.Now()
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				if err := asks("big", fmt.Sprint("big", strings.Repeat(" word", 300), i, " "), 60, began.Add(12*time.Minute)); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				if err := asks("small", fmt.Sprint("small", strings.Repeat(" word", 80), i, " "), 20, began.Add(7*time.Minute)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		charged := func(from, to time.Duration) map[string]int64 {
			had := map[string]int64{}
			for _, e := range server.Log(devllm.Filter{Since: began.Add(from), Until: began.Add(to)}) {
				if e.Status != 200 {
					t.Errorf("%+v", e)
				}
				had[e.Rule] += e.Charged.Total
			}
			return had
		}
		both := charged(2*time.Minute, 7*time.Minute)
		sum := float64(both["big"] + both["small"])
		part := 100 * float64(both["big"]) / sum
		t.Logf("both ask: %.1f %% and %.1f %% of the tokens, %.1f %% of the limit", part, 100-part, 100*sum/(5*perMinute))
		if part < 67 || part > 73 || sum < 0.95*5*perMinute {
			t.Errorf("%v, want 70 %% and 30 %% of %d", both, 5*perMinute)
		}
		alone := charged(8*time.Minute, 11*time.Minute)
		t.Logf("one asks: %.1f %% of the limit", 100*float64(alone["big"])/(3*perMinute))
		if alone["small"] != 0 || float64(alone["big"]) < 0.95*3*perMinute {
			t.Errorf("alone: %v, want %d", alone, 3*perMinute)
		}
	})
}

// TestModelSharesOfPrograms: the setting reaches the queue of a kernel. Programs of two namespaces ask all that they have to ask at once;
// as long as both wait, 70 of 100 answers are of who has 70 %.
func TestModelSharesOfPrograms(t *testing.T) {
	const processes, each = 4, 50
	server, model := devModels(t, func(o *devllm.Options) {
		o.FirstToken = 20 * time.Millisecond
		o.Profile.Limits = devllm.Limits{Requests: 20_000, Total: 10_000_000} // of which requests are what is scarce
		script, err := devllm.ParseScript("answers.yaml", []byte(bigAndSmall))
		if err != nil {
			t.Fatal(err)
		}
		o.Script = script
	})
	t.Setenv("OPENAI_API_KEY", "sk-made-up")
	k := openEmbedded(t, home(t), func(c *embedded.Config) {
		c.Models, c.ModelShares = []string{model + " concurrent=4"}, []string{"big 70%", "small 30%"}
	})
	var all []agentkernel.PID
	for i := range processes {
		for _, namespace := range []string{"small", "big"} {
			s := program(fmt.Sprintf(many, fmt.Sprint(namespace, i), each, each))
			s.Namespace = namespace
			p, err := k.Spawn(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p.PID)
		}
	}
	for _, pid := range all {
		if p, err := k.Wait(t.Context(), pid); err != nil || p.State != agentkernel.StateExited {
			t.Fatalf("%s: %v %v", p.State, p.Error, err)
		}
	}
	had, from := map[string]int{}, map[string]int(nil)
	for _, e := range server.Log(devllm.Filter{}) { // from when both have begun, until one has not much left to ask
		had[e.Rule]++
		if from == nil && had["big"] >= 40 && had["small"] >= 40 {
			from = map[string]int{"big": had["big"], "small": had["small"]}
		}
		if had["big"] == processes*each-10 {
			break
		}
	}
	big, small := had["big"]-from["big"], had["small"]-from["small"]
	part := 100 * float64(big) / float64(big+small)
	t.Logf("%d and %d answers while both waited: %.1f %%", big, small, part)
	if big+small < 80 || part < 67 || part > 73 {
		t.Errorf("%v of %v", from, had)
	}
	if _, err := embedded.Open(t.Context(), embedded.Config{Home: t.TempDir(), Engine: engine(t), ModelShares: []string{"a 70%", "b 40%"}}); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
		t.Errorf("more than all is reserved: %v", err)
	}
}
