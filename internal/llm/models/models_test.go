package models_test

import (
	"context"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"agentkernel"
	"agentkernel/internal/llm"
	"agentkernel/internal/llm/models"
)

func TestParse(t *testing.T) {
	m, err := models.Parse("az azure:gpt-5 url=https://me.openai.azure.com/ deployment=five api_version=2024-10-21 key=file:/run/key rpm=500 tpm=200k max_tokens=1000 price=1.25/10 fallback=fast")
	if err != nil {
		t.Fatal(err)
	}
	if m.URL != "https://me.openai.azure.com" || m.Deployment != "five" || m.TPM != 200_000 || m.RPM != 500 || m.Cap() != 1000 || m.Key.Source != "file:/run/key" ||
		m.Fallback != "fast" || m.Price.Input != agentkernel.USD*5/4 || m.Limited() != "500 requests/min, 200k tokens/min" {
		t.Errorf("%+v", m)
	}
	if m, err = models.Parse("fast openai:gpt-5-mini"); err != nil || m.Key.Source != "env:OPENAI_API_KEY" || m.Cap() != models.DefaultMaxTokens {
		t.Errorf("%+v %v", m, err)
	}
	for text, want := range map[string]string{
		"a openai:x": "openai", "a openai:x key=env:OTHER": "openai (env:OTHER)", "a openai:x url=http://127.0.0.1:80/v1": "openai at 127.0.0.1:80", "a ollama:x": "ollama",
	} {
		if m, err := models.Parse(text); err != nil || m.KeyName() != want {
			t.Errorf("%q: %q %v, want %q", text, m.KeyName(), err, want)
		}
	}
	if m, err := models.Parse("a anthropic:claude-opus-4-8"); err != nil || m.Family() != "claude-opus" {
		t.Errorf("%q %v", m.Family(), err)
	}
	if m, err = models.Parse("local ollama:llama3.2:3b"); err != nil || m.Name != "llama3.2:3b" || m.Key.Source != "" {
		t.Errorf("%+v %v", m, err)
	}
}

// TestAddress: a kind has an address of its own, or none can be declared without url=.
func TestAddress(t *testing.T) {
	for _, kind := range models.Kinds() {
		m, err := models.Parse("a " + kind + ":x")
		if (err == nil) != (m.Address() != "") {
			t.Errorf("%s: %q %v", kind, m.Address(), err)
		}
		if m, err := models.Parse("a " + kind + ":x url=https://here/v1/"); err != nil || m.Address() != "https://here/v1" {
			t.Errorf("%s: %q %v", kind, m.Address(), err)
		}
	}
}

// TestWrongDeclarations: each says what is wrong, with the nearest name, and none shows what may be a key.
func TestWrongDeclarations(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "declared by an alias",
		"fast":                                   "declared by an alias",
		"9x openai:gpt-5":                        `"9x" is no alias`,
		"fast opnai:gpt-5":                       `did you mean openai?`,
		"fast openai":                            "openai names no model",
		"fast openai:":                           "openai names no model",
		"fast bedrock:claude":                    "bedrock is not supported",
		"fast vertex:gemini":                     "vertex is not supported",
		"fast openai:gpt-5 rmp=5":                `did you mean rpm?`,
		"fast openai:gpt-5 rpm=0":                "no number above 0",
		"fast openai:gpt-5 rpm=-5":               "no number above 0",
		"fast openai:gpt-5 tpm=9999999999m":      "no number above 0",
		"fast openai:gpt-5 rpm=5 rpm=6":          "is there twice",
		"fast openai:gpt-5 rpm":                  "no option=value",
		"fast openai:gpt-5 key=sk-secret1":       "key is neither",
		"fast openai:gpt-5 key=given:sk-secret1": "key is neither",
		"fast openai:gpt-5 key=file:key":         "not absolute",
		"fast openai:gpt-5 url=example":          "no http or https address",
		"fast openai:gpt-5 url=https://user:sk-secret1@x": "holds a name",
		"fast openai:gpt-5 price=1":                       "write INPUT/OUTPUT",
		"fast openai:gpt-5 price=-1/2":                    "negative",
		"fast azure:gpt-5":                                "azure needs url=",
		"fast vllm:x":                                     "vllm needs url=",
		"fast openai:gpt-5 deployment=x":                  "options of azure",
	} {
		_, err := models.Parse(text)
		if err == nil {
			t.Errorf("%q is taken", text)
			continue
		}
		e := agentkernel.AsError(err, "", "")
		if said := e.Error() + " " + e.Hint; !strings.Contains(said, want) || strings.Contains(said, "sk-secret1") {
			t.Errorf("%q: %s, want %q", text, said, want)
		}
	}
	for want, all := range map[string][]string{
		"is not declared":  {"a openai:x fallback=b"},
		"lead in a circle": {"a openai:x fallback=b", "b openai:y fallback=a"},
	} {
		if _, err := models.ParseAll(all); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", all, err, want)
		}
	}
	if all, err := models.ParseAll([]string{"a openai:x fallback=b", "b openai:y", "b anthropic:z"}); err != nil || len(all) != 3 {
		t.Errorf("%+v %v", all, err)
	}
}

