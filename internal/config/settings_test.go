package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// example is a text that a setting accepts.
func example(name string, f Form) string {
	switch name { // these take no other words than known ones
	case "backend":
		return "monty"
	case "deny":
		return "state"
	}
	switch f.Kind {
	case KindChoice:
		return f.Choices[len(f.Choices)-1]
	case KindInteger:
		return "20"
	case KindNumber:
		return "1.5"
	case KindDuration:
		return "1m30s"
	case KindSize:
		return "3m"
	case KindPath:
		return "/srv/x"
	}
	switch name {
	case "secrets":
		return "name env:VARIABLE example.com"
	case "allowances":
		return "team day usd 5"
	case "shares":
		return "team 3"
	case "model_shares":
		return "team 70%"
	case "models":
		return "fast openai:gpt-5-mini"
	}
	return "some.text"
}

// another may be in a list with an example: most values may be there twice.
func another(name, first string) string {
	switch name {
	case "allowances":
		return "team month usd 5"
	case "model_shares":
		return "other 20%"
	}
	return first
}

// What is set is shown, in the form in which it can be set again, with its origin.
func TestSettingsShowWhatWasSet(t *testing.T) {
	c, err := Load(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Settings() {
		if s.Values != nil || s.Origin.String() != "default" {
			t.Errorf("%s was set nowhere and shows %q from %s", s.Name, s.Values, s.Origin)
		}
	}
	for _, k := range Keys() {
		values := []string{example(k.Name, k.Form)}
		if k.List {
			values = append(values, another(k.Name, values[0]))
		}
		if err := c.SetFlag(k.Name, "--flag", values...); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Load(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Settings() {
		want := 1
		if s.List {
			want = 2
		}
		if len(s.Values) != want || s.Values[0] != example(s.Name, s.Form) || s.Origin.String() != "--flag" {
			t.Errorf("%s shows %q from %s", s.Name, s.Values, s.Origin)
			continue
		}
		if err := again.SetFlag(s.Name, "--flag", s.Values...); err != nil {
			t.Errorf("what is shown of %s cannot be set: %v", s.Name, err)
		}
	}
	if len(c.Settings()) != len(Keys()) {
		t.Error("a key is missing")
	}
}

// The patterns of the schema accept what the reader accepts, and no obvious nonsense.
func TestSchema(t *testing.T) {
	text, err := Schema("made for a test")
	if err != nil {
		t.Fatal(err)
	}
	var root schema
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	for _, k := range Keys() {
		at := &root
		for part := range strings.SplitSeq(k.Name, ".") {
			if at = at.Properties[part]; at == nil {
				t.Fatalf("%s is not in the schema", k.Name)
			}
		}
		if (at.Type == "array") != k.List || strings.Contains(at.Description, "Not in a project file") != k.UserOnly() {
			t.Errorf("%s: %+v", k.Name, at)
		}
	}
	cases := []struct {
		pattern string
		parse   func(string) error
		values  []string
	}{
		{durationPattern, func(s string) error { _, err := parseDuration(s); return err }, []string{"30s", "1h30m", "1.5s", "500ms", "5", "", "soon", "1m "}},
		{sizePattern, func(s string) error { _, err := ParseSize(s); return err }, []string{"64k", "512m", "2g", "64KiB", "1.5GB", "10b", "4096", "lots", "", "k", "5x"}},
	}
	for _, tc := range cases {
		re := regexp.MustCompile(tc.pattern)
		for _, v := range tc.values {
			if re.MatchString(v) != (tc.parse(v) == nil) {
				t.Errorf("the pattern %s and the reader disagree about %q", tc.pattern, v)
			}
		}
	}
	if !slices.Equal(root.Properties["durability"].Enum, []string{"full", "relaxed"}) || *root.Properties["workers"].Maximum != 4096 {
		t.Error("choices or bounds are missing")
	}
}

// A table of which every key is commented out is no mistake; one that is not known is.
func TestEmptyTables(t *testing.T) {
	for text, ok := range map[string]bool{"[limits]\n# time = \"1s\"\n": true, "limits = {}\n": true, "[limit]\n": false, "[limits.time]\n": false} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, ProjectFileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(Options{Dir: dir}); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFormatSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 1: "1", 1023: "1023", 1024: "1k", 1025: "1025", 64 << 20: "64m", 3 << 30: "3g", 1 << 40: "1t"} {
		got := FormatSize(n)
		if back, err := ParseSize(got); got != want || n > 0 && (err != nil || back != n) {
			t.Errorf("%d is written %s and read %d (%v)", n, got, back, err)
		}
	}
}
