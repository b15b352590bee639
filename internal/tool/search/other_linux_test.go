package search

import (
	"net/http"
	"testing"

	"agentkernel"
	"agentkernel/internal/usertest"
)

// The embedder's key is not sent to a port of this machine at which another user listens.
func TestEmbeddersKeyIsNotSentToAnotherUser(t *testing.T) {
	stranger := usertest.Listen(t, "tcp", "127.0.0.1:0")
	keys := make(chan string, 10)
	theirs := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys <- r.Header.Get("Authorization")
		_, _ = w.Write([]byte(`{"data": [{"index": 0, "embedding": [1]}]}`))
	})}
	go func() { _ = theirs.Serve(stranger) }()
	defer theirs.Close()
	e := &Endpoint{URL: "http://" + stranger.Addr().String() + "/v1"}
	if _, err := e.Embed(t.Context(), []string{"x"}); err != nil || <-keys != "" {
		t.Errorf("without a key: %v", err)
	}
	e.Key = func() (string, error) { return "s3cret", nil }
	if _, err := e.Embed(t.Context(), []string{"x"}); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable || len(keys) > 0 {
		t.Errorf("%v; the stranger was sent %d keys", err, len(keys))
	}
}
