package tool

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func env(pairs ...string) func(string) (string, bool) {
	return func(k string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == k {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func TestParseConfig(t *testing.T) {
	src := `{
  // what every MCP client reads
  "other": {"x": [1, 2]},
  "mcpServers": {
    "files": {
      "command": "npx", /* from npm */
      "args": ["-y", "server", "${workspaceFolder}/data", "${env:WHO}", "${NOT_SET:-fallback}"],
      "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "HOME": "${userHome}"},
      "cwd": "sub",
      "timeout": 30, "startTimeout": "1m", "concurrency": 4, "session": "kept", "trusted": false,
    },
    "web": {"type": "streamable-http", "url": "https://example.com/mcp?key=${GITHUB_TOKEN}", "headers": {"X-Api-Key": "k"}},
    "off": {"command": "~/bin/x", "args": ["~/data"], "env": {"DATA": "~/data"}, "disabled": true},
    "home": {"command": "x", "cwd": "~/work"},
    "bare": {"command": "x", "cwd": "~"},
  },
}`
	entries, err := parseConfig("/home/u/project/mcp.json", []byte(src), env("WHO", "me", "GITHUB_TOKEN", "ghp_0123456789", "HOME", "/home/u"))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 5 {
		t.Fatalf("%d entries", len(entries))
	}
	for _, e := range entries {
		if e.problem != nil {
			t.Errorf("%s: %v", e.name, e.problem)
		}
	}
	f := entries[0]
	if d := cmp.Diff(f.args, []string{"-y", "server", "/home/u/project/data", "me", "fallback"}); d != "" {
		t.Error(d)
	}
	if f.env["GITHUB_TOKEN"] != "ghp_0123456789" || f.env["HOME"] != "/home/u" || f.cwd != "/home/u/project/sub" ||
		f.timeout != 30*time.Second || f.startTimeout != time.Minute || f.concurrency != 4 || !f.kept || f.trusted || f.transport != "stdio" {
		t.Errorf("%+v", f)
	}
	if f.where != "line 5, column 5" {
		t.Errorf("the entry stands at %s", f.where)
	}
	if w := entries[1]; w.transport != "http" || w.url != "https://example.com/mcp?key=ghp_0123456789" || !w.trusted {
		t.Errorf("%+v", w)
	}
	if o := entries[2]; o.command != "/home/u/bin/x" || !o.disabled || o.cwd != "/home/u/project" || o.args[0] != "~/data" || o.env["DATA"] != "~/data" {
		t.Errorf("%+v", o)
	}
	if d := cmp.Diff([]string{entries[3].cwd, entries[4].cwd}, []string{"/home/u/work", "/home/u"}); d != "" {
		t.Error(d)
	}
}

func TestParseConfigErrors(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"empty", "  \n", `/m.json, line 1, column 1: the file is empty`},
		{"not JSON", "{\n  \"mcpServers\": {\n    \"a\": {command: 1}\n", `line 3, column 11: not JSON`},
		{"an array", `[]`, `must hold a JSON object`},
		{"no servers", `{"servrs": {}}`, `there is no "mcpServers" in the file (it has "servrs")`},
		{"servers of the wrong kind", `{"mcpServers": []}`, `"mcpServers" must be an object`},
		{"twice", "{\"mcpServers\": {\"a\": {\"command\": \"x\"},\n \"a\": {\"command\": \"y\"}}}", `line 2, column 2: server "a" stands in the file twice`},
		{"unclosed comment", `{ /* `, "not JSON"},
		{"cut off", `{"mcpServers": {"a": {"command": "x"`, "not JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseConfig("/m.json", []byte(c.src), env())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v does not say %s", err, c.want)
			}
		})
	}
}

// One wrong entry must not cost the user the others.
func TestEntryProblems(t *testing.T) {
	for _, c := range []struct{ name, entry, want string }{
		{"no command", `{"comand": "x"}`, `neither "command" nor "url" (it has "comand")`},
		{"both", `{"type": "http", "command": "x", "url": "http://h"}`, `both "command" and "url"`},
		{"sse", `{"type": "sse", "url": "http://h"}`, `"sse" is the transport of 2024`},
		{"unknown transport", `{"type": "grpc", "url": "http://h"}`, `type "grpc" is not known: write "stdio"`},
		{"http without url", `{"type": "http", "command": "x"}`, `needs a "url"`},
		{"stdio with url", `{"type": "stdio", "url": "http://h"}`, `write "type": "http"`},
		{"bad url", `{"url": "ftp://h"}`, `not an http or https address`},
		{"args as text", `{"command": "x", "args": "-y"}`, `"args" must be a list of texts, not string`},
		{"env number", `{"command": "x", "env": {"PORT": 1}}`, `"env.PORT" must be text, not number`},
		{"a number in args", `{"command": "x", "args": ["-p", 1]}`, `"args[1]" must be text, not number`},
		{"timeout", `{"command": "x", "timeout": "soon"}`, `not a length of time: write seconds as a number (30)`},
		{"negative", `{"command": "x", "concurrency": -1}`, `concurrency -1 is out of range`},
		{"price", `{"command": "x", "cost_usd": "much"}`, `"cost_usd": "much" is no number of dollars: write 0.01`},
		{"no price", `{"command": "x", "cost_usd": null}`, `"cost_usd": null is no number of dollars`},
		{"negative price", `{"command": "x", "cost_usd": -0.01}`, `"cost_usd" is negative`},
		{"price of a tool", `{"command": "x", "cost_usd": {"a": 1, "b": true}}`, `"cost_usd" of "b": true is no number of dollars`},
		{"negative price of a tool", `{"command": "x", "cost_usd": {"a": -1}}`, `"cost_usd" of "a" is negative`},
		{"prices in a list", `{"command": "x", "cost_usd": [1]}`, `"cost_usd": [1] is no number of dollars`},
		{"session", `{"command": "x", "session": "keep"}`, `write "kept"`},
		{"unset variable", `{"command": "x", "env": {"A": "${NOPE}"}}`, `environment variable NOPE is not set`},
		{"prompt", `{"command": "x", "args": ["${input:key}"]}`, `asks an editor`},
		{"no variable", `{"command": "x", "args": ["${a b}"]}`, `is not a variable`},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := "{\"mcpServers\": {\n  \"bad\": " + c.entry + ",\n  \"good\": {\"command\": \"y\"}}}"
			entries, err := parseConfig("/m.json", []byte(src), env())
			if err != nil {
				t.Fatal(err)
			}
			p := entries[0].problem
			if p == nil || !strings.Contains(p.Error(), c.want) || !strings.Contains(p.Error(), `server "bad" (/m.json, line 2, column`) {
				t.Errorf("problem %v does not say %s", p, c.want)
			}
			if entries[1].problem != nil {
				t.Errorf("the other server suffers: %v", entries[1].problem)
			}
		})
	}
}

