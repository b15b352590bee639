package tool

import (
	"strings"
	"testing"
)

// Whoever looks a configuration over reads the fields that count: none in another case, none twice.
func TestConfigFieldsAreExact(t *testing.T) {
	for text, want := range map[string]string{
		`{"command":"a","Trusted":true}`:            `no field "Trusted"`,
		`{"command":"a","command":"b"}`:             `the field "command" is there twice`,
		`{"command":"a","env":{"A":"1","A":"2"}}`:   `twice in env`,
		`{"command":"a","alwaysAllow":["x"],"n":1}`: "",
	} {
		list, err := parseConfig("x.json", []byte(`{"mcpServers":{"s":`+text+`}}`), func(string) (string, bool) { return "", false })
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		got := ""
		if list[0].problem != nil {
			got = list[0].problem.Error()
		}
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
