package tool_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"agentkernel/internal/tool"
	"agentkernel/internal/tool/tooltest"
)

// A file server can read the configuration of its neighbours: what is surely a secret of one server is taken out of
// the results and errors of all, whichever way it was configured and however JSON spells it.
func TestSecretsOfOtherServers(t *testing.T) {
	secrets := map[string]string{
		"in env":           "env-secret-0001",
		"in a header":      "head/secret&0002",
		"behind a flag":    "flag-secret-0003",
		"in a flag":        "flag=secret+0004",
		"for a container":  "ctr-secret-0005",
		"header in a flag": "relay-secret-0006",
		"with umlauts":     "gehéim-0000007",
	}
	src := open(t, tool.Config{}, map[string]tooltest.Server{
		"test": tooltest.Stdio(t),
		"env":  {"command": "x", "env": map[string]string{"API_KEY": secrets["in env"], "PASSWORD": secrets["with umlauts"]}},
		"head": {"url": "https://h.example/mcp", "headers": map[string]string{"Authorization": "Bearer " + secrets["in a header"]}},
		"args": {"command": "docker", "args": []string{"run", "--access-token", secrets["behind a flag"], "--api-key=" + secrets["in a flag"],
			"-e", "GITHUB_TOKEN=" + secrets["for a container"], "--header", "Authorization: Bearer " + secrets["header in a flag"],
			"--token-file", "/etc/passwords/some", "--author", "production"}},
	})
	for name, secret := range secrets {
		got, err := call(t, src, "test", "echo", obj{"value": "it is " + secret + "/\u00fc."})
		if err != nil || strings.Contains(got, secret) || !strings.Contains(got, "it is [") || !strings.Contains(got, "/ü.") {
			t.Errorf("%s: %s %v", name, got, err)
		}
		for what, spelled := range map[string]string{
			"base64":          base64.StdEncoding.EncodeToString([]byte("user:" + secret)),
			"base64, for URL": base64.RawURLEncoding.EncodeToString([]byte("me:" + secret + ":x")),
			"URL, twice":      url.QueryEscape(url.QueryEscape(secret)),
			"JSON, twice":     strconv.QuoteToASCII(strconv.QuoteToASCII(secret)),
		} {
			if got, err := call(t, src, "test", "echo", obj{"value": "<" + spelled + ">"}); err != nil || strings.Contains(got, spelled[len(spelled)/3:len(spelled)*2/3]) {
				t.Errorf("%s, as %s: %s %v", name, what, got, err)
			}
		}
		_, err = call(t, src, "test", "fail", obj{"message": "no " + secret})
		if err == nil || strings.Contains(fmt.Sprint(err), secret) || !strings.Contains(fmt.Sprint(err), "no [") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, plain := range []string{"/etc/passwords/some", "production", "docker", "run"} {
		if got, err := call(t, src, "test", "echo", obj{"value": plain}); err != nil || !strings.Contains(got, plain) {
			t.Errorf("%s is taken for a secret: %s %v", plain, got, err)
		}
	}
}

// A secret of digits is taken out of results as a number, too.
func TestSecretsThatAreNumbers(t *testing.T) {
	src := open(t, tool.Config{}, map[string]tooltest.Server{
		"test":  tooltest.Stdio(t),
		"other": {"command": "x", "env": map[string]string{"API_TOKEN": "123456789012345678901234567890"}},
	})
	if got, err := call(t, src, "test", "exact", obj{}); err != nil || !strings.Contains(got, `"a","[API_TOKEN]"`) || !strings.Contains(got, `"z",1.0`) {
		t.Errorf("%s %v", got, err)
	}
}

// A large result passes through the kernel in a few copies: what it costs is a small multiple of its size.
func TestLargeResultsCostFewCopies(t *testing.T) {
	const mb, most = 32, 8
	src := open(t, tool.Config{}, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	if _, err := call(t, src, "test", "big", obj{"mb": 1}); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := call(t, src, "test", "big", obj{"mb": mb})
	runtime.ReadMemStats(&after)
	if err != nil || len(got) != mb<<20+2 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	times := float64(after.TotalAlloc-before.TotalAlloc) / (mb << 20)
	t.Logf("%.1f times its size", times)
	if times > most {
		t.Errorf("a result of %d MB costs %.1f times its size", mb, times)
	}
}
