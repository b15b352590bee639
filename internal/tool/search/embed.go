package search

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/portowner"
)

// Embedder turns texts into vectors of one length, one for each text. Without one the search is by words alone.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Endpoint is an Embedder behind the /v1/embeddings of OpenAI, vLLM, Ollama and others.
type Endpoint struct {
	URL   string // up to and without "/embeddings": "http://127.0.0.1:11434/v1"
	Model string
	// Key returns the bearer token, "" for none. It is asked for each request, as files of keys are replaced while
	// a kernel runs. Nil: none.
	Key  func() (string, error)
	HTTP *http.Client // nil: one with a timeout of 20 s that follows no redirect
}

// Bounds of an answer that is still believed.
const (
	maxAnswer = 256 << 20
	maxProse  = 300
)

// embedClient follows no redirect: the texts and the key are for the address that the user named.
var embedClient = &http.Client{
	Timeout:       20 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// keyedClient is embedClient for ports of this machine, where another user may listen.
var keyedClient = &http.Client{
	Timeout:       embedClient.Timeout,
	CheckRedirect: embedClient.CheckRedirect,
	Transport:     &http.Transport{DialContext: portowner.Checked{Dialer: &net.Dialer{Timeout: 10 * time.Second}}.DialContext, IdleConnTimeout: time.Minute},
}

// clientFor is the client for a request. A proxy, or a certificate, has its own way to say who is asked.
func clientFor(req *http.Request, keyed bool) *http.Client {
	if proxy, err := http.ProxyFromEnvironment(req); keyed && req.URL.Scheme == "http" && proxy == nil && err == nil {
		return keyedClient
	}
	return embedClient
}

// Embed asks the endpoint. Errors: CodeUnavailable; the key is in none of them.
func (e *Endpoint) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	fail := func(format string, args ...any) error {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "embed", format, args...).
			WithHint("tools are searched by words alone; check the settings embeddings.url, embeddings.model and embeddings.key")
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
	key, err := e.key()
	if err != nil {
		return nil, fail("the embedder's key: %w", err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	client := e.HTTP
	if client == nil {
		client = clientFor(req, key != "")
	}
	res, err := client.Do(req)
	if other, ok := errors.AsType[*portowner.Other](err); ok {
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "embed", "the embedder was sent nothing, since there is a key: %w", other).WithHint("%s", portowner.Hint)
	}
	if err != nil {
		return nil, fail("the embedder does not answer: %w", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fail("the embedder's answer broke off: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fail("the embedder answers HTTP %d: %s", res.StatusCode, prose(answer, key))
	}
	vectors, err := readVectors(answer, len(texts))
	if err != nil {
		return nil, fail("the embedder's answer: %w", err)
	}
	return vectors, nil
}

func (e *Endpoint) key() (string, error) {
	if e.Key == nil {
		return "", nil
	}
	return e.Key()
}

// prose is the beginning of an answer on one line, without the key: some services repeat it.
func prose(answer []byte, key string) string {
	text := string(answer)
	if key != "" {
		text = strings.ReplaceAll(text, key, "[key]")
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\ufffd")), " ")
	return text[:min(len(text), maxProse)]
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
