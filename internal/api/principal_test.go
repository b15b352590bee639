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

// unreachable is a kernel that no handler may reach: each of its methods panics, which guard
// answers with status 500.
type unreachable struct{ agentkernel.Kernel }

// bodies are what routes with a body want to read before they call the kernel; {} is enough for the
// others.
var bodies = map[string]string{
	"/processes/{pid}/signal":  `{"signal":"kill"}`,
	"/processes/{pid}/answers": `{"ask":1,"answer":"yes"}`,
}

// queries are what routes want to be asked.
var queries = map[string]string{"/processes/{pid}/file": "path=a"}

func serverFor(t *testing.T, who func(*http.Request) (agentkernel.Principal, error)) *Server {
	t.Helper()
	s, err := New(Config{Kernel: unreachable{}, Version: "1.0", IdleAfter: -1, Principal: who})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (rt *route) ask(s *Server) *httptest.ResponseRecorder {
	body := bodies[rt.path]
	if body == "" {
		body = "{}"
	}
	r := httptest.NewRequest(rt.method, wire.Prefix+strings.Replace(rt.path, "{pid}", "1", 1)+"?"+queries[rt.path], strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if strings.HasSuffix(rt.path, "/host") {
		r.Header.Set("Upgrade", wire.UpgradeHost)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// TestNoRouteGoesAroundThePrincipal: whoever has no rights gets nothing anywhere but the version,
// and nothing of the kernel is touched for him.
func TestNoRouteGoesAroundThePrincipal(t *testing.T) {
	s := serverFor(t, func(*http.Request) (agentkernel.Principal, error) { return agentkernel.Principal{}, nil })
	for _, rt := range routes() {
		want := http.StatusForbidden
		if rt.path == "/version" {
			want = http.StatusOK
		}
		if w := rt.ask(s); w.Code != want {
			t.Errorf("%s %s: %d %s", rt.method, rt.path, w.Code, w.Body)
		}
	}
	select {
	case <-s.stop:
		t.Error("somebody without rights has ended the kernel")
	default:
	}
}

// TestWhoIsRefusedGetsNoAnswer: a request whose sender is not known comes to no handler.
func TestWhoIsRefusedGetsNoAnswer(t *testing.T) {
	s := serverFor(t, func(*http.Request) (agentkernel.Principal, error) {
		return agentkernel.Owner(), agentkernel.Errorf(agentkernel.CodeDenied, "attach", "no token")
	})
	for _, rt := range routes() {
		if w := rt.ask(s); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "no token") {
			t.Errorf("%s %s: %d %s", rt.method, rt.path, w.Code, w.Body)
		}
	}
}

// TestEverybodyIsTheOwnerWhereNobodyIsToldApart, as on the kernel's own socket.
func TestEverybodyIsTheOwnerWhereNobodyIsToldApart(t *testing.T) {
	s := serverFor(t, nil)
	r := httptest.NewRequest(http.MethodGet, wire.Prefix+"/info", nil)
	if s.kernel(r) != agentkernel.Kernel(unreachable{}) {
		t.Error("the owner is served another kernel")
	}
	told := serverFor(t, func(*http.Request) (agentkernel.Principal, error) { return agentkernel.Owner(), nil })
	if _, err := told.kernel(r).Info(t.Context()); agentkernel.CodeOf(err) != agentkernel.CodeDenied {
		t.Errorf("a request that did not come through guard: %v", err)
	}
}

func (unreachable) Attach(context.Context, agentkernel.PID, agentkernel.Attaching) (agentkernel.Host, error) {
	panic("the kernel was asked")
}
