package devllm

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A recording has every byte of the answers, in their order, and no key; it answers where no provider is.
func TestRecordAndReplay(t *testing.T) {
	far := newRig(t, "openai", func(o *Options) {
		o.Script = script(t, "rules:\n  - {times: 1, when: {user: x}, answer: {text: one}}\n")
	})
	dir := t.TempDir()
	near := newRig(t, "openai", func(o *Options) { o.Record, o.Upstream = dir, far.url })
	first := near.post("/v1/chat/completions", chatOf("gpt-dev", "x"))
	second := near.post("/v1/chat/completions", chatOf("gpt-dev", "x"))
	stream := near.post("/v1/chat/completions", chatOf("gpt-dev", "x", "stream", true))
	bad := near.post("/v1/chat/completions", chatOf("none", "x"))
	list := near.do("GET", "/v1/models", "")
	if first.status != 200 || bad.status != 404 || list.status != 200 || first.body == second.body || near.RecordingError() != nil {
		t.Fatalf("%d %d %d %v", first.status, bad.status, list.status, near.RecordingError())
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 10 {
		t.Fatalf("%v %v", files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil || strings.Contains(string(text), "key-1") || strings.Contains(string(text), "uthorization") {
			t.Errorf("%v: %s", err, text)
		}
	}
	played := newRig(t, "openai", func(o *Options) { o.Replay = dir })
	for i, want := range []got{first, second, second} {
		g := played.do("POST", "/v1/chat/completions", `{"messages": [{"content":"x", "role":"user"}], "model":"gpt-dev"}`, "Authorization", "Bearer key-2") // the same, written otherwise
		if g.body != want.body || g.status != 200 || g.header.Get("x-ratelimit-limit-requests") != "500" {
			t.Errorf("answer %d: %s", i, g.body)
		}
	}
	if g := played.post("/v1/chat/completions", chatOf("gpt-dev", "x", "stream", true)); g.body != stream.body || g.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%v %s", g.header, g.body)
	}
	if g := played.post("/v1/chat/completions", chatOf("none", "x")); g.status != 404 || g.body != bad.body {
		t.Errorf("%d %s", g.status, g.body)
	}
	if g := played.post("/v1/chat/completions", chatOf("gpt-dev", "new")); g.status != 404 || !strings.Contains(g.body, "has no recording of POST /v1/chat/completions ") {
		t.Errorf("%d %s", g.status, g.body)
	}
	// More is added behind what is there.
	more := newRig(t, "openai", func(o *Options) { o.Record, o.Upstream = dir, far.url })
	more.post("/v1/chat/completions", chatOf("gpt-dev", "x"))
	if files, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(files) != 12 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

// A provider that repeats the key is not recorded; nor is half an answer, nor one of a provider that is not there.
func TestWhatIsNotRecorded(t *testing.T) {
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cut" {
			w.Header().Set("Content-Length", "100")
		}
		switch r.URL.Path {
		case "/head":
			w.Header().Set("X-Request-Id", "req-"+r.Header.Get("Authorization"))
		case "/escaped":
			fmt.Fprint(w, `{"you": "`+strings.ReplaceAll(r.Header.Get("Authorization"), "key", `\u006B\\u0065y`)+`"}`)
		default:
			fmt.Fprint(w, "you are ", r.Header.Get("Authorization"))
		}
	}))
	dir := t.TempDir()
	r := newRig(t, "openai", func(o *Options) { o.Record, o.Upstream = dir, far.URL })
	r.do("POST", "/cut", "{}")
	r.do("POST", "/v1/chat/completions?api_key=key-1", "{}")
	if err := r.RecordingError(); err == nil || strings.Contains(err.Error(), "key-1") {
		t.Errorf("%v", err)
	}
	for _, path := range []string{"/head", "/escaped"} {
		r := newRig(t, "openai", func(o *Options) { o.Record, o.Upstream = dir, far.URL })
		if r.do("POST", path, "{}"); r.RecordingError() == nil {
			t.Errorf("%s was recorded", path)
		}
	}
	far.Close()
	if g := r.do("POST", "/v1/chat/completions", "{}"); g.status != 502 || !strings.Contains(g.body, "cannot be reached") {
		t.Errorf("%d %s", g.status, g.body)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(files) != 0 {
		t.Errorf("%v %v", files, err)
	}
}
