package tool

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
)

func redactionOf(t *testing.T, config string, env map[string]string) (agentkernel.Redaction, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	hub, err := New(Config{LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hub.Close() })
	src, err := hub.Set([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	return src.(agentkernel.SecretKeeper).Redaction(t.Context())
}

func TestRedaction(t *testing.T) {
	red, err := redactionOf(t, `{"mcpServers": {
		"a": {"command": "x", "env": {"API_KEY": "${MY_KEY}", "PLACE": "a certain place", "PORT": "8080"}},
		"b": {"url": "https://b.example/?token=url-token-1234", "headers": {"Authorization": "Bearer head-4711-er"}}}}`,
		map[string]string{"MY_KEY": `key"with"quotes`})
	if err != nil {
		t.Fatal(err)
	}
	text := `key"with"quotes / a certain place / 8080 / url-token-1234 / head-4711-er`
	clean := `[API_KEY] / [PLACE] / 8080 / [url token] / [Authorization]`
	if got := red.Text(text); got != clean {
		t.Errorf("text: %s", got)
	}
	raw, err := json.Marshal(map[string]any{text: []string{text}})
	if err != nil {
		t.Fatal(err)
	}
	var back map[string][]string
	if got := red.JSON(raw); json.Unmarshal(got, &back) != nil || len(back[clean]) != 1 || back[clean][0] != clean {
		t.Errorf("JSON: %s", got)
	}
	source := "place = 'a certain place'  # not a certain place\nkey = 'head-4711-er'"
	if got := red.Source(source); got != "place = '[PLACE]'  # not a certain place\nkey = '[Authorization]'" {
		t.Errorf("source: %s", got)
	}
}

// A secret of digits is one also where JSON has it as a number, in whatever spelling. What is no secret for sure stays a number.
func TestRedactionOfNumbers(t *testing.T) {
	long := strings.Repeat("1234567890", 40) // more than a float64 can be
	red, err := redactionOf(t, `{"mcpServers": {"a": {"command": "x", "env": {
		"API_TOKEN": "1234567890", "PIN_TOKEN": "4711", "ZERO_TOKEN": "00000001", "FLOAT_KEY": "0.12345678", "DEBT_KEY": "-98765432", "DASH_KEY": "--------", "LONG_KEY": "`+long+`", "NUMBER": "87654321", "SESSION_TIMEOUT_MS": "86400000", "ID_TOKEN": "12345678901234567"},
		"headers": {"X-Account-Id": "20241022"}}}}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		`1234567890`:                           `"[API_TOKEN]"`,
		`{"n":1234567890,"l":[1234567890, 1]}`: `{"n":"[API_TOKEN]","l":["[API_TOKEN]", 1]}`,
		`[-1234567890,1234567890.0,1.23456789e9,1.23456789E+9,123456789e1,12345678900e-1]`: `["[API_TOKEN]","[API_TOKEN]","[API_TOKEN]","[API_TOKEN]","[API_TOKEN]","[API_TOKEN]"]`,
		`[12345678901,123456789,1234567890.5,1234567891,1e9]`:                              `[12345678901,123456789,1234567890.5,1234567891,1e9]`,
		`[86400000,20241022,"20241022"]`:                                                   `[86400000,20241022,"[X-Account-Id]"]`,
		`[12345678901234567,12345678901234568]`:                                            `["[ID_TOKEN]",12345678901234568]`,
		`[4711,1,-1,87654321,-8]`:                                                          `[4711,1,-1,87654321,-8]`,
		`[0.12345678,1.2345678e-1,98765432]`:                                               `["[FLOAT_KEY]","[FLOAT_KEY]","[DEBT_KEY]"]`,
		`{"1234567890":"x1234567890 1","k":7}`:                                             `{"[API_TOKEN]":"x[API_TOKEN] 1","k":7}`,
		`[` + long + `,-` + long + `,` + long + `1]`:                                       `["[LONG_KEY]","[LONG_KEY]",` + long + `1]`,
	} {
		if got := string(red.JSON(json.RawMessage(in))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// TestWhatRedactionFinds is what docs/export.md says of it.
func TestWhatRedactionFinds(t *testing.T) {
	red, err := redactionOf(t, `{"mcpServers": {
		"a": {"command": "x", "args": ["--api-key", "argument-1234", "--user=somebody"],
			"env": {"PIN_TOKEN": "12345", "TINY_TOKEN": "abc", "REGION": "north", "ZONE": "north-1", "ROOT": "/srv/data", "SITE": "https://a.example/", "DB": "postgres://u:pw@h/db"}},
		"b": {"url": "https://me:pass%20word@b.example/?key=in/the?address", "headers": {"X-Plain": "head"}}}}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"argument-1234": "[api-key]", "somebody": "somebody", "12345": "[PIN_TOKEN]", "abc": "abc", "north": "north", "north-1": "[ZONE]", "/srv/data": "/srv/data",
		"https://a.example/": "https://a.example/", "postgres://u:pw@h/db": "[DB]", "pass word": "[url password]", "pass%20word": "[url password]", "pass+word": "[url password]",
		"in/the?address": "[url key]", "in%2Fthe%3Faddress": "[url key]", `in\/the?address`: "[url key]", "head": "[X-Plain]",
	} {
		if got := red.Text("<" + text + ">"); got != "<"+want+">" {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestRedactionThatCannotBeKnown: a secret that this kernel does not see cannot be found either.
func TestRedactionThatCannotBeKnown(t *testing.T) {
	_, err := redactionOf(t, `{"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "${MY_KEY}"}}}}`, nil)
	if err == nil || !strings.Contains(err.Error(), "MY_KEY is not set") {
		t.Errorf("got %v", err)
	}
}
