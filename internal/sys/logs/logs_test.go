package logs_test

import (
	"testing"

	"agentkernel"
	"agentkernel/internal/sys/logs"
	"agentkernel/internal/sys/systest"
)

func TestWrite(t *testing.T) {
	p := systest.New(t, logs.Family())
	for args, want := range map[string]agentkernel.Code{
		`{"message":"hi"}`: "", `{"message":{"a":[1,null]},"level":"error"}`: "", `{"message":null,"level":"debug"}`: "",
		`{"message":"hi","level":"loud"}`: agentkernel.CodeInvalid, `{"message":"hi","level":1}`: agentkernel.CodeInvalid,
		`{"text":"hi"}`: agentkernel.CodeInvalid,
	} {
		if out, err := p.Now(t, "log.write", args); agentkernel.CodeOf(err) != want || err == nil && string(out.Result) != "null" {
			t.Errorf("%s: %s, %v; want %q", args, out.Result, err, want)
		}
	}
}
