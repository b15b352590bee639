package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// fakeEmbedder is a /v1/embeddings for which "plus" and "sum" mean the same and nothing else means anything.
func fakeEmbedder(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if key := r.Header.Get("Authorization"); key != "Bearer key-4711" {
			http.Error(w, "bad key "+key, http.StatusUnauthorized)
			return
		}
		type vector struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		}
		var data []vector
		for i, text := range in.Input {
			v := vector{i, []float32{1, 0}}
			if strings.Contains(text, "demo: add\n") || strings.Contains(text, "plus") {
				v.Embedding = []float32{0, 1}
			}
			data = append(data, v)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/v1"
}