func TestTheShippedTable(t *testing.T) {
	table := models.Shipped()
	if len(table.Models) < 40 || table.Date == "" || table.Source == "" {
		t.Fatalf("%d models of %q from %q", len(table.Models), table.Date, table.Source)
	}
	m, err := models.Parse("fast openai:gpt-5-mini")
	if err != nil {
		t.Fatal(err)
	}
	p, from := m.PriceOf()
	if p == nil || p.Input <= 0 || p.Output <= p.Input || !strings.Contains(from, table.Date) {
		t.Errorf("%+v %q", p, from)
	}
	m.Name = "gpt-5-minii"
	if p, _ := m.PriceOf(); p != nil || !strings.Contains(m.Unpriced().Hint, "gpt-5-mini") {
		t.Errorf("%+v %q", p, m.Unpriced().Hint)
	}
}

// TestTables: a table with a wrong unit, or a number that is of another one, is refused by name.
func TestTables(t *testing.T) {
	whole := `{"date":"2026-11-01","source":"me","unit":"USD per 1,000,000 tokens","models":{"openai/x":{"input":1,"output":2}}}`
	own, err := models.ReadTable("t", strings.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	m, _ := models.Parse("a openai:x")
	if p, from := m.PriceOf(own); p == nil || p.Output != 2*agentkernel.USD || from != "me of 2026-11-01" {
		t.Errorf("%+v %q", p, from)
	}
	for change, want := range map[[2]string]string{
		{"1,000,000", "1,000"}:             `its unit is "USD per 1,000 tokens"`,
		{`"input":1`, `"input":-1`}:        "openai/x: input is negative: -1.00",
		{`"input":1`, `"input":200000`}:    "openai/x: input is 200000.00 dollars",
		{`"input":1`, `"inptu":1`}:         "inptu",
		{`2026-11-01`, `yesterday`}:        "its date is",
		{`{"input":1,"output":2}`, `null`}: "openai/x: it is null",
	} {
		if _, err := models.ReadTable("t", strings.NewReader(strings.Replace(whole, change[0], change[1], 1))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", change, err, want)
		}
	}
}

// TestCost against arithmetic without bounds: exact, rounded up, and never above the bound.
func TestCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Int64Range(0, 200*int64(agentkernel.USD))
		class := func(name string) *agentkernel.NanoUSD {
			if rapid.Bool().Draw(t, name+" is known") {
				n := agentkernel.NanoUSD(rate.Draw(t, name))
				return &n
			}
			return nil
		}
		p := models.Price{Input: agentkernel.NanoUSD(rate.Draw(t, "input")), Output: agentkernel.NanoUSD(rate.Draw(t, "output")),
			CacheRead: class("read"), CacheWrite: class("write"), CacheWrite1h: class("write 1h"), Reasoning: class("reasoning")}
		if rapid.Bool().Draw(t, "above") {
			p.Above = &models.Above{InputTokens: rapid.Int64Range(1, 300_000).Draw(t, "from"), Input: agentkernel.NanoUSD(rate.Draw(t, "input above")),
				Output: agentkernel.NanoUSD(rate.Draw(t, "output above")), CacheRead: class("read above")}
		}
		n := rapid.Int64Range(0, 400_000)
		u := llm.Usage{Input: n.Draw(t, "in"), CacheRead: n.Draw(t, "r"), CacheWrite: n.Draw(t, "w"), CacheWrite1h: n.Draw(t, "w1h"), Output: n.Draw(t, "out"), Reasoning: n.Draw(t, "think")}
		cost := p.Cost(u)
		if bound := p.Bound(u.Inputs(), u.Outputs()); cost > bound {
			t.Fatalf("%s is above the bound %s", cost, bound)
		}
		if p.Above == nil {
			or := func(c *agentkernel.NanoUSD, n agentkernel.NanoUSD) agentkernel.NanoUSD {
				if c != nil {
					return *c
				}
				return n
			}
			write := or(p.CacheWrite, p.Input)
			exact := new(big.Int)
			for _, c := range []struct {
				n int64
				r agentkernel.NanoUSD
			}{{u.Input, p.Input}, {u.CacheRead, or(p.CacheRead, p.Input)}, {u.CacheWrite, write}, {u.CacheWrite1h, or(p.CacheWrite1h, write)}, {u.Output, p.Output}, {u.Reasoning, or(p.Reasoning, p.Output)}} {
				exact.Add(exact, new(big.Int).Mul(big.NewInt(c.n), big.NewInt(int64(c.r))))
			}
			exact.Add(exact, big.NewInt(999_999)).Div(exact, big.NewInt(1_000_000))
			if exact.Int64() != int64(cost) {
				t.Fatalf("%d, want %s", cost, exact)
			}
		}
	})
	p := models.Price{Input: 100_000 * agentkernel.USD}
	if got := p.Bound(math.MaxInt64, 0); got != math.MaxInt64 {
		t.Errorf("%d", got)
	}
}

