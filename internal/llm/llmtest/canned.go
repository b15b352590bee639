package llmtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"agentkernel/internal/llm"
)

// Canned is a server that answers each request with the same bytes, whatever it is asked.
type Canned struct {
	Kind   string // of the content; "": JSON
	Status int    // 0: 200
	Header http.Header
	Body   string
	// Got is the last request: its head and its body.
	Got     http.Header
	GotBody string
	GotPath string
}

// Start starts it; the base URL of a provider is what it returns, and what comes behind it.
func (c *Canned) Start(t testing.TB) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.Got, c.GotBody, c.GotPath = r.Header.Clone(), string(body), r.URL.RequestURI()
		if c.Kind == "" {
			c.Kind = "application/json"
		}
		w.Header().Set("Content-Type", c.Kind)
		for name := range c.Header {
			w.Header().Set(name, c.Header.Get(name))
		}
		if c.Status != 0 {
			w.WriteHeader(c.Status)
		}
		io.WriteString(w, c.Body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Events is a stream of events with these data.
func Events(data ...string) (text string) {
	for _, d := range data {
		text += "data: " + d + "\n\n"
	}
	return text
}

// User is a request with a text.
func User(text string) *llm.Request {
	return &llm.Request{Model: "model-1", MaxTokens: 4000, Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: text}}}}}
}

// Deltas counts deltas, so that a provider asks for a stream.
func Deltas(n *int) llm.Watch {
	return llm.Watch{Delta: func(llm.Delta) error {
		*n++
		return nil
	}}
}
