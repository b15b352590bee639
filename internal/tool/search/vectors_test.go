package search_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentkernel/internal/tool/search"
)

// counting makes vectors of the length of a text and counts what it is asked.
type counting struct {
	texts int
	err   error
}

func (c *counting) Embed(_ context.Context, texts []string) ([][]float32, error) {
	if c.err != nil {
		return nil, c.err
	}
	c.texts += len(texts)
	out := make([][]float32, len(texts))
	for i, t := range texts {
		out[i] = []float32{float32(len(t)), 1, 0.5}
	}
	return out, nil
}

func TestVectorsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vectors")
	var problems []string
	with := func(model string) (*counting, *search.Vectors) {
		c := &counting{}
		return c, search.NewVectors(search.VectorConfig{Embedder: c, Path: path, Model: model,
			Problem: func(_ string, err error) { problems = append(problems, err.Error()) }})
	}
	get := func(v *search.Vectors, texts ...string) string {
		t.Helper()
		got, err := v.Of(t.Context(), texts)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(got)
	}
	texts := []string{"a", "bb", "a", strings.Repeat("c", 300)}
	asked, first := with("m1")
	want := get(first, texts...)
	if asked.texts != 3 {
		t.Errorf("%d texts were asked for, not 3", asked.texts)
	}
	asked, again := with("m1")
	if got := get(again, texts...); got != want || asked.texts != 0 {
		t.Errorf("read back: %s, not %s; %d asked", got, want, asked.texts)
	}
	if get(again, "a", "new"); asked.texts != 1 {
		t.Errorf("%d texts were asked for, not the new one", asked.texts)
	}
	asked, other := with("m2")
	if get(other, texts...); asked.texts != 3 {
		t.Errorf("vectors of another model were read: %d asked", asked.texts)
	}
	if len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string][]byte{"cut off": raw[:len(raw)-3], "empty": {}, "noise": []byte("hello"), "large": []byte(`{"form":1,"model":"m2","dimensions":99999999}` + "\nx")} {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		problems = nil
		asked, v := with("m2")
		if get(v, texts...); asked.texts != 3 || len(problems) != 1 {
			t.Errorf("%s: %d asked, problems %v", name, asked.texts, problems)
		}
	}
}

// An embedder that failed is left alone for a minute: searches do not wait for it.
func TestEmbedderRests(t *testing.T) {
	now := time.Now()
	c := &counting{err: errors.New("down")}
	v := search.NewVectors(search.VectorConfig{Embedder: c, Now: func() time.Time { return now }})
	if _, err := v.Query(t.Context(), "x"); err == nil {
		t.Fatal("no error")
	}
	c.err = nil
	if _, err := v.Query(t.Context(), "x"); err == nil || c.texts > 0 {
		t.Errorf("asked again at once: %v", err)
	}
	now = now.Add(2 * time.Minute)
	if _, err := v.Query(t.Context(), "x"); err != nil || c.texts != 1 {
		t.Errorf("%v, %d texts", err, c.texts)
	}
}

// The key is sent to the address that the user named, and is in no error.
func TestKeyStaysSecret(t *testing.T) {
	const key = "sk-very-secret"
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	for name, handler := range map[string]http.HandlerFunc{
		"echo": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "bad key: "+r.Header.Get("Authorization"), http.StatusUnauthorized)
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
	} {
		srv := httptest.NewServer(handler)
		_, err := (&search.Endpoint{URL: srv.URL, Key: func() (string, error) { return key, nil }}).Embed(t.Context(), []string{"x"})
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), key) {
			t.Errorf("%s: %v", name, err)
		}
		srv.Close()
	}
}
