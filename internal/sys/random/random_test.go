package random_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/sys/random"
	"agentkernel/internal/sys/systest"
)

func TestBytes(t *testing.T) {
	p := systest.New(t, random.Family(strings.NewReader("abcdefg")))
	for _, c := range []struct{ args, want string }{
		{`{"n":0}`, `{"$bytes":""}`}, {`{"n":3}`, `{"$bytes":"YWJj"}`}, {`{"n":3}`, `{"$bytes":"ZGVm"}`},
	} {
		if out, err := p.Now(t, "rand.bytes", c.args); err != nil || string(out.Result) != c.want {
			t.Errorf("%s: %s, %v; want %s", c.args, out.Result, err, c.want)
		}
	}
	if out, err := p.Now(t, "rand.bytes", `{"n":3}`); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable || out.Result != nil {
		t.Errorf("a source that ends: %s, %v", out.Result, err)
	}
	for _, args := range []string{`{"n":-1}`, `{"n":65537}`, `{"n":1.5}`, `{"n":1e99}`, `{"n":"3"}`} {
		if out, err := p.Now(t, "rand.bytes", args); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%s: %s, %v", args, out.Result, err)
		}
	}
}

func TestTheSystemsBytesDiffer(t *testing.T) {
	p := systest.New(t, random.Family(nil))
	seen := map[string]bool{}
	for range 100 {
		out, err := p.Now(t, "rand.bytes", `{"n":16}`)
		if err != nil {
			t.Fatal(err)
		}
		var tagged struct {
			Bytes string `json:"$bytes"`
		}
		if err := json.Unmarshal(out.Result, &tagged); err != nil {
			t.Fatal(err)
		}
		if b, err := base64.StdEncoding.DecodeString(tagged.Bytes); err != nil || len(b) != 16 {
			t.Fatalf("%s: %d bytes, %v", out.Result, len(b), err)
		}
		seen[tagged.Bytes] = true
	}
	if len(seen) != 100 {
		t.Errorf("100 times 16 bytes: %d of them differ", len(seen))
	}
}