// TestKeys: a key is read where it is, and no error has it.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	env := map[string]string{"GOOD": "sk-good", "SPACES": "sk secret"}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	for source, want := range map[string]string{
		"env:GOOD": "sk-good",
		"file:" + write("key", "sk-file\n", 0o600):                    "sk-file",
		"command:" + write("say", "#!/bin/sh\necho sk-said\n", 0o700): "sk-said",
		"env:MISSING":                         "!environment variable MISSING is not set",
		"env:SPACES":                          "!is no key",
		"file:" + filepath.Join(dir, "none"):  "!cannot be read",
		"file:" + write("empty", "\n", 0o600): "!is empty",
		"command:" + write("fail", "#!/bin/sh\necho sk-secret >&2; exit 3\n", 0o700): "!has failed",
	} {
		k, err := models.ParseKey(source)
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.Read(context.Background(), lookup)
		wrong, bad := strings.CutPrefix(want, "!")
		if bad && (err == nil || !strings.Contains(err.Error(), wrong) || strings.Contains(err.Error(), "secret")) || !bad && (got != want || err != nil) {
			t.Errorf("%s: %q %v, want %q", source, got, err, want)
		}
	}
	if !slices.IsSorted(models.Kinds()) || len(models.Kinds()) < 7 {
		t.Error(models.Kinds())
	}
}

// TestKeyring: the tool of the system is asked for it, and what it says besides goes nowhere.
func TestKeyring(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	tool, asks := "secret-tool", "lookup service my-service username me"
	if runtime.GOOS == "darwin" {
		tool, asks = "security", "find-generic-password -w -s my-service -a me"
	}
	for _, c := range []struct{ source, says, want string }{
		{"keyring:my-service/me", "", "!there is no " + tool + " on the PATH of the kernel"},
		{"keyring:my-service/me", "[ \"$*\" = '" + asks + "' ] && echo sk-kept && exit\nexit 1", "sk-kept"},
		{"keyring:my-service/you/2", "echo sk-hidden >&2; exit 1", "!has no key of service my-service, account you/2"},
		{"keyring:my-service/me", "echo", "!is empty"},
	} {
		if c.says != "" {
			if err := os.WriteFile(filepath.Join(dir, tool), []byte("#!/bin/sh\n"+c.says+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		k, err := models.ParseKey(c.source)
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.Read(t.Context(), nil)
		wrong, bad := strings.CutPrefix(c.want, "!")
		if bad && (err == nil || !strings.Contains(err.Error(), wrong) || strings.Contains(err.Error(), "sk-")) || !bad && (got != c.want || err != nil) {
			t.Errorf("%s: %q %v, want %q", c.source, got, err, c.want)
		}
	}
	for _, source := range []string{"keyring:", "keyring:service", "keyring:/me", "keyring:service/", "keyring:-s/me", "keyring:service/-a", "env:sk-secret", "env:", "env:9X"} {
		if _, err := models.ParseKey(source); err == nil || strings.Contains(err.Error(), "sk-") {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// TestGivenKeys: a declaration may leave the key to whoever gives it to the kernel that runs, to each model its own.
func TestGivenKeys(t *testing.T) {
	m, err := models.Parse("fast openai:gpt-5 key=given")
	if err != nil || !m.Key.Given() || m.KeyName() != "openai (given for fast)" {
		t.Errorf("%+v %q %v", m, m.KeyName(), err)
	}
	if key, err := m.Key.Read(t.Context(), func(string) (string, bool) { return "sk-other", true }); err == nil || key != "" {
		t.Errorf("it is read: %q %v", key, err)
	}
	if m, err := models.Parse("fast openai:gpt-5"); err != nil || m.Key.Given() {
		t.Errorf("%+v %v", m, err)
	}
	for given, want := range map[string]string{" sk-1\n": "sk-1", "": "empty", "\n": "empty", "sk secret": "spaces", "sk-\u00e9": "no header", strings.Repeat("k", 1<<17): "64 KiB"} {
		key, err := models.Clean(given)
		if key != want && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sk")) {
			t.Errorf("%.10q is %.10q %v, want %s", given, key, err, want)
		}
	}
}
