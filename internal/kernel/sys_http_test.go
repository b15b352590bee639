package kernel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
	"agentkernel/internal/sys/families"
	"agentkernel/internal/sys/tool"
)

// fakeFetcher is the network: it remembers what was sent and answers what a test says.
type fakeFetcher struct {
	mu     sync.Mutex
	sent   []agentkernel.FetchRequest
	answer func(agentkernel.FetchRequest) (agentkernel.FetchResponse, error)
	delay  func()
}

func (f *fakeFetcher) CheckHosts(patterns []string) error {
	if slices.Contains(patterns, "bad host") {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "http.fetch", "that is no host")
	}
	return nil
}

func (f *fakeFetcher) Admit(r agentkernel.FetchRequest) error {
	if len(r.Hosts) == 0 {
		return agentkernel.Errorf(agentkernel.CodeDenied, "http.fetch", "h.test was not allowed").WithHint("allow it with --allow-host h.test")
	}
	return nil
}

func (f *fakeFetcher) Fetch(_ context.Context, r agentkernel.FetchRequest) (agentkernel.FetchResponse, error) {
	f.mu.Lock()
	delay, answer := f.delay, f.answer
	f.mu.Unlock()
	if delay != nil {
		delay()
	}
	f.mu.Lock()
	f.sent = append(f.sent, r)
	f.mu.Unlock()
	if answer != nil {
		return answer(r)
	}
	return agentkernel.FetchResponse{Status: 200, URL: r.URL, Body: []byte("ok"), Headers: http.Header{}, Settled: true}, nil
}

func (f *fakeFetcher) methods() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, r := range f.sent {
		all = append(all, r.Method)
	}
	return strings.Join(all, " ")
}

func (f *fakeFetcher) config(c *kernel.Config) {
	c.Families, c.ParkAfter = families.All(families.Parts{Tools: c.Tools.(*tool.Box), Fetcher: f}), time.Hour
}

func fetching(program string) agentkernel.Spec {
	s := spec(program)
	s.AllowHosts = []string{"h.test"}
	return s
}

// oneFetch makes one request and says what it was told.
func oneFetch(method string) func(*prog) error {
	return func(p *prog) error {
		got, err := p.call("http.fetch", `{"url":"https://h.test/x","method":"`+method+`"}`)
		p.print("%s%s", got, told(err))
		return nil
	}
}

func TestFetchCalls(t *testing.T) {
	for args, c := range map[string]struct {
		want string // of the request: method, body, content type, timeout, max_bytes, redirects
		code agentkernel.Code
	}{
		`{"url":"https://h.test/"}`:                                                         {"GET [] text= 0s 0 10", ""},
		`{"url":"https://h.test/","method":"post","body":"ü"}`:                              {"POST [ü] text=text/plain; charset=utf-8 0s 0 10", ""},
		`{"url":"https://h.test/","method":"PUT","body":{"$bytes":"AAE="}}`:                 {"PUT [\x00\x01] text=application/octet-stream 0s 0 10", ""},
		`{"url":"https://h.test/","method":"PATCH","body":{"b":[1,{"$tuple":[2]}]}}`:        {`PATCH [{"b":[1,[2]]}] text=application/json 0s 0 10`, ""},
		`{"url":"https://h.test/","method":"POST","body":1,"headers":{"content-type":"x"}}`: {"POST [1] text= 0s 0 10", ""},
		`{"url":"https://h.test/","timeout":0.5,"max_bytes":7,"redirects":0}`:               {"GET [] text= 500ms 7 0", ""},
		`{"url":"https://h.test/","method":"POST","body":{"b":{"$float":"nan"}}}`:           {"", agentkernel.CodeInvalid},
		`{"url":"https://h.test/","method":"POST","body":{"$dict":[[1,2],["1",3]]}}`:        {"", agentkernel.CodeInvalid},
		`{"url":"https://h.test/","timeout":0}`:                                             {"", agentkernel.CodeInvalid},
		`{"url":"https://h.test/","timeout":-1}`:                                            {"", agentkernel.CodeInvalid},
		`{"url":"https://h.test/","max_bytes":0}`:                                           {"", agentkernel.CodeInvalid},
		`{"url":"https://h.test/","headers":{"a":1}}`:                                       {"", agentkernel.CodeInvalid},
		`{"url":7}`: {"", agentkernel.CodeInvalid},
		`{"url":"https://h.test/","verify":false}`: {"", agentkernel.CodeInvalid},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeFetcher{}
			r := newRig(t, newRAMStore(), f.config)
			var err error
			r.backend.add("p", func(p *prog) error { _, err = p.call("http.fetch", args); return nil })
			p, _ := r.run(t, fetching("p"))
			if agentkernel.CodeOf(err) != c.code {
				t.Fatalf("%s: %v", args, err)
			}
			if c.code != "" {
				if len(f.sent) != 0 {
					t.Errorf("%s was sent", args)
				}
				return
			}
			s := f.sent[0]
			got := fmt.Sprintf("%s [%s] text=%s %s %d %d", s.Method, s.Body, s.Headers["Content-Type"], s.Timeout, s.MaxBytes, s.Redirects)
			if got != c.want || !strings.HasSuffix(s.Key, fmt.Sprintf("/%d/1", p.PID)) {
				t.Errorf("%s: got %s with key %q", args, got, s.Key)
			}
		})
	}
}

