package http_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/sys"
	httpfamily "agentkernel/internal/sys/http"
	"agentkernel/internal/sys/systest"
)

// fetcher refuses what is not for host.test, and answers with what it is told.
type fetcher struct {
	asked  []agentkernel.FetchRequest
	answer agentkernel.FetchResponse
	err    error
}

func (f *fetcher) CheckHosts(hosts []string) error {
	if slices.Contains(hosts, "bad") {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "http.fetch", "bad host")
	}
	return nil
}

func (f *fetcher) Admit(r agentkernel.FetchRequest) error {
	if !strings.Contains(r.URL, "host.test") {
		return agentkernel.Errorf(agentkernel.CodeDenied, "http.fetch", "not allowed")
	}
	return nil
}

func (f *fetcher) Fetch(_ context.Context, r agentkernel.FetchRequest) (agentkernel.FetchResponse, error) {
	f.asked = append(f.asked, r)
	return f.answer, f.err
}

// What a method means for a recovery is settled before anything is sent.
func TestEffectOfAMethod(t *testing.T) {
	f := &fetcher{}
	p := systest.New(t, httpfamily.Family(f))
	for method, want := range map[string]agentkernel.Effect{
		"": agentkernel.EffectRead, "get": agentkernel.EffectRead, "HEAD": agentkernel.EffectRead, "OPTIONS": agentkernel.EffectRead,
		"PUT": agentkernel.EffectIdempotent, "delete": agentkernel.EffectIdempotent, "POST": agentkernel.EffectWrite, "PATCH": agentkernel.EffectWrite,
	} {
		a, err := p.Admit(t, "http.fetch", `{"url":"https://host.test/private?token=1","method":"`+method+`"}`)
		if err != nil || a.Effect != want {
			t.Errorf("%s: %s, %v; want %s", method, a.Effect, err, want)
		}
		if a.Subject != strings.TrimSpace(strings.ToUpper(method)+" host.test") && method != "" || strings.Contains(a.Subject, "private") {
			t.Errorf("%s is shown as %q", method, a.Subject)
		}
	}
	if len(f.asked) != 0 {
		t.Errorf("%d requests were made before they were admitted", len(f.asked))
	}
}

func TestRefusedRequestsAreNotMade(t *testing.T) {
	f := &fetcher{}
	p := systest.New(t, httpfamily.Family(f))
	for args, want := range map[string]agentkernel.Code{
		`{"url":"https://other.test/"}`:                                       agentkernel.CodeDenied,
		`{"url":"https://host.test/","timeout":0}`:                            agentkernel.CodeInvalid,
		`{"url":"https://host.test/","timeout":-1}`:                           agentkernel.CodeInvalid,
		`{"url":"https://host.test/","max_bytes":0}`:                          agentkernel.CodeInvalid,
		`{"url":"https://host.test/","headers":{"a":1}}`:                      agentkernel.CodeInvalid,
		`{"url":"https://host.test/","body":{"$float":"nan"}}`:                agentkernel.CodeInvalid,
		`{"url":"https://host.test/","redirect":1}`:                           agentkernel.CodeInvalid,
		`{"url":["https://host.test/"]}`:                                      agentkernel.CodeInvalid,
		`{"url":"https://host.test/","max_bytes":99999999999999999999999999}`: agentkernel.CodeInvalid,
	} {
		if out, err := p.Outside(t.Context(), t, "http.fetch", args); agentkernel.CodeOf(err) != want {
			t.Errorf("%s: %s, %v; want %s", args, out.Result, err, want)
		}
	}
	if len(f.asked) != 0 {
		t.Errorf("%d requests were made", len(f.asked))
	}
}

