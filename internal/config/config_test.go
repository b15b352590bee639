package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentkernel"
)

// place lays out a user's home, a project and a working directory below the project.
type place struct{ home, project, dir string }

func newPlace(t *testing.T, user, project string) place {
	t.Helper()
	root := t.TempDir()
	p := place{filepath.Join(root, "home"), filepath.Join(root, "project"), filepath.Join(root, "project", "a", "b")}
	write := func(path, text string) {
		if text == "" {
			return
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(p.home, ".config", "agentkernel", "config.toml"), user)
	write(filepath.Join(p.project, ProjectFileName), project)
	return p
}

func (p place) load(env ...string) (*Config, error) {
	return Load(Options{Dir: p.dir, Env: env, UserHome: p.home})
}

func TestPrecedence(t *testing.T) {
	p := newPlace(t, "priority = 20\nnamespace = 'user'\nbackend = 'monty'\n", "priority = 30\ndurability = 'full'\n")
	steps := []struct {
		name  string
		env   []string
		flag  string
		want  int
		where string
	}{
		{"project over user", nil, "", 30, filepath.Join(p.project, ProjectFileName) + ":1"},
		{"environment over project", []string{"AGENTKERNEL_PRIORITY=40"}, "", 40, "AGENTKERNEL_PRIORITY"},
		{"flag over environment", []string{"AGENTKERNEL_PRIORITY=40"}, "50", 50, "--priority"},
		{"empty variable is not set", []string{"AGENTKERNEL_PRIORITY="}, "", 30, filepath.Join(p.project, ProjectFileName) + ":1"},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			c, err := p.load(s.env...)
			if err != nil {
				t.Fatal(err)
			}
			if s.flag != "" {
				if err := c.SetFlag("priority", "--priority", s.flag); err != nil {
					t.Fatal(err)
				}
			}
			if c.Priority != s.want || c.Origin("priority").String() != s.where {
				t.Errorf("priority %d from %s, want %d from %s", c.Priority, c.Origin("priority"), s.want, s.where)
			}
			if c.Namespace != "user" || c.Backend != "monty" {
				t.Errorf("namespace %q, backend %q", c.Namespace, c.Backend)
			}
		})
	}
}

