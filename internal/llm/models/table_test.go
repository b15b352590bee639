package models_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentkernel"
	"agentkernel/internal/llm/models"
)

const table = `{
  "date": "2026-11-01",
  "source": "our contract",
  "unit": "USD per 1,000,000 tokens",
  "models": {
    "openai/gpt-5-mini": {"input": 0.2, "cache_read": 0.02, "output": 1.6},
    "openai/ours": {
      "input": 3,
      "output": 9
    }
  }
}
`

// TestWrongTables: whoever wrote the table finds the place, and learns what to do.
func TestWrongTables(t *testing.T) {
	for _, c := range []struct{ from, to, want, hint string }{
		{`"source"`, `source`, "ours.json, line 3: it is no JSON: ", "a table is JSON"},
		{"    }\n  }\n}\n", "    }\n", "ours.json, line 11: it is no JSON: the JSON ends too early", "a table is JSON"},
		{"\n}\n", "\n}\n{}", "line 13: something follows the table", ""},
		{`"input": 3`, `"inptu": 3`, `line 8: nothing is known of "inptu"`, "input"},
		{`"input": 3`, `"image": 3`, `line 8: nothing is known of "image"`, "the classes of a price are input"},
		{`"input": 3`, `"input": 3, "input": 2`, `line 8: "input" is there twice`, ""},
		{`openai/ours`, `openai/gpt-5-mini`, `line 7: "openai/gpt-5-mini" is there twice`, ""},
		{`"input": 3`, `"input": "cheap"`, `line 8: "cheap" is no number of dollars`, ""},
		{`"input": 3`, `"input": -3`, "line 8: openai/ours: input is negative: -3.00", ""},
		{`"cache_read": 0.02`, `"cache_read": -0.02`, "line 6: openai/gpt-5-mini: cache_read is negative", ""},
		{`"output": 9`, `"output": 9000000`, "line 9: openai/ours: output is 9000000.00 dollars for a million tokens, which no model costs: it is in another unit", ""},
		{`"openai/ours": {
      "input": 3,
      "output": 9
    }`, `"openai/ours": null`, "line 7: openai/ours: it is null", ""},
		{`"openai/ours": {`, `"openai/ours": {"context": "long",`, "line 7: ", ""},
		{`per 1,000,000 tokens`, `per token`, `line 4: its unit is "USD per token"`, "multiply all prices by 1,000,000"},
		{`per 1,000,000 tokens`, `per 1K tokens`, `line 4: its unit is "USD per 1K tokens"`, "multiply all prices by 1,000, "},
		{`USD per 1,000,000`, `EUR per 1,000,000`, `line 4: its unit is "EUR per 1,000,000 tokens"`, "a table is JSON"},
		{`  "unit": "USD per 1,000,000 tokens",` + "\n", "", "ours.json: it says no unit", ""},
		{`2026-11-01`, `November`, `line 2: its date is "November"`, ""},
		{`"output": 9`, `"output": 9, "above": {"input": 1, "output": 2}`, "line 9: openai/ours: above needs input_tokens", ""},
	} {
		text := strings.Replace(table, c.from, c.to, 1)
		_, err := models.ReadTable("ours.json", strings.NewReader(text))
		e := agentkernel.AsError(err, agentkernel.CodeInternal, "")
		if e == nil || e.Code != agentkernel.CodeInvalid || !strings.Contains(e.Message(), c.want) || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%q instead of %q: %v (%v), want %q and %q", c.to, c.from, err, e, c.want, c.hint)
		}
	}
	if _, err := models.ReadTable("t", strings.NewReader(table)); err != nil {
		t.Error(err)
	}
}

