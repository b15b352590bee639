package search

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"agentkernel"
)

// Embedder turns texts into vectors of one length, one for each text. Without one the search is by words
// alone.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Endpoint is an Embedder behind the /v1/embeddings of OpenAI, vLLM, Ollama and others.
type Endpoint struct {
	URL   string // up to and without "/embeddings": "http://127.0.0.1:11434/v1"
	Model string
	Key   string       // bearer token; "": none
	HTTP  *http.Client // nil: one with a timeout of 30 s
}

// Bounds of an answer that is still believed.
const (
	maxAnswer = 256 << 20
	maxProse  = 300
)

var embedClient = &http.Client{Timeout: 30 * time.Second}

// Embed asks the endpoint. Errors: CodeUnavailable; the key is in none of them.
func (e *Endpoint) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	fail := func(format string, args ...any) error {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "embed", format, args...).
			WithHint("search goes on by words alone; check the embedder's address and model")
	}
	body, err := json.Marshal(map[string]any{"model": e.Model, "input": texts})
	if err != nil {
		return nil, fail("%w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(e.URL, "/")+"/embeddings", bytes.NewReader(body))
	if err != nil {
		return nil, fail("the embedder's address: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if e.Key != "" {
		req.Header.Set("Authorization", "Bearer "+e.Key)
	}
	client := e.HTTP
	if client == nil {
		client = embedClient
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fail("the embedder does not answer: %w", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fail("the embedder's answer broke off: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fail("the embedder answers HTTP %d: %.*s", res.StatusCode, maxProse, answer)
	}
	vectors, err := readVectors(answer, len(texts))
	if err != nil {
		return nil, fail("the embedder's answer: %w", err)
	}
	return vectors, nil
}

// readVectors puts the vectors into the order of the texts.
func readVectors(answer []byte, n int) ([][]float32, error) {
	var got struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		return nil, err
	}
	out := make([][]float32, n)
	for _, d := range got.Data {
		if d.Index < 0 || d.Index >= n || len(d.Embedding) == 0 {
			return nil, fmt.Errorf("a vector with number %d for %d texts", d.Index, n)
		}
		out[d.Index] = d.Embedding
	}
	for i, v := range out {
		if v == nil || len(v) != len(out[0]) {
			return nil, fmt.Errorf("text %d has no vector of the others' length", i)
		}
	}
	return out, nil
}