func TestRequest(t *testing.T) {
	f := &fetcher{answer: agentkernel.FetchResponse{Status: 204}}
	p := systest.New(t, httpfamily.Family(f))
	p.Spec.AllowHosts, p.Spec.Namespace = []string{"host.test"}, "tenant"
	for _, c := range []struct {
		args    string
		body    string
		headers map[string]string
	}{
		{`{"url":"https://host.test/"}`, "", nil},
		{`{"url":"https://host.test/","body":null}`, "", nil},
		{`{"url":"https://host.test/","body":"né"}`, "né", map[string]string{"Content-Type": "text/plain; charset=utf-8"}},
		{`{"url":"https://host.test/","body":{"$bytes":"AAE="}}`, "\x00\x01", map[string]string{"Content-Type": "application/octet-stream"}},
		{`{"url":"https://host.test/","body":{"b":[1.50,{"$tuple":[2]}]}}`, `{"b":[1.50,[2]]}`, map[string]string{"Content-Type": "application/json"}},
		{`{"url":"https://host.test/","headers":{"content-type":"text/csv","x":"{{secret:a}}"},"body":"a,b"}`, "a,b",
			map[string]string{"content-type": "text/csv", "x": "{{secret:a}}"}}, // secrets are filled in by the fetcher alone
	} {
		if _, err := p.Outside(t.Context(), t, "http.fetch", c.args); err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		r := f.asked[len(f.asked)-1]
		if string(r.Body) != c.body || !maps.Equal(r.Headers, c.headers) {
			t.Errorf("%s: body %q, headers %v", c.args, r.Body, r.Headers)
		}
		if r.Method != "GET" || r.Redirects != 10 || r.Key != "key" || !slices.Equal(r.Hosts, p.Spec.AllowHosts) {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
	if _, err := p.Outside(t.Context(), t, "http.fetch", `{"url":"https://host.test/","timeout":1e-9,"max_bytes":5,"redirects":0}`); err != nil {
		t.Fatal(err)
	}
	if r := f.asked[len(f.asked)-1]; r.Timeout != time.Millisecond || r.MaxBytes != 5 || r.Redirects != 0 {
		t.Errorf("%+v", r)
	}
}

func TestAnswer(t *testing.T) {
	f := &fetcher{}
	p := systest.New(t, httpfamily.Family(f))
	for _, c := range []struct {
		headers http.Header
		body    string
		want    string
	}{
		{nil, "é", `{"headers":{},"status":200,"text":"é","url":"u"}`},
		{nil, "\xe9", `{"body":{"$bytes":"6Q=="},"headers":{},"status":200,"url":"u"}`},
		{http.Header{"Content-Type": {"text/plain; charset=latin1"}}, "\xe9",
			`{"body":{"$bytes":"6Q=="},"headers":{"content-type":"text/plain; charset=latin1"},"status":200,"text":"é","url":"u"}`},
		{http.Header{"Set-Cookie": {"a=1, 2", "b=3"}, "Via": {"x", "y"}, "$Odd": {"1"}}, "",
			`{"headers":{"set-cookie":"a=1, 2\nb=3","via":"x, y"},"status":200,"text":"","url":"u"}`},
	} {
		f.answer = agentkernel.FetchResponse{Status: 200, URL: "u", Headers: c.headers, Body: []byte(c.body)}
		out, err := p.Outside(t.Context(), t, "http.fetch", `{"url":"https://host.test/"}`)
		if err != nil || string(out.Result) != c.want {
			t.Errorf("%q: %s, %v; want %s", c.body, out.Result, err, c.want)
		}
	}
}

// The room of a body is given back when the kernel has the result, and not before.
func TestTheKernelSaysWhenItHasTheResult(t *testing.T) {
	done := 0
	f := &fetcher{answer: agentkernel.FetchResponse{Status: 200, Done: func() { done++ }}}
	out, err := systest.New(t, httpfamily.Family(f)).Outside(t.Context(), t, "http.fetch", `{"url":"https://host.test/"}`)
	if err != nil || out.Done == nil || done != 0 {
		t.Fatalf("%v, done %d times", err, done)
	}
	if out.Done(true); done != 1 {
		t.Errorf("done %d times", done)
	}
}

// Whether a request that failed may have been made is for the fetcher to say.
func TestFailureIsSettledIfTheFetcherSaysSo(t *testing.T) {
	f := &fetcher{err: agentkernel.Errorf(agentkernel.CodeUnavailable, "http.fetch", "gone")}
	p := systest.New(t, httpfamily.Family(f))
	for _, settled := range []bool{true, false} {
		f.answer.Settled = settled
		out, err := p.Outside(t.Context(), t, "http.fetch", `{"url":"https://host.test/","method":"POST"}`)
		if agentkernel.CodeOf(err) != agentkernel.CodeUnavailable || out.Settled != settled {
			t.Errorf("settled %v, %v; want %v", out.Settled, err, settled)
		}
	}
}

func TestHostsOfASpec(t *testing.T) {
	for _, c := range []struct {
		f     agentkernel.Fetcher
		hosts []string
		want  agentkernel.Code
	}{
		{&fetcher{}, nil, ""}, {&fetcher{}, []string{"host.test"}, ""}, {&fetcher{}, []string{"bad"}, agentkernel.CodeInvalid},
		{nil, nil, ""}, {nil, []string{"host.test"}, agentkernel.CodeUnsupported},
	} {
		if err := httpfamily.Family(c.f).Check(&agentkernel.Spec{AllowHosts: c.hosts}); agentkernel.CodeOf(err) != c.want {
			t.Errorf("%v with fetcher %v: %v", c.hosts, c.f != nil, err)
		}
	}
	p := systest.New(t, httpfamily.Family(nil))
	if _, err := p.Admit(t, "http.fetch", `{"url":"https://host.test/"}`); agentkernel.CodeOf(err) != agentkernel.CodeUnsupported {
		t.Error(err)
	}
}

// hanging is a fetcher whose requests to /hang take until it is told.
type hanging struct {
	agentkernel.Fetcher
	arrived, release chan struct{}
}

func (*hanging) Admit(agentkernel.FetchRequest) error { return nil }

func (h *hanging) Fetch(_ context.Context, r agentkernel.FetchRequest) (agentkernel.FetchResponse, error) {
	if strings.HasSuffix(r.URL, "/hang") {
		h.arrived <- struct{}{}
		<-h.release
	}
	return agentkernel.FetchResponse{Status: 200, Body: []byte(r.Timeout.String())}, nil
}

// TestCrowd: a namespace whose requests hang does not keep others from theirs, what waits in vain is not sent, and what has waited has the
// rest of its time.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const atOnce = 64
		h := &hanging{arrived: make(chan struct{}, 2*atOnce), release: make(chan struct{})}
		f := httpfamily.Family(h)
		ask := func(namespace, path string) (string, error) {
			c := &sys.Call{Op: &f.Ops[0], Args: json.RawMessage(`{"url":"https://h.test` + path + `"}`), Spec: &agentkernel.Spec{Namespace: namespace}}
			adm, err := c.Op.Admit(c)
			if err != nil {
				return "", err
			}
			if !adm.Turn.Ready() {
				if err := adm.Turn.Wait(t.Context()); err != nil {
					return "", err
				}
			}
			defer adm.Drop()
			c.Admitted = adm.Value
			out, err := c.Op.Outside(t.Context(), c)
			return string(out.Result), err
		}
		for range atOnce {
			go func() { _, _ = ask("crowd", "/hang") }()
		}
		for range atOnce {
			<-h.arrived
		}
		if _, err := ask("other", "/"); err != nil {
			t.Error(err)
		}
		began := time.Now()
		if _, err := ask("crowd", "/"); agentkernel.CodeOf(err) != agentkernel.CodeTimeout || !strings.Contains(err.Error(), "64 other requests") || time.Since(began) != 29*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		time.AfterFunc(10*time.Second, func() { close(h.release) })
		if out, err := ask("crowd", "/"); err != nil || !strings.Contains(out, `"text":"20s"`) {
			t.Errorf("%s, %v", out, err)
		}
	})
}
