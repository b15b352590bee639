package fetch

import (
	"net/http"
	"testing"

	"agentkernel"
	"agentkernel/internal/usertest"
)

// A secret is not sent to a port of this machine at which another user listens, also where a connection without one was kept.
func TestSecretIsNotSentToAnotherUser(t *testing.T) {
	stranger := usertest.Listen(t, "tcp", "127.0.0.1:0")
	keys := make(chan string, 10)
	theirs := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { keys <- r.Header.Get("X-Key") })}
	go func() { _ = theirs.Serve(stranger) }()
	defer theirs.Close()
	host := stranger.Addr().String()
	f := newFetcher(t, Config{Secrets: []string{"tok env:TOK " + host}, Env: func(string) (string, bool) { return "tops3cret/value", true }})
	r := get("http://"+host+"/", host)
	want(t, f, r, "", "")
	if got := <-keys; got != "" {
		t.Errorf("a request without a secret had %q", got)
	}
	r.Headers = map[string]string{"X-Key": "{{secret:tok}}"}
	want(t, f, r, agentkernel.CodeDenied, "the secret was not sent: another user of this machine (uid 54321) listens at "+host)
	if len(keys) > 0 {
		t.Errorf("the stranger was sent %q", <-keys)
	}
}
