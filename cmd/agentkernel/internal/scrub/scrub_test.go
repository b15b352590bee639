package scrub

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

func TestKnownValuesGoInEveryForm(t *testing.T) {
	var s Scrubber
	secret := "hunter2 \"quoted\"\n/and + more ✓"
	s.AddEnvironment([]string{"MY_API_KEY=" + secret, "PATH=/usr/bin", "GREETING=hello world", "DB=postgres://u:pa55word@h/db", "DEBUG_TOKEN=1"})
	inJSON, _ := json.Marshal(secret)
	for name, form := range map[string]string{
		"plain": secret, "quoted": strconv.Quote(secret), "json": string(inJSON), "base64": base64.StdEncoding.EncodeToString([]byte(secret)),
		"url": url.QueryEscape(secret), "hex": hex.EncodeToString([]byte(secret)), "path": url.PathEscape(secret),
	} {
		got := s.Text("before " + form + " after")
		if !strings.Contains(got, "[MY_API_KEY]") || strings.Contains(got, "hunter2") || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, text := range []string{"/usr/bin", "hello world", "process 1 has 11 calls", "true"} {
		if got := s.Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := s.Text("pa55word is in postgres://u:pa55word@h/db"); strings.Contains(got, "postgres://u") {
		t.Errorf("%q", got)
	}
}

// TestManySecrets: a program may have kept tens of thousands; each text is looked through once, however many there are.
func TestManySecrets(t *testing.T) {
	var s Scrubber
	secret := func(i int) string { return "value " + strconv.Itoa(i) + "!" }
	for i := range 20_000 {
		for range 2 {
			s.Add("removed", secret(i))
		}
		if got := s.Text(secret(i/2) + ", " + secret(i) + secret(i+1)); got != "[removed], [removed]"+secret(i+1) {
			t.Fatalf("%d: %q", i, got)
		}
	}
	c := s.Clone()
	c.Add("more", secret(20_000))
	if got := c.Text(secret(20_000)) + s.Text(secret(20_000)); got != "[more]"+secret(20_000) {
		t.Errorf("%q", got)
	}
}

func TestWhatLooksLikeASecret(t *testing.T) {
	var s Scrubber
	for text, want := range map[string]string{
		"key sk-abcdefghijklmnop0123 used":                                       "key [removed] used",
		"ghp_0123456789abcdefghij":                                               "[removed]",
		"github_pat_0123456789abcdefghij":                                        "[removed]",
		"Authorization: Bearer abc.def-ghi":                                      "Authorization: [removed] abc.def-ghi|Authorization: Bearer [removed]|Authorization: [removed] [removed]",
		"curl https://user:pass@host/x":                                          "curl https://[removed]@host/x",
		"AKIAIOSFODNN7EXAMPLE":                                                   "[removed]",
		`msg="login" password=hunter2 user=me`:                                   `msg="login" password=[removed] user=me`,
		`{"client_secret": "abc123", "n": 1}`:                                    `{"client_secret": "[removed]", "n": 1}`,
		`err="{\"api_key\":\"abc123\"}"`:                                         `err="{\"api_key\":\"[removed]\"}"`,
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_123":                          "[removed]",
		"-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nx": "[removed]\nx",
		"-----BEGIN PRIVATE KEY-----\ncut off":                                   "[removed]",
		"480k tokens stayed inside, 310 came out":                                "480k tokens stayed inside, 310 came out",
		"https://host/path and a@b.c":                                            "https://host/path and a@b.c",
		"tokens: 12":                                                             "tokens: 12",
	} {
		got := s.Text(text)
		ok := false
		for w := range strings.SplitSeq(want, "|") {
			ok = ok || got == w
		}
		if !ok {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestValuesAreCleanedWhole(t *testing.T) {
	var s Scrubber
	s.Add("X", "topsecret")
	got, err := s.JSON(map[string]any{"password": "short", "auth_token": "a", "list": []any{"a topsecret b", 1, nil, true}, "topsecret": "x", "n": 1.5})
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := json.Unmarshal(got, &back); err != nil || back["password"] != removed || back["auth_token"] != removed || back["[X]"] != removed || back["n"] != 1.5 ||
		back["list"].([]any)[0] != "a [X] b" {
		t.Errorf("%s, %v", got, err)
	}
}

// What is a number under the name of a secret, or in a list with that name, goes from a report and from the recording in it, although nothing
// else says that it is one; so does a text in such a list.
func TestNumbersUnderNamesOfSecrets(t *testing.T) {
	var s Scrubber
	in := `{"list":[{"API-Key":123456789,"password":24680}],"api_keys":[123456789,["abc",7],{"n":13579,"key":"a"}],"input_tokens":123456789,"token_counts":{"n":12345},"max_tokens":[12345],"n":123456789,"session":7}`
	want := `{"api_keys":["[removed]",["[removed]",7],{"key":"[removed]","n":13579}],"input_tokens":123456789,"list":[{"API-Key":"[removed]","password":"[removed]"}],"max_tokens":[12345],"n":123456789,"session":7,"token_counts":{"n":12345}}`
	got, err := s.JSON(json.RawMessage(in))
	var b bytes.Buffer
	if err = cmp.Or(err, json.Compact(&b, got)); err != nil {
		t.Fatal(err)
	}
	if b.String() != want {
		t.Errorf("%s, want %s", &b, want)
	}
	if got := string(Redaction{&s}.JSON(json.RawMessage(in))); got != want {
		t.Errorf("a recording has %s, want %s", got, want)
	}
}

// A pair that is written as an object has its name in a field, and its value is known from then on.
func TestPairsOfNameAndValue(t *testing.T) {
	r := Redaction{&Scrubber{}}
	for in, want := range map[string]string{
		`{"key":"api_key","value":"letmein-now"}`:                                      `{"key":"api_key","value":"[removed]"}`,
		`{"key":"api_key","value":12345678}`:                                           `{"key":"api_key","value":"[removed]"}`,
		`{"key":"page","value":"letmein"}`:                                             `{"key":"page","value":"letmein"}`,
		`[{"name":"Authorization","value":"letmein"},{"name":"Accept","value":"*/*"}]`: `[{"name":"Authorization","value":"[removed]"},{"name":"Accept","value":"*/*"}]`,
		`{"key":"letmein","values":1}`:                                                 `{"key":"[removed]","values":1}`,
		`{"value":"letmein"}`:                                                          `{"value":"letmein"}`,
		`{"key":"input_tokens","value":12345678}`:                                      `{"key":"input_tokens","value":12345678}`,
	} {
		fresh := Redaction{r.Clone()}
		if got := string(fresh.JSON(json.RawMessage(in))); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
	r.JSON(json.RawMessage(`{"key":"api_key","value":"letmein-now"}`))
	if got := r.Text("it is letmein-now"); got != "it is [removed]" {
		t.Error(got)
	}
}

// A secret of digits is one also where JSON has it as a number.
func TestNumbersThatAreSecrets(t *testing.T) {
	var s Scrubber
	s.Add("PIN", "4711471147")
	s.AlsoNumbers = []func(json.RawMessage) json.RawMessage{func(n json.RawMessage) json.RawMessage {
		if string(n) == "815815815" {
			return json.RawMessage(`"[OTHER]"`)
		}
		return n
	}}
	learned := Redaction{s.Clone()}
	learned.Add("LATER", "1234123412")
	const text = `{"list":[4711471147,4711471147.0,-4711471147,815815815,4711471148],"later":1234123412,"n":12345678901234567890}`
	got, err := s.JSON(json.RawMessage(text))
	var plain bytes.Buffer
	if err != nil || json.Compact(&plain, got) != nil {
		t.Fatal(string(got), err)
	}
	const want = `{"later":1234123412,"list":["[PIN]","[PIN]","[PIN]","[OTHER]",4711471148],"n":12345678901234567890}`
	if plain.String() != want {
		t.Errorf("%s, want %s", plain.String(), want)
	}
	if got, want := string(learned.JSON([]byte(text))), strings.Replace(want, "1234123412", `"[LATER]"`, 1); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestToolsFilesAreKnown(t *testing.T) {
	var s Scrubber
	s.AddConfig([]byte(`{ // a comment
 "mcpServers": {"a": {"command": "npx", "env": {"HARMLESS_NAME": "value-4711", "QUOTED": "a\"b-4712"}},
 "b": {"url": "https://example.org/mcp", "headers": {"X-Custom": "value-4713"}, "oauth": {"clientSecret": "value-4714"}}`)) // not closed
	got := s.Text(`npx value-4711 a"b-4712 value-4713 value-4714 https://example.org/mcp`)
	if got != "npx [HARMLESS_NAME] [QUOTED] [X-Custom] [clientSecret] https://example.org/mcp" {
		t.Error(got)
	}
}

// FuzzText: whatever surrounds a secret, it goes, and what was scrubbed stays so.
func FuzzText(f *testing.F) {
	f.Add("before ", " after")
	f.Add(`{"token":"`, `"}`)
	f.Fuzz(func(t *testing.T, before, after string) {
		var s Scrubber
		s.Add("NAME", "s3cr3t-value-4711")
		got := s.Text(before + "s3cr3t-value-4711" + after)
		if strings.Contains(got, "s3cr3t-value-4711") {
			t.Fatalf("%q", got)
		}
	})
}

// A recording stays one: programs parse, and what their text reveals is known in what they said.
func TestRedactionOfARecording(t *testing.T) {
	base := &Scrubber{}
	base.Add("MY_KEY", "known-value")
	r := Redaction{Scrubber: base.Clone()}
	source := "token = os.environ['X']\npassword = \"letmein-now\"\nprint('known-value', 'ghp_0123456789abcdefghijkl')\n"
	if got, want := r.Source(source), "token = os.environ['X']\npassword = \"[removed]\"\nprint('[MY_KEY]', '[removed]')\n"; got != want {
		t.Errorf("%s", got)
	}
	if got, want := string(r.JSON([]byte(`{"n":12345678901234567890,"said":"letmein-now <b>","token":"x"}`))), `{"n":12345678901234567890,"said":"[removed] <b>","token":"[removed]"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := base.Text("letmein-now"); got != "letmein-now" {
		t.Errorf("the base has learned: %s", got)
	}
}
