package embedded

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel/internal/tool/search"
)

// A key that is replaced while the kernel runs counts for the next request.
func TestKeyIsReadForEachRequest(t *testing.T) {
	var sent string
	far := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent = r.Header.Get("Authorization") }))
	defer far.Close()
	file := filepath.Join(t.TempDir(), "key")
	for source, set := range map[string]func(string) error{
		"file:" + file:   func(key string) error { return os.WriteFile(file, []byte(key+"\n"), 0o600) },
		"env:SOME_TOKEN": func(key string) error { return os.Setenv("SOME_TOKEN", key) },
	} {
		t.Setenv("SOME_TOKEN", "")
		key, err := keyFrom(source)
		if err != nil {
			t.Fatal(err)
		}
		e := search.Endpoint{URL: far.URL, Key: key}
		for _, want := range []string{"first", "second"} {
			if err := set(want); err != nil {
				t.Fatal(err)
			}
			_, _ = e.Embed(t.Context(), []string{"x"}) // the answer is none
			if sent != "Bearer "+want {
				t.Errorf("%s: sent %q, not %s", source, sent, want)
			}
		}
		if err := set(""); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Embed(t.Context(), []string{"x"}); err == nil || !strings.Contains(err.Error(), "key") {
			t.Errorf("%s, empty: %v", source, err)
		}
	}
}