func TestFetchAnswers(t *testing.T) {
	h := http.Header{"Content-Type": {"text/html; charset=ISO-8859-1"}, "Set-Cookie": {"a=1, b", "c=2"}, "Via": {"x", "y"}}
	for _, c := range []struct {
		res  agentkernel.FetchResponse
		want string
	}{
		{agentkernel.FetchResponse{Status: 404, URL: "https://h.test/<&>", Body: []byte("ü\n"), Headers: http.Header{}},
			`{"headers":{},"status":404,"text":"ü\n","url":"https://h.test/<&>"}`},
		{agentkernel.FetchResponse{Status: 200, Body: []byte{0xff, 0}, Headers: http.Header{"Etag": {"\xff"}}},
			`{"body":{"$bytes":"/wA="},"headers":{"etag":"` + "\uFFFD" + `"},"status":200,"url":""}`},
		{agentkernel.FetchResponse{Status: 200, Body: []byte{0xfc}, Headers: h},
			`{"body":{"$bytes":"/A=="},"headers":{"content-type":"text/html; charset=ISO-8859-1","set-cookie":"a=1, b\nc=2","via":"x, y"},"status":200,"text":"ü","url":""}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeFetcher{answer: func(agentkernel.FetchRequest) (agentkernel.FetchResponse, error) { return c.res, nil }}
			r := newRig(t, newRAMStore(), f.config)
			r.backend.add("p", oneFetch("GET"))
			if _, out := r.run(t, fetching("p")); out != c.want {
				t.Errorf("got  %s\nwant %s", out, c.want)
			}
		})
	}
}

// TestFetchIsDenied: without a host nothing is sent, the refusal is in the journal, and it names the flag.
func TestFetchIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeFetcher{}
		r := newRig(t, newRAMStore(), f.config)
		r.backend.add("p", oneFetch("POST"))
		p, out := r.run(t, spec("p"))
		if !strings.Contains(out, "permission_denied") || !strings.Contains(out, "--allow-host") || len(f.sent) != 0 {
			t.Errorf("%q, sent %q", out, f.methods())
		}
		s := fetching("p")
		s.Deny = []string{"http"}
		if _, out := r.run(t, s); !strings.Contains(out, `deny = "http"`) || len(f.sent) != 0 {
			t.Errorf("%q, sent %q", out, f.methods())
		}
		entries, err := r.Journal(t.Context(), p.PID, 1, 0)
		if err != nil || !slices.ContainsFunc(entries, func(e agentkernel.Entry) bool { return e.Op == "http.fetch" && e.Done && e.Err != nil }) {
			t.Errorf("the refusal is not in the journal: %v", err)
		}
		s.AllowHosts = []string{"bad host"}
		if _, err := r.Spawn(t.Context(), s); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("a host that is none: %v", err)
		}
	})
}

func TestChildrenFetchWhereTheirParentMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeFetcher{}
		r := newRig(t, newRAMStore(), f.config)
		r.backend.add("child", oneFetch("GET"))
		r.backend.add("p", func(p *prog) error {
			pid, err := p.call("proc.spawn", `{"source":"child"}`)
			if err == nil {
				_, err = p.call("proc.wait", `{"pid":`+string(pid)+`}`)
			}
			return err
		})
		r.run(t, fetching("p"))
		r.run(t, spec("p"))
		if len(f.sent) != 1 || !slices.Equal(f.sent[0].Hosts, []string{"h.test"}) {
			t.Errorf("sent %+v", f.sent)
		}
	})
}

// TestFetchCutOff: after a crash in the middle of a request what is safe is sent again, and what is not is unknown.
func TestFetchCutOff(t *testing.T) {
	for method, c := range map[string]struct {
		effect agentkernel.Effect
		says   string
		sent   int
	}{
		"GET": {agentkernel.EffectRead, `"text":"ok"`, 1}, "PUT": {agentkernel.EffectIdempotent, `"text":"ok"`, 1}, "DELETE": {agentkernel.EffectIdempotent, `"text":"ok"`, 1},
		"POST":  {agentkernel.EffectWrite, "outcome_unknown: http.fetch POST h.test may or may not have happened", 0},
		"PATCH": {agentkernel.EffectWrite, "outcome_unknown", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeFetcher{delay: func() { pass(time.Hour) }}
			r := newRig(t, newRAMStore(), f.config)
			r.backend.add("p", oneFetch(method))
			p, err := r.Spawn(t.Context(), fetching("p"))
			if err != nil {
				t.Fatal(err)
			}
			pass(10 * time.Second)
			now, err := r.Process(t.Context(), p.PID)
			if err != nil || !slices.Equal(now.WaitsFor, []string{"http.fetch " + method + " h.test"}) {
				t.Errorf("waits for %q, %v", now.WaitsFor, err)
			}
			_ = r.store.Flush(t.Context(), 0)
			after := &fakeFetcher{}
			r = r.boot(t, r.store.crash(), after.config)
			if _, err := r.Recover(t.Context(), p.PID); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			if err := r.Events(t.Context(), p.PID, 1, true, func(ev agentkernel.Event) error { out.WriteString(ev.Text); return nil }); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), c.says) || len(after.sent) != c.sent {
				t.Errorf("%s: %q, sent again %d times", method, out.String(), len(after.sent))
			}
			entries, err := r.Journal(t.Context(), p.PID, 1, 0)
			if err != nil || !slices.ContainsFunc(entries, func(e agentkernel.Entry) bool { return e.Op == "http.fetch" && e.Effect == c.effect && !e.Done }) {
				t.Errorf("%s: the journal has no intent of effect %s: %v", method, c.effect, err)
			}
			if c.sent == 1 && after.sent[0].Key == "" {
				t.Error("no key")
			}
		})
	}
}

// TestFetchThatFails: a write that was sent and not answered is unknown; one that was not sent, or was answered, is not.
func TestFetchThatFails(t *testing.T) {
	for _, c := range []struct {
		method  string
		settled bool
		want    string
	}{
		{"POST", false, "outcome_unknown"}, {"POST", true, "unavailable"}, {"GET", false, "unavailable"}, {"PUT", false, "unavailable"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeFetcher{answer: func(agentkernel.FetchRequest) (agentkernel.FetchResponse, error) {
				return agentkernel.FetchResponse{Settled: c.settled}, agentkernel.Errorf(agentkernel.CodeUnavailable, "http.fetch", "it broke")
			}}
			r := newRig(t, newRAMStore(), f.config)
			r.backend.add("p", oneFetch(c.method))
			if _, out := r.run(t, fetching("p")); !strings.HasPrefix(out, c.want) {
				t.Errorf("%s, settled %v: %q", c.method, c.settled, out)
			}
		})
	}
}

// TestFetchInARerun: requests are calls like others: answered by the origin up to the first difference, and a write is not
// made again beyond it.
func TestFetchInARerun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeFetcher{}
		r := newRig(t, newRAMStore(), f.config)
		fetch := func(p *prog, method, path string) {
			got, err := p.call("http.fetch", `{"url":"https://h.test/`+path+`","method":"`+method+`"}`)
			p.print("%s%s", got, told(err))
		}
		r.backend.add("old", func(p *prog) error { fetch(p, "GET", "a"); fetch(p, "GET", "b"); fetch(p, "POST", "c"); return nil })
		r.backend.add("new", func(p *prog) error { fetch(p, "GET", "a"); fetch(p, "GET", "other"); fetch(p, "POST", "c"); return nil })
		old, _ := r.run(t, fetching("old"))
		for again, want := range map[string]string{"": "GET", "http.*": "GET POST"} {
			f.sent = nil
			s := fetching("new")
			s.Past = &agentkernel.Past{PID: old.PID}
			if again != "" {
				s.Past.Again = []string{again}
			}
			r.run(t, s)
			if got := f.methods(); got != want {
				t.Errorf("again %q: sent %q, want %q", again, got, want)
			}
		}
	})
}

// TestNoSecretInTheJournal: what a header names is journalled by its name.
func TestNoSecretInTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeFetcher{}
		r := newRig(t, newRAMStore(), f.config)
		r.backend.add("p", func(p *prog) error {
			_, err := p.call("http.fetch", `{"url":"https://h.test/","headers":{"Authorization":"Bearer {{secret:tok}}"}}`)
			return err
		})
		p, _ := r.run(t, fetching("p"))
		entries, err := r.Journal(t.Context(), p.PID, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(entries)
		if !strings.Contains(string(text), "{{secret:tok}}") || f.sent[0].Headers["Authorization"] != "Bearer {{secret:tok}}" {
			t.Errorf("journal %s, sent %v", text, f.sent[0].Headers)
		}
	})
}
