package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestProposedModels: an Ollama is found where its own variable says, and what answers otherwise is none.
func TestProposedModels(t *testing.T) {
	tags := `{"models":[{"name":"llama3.2:latest"},{"name":"qwen3:8b"}]}`
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/api/tags" || len(r.Header["Authorization"]) > 0:
			w.WriteHeader(http.StatusNotFound)
		default:
			_, _ = w.Write([]byte(tags))
		}
	}))
	defer srv.Close()
	host := strings.TrimPrefix(srv.URL, "http://")
	_, port, _ := strings.Cut(host, ":")
	for env, want := range map[string]string{
		host: srv.URL, "http://" + host: srv.URL, "0.0.0.0:" + port: "http://localhost:" + port, "": defaultOllama, "10.1.2.3": "http://10.1.2.3:11434",
		"http://user:secret@h:1": defaultOllama, "::not one::": defaultOllama, "[::1]:5": "http://[::1]:5",
	} {
		a := &app{host: ollamaAt(env)}
		if got := a.ollamaAddress(); got != want {
			t.Errorf("OLLAMA_HOST=%s: %s, want %s", env, got, want)
		}
	}
	a := &app{host: ollamaAt(host)}
	found := a.proposeModels(t.Context())
	if len(found) != 1 || found[0].Line != "local ollama:llama3.2 url="+srv.URL || !strings.Contains(found[0].Why, srv.URL) {
		t.Errorf("%+v", found)
	}
	content := withModels("a\n"+theUsual+"b\n", found)
	if want := "a\n# models = [\n#     \"local ollama:llama3.2 url=" + srv.URL + "\", # an Ollama"; !strings.HasPrefix(content, want) || !strings.HasSuffix(content, "\n# ]\nb\n") {
		t.Errorf("%s", content)
	}
	for _, wrong := range []string{`{"models":[]}`, `{"models":[{"name":"a b\"\n"}]}`, `no`} {
		tags = wrong
		if found := a.proposeModels(t.Context()); len(found) != 0 {
			t.Errorf("%s: %+v", wrong, found)
		}
	}
}

// ollamaAt is a host whose only variable says where an Ollama is.
func ollamaAt(ollama string) host {
	return host{env: []string{"OLLAMA_HOST=" + ollama}}
}