// A list replaces that of a weaker place, and the nearest project file is the only one.
func TestListsReplaceAndTheNearestFileCounts(t *testing.T) {
	p := newPlace(t, "allow = ['a.*', 'b.*']\ntools = ['user.json']\n", "tools = ['far.json']\npriority = 30\n")
	if err := os.WriteFile(filepath.Join(p.project, "a", ProjectFileName), []byte("tools = ['near.json']\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := p.load("AGENTKERNEL_ALLOW=c.*")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Join(p.project, "a", "near.json")}; !cmp.Equal(want, c.Tools) || c.Priority != 0 {
		t.Errorf("tools %v, want %v; priority %d", c.Tools, want, c.Priority)
	}
	if !cmp.Equal([]string{"c.*"}, c.Allow) {
		t.Errorf("allow %v", c.Allow)
	}
	if err := c.SetFlag("allow", "--allow", "d.*"); err != nil || !cmp.Equal([]string{"d.*"}, c.Allow) {
		t.Errorf("with a flag: %v %v", c.Allow, err)
	}
}

func TestEveryKeyFromEachPlace(t *testing.T) {
	p := newPlace(t, `
home = "~/ak"
engine = "bin/monty"
python = "python3.12"
workers = 3
idle_after = "90s"
tools = ["mcp.json", "/etc/mcp.json"]
allow = ["filesystem.write_*", "github.*"]
allow_hosts = ["api.example.com", "127.0.0.1:8080"]
secrets = ["github env:GITHUB_TOKEN api.github.com"]
shares = ["team 3"]
models = ["fast openai:gpt-5-mini rpm=500"]
model_shares = ["team 70%"]
prices = "prices.json"
allowances = ["team day usd 5", "* month tokens 2M"]
deny = "state"
namespace = "n"
backend = "auto"
isolation_none = "never"
isolation = "process"
priority = 7
on_unknown = "pause"
durability = "relaxed"
restart = "on-crash"
[limits]
time = "30s"
wall = "1h"
memory = "512m"
recursion = 500
output = 1024
calls = 10
call_wait = "5s"
in_flight = 20
repeats = 7
processes = 30
journal = "1g"
disk = "3g"
cpus = 2.5
cpu_time = "1m"
pids = 40
open_files = 64
file_size = "10m"
[storage]
quota = "20g"
keep = "30d"
keep_failed = "yes"
[log]
path = "k.log"
level = "debug"
format = "json"
size = "1m"
keep = 9
[embeddings]
url = "http://127.0.0.1:11434/v1"
model = "small"
key = "env:EMBEDDINGS_KEY"
`, "")
	c, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(p.home, ".config", "agentkernel")
	want := Values{
		Home: filepath.Join(p.home, "ak"), Engine: filepath.Join(conf, "bin/monty"), Python: "python3.12", Workers: 3, IdleAfter: 90 * time.Second,
		Log:        Log{Path: filepath.Join(conf, "k.log"), Level: "debug", Format: "json", Size: 1 << 20, Keep: 9},
		Embeddings: Embeddings{URL: "http://127.0.0.1:11434/v1", Model: "small", Key: "env:EMBEDDINGS_KEY"},
		Quota:      20 << 30, Keep: 30 * 24 * time.Hour, KeepFailed: "yes",
		Tools: []string{filepath.Join(conf, "mcp.json"), "/etc/mcp.json"}, Allow: []string{"filesystem.write_*", "github.*"},
		AllowHosts: []string{"api.example.com", "127.0.0.1:8080"}, Secrets: []string{"github env:GITHUB_TOKEN api.github.com"}, Shares: []string{"team 3"}, Allowances: []string{"team day usd 5", "* month tokens 2M"},
		Models: []string{"fast openai:gpt-5-mini rpm=500"}, Prices: []string{filepath.Join(conf, "prices.json")}, ModelShares: []string{"team 70%"},
		Deny: []string{"state"}, Namespace: "n", Backend: "auto", Isolation: agentkernel.IsolationProcess, IsolationNone: "never", Priority: 7,
		OnUnknown: agentkernel.UnknownPause, Durability: agentkernel.DurabilityRelaxed, Restart: agentkernel.RestartOnCrash,
		Limits: agentkernel.Limits{Time: agentkernel.Duration(30 * time.Second), Wall: agentkernel.Duration(time.Hour),
			Memory: 512 << 20, Recursion: 500, Output: 1024, Calls: 10, CallWait: agentkernel.Duration(5 * time.Second),
			InFlight: 20, Repeats: 7, Processes: 30, Journal: 1 << 30, Disk: 3 << 30,
			CPUs: 2.5, CPUTime: agentkernel.Duration(time.Minute), Pids: 40, OpenFiles: 64, FileSize: 10 << 20},
	}
	if diff := cmp.Diff(want, c.Values); diff != "" {
		t.Errorf("from the file (-want +got):\n%s", diff)
	}
	for _, k := range Keys() {
		if c.Origin(k.Name).Kind != User {
			t.Errorf("the test sets no %s, or its origin is lost", k.Name)
		}
	}

	fromEnv, err := newPlace(t, "", "").load("AGENTKERNEL_HOME=/h", "AGENTKERNEL_ENGINE=monty", "AGENTKERNEL_PYTHON=/p", "AGENTKERNEL_TOOLS=/a.json, /b.json",
		"AGENTKERNEL_ALLOW=a.*,b.c", "AGENTKERNEL_LIMITS_MEMORY=1g", "AGENTKERNEL_LIMITS_CALL_WAIT=2s")
	if err != nil {
		t.Fatal(err)
	}
	want = Values{Home: "/h", Engine: "monty", Python: "/p", Tools: []string{"/a.json", "/b.json"}, Allow: []string{"a.*", "b.c"},
		Limits: agentkernel.Limits{Memory: 1 << 30, CallWait: agentkernel.Duration(2 * time.Second)}}
	if diff := cmp.Diff(want, fromEnv.Values); diff != "" {
		t.Errorf("from the environment (-want +got):\n%s", diff)
	}
}

func TestPathsStartAtTheFileThatNamesThem(t *testing.T) {
	p := newPlace(t, "", "tools = ['sub/mcp.json']\n")
	c, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Join(p.project, "sub/mcp.json")}; !cmp.Equal(want, c.Tools) {
		t.Errorf("project file: tools %v, want %v", c.Tools, want)
	}
	if c.Origin("tools").Kind != Project {
		t.Errorf("origin %v, want the project file: its tools need trust", c.Origin("tools"))
	}
	if err := c.SetFlag("tools", "--tools", "x.json", "~/y.json"); err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Join(p.dir, "x.json"), filepath.Join(p.home, "y.json")}; !cmp.Equal(want, c.Tools) {
		t.Errorf("flag: tools %v, want %v", c.Tools, want)
	}
}

