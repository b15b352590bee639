package router_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/llm"
)

// of is a query of a process of a tree that has brought models.
func of(tree agentkernel.PID, model string, brought ...string) *llm.Query {
	q := ask("hello")
	q.PID, q.Tree, q.Model, q.Brought = tree, tree, model, brought
	return q
}

// TestBrought: what a process has brought comes before the kernel's own, has a key of its own for each tree, and goes with the tree.
func TestBrought(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := keyed(t, "", "fast openai:a price=1/1", "slow openai:b price=1/1")
		const mine = "fast openai:c key=given price=1/1"
		for tree, key := range map[agentkernel.PID]string{7: "sk-of-7", 8: "sk-of-8"} {
			if err := r.Give(tree, []string{mine}, "fast", key); err != nil {
				t.Fatal(err)
			}
			for _, model := range []string{"", "fast"} {
				if res, _, err := answered(t, r, of(tree, model, mine)); err != nil || res.Text() != key {
					t.Errorf("%d %s: %+v %v", tree, model, res, err)
				}
			}
			if res, _, err := answered(t, r, of(tree, "slow", mine)); err != nil || res.Text() != "sk-of-the-kernel" {
				t.Errorf("%d: %+v %v", tree, res, err)
			}
		}
		if res, _, err := answered(t, r, of(7, "")); err != nil || res.Text() != "sk-of-the-kernel" {
			t.Errorf("of the tree, without what was brought: %+v %v", res, err)
		}
		if _, err := r.Plan(of(7, "fsat", mine)); err == nil || !strings.Contains(agentkernel.AsError(err, "", "").Hint, "did you mean fast?") {
			t.Errorf("%v", err)
		}
		d := r.Limits().Deployments
		if len(d) != 4 || d[0].Tree != 0 || d[2].Tree != 7 || d[3].Tree != 8 || !d[3].Given || d[3].Name != "fast" {
			t.Errorf("%+v", d)
		}
		// Another declaration with the same alias is another server: the key is not for it.
		q := of(7, "", "fast openai:d url=http://elsewhere/v1 key=given price=1/1")
		q.ID = "7/1"
		p, err := r.Plan(q)
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() { failed <- p.Wait(t.Context()) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if text := p.Waiting(); text != "waits for its key: `agentkernel llm key fast --pid 7` gives it" {
			t.Errorf("it waits for %q", text)
		}
		r.Ended(7)
		if err := <-failed; err == nil {
			t.Error("it still waits, and its tree has ended")
		}
		if d := r.Limits().Deployments; len(d) != 3 || d[2].Tree != 8 {
			t.Errorf("%+v", d)
		}
	})
}

// TestCheck: a process brings no key of whoever runs the kernel.
func TestCheck(t *testing.T) {
	r := keyed(t, "", "fast openai:a")
	for _, text := range []string{"x openai:a key=given", "x ollama:a", "x vllm:a url=http://h/v1", "x vllm:a url=http://h/v1 key=given", "x anthropic:a key=given url=http://h"} {
		if err := r.Check([]string{text}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	many := make([]string, 17)
	for i := range many {
		many[i] = "x ollama:a"
	}
	for want, texts := range map[string][]string{
		"is given, and not that of whoever": {"x openai:a"}, // its kind's variable
		"is given, and not that":            {"x openai:a key=given", "y openai:a key=env:OPENAI_API_KEY"},
		"is given, and not":                 {"x ollama:a key=file:/etc/passwd"},
		"is given, and":                     {"x openai:a key=command:/bin/ls"},
		"is given":                          {"x openai:a key=keyring:a/b"},
		"is not declared":                   {"x ollama:a fallback=fast"}, // that would be the kernel's own
		"declared by an alias":              {""},
		"16 are the most":                   many,
		"too long":                          {"x ollama:" + strings.Repeat("a", 2<<10)},
	} {
		if err := r.Check(texts); agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%.50q: %v, want %s", texts, err, want)
		}
	}
}