func TestHashSeesWhatWouldBeStarted(t *testing.T) {
	parse := func(src string, lookup func(string) (string, bool)) string {
		entries, err := parseConfig("/m.json", []byte(`{"mcpServers": {"a": `+src+`}}`), lookup)
		if err != nil || entries[0].problem != nil {
			t.Fatal(err, entries[0].problem)
		}
		return entries[0].hash
	}
	base := parse(`{"command": "x", "env": {"A": "${V}"}}`, env("V", "1"))
	if parse(`{ "env": {"A": "${V}"}, "command": "x" }`, env("V", "1")) != base {
		t.Error("the order of members changes the hash")
	}
	if parse(`{"command": "x", "env": {"A": "${V}"}}`, env("V", "2")) == base {
		t.Error("another environment gives the same hash")
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`{"mcpServers": {"a": {"command": "x", "args": ["${V}"], }, /* c */ } }`))
	f.Add([]byte("{\"servers\":{\"\":1}} // \""))
	f.Fuzz(func(t *testing.T, src []byte) {
		entries, err := parseConfig("/m.json", src, env("V", "v"))
		if err == nil {
			for _, e := range entries {
				if e.name == "" || e.problem == nil && e.command == "" && e.url == "" {
					t.Errorf("entry %+v", e)
				}
			}
		}
	})
}

func TestRedactor(t *testing.T) {
	var r redactor
	r.add("GITHUB_TOKEN", "ghp_0123456789", false)
	r.add("Authorization", "Bearer abcdefgh", true)
	r.add("NODE_ENV", "production", false)
	r.add("ROOT", "/srv/data", false)
	r.add("PORT", "80800808", false)
	r.add("URL", "https://u:pw123456@h/", false)
	r.add("PIN_TOKEN", "12345678", false)
	r.add("SHORT_TOKEN", "1234567", false) // too short to be surely one: a number may be data
	r.seal()
	in := "ghp_0123456789 Bearer abcdefgh abcdefgh production /srv/data 80800808 https://u:pw123456@h/"
	want := "[GITHUB_TOKEN] [Authorization] [Authorization] [NODE_ENV] /srv/data 80800808 [URL]"
	if got := r.text(in); got != want {
		t.Errorf("text: %s", got)
	}
	var again redactor // an escape may look like the beginning of a secret
	again.add("NAME_TOKEN", "name-0123456789", false)
	again.seal()
	for in, want := range map[string]string{
		`"a\name-0123456789"`:  `"a\name-0123456789"`,
		`"a\nname-0123456789"`: `"a\n[NAME_TOKEN]"`,
		`"\n` + base64.StdEncoding.EncodeToString([]byte("u:name-0123456789")) + `"`: `"\ndT[NAME_TOKEN]="`,
	} {
		if got := string(again.result([]byte(in))); got != want || !json.Valid([]byte(got)) {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	for bytes, want := range map[string]string{ // what is left is base64, as programs are handed it
		"the key\x00 is name-0123456789\xff": "the key\x00 is [NAME_TOKEN]\xff",
		"name-0123456789":                    "[NAME_TOKEN]",
		"name-012345678":                     "name-012345678",
	} {
		for _, form := range []string{`[{"type":"image","data":{"$bytes":%q}}]`, `{"$bytes" : %q}`} {
			in, want := fmt.Sprintf(form, base64.StdEncoding.EncodeToString([]byte(bytes))), fmt.Sprintf(form, base64.StdEncoding.EncodeToString([]byte(want)))
			if got := string(again.result([]byte(in))); got != want {
				t.Errorf("%s: %s, want %s", in, got, want)
			}
		}
	}
	var addresses redactor
	addresses.addArguments([]string{"postgres://u:pw%2F6543210@h/db", "--dsn=mysql://root:hunter2-longer@h/", "https://ghp_0123456789abcdefghij@github.com/a/b", "https://git@host/x"})
	addresses.seal()
	for in, want := range map[string]string{
		`"pw%2F6543210 or pw/6543210"`: `"[url password] or [url password]"`, `"hunter2-longer"`: `"[url password]"`, `"ghp_0123456789abcdefghij"`: `"[url password]"`, `"git"`: `"git"`,
	} {
		if got := string(addresses.result([]byte(in))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	got := string(r.result([]byte(`{"ghp_0123456789":"x ghp_0123456789","production":"production","n":12345678,"s":"12345678","t":"1234567"}`)))
	if got != `{"[GITHUB_TOKEN]":"x [GITHUB_TOKEN]","production":"production","n":"[PIN_TOKEN]","s":"[PIN_TOKEN]","t":"1234567"}` {
		t.Errorf("result: %s", got)
	}
}