func TestErrorsNameThePlace(t *testing.T) {
	cases := []struct {
		name          string
		user, project string
		env           []string
		want          []string // parts of the message
		hint          string
	}{
		{name: "unknown key", user: "# comment\n\nprioritty = 3\n", want: []string{"config.toml:3", `unknown key "prioritty"`}, hint: `"priority"`},
		{name: "unknown key in a table", user: "[limits]\nmemori = '1g'\n", want: []string{"config.toml:2", `"limits.memori"`}, hint: `"limits.memory"`},
		{name: "unknown key in an inline table", user: "limits = { memory = '1g', cals = 3 }\n", want: []string{"config.toml:1", `"limits.cals"`}, hint: `"limits.calls"`},
		{name: "unknown table", user: "[server]\nport = 1\n", want: []string{"config.toml:2", `"server.port"`}, hint: "docs/config.md"},
		{name: "empty unknown table", user: "\n[serve]\n", want: []string{"config.toml:2", `"serve"`}, hint: "docs/config.md"},
		{name: "dotted key", user: "limits.memory = '1x'\n", want: []string{"config.toml:1", "limits.memory", `"1x" is not a size`}},
		{name: "a number out of range", user: "workers = 1e400\n", want: []string{"config.toml:1:11: the number cannot be read: \"1e400\": value out of range"}, hint: "TOML"},
		{name: "not TOML", user: "priority = \n", want: []string{"config.toml:1"}, hint: "TOML"},
		{name: "twice", user: "priority = 1\npriority = 2\n", want: []string{"config.toml:2"}},
		{name: "wrong choice", project: "on_unknown = 'ignore'\n", want: []string{"agentkernel.toml:1", `"ignore" is not one of raise, pause`}},
		{name: "no boundary as a setting", user: "isolation = 'none'\n", want: []string{"config.toml:1", "asked for with --isolation none, each time"}},
		{name: "out of range", user: "priority = 0\n", want: []string{"config.toml:1", "from 1 to 1000"}},
		{name: "a number as duration", user: "[limits]\ntime = 30\n", want: []string{"config.toml:2", "30s"}},
		{name: "negative duration", user: "idle_after = '-1s'\n", want: []string{"above zero"}},
		{name: "list for one value", user: "backend = ['a', 'b']\n", want: []string{"not a list"}},
		{name: "list of one value", user: "home = ['x']\n", want: []string{"config.toml:1", "home: it is one value, not a list"}},
		{name: "truth for a path", user: "home = true\n", want: []string{"config.toml:1", "home: it is a text in quotes, not true"}},
		{name: "number for a path", user: "home = -1\n", want: []string{"config.toml:1", "home: it is a text in quotes, not -1"}},
		{name: "number for a text", user: "allow = 5\n", want: []string{"config.toml:1", "allow: it is a text in quotes, not 5"}},
		{name: "a list of tables", user: "[[limits]]\nmemory = '1g'\n", want: []string{"config.toml:1", "limits is one table, not a list of them"}, hint: "write [limits]"},
		{name: "a byte order mark", user: "\xef\xbb\xbfpriority = 0\n", want: []string{"config.toml:1", "from 1 to 1000"}},
		{name: "list of numbers", user: "allow = [1]\n", want: []string{"config.toml:1", "texts"}},
		{name: "empty pattern", user: "allow = ['']\n", want: []string{"empty"}},
		{name: "date", user: "priority = 2026-11-21\n", want: []string{"config.toml:1", "a text, a number"}},
		{name: "variable", env: []string{"AGENTKERNEL_LIMITS_OUTPUT=lots"}, want: []string{"AGENTKERNEL_LIMITS_OUTPUT", `"lots" is not a size`}},
		{name: "misspelt variable", env: []string{"AGENTKERNEL_PRIORTY=3"}, want: []string{"AGENTKERNEL_PRIORTY"}, hint: "AGENTKERNEL_PRIORITY"},
		{name: "project grants", project: "\nallow = ['*']\n", want: []string{"agentkernel.toml:2", "project file cannot set"}, hint: "AGENTKERNEL_ALLOW"},
		{name: "project names a tenant", project: "namespace = 'alice'\n", want: []string{"agentkernel.toml:1", "cannot set \"namespace\""}},
		{name: "project chooses no backend of ours", project: "backend = 'hosted'\n", want: []string{"agentkernel.toml:1", "there is no backend", "auto, monty, process"}},
		{name: "a backend that is none", user: "backend = 'montey'\n", want: []string{"config.toml:1", "there are: auto, monty, process", "did you mean monty?"}},
		{name: "a host that is a URL", user: "allow_hosts = ['http://example.com']\n", want: []string{"config.toml:1", "allow_hosts", "looks like a URL"}, hint: "--allow-host example.com:80"},
		{name: "a secret without a source", user: "secrets = ['hunter2hunter2']\n", want: []string{"config.toml:1", "secrets", "is one word: it names no source"}, hint: "env:VARIABLE"},
		{name: "a pattern that is none", user: "allow = ['fs[.read']\n", want: []string{"config.toml:1", "is no pattern"}, hint: "a bracket"},
		{name: "a word that denies nothing", user: "deny = ['netwrok']\n", want: []string{"config.toml:1", "takes nothing away"}},
		{name: "a namespace of the kernel's", user: "namespace = '$x'\n", want: []string{"config.toml:1", "begins with $"}},
		{name: "project stops every program", project: "[limits]\nopen_files = 16\n", want: []string{"agentkernel.toml:2", "limits.open_files is 16", "less than 64"}, hint: "take it out of "},
		{name: "project moves home", project: "home = '/tmp/x'\n", want: []string{"agentkernel.toml:1", "cannot set \"home\""}},
		{name: "project chooses engine", project: "engine = './evil'\n", want: []string{"agentkernel.toml:1", "cannot set \"engine\""}},
		{name: "project sizes the pool", project: "workers = 900\n", want: []string{"cannot set \"workers\""}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			_, err := newPlace(t, tc.user, tc.project).load(tc.env...)
			e := agentkernel.AsError(err, agentkernel.CodeInternal, "")
			if e == nil {
				t.Fatal("no error")
			}
			if e.Code != agentkernel.CodeInvalid {
				t.Errorf("code %s", e.Code)
			}
			for _, w := range tc.want {
				if !strings.Contains(e.Error(), w) {
					t.Errorf("error %q lacks %q", e.Error(), w)
				}
			}
			if !strings.Contains(e.Hint, tc.hint) {
				t.Errorf("hint %q lacks %q", e.Hint, tc.hint)
			}
		})
	}
}

