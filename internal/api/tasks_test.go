package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// TestTaskProgram: what is asked for comes to whoever writes the program, and his answer to the caller, who has to be allowed to run it.
func TestTaskProgram(t *testing.T) {
	var got *wire.TaskRequest
	writes := func(_ context.Context, _ agentkernel.Kernel, asked *wire.TaskRequest) (wire.TaskProgram, error) {
		if got = asked; len(asked.Spec.Models) == 0 {
			return wire.TaskProgram{}, agentkernel.Errorf(agentkernel.CodeUnsupported, "task", "no model is configured")
		}
		return wire.TaskProgram{Program: agentkernel.Program{Name: "do", Source: "1"}, Turns: 20}, nil
	}
	for _, c := range []struct {
		name, body string
		right      agentkernel.Right
		task       func(context.Context, agentkernel.Kernel, *wire.TaskRequest) (wire.TaskProgram, error)
		status     int
		says       string
	}{
		{"a program", `{"task":"sum up","schema":{"type":"number"},"steps":true,"spec":{"program":{"language":"python","source":"","modules":{"tools.a.b":"x"}},"models":["a openai:b"]}}`,
			agentkernel.RightRun, writes, 200, `{"program":{"name":"do","language":"","source":"1"},"turns":20}`},
		{"no model", `{"task":"sum up","spec":{}}`, agentkernel.RightRun, writes, 400, `"code":"unsupported","message":"no model is configured"`},
		{"no tasks", `{"task":"sum up","spec":{}}`, agentkernel.RightRun, nil, 400, "does no tasks in plain language"},
		{"a stranger", `{"task":"sum up","spec":{}}`, agentkernel.RightRead, writes, 403, "needs the right run"},
		{"no such field", `{"task":"sum up","spec":{},"tools":[]}`, agentkernel.RightRun, writes, 400, "tools"},
	} {
		got = nil
		s, err := New(Config{Kernel: unreachable{}, IdleAfter: -1, Task: c.task, Principal: func(*http.Request) (agentkernel.Principal, error) {
			return agentkernel.Principal{Namespace: "n", Rights: []agentkernel.Right{c.right}}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("POST", wire.Prefix+"/tasks/program", strings.NewReader(c.body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
		if c.status == 200 && (got == nil || got.Task != "sum up" || string(got.Schema) != `{"type":"number"}` || !got.Steps || got.Checked || got.Spec.Program.Modules["tools.a.b"] != "x") {
			t.Errorf("%s: it was asked for %+v", c.name, got)
		}
	}
}
