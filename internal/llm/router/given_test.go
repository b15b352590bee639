package router_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/llm"
	"agentkernel/internal/llm/models"
	"agentkernel/internal/llm/router"
)

// keyed makes a router whose providers answer with the keys that they send, and refuse some.
func keyed(t *testing.T, refuses string, declared ...string) *router.Router {
	t.Helper()
	all, err := models.ParseAll(declared)
	if err != nil {
		t.Fatal(err)
	}
	r, err := router.New(router.Config{Models: all, Lookup: func(string) (string, bool) { return "sk-of-the-kernel", true }, Provider: func(kind string, o llm.Options) (llm.Provider, error) {
		return &fake{kind: kind, next: func(int, *llm.Request) (*llm.Answer, error) {
			key, err := o.Key(context.Background())
			if err != nil || key == refuses {
				return nil, &llm.Error{Kind: llm.Auth, Status: 401, Sent: err == nil, Message: "invalid key", Err: err}
			}
			return text(key)
		}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// TestGive: a call waits until the key of its model is given, which is used from then on, until another is.
func TestGive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := keyed(t, "sk-refused", "fast openai:a key=given price=1/1", "own openai:b price=1/1")
		q := ask("hello")
		q.ID = "1/1"
		p, err := r.Plan(q)
		if err != nil {
			t.Fatal(err)
		}
		turn := make(chan error, 1)
		go func() { turn <- p.Wait(t.Context()) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if text := p.Waiting(); text != "waits for its key: `agentkernel llm key fast` gives it" || ", "+text[:len(agentkernel.WaitsForKey)-2] != agentkernel.WaitsForKey {
			t.Errorf("it waits for %q", text)
		}
		if d := r.Limits().Deployments; !d[0].Given || d[0].State != agentkernel.ModelKeyless || d[1].Given || d[1].State != agentkernel.ModelUp {
			t.Errorf("%+v", d)
		}
		if err := r.Give(0, nil, "fast", " sk-refused\n"); err != nil {
			t.Fatal(err)
		}
		if err := <-turn; err != nil {
			t.Fatal(err)
		}
		_, used, err := p.Ask(t.Context(), nil)
		if e := agentkernel.AsError(err, "", ""); e == nil || e.Code != agentkernel.CodeUnavailable || !strings.Contains(e.Hint, "refuses the key that was given: `agentkernel llm key fast` gives it another") ||
			strings.Contains(e.Error()+e.Hint, "sk-") || used == nil || used[agentkernel.AmountUSD] != 0 {
			t.Errorf("%v %v", err, used)
		}
		if d := r.Limits().Deployments[0]; d.State != agentkernel.ModelAvoided {
			t.Errorf("%+v", d)
		}
		if err := r.Give(0, nil, "fast", "sk-right"); err != nil {
			t.Fatal(err)
		}
		if d := r.Limits().Deployments[0]; d.State != agentkernel.ModelUp || !d.Given {
			t.Errorf("%+v", d)
		}
		if res, _, err := answered(t, r, ask("again")); err != nil || res.Text() != "sk-right" {
			t.Errorf("%+v %v", res, err)
		}
	})
}

// TestGiveToOne: each deployment has its own key, so that no server gets that of another; what cannot be given is refused without a
// word of it.
func TestGiveToOne(t *testing.T) {
	r := keyed(t, "", "fast openai:a key=given", "fast anthropic:b key=given", "own openai:c", "local ollama:d")
	if err := r.Give(0, nil, "fast#2", "sk-second"); err != nil {
		t.Fatal(err)
	}
	if d := r.Limits().Deployments; d[0].State != agentkernel.ModelKeyless || d[1].State != agentkernel.ModelUp {
		t.Errorf("%+v", d)
	}
	for name, c := range map[string]struct {
		key, want string
		code      agentkernel.Code
	}{
		"own":   {"sk-1", "its declaration says env:OPENAI_API_KEY", agentkernel.CodeInvalid},
		"local": {"sk-1", "it has none", agentkernel.CodeInvalid},
		"fsat":  {"sk-1", "did you mean fast?", agentkernel.CodeNotFound},
		"x":     {"sk-1", "keys are given to fast, fast#2", agentkernel.CodeNotFound},
		"fast":  {"sk 1", "it holds spaces", agentkernel.CodeInvalid},
	} {
		e := agentkernel.AsError(r.Give(0, nil, name, c.key), "", "")
		if e == nil || e.Code != c.code || !strings.Contains(e.Error()+" "+e.Hint, c.want) || strings.Contains(e.Error()+e.Hint, "sk") {
			t.Errorf("%s: %v, want %s %q", name, e, c.code, c.want)
		}
	}
}
