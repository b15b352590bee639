package router_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"agentkernel"
	"agentkernel/internal/llm"
	"agentkernel/internal/llm/models"
	"agentkernel/internal/llm/router"
)

// TestKeyHints: whoever has a wrong key, or none, is told what is to be done about it at the place where the key is, and nothing that has just
// failed.
func TestKeyHints(t *testing.T) {
	none, refused := llm.Error{Kind: llm.Auth, Message: "no key", Err: agentkernel.NotSet("MY_KEY")}, llm.Error{Kind: llm.Auth, Status: http.StatusUnauthorized}
	for name, c := range map[string]struct {
		declared string
		err      llm.Error
		says     string
		without  string
	}{
		"a variable that is not set": {"openai:a key=env:MY_KEY", none, "`export MY_KEY=...` and then `agentkernel shutdown`: a kernel keeps the environment", "llm test"},
		"a wrong variable":           {"openai:a key=env:MY_KEY", refused, "put the right key into the variable: `export MY_KEY=...` and then `agentkernel shutdown`", "llm test"},
		"a wrong file":               {"openai:a key=file:/k", refused, "put the right key into the file /k", "shutdown"},
		"a wrong command":            {"openai:a key=command:/bin/k", refused, "what /bin/k prints", "shutdown"},
		"a wrong keyring":            {"openai:a key=keyring:s/a", refused, "put the right key into the keyring, as service and account s/a", "shutdown"},
		"no key at all":              {"vllm:a url=http://h/v1", refused, "declared without one: key=env:VARIABLE", "shutdown"},
		"a file that is not there":   {"openai:a key=file:/k", llm.Error{Kind: llm.Auth, Message: "no key", Err: os.ErrNotExist}, "mend what key=file:/k names", "shutdown"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kind, _, _ := strings.Cut(c.declared, ":")
				r, _ := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){kind: func(int, *llm.Request) (*llm.Answer, error) { return nil, new(c.err) }}, "fast "+c.declared)
				_, _, err := answered(t, r, ask("ping"))
				e := agentkernel.AsError(err, "", "")
				if e == nil || !strings.Contains(e.Hint, c.says) || strings.Contains(e.Hint, c.without) {
					t.Errorf("%v, hint %q, want %q without %q", err, e.Hint, c.says, c.without)
				}
				if c.err.Err != nil && !strings.HasSuffix(e.Message(), ": "+c.err.Err.Error()) {
					t.Errorf("%q does not say why", e.Message())
				}
			})
		})
	}
}

// TestUnknownAlias: one that is not declared is answered with those that are.
func TestUnknownAlias(t *testing.T) {
	for want, declared := range map[string][]string{
		"did you mean fast? there are fast, smart": {"fast openai:a", "smart openai:b"},
		"did you mean fast? No other is declared":  {"fast openai:a"},
	} {
		r, _ := set(t, nil, declared...)
		_, err := r.Plan(&llm.Query{Model: "fats"})
		if e := agentkernel.AsError(err, "", ""); e == nil || e.Hint != want {
			t.Errorf("%v, want the hint %q", e, want)
		}
	}
}

// TestMissingKeys: a kernel says which keys it lacks, without a request and without waiting for anything.
func TestMissingKeys(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, []byte("k"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := models.ParseAll([]string{"set openai:a key=env:SET", "unset openai:a key=env:UNSET", "file openai:a key=file:" + file, "lost openai:a key=file:" + dir + "/none",
		"folder openai:a key=file:" + dir, "command openai:a key=command:/no/such", "keyring openai:a key=keyring:s/a", "given openai:a key=given", "free ollama:a"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := router.New(router.Config{Models: all, Lookup: func(name string) (string, bool) { return "k", name == "SET" }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := map[string]string{"unset": agentkernel.NotSet("UNSET").Error(), "lost": "the file of the key cannot be read: "}
	for _, d := range r.Limits().Deployments {
		if w := want[d.Name]; !strings.HasPrefix(d.Missing, w) || w == "" && d.Missing != "" {
			t.Errorf("%s misses %q, want %q", d.Name, d.Missing, w)
		}
	}
	bare, err := router.New(router.Config{Models: all[:1]})
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	if d := bare.Limits().Deployments[0]; d.Missing == "" {
		t.Errorf("without an environment: %+v", d)
	}
}