func read(t *testing.T, text string) *models.Table {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	table, err := models.OpenTable(path)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestSuspects: prices for one token each, and in millionths, are found by what models cost, and by what this one did.
func TestSuspects(t *testing.T) {
	before := []*models.Table{models.Shipped()}
	for _, c := range []struct{ from, to, want, hint string }{
		{"", "", "", ""},
		{`"input": 3`, `"input": 0`, "", ""},
		{`"input": 3`, `"input": 0.000003`, "line 8: openai/ours: input is $0.000003 for a million tokens: it looks as if it were in another unit", "multiply them by 1,000,000"},
		{`"output": 9`, `"output": 9000`, "line 9: openai/ours: output is $9000.00", "divide them by 1,000,000"},
		{`"input": 0.2`, `"input": 800`, "line 6: openai/gpt-5-mini: input is $800.00 for a million tokens, and was $0.25", "divide"},
		{`"output": 1.6`, `"output": 0.0016`, "line 6: openai/gpt-5-mini: output is $0.0016 for a million tokens, and was $2.00", "multiply"},
	} {
		e := read(t, strings.Replace(table, c.from, c.to, 1)).Suspect(before...)
		if c.want == "" && e != nil || c.want != "" && (e == nil || !strings.Contains(e.Message(), c.want) || !strings.Contains(e.Hint, c.hint) || !strings.Contains(e.Hint, "--force")) {
			t.Errorf("%s: %v, want %q", c.to, e, c.want)
		}
	}
	if e := models.Shipped().Suspect(); e != nil {
		t.Error(e)
	}
}

func TestInstall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "prices")
	_, tables, err := models.Load(nil, nil, models.Installed(dir))
	if err != nil || len(tables) != 0 {
		t.Fatalf("before anything is installed: %v, %v", tables, err)
	}
	first := read(t, table)
	if kept, err := first.Install(dir); err != nil || kept != "" {
		t.Fatal(kept, err)
	}
	second := read(t, strings.NewReplacer(`"input": 3`, `"input": 4`, "0.02", "0.03").Replace(table))
	kept, err := second.Install(dir)
	if err != nil || kept != models.Before(dir) {
		t.Fatal(kept, err)
	}
	for path, want := range map[string]string{kept: "0.02", models.Installed(dir): "0.03"} {
		if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), `"cache_read": `+want) {
			t.Errorf("%s: %s %v", path, data, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v %v", entries, err)
	}
	own := filepath.Join(dir, "own.json")
	if err := os.WriteFile(own, []byte(strings.Replace(table, "gpt-5-mini", "only-here", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	all, tables, err := models.Load([]string{"a openai:gpt-5-mini", "b openai:ours", "c openai:only-here"}, []string{own}, models.Installed(dir))
	if err != nil || len(tables) != 2 {
		t.Fatal(tables, err)
	}
	var got []string
	for i := range all {
		p, _ := all[i].PriceOf(tables...)
		got = append(got, fmt.Sprint(p.Input))
	}
	if diff := cmp.Diff([]string{"0.20", "3.00", "0.20"}, got); diff != "" {
		t.Errorf("what is named goes before what is installed:\n%s", diff)
	}
}

func TestChanges(t *testing.T) {
	text := func(changes []models.Change) (out []string) {
		price := func(n *agentkernel.NanoUSD) string {
			if n == nil {
				return "-"
			}
			return n.String()
		}
		for _, c := range changes {
			out = append(out, fmt.Sprintf("%s %s %s %s", c.Model, c.Class, price(c.From), price(c.To)))
		}
		return out
	}
	first := read(t, table)
	want := []string{"openai/gpt-5-mini input 0.25 0.20", "openai/gpt-5-mini cache_read 0.025 0.02", "openai/gpt-5-mini output 2.00 1.60", "openai/ours input - 3.00", "openai/ours output - 9.00"}
	if diff := cmp.Diff(want, text(first.Changes(models.Shipped()))); diff != "" {
		t.Errorf("after the table of this version:\n%s", diff)
	}
	second := read(t, strings.NewReplacer(`"openai/gpt-5-mini"`, `"openai/new"`, `"openai/ours"`, `"openai/other"`).Replace(table))
	want = []string{"openai/gpt-5-mini input 0.20 0.25", "openai/gpt-5-mini cache_read 0.02 0.025", "openai/gpt-5-mini output 1.60 2.00",
		"openai/new input - 0.20", "openai/new cache_read - 0.02", "openai/new output - 1.60", "openai/other input - 3.00", "openai/other output - 9.00",
		"openai/ours input 3.00 -", "openai/ours output 9.00 -"}
	if diff := cmp.Diff(want, text(second.Changes(first, models.Shipped()))); diff != "" {
		t.Errorf("after a table that was installed:\n%s", diff)
	}
	if c := first.Changes(first, models.Shipped()); c != nil {
		t.Errorf("against itself: %v", text(c))
	}
}