func TestForeignVariablesAreLeftAlone(t *testing.T) {
	if _, err := newPlace(t, "", "").load("AGENTKERNEL_OWNER=x", "AGENTKERNEL_MONTY=/m", "AGENTKERNEL_SOMETHING_ELSE=1"); err != nil {
		t.Error(err)
	}
}

func TestUserFileFollowsXDG(t *testing.T) {
	p := newPlace(t, "priority = 5\n", "")
	xdg := t.TempDir()
	if err := os.MkdirAll(filepath.Join(xdg, "agentkernel"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(xdg, "agentkernel", "config.toml")
	if err := os.WriteFile(path, []byte("priority = 6\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := p.load("XDG_CONFIG_HOME=" + xdg)
	if err != nil {
		t.Fatal(err)
	}
	if c.Priority != 6 || c.UserFile != path {
		t.Errorf("priority %d from %s", c.Priority, c.UserFile)
	}
}

func TestParseSize(t *testing.T) {
	good := map[string]int64{"1": 1, "512m": 512 << 20, "2G": 2 << 30, "64KiB": 64 << 10, "1.5gb": 3 << 29, "1 mb": 1 << 20, "1t": 1 << 40}
	for in, want := range good {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "m", "0", "-1", "1x", "nan", "inf", "1e400", "0.1", "9e18t", "12 apples", "1kk", "1ib"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", in, got)
		}
	}
}

func TestSpans(t *testing.T) {
	for text, want := range map[string]time.Duration{"30d": 720 * time.Hour, "2w": 336 * time.Hour, "12h": 12 * time.Hour, "1h30m": 90 * time.Minute, "0s": 0, "0d": 0} {
		if got, err := ParseSpan(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "-3d", "1.5d", "30", "d30", "1d2h", "99999999999w", "+3d", "3 d"} {
		if got, err := ParseSpan(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// TestErrorsSayTheKeyOnce: a flag and a variable name the key themselves, a file does not.
func TestErrorsSayTheKeyOnce(t *testing.T) {
	c, err := newPlace(t, "", "").load()
	if err != nil {
		t.Fatal(err)
	}
	_, variable := newPlace(t, "", "").load("AGENTKERNEL_ISOLATION=foo")
	_, file := newPlace(t, "isolation = 'foo'\n", "").load()
	const says = `"foo" is not one of `
	for err, want := range map[error]string{
		c.SetFlag("isolation", "--isolation", "foo"):   "--isolation: " + says + "interpreter, process, kernel, vm, none",
		c.SetFlag("limits.repeats", "--repeats", "-1"): `"-1" is not a whole number from 1 to 2147483647, or none`,
		variable: "AGENTKERNEL_ISOLATION: " + says,
		file:     "config.toml:1: isolation: " + says,
	} {
		if text := agentkernel.AsError(err, "", "").Message(); !strings.Contains(text, want) {
			t.Errorf("%q, not %q", text, want)
		}
	}
}

// TestBrokenFile: who can do without a file is told of it, and gets what the rest says.
func TestBrokenFile(t *testing.T) {
	p := newPlace(t, "namespace = 'a'\npriority = 'x'\nbackend = 'monty'\n", "limits = {\n")
	var kinds []Kind
	c, err := Load(Options{Dir: p.dir, UserHome: p.home, Broken: func(k Kind, err error) {
		if kinds = append(kinds, k); err == nil {
			t.Error("no error")
		}
	}})
	if err != nil || !cmp.Equal(kinds, []Kind{User, Project}) || c.Namespace != "a" || c.Backend != "" {
		t.Errorf("%v, told of %v: %+v", err, kinds, c.Values)
	}
}

func TestCounts(t *testing.T) {
	for text, want := range map[string]int64{"50": 50, "200k": 200_000, "1.5M": 1_500_000, "0.001k": 1, "2m": 2_000_000, "9223372036854775807": 1<<63 - 1} {
		if got, err := agentkernel.ParseCount(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "k", "0", "0k", "-1", "-1k", "1.5", "1.0005k", "1e3", "1/2", "0x10", "+1", "1_000", "9223372036854775808", "9999999999999999M", "5 k", "kk", "5g"} {
		if got, err := agentkernel.ParseCount(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// TestFilesThatAreNone: a directory in the place of a file of settings, and a key in the wrong place of one, are said with what to do.
func TestFilesThatAreNone(t *testing.T) {
	hint := func(err error) string {
		if e := agentkernel.AsError(err, "", ""); e != nil {
			return e.Hint
		}
		return ""
	}
	p := newPlace(t, "", "")
	if err := os.MkdirAll(filepath.Join(p.home, ".config", "agentkernel", "config.toml"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := p.load(); !strings.Contains(hint(err), "it is a directory") {
		t.Errorf("the user's file: %v, hint %q", err, hint(err))
	}
	p = newPlace(t, "", "")
	if err := os.Mkdir(filepath.Join(p.project, ProjectFileName), 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := p.load()
	if err != nil || len(c.Notes()) != 1 || !strings.Contains(c.Notes()[0], "agentkernel.toml does not count: it is a directory") {
		t.Errorf("the project's file: %v", err)
	}
	for text, want := range map[string]string{
		"[limits]\nmodels = [\"fast openai:a\"]\n":               "models is not one of [limits]: write its line above the first line in brackets",
		"[limits]\nmodls = [\"fast openai:a\"]\n":                "did you mean",
		"models = [\"a openai:a\"]\nmodels = [\"b openai:b\"]\n": `make one list of the lines: models = ["...", "..."]`,
		"backend = \"auto\"\nbackend = \"auto\"\n":               "leave one of the lines out",
		"models = [\"fast openai:a\"\n":                          `a list in brackets, as in models = ["fast openai:gpt-5-mini"]`,
	} {
		if _, err := newPlace(t, text, "").load(); !strings.Contains(hint(err), want) {
			t.Errorf("%q: %v, hint %q, want %q", text, err, hint(err), want)
		}
	}
	if _, err := newPlace(t, "", "[limits]\nallow = [\"a.*\"]\n").load(); !strings.Contains(hint(err), "a project file cannot set it: write it into your own config.toml, above") {
		t.Errorf("a project's file: %v, hint %q", err, hint(err))
	}
	if _, err := newPlace(t, "[models]\n", "").load(); err == nil || !strings.Contains(err.Error(), "write NAME = VALUE, not [NAME]") {
		t.Errorf("a table: %v", err)
	}
}

// TestKeysAreBounded: a stranger's file of very many keys is refused before the parser compares each with all.
func TestKeysAreBounded(t *testing.T) {
	numbered := func(form string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, form, i)
		}
		return b.String()
	}
	for name, c := range map[string]struct{ text, says string }{
		"as many as there may be": {numbered("k%d = 1\n", maxKeys), `:1: unknown key "k0"`},
		"one more":                {numbered("k%d = 1\n", maxKeys+1), ":1001: there are more than 1000 keys"},
		"tables":                  {numbered("[t%d]\n", maxKeys+1), ":1001: there are more than 1000 keys"},
		"tables of a list":        {numbered("[[t]]\nk%d = 1\n", maxKeys), ":1001: there are more than 1000 keys"},
		"parts of names":          {strings.Repeat("a.", maxKeys) + "a = 1", ":1: there are more than 1000 keys"},
		"in one line":             {"a = {" + numbered("k%d = 1, ", maxKeys) + "z = 1}", ":1: there are more than 1000 keys"},
		"in a list":               {"a = [" + numbered("{k%d = 1}, ", maxKeys) + "]", ":1: there are more than 1000 keys"},
		"what is no TOML":         {numbered("k%d = 1\n", 3) + "]", ":4:"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "agentkernel.toml"), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "agentkernel.toml"+c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
