package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"agentkernel"
	"agentkernel/internal/tool/search"
)

// Embeddings names an endpoint of the form of OpenAI's: URL/embeddings.
type Embeddings struct {
	URL   string // "http://127.0.0.1:11434/v1"
	Model string
	// Key says where the bearer token is: "env:VARIABLE" or "file:PATH"; "" for none. It is read for each request.
	Key string
}

// maxKey bounds the file of a key, in bytes.
const maxKey = 64 << 10

// Validate says what is wrong with the settings. Key is in no error: somebody may have written the key itself.
func (e Embeddings) Validate() error {
	wrong := ""
	u, err := url.Parse(e.URL)
	switch {
	case e.URL == "" && e.Model == "" && e.Key == "":
		return nil
	case e.URL == "":
		wrong = "embeddings.url is missing, and embeddings.model or embeddings.key is set"
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		wrong = "embeddings.url is no http or https address"
	case u.User != nil:
		wrong = "embeddings.url holds a name or a password"
	case e.Model == "":
		wrong = "embeddings.model is missing"
	default:
		if _, err := keyFrom(e.Key); err != nil {
			wrong = err.Error()
		}
	}
	if wrong == "" {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeInvalid, "embeddings", "settings: %s", wrong).
		WithHint(`write: url = "https://api.openai.com/v1", model = "text-embedding-3-small", key = "env:OPENAI_API_KEY"`)
}

// keyFrom returns what reads the key.
func keyFrom(source string) (func() (string, error), error) {
	kind, where, _ := strings.Cut(source, ":")
	switch {
	case source == "":
		return nil, nil
	case kind == "env" && where != "":
		return func() (string, error) { return usableKey(os.Getenv(where), "the variable "+where) }, nil
	case kind == "file" && filepath.IsAbs(where):
		return func() (string, error) {
			f, err := os.Open(where)
			if err != nil {
				return "", fmt.Errorf("its file cannot be read: %w", err)
			}
			defer f.Close()
			b, err := io.ReadAll(io.LimitReader(f, maxKey))
			if err != nil {
				return "", fmt.Errorf("its file cannot be read: %w", err)
			}
			return usableKey(string(b), "the file "+where)
		}, nil
	case kind == "file":
		return nil, errors.New("the path of embeddings.key is not absolute")
	}
	return nil, errors.New("embeddings.key is neither env:VARIABLE nor file:PATH")
}

func usableKey(key, where string) (string, error) {
	key = strings.TrimSpace(key)
	switch {
	case key == "":
		return "", fmt.Errorf("%s is empty", where)
	case strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", fmt.Errorf("%s holds characters that no header can carry", where)
	}
	return key, nil
}

// embedder is the endpoint of the settings, nil without one.
func embedder(e Embeddings) (search.Embedder, error) {
	if err := e.Validate(); err != nil || e.URL == "" {
		return nil, err
	}
	key, err := keyFrom(e.Key)
	if err != nil {
		return nil, err
	}
	return &search.Endpoint{URL: e.URL, Model: e.Model, Key: key}, nil
}

// TryEmbeddings asks the endpoint for one vector and returns its length; 0 without an endpoint.
func TryEmbeddings(ctx context.Context, e Embeddings) (int, error) {
	asked, err := embedder(e)
	if err != nil || asked == nil {
		return 0, err
	}
	vectors, err := asked.Embed(ctx, []string{"read a file"})
	if err != nil {
		return 0, err
	}
	return len(vectors[0]), nil
}
