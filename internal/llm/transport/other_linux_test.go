package transport

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"agentkernel/internal/llm"
	"agentkernel/internal/usertest"
)

// A key is not sent to a port of this machine at which another user listens; a server without a key is asked.
func TestKeyIsNotSentToAnotherUser(t *testing.T) {
	stranger := usertest.Listen(t, "tcp", "127.0.0.1:0")
	asked := make(chan string, 10)
	theirs := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked <- r.Header.Get("Authorization") })}
	go func() { _ = theirs.Serve(stranger) }()
	defer theirs.Close()
	send := func(key func(context.Context) (string, error)) error {
		s, err := New(llm.Options{BaseURL: "http://" + stranger.Addr().String() + "/v1", Key: key}, Dialect{
			Auth: func(h http.Header, key string) { h.Set("Authorization", key) }})
		if err != nil {
			t.Fatal(err)
		}
		x, err := s.Send(t.Context(), Call{Path: "/chat"})
		if err == nil {
			x.Close()
		}
		return err
	}
	err := send(func(context.Context) (string, error) { return "s3cret", nil })
	e, ok := err.(*llm.Error)
	if !ok || e.Kind != llm.Auth || e.Sent || e.Retry() || e.Err == nil || !strings.Contains(e.Err.Error(), "another user of this machine (uid 54321) listens at "+stranger.Addr().String()) {
		t.Errorf("%v", err)
	}
	if len(asked) > 0 {
		t.Errorf("the stranger was sent %q", <-asked)
	}
	if err := send(nil); err != nil || len(asked) != 1 {
		t.Errorf("without a key: %v, %d requests", err, len(asked))
	}
}
