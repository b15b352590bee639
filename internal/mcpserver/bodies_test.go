package mcpserver

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

// TestLargeBatches: a list that is no batch is refused before it is read as one.
func TestLargeBatches(t *testing.T) {
	served := ""
	verify, err := (&HTTPConfig{Tokens: map[string]string{"token-of-somebody-0123456789": "somebody"}}).verifier(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	handler := auth.RequireBearerToken(verify, nil)((&server{clients: newClients(Config{})}).withRequestID(newBodies(maxBodies, maxOwnBodies), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		served = string(text)
	})))
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for body, status := range map[string]int{
		ping: http.StatusOK, "[" + ping + "]": http.StatusOK, " [" + ping + strings.Repeat(","+ping, maxBatch-1) + "]": http.StatusOK, "[": http.StatusOK, // the SDK says what is wrong
		"[" + ping + strings.Repeat(","+ping, maxBatch) + "]": http.StatusBadRequest, "[1" + strings.Repeat(",1", 1<<20) + "]": http.StatusBadRequest,
	} {
		served = ""
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer token-of-somebody-0123456789")
		handler.ServeHTTP(w, r)
		if w.Code != status || status == http.StatusOK && served != body {
			t.Errorf("%.60s: %d %q", body, w.Code, w.Body)
		}
	}
}

// Many large bodies at once, that come slowly, are refused before they fill the memory, and one user's do not keep others out.
func TestBodiesUnderWay(t *testing.T) {
	tokens := &HTTPConfig{Tokens: map[string]string{}}
	users := []string{"evil", "good", "other", "fourth"}
	for _, user := range users {
		tokens.Tokens["token-of-"+user+"-0123456789"] = user
	}
	verify, err := tokens.verifier(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	serve := (&server{clients: newClients(Config{})}).withRequestID(newBodies(2500, 1000), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	handler := auth.RequireBearerToken(verify, nil)(serve)
	var under sync.WaitGroup
	post := func(user string, body io.Reader, announced int64) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/", body)
		r.ContentLength = announced
		r.Header.Set("Authorization", "Bearer token-of-"+user+"-0123456789")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	slow := func(user string, bytes int) *io.PipeWriter { // it returns when they are read
		r, w := io.Pipe()
		under.Go(func() { post(user, r, -1) })
		_, _ = io.WriteString(w, strings.Repeat(" ", bytes))
		_, _ = w.Write(nil) // the read after them has begun: they count
		return w
	}
	want := func(what, user string, bytes int, announced int64, status int) {
		t.Helper()
		w := post(user, strings.NewReader(strings.Repeat(" ", bytes)), announced)
		if w.Code != status || (w.Header().Get("Retry-After") != "") != (status != http.StatusOK) {
			t.Errorf("%s: %d %q, Retry-After %q; want %d", what, w.Code, w.Body, w.Header().Get("Retry-After"), status)
		}
	}
	one, two := slow("evil", 500), slow("evil", 400)
	want("within the bound", "evil", 100, -1, http.StatusOK)
	want("beyond it", "evil", 101, -1, http.StatusTooManyRequests)
	want("announced beyond it", "evil", 0, 101, http.StatusTooManyRequests)
	want("another user", "good", 1000, 1000, http.StatusOK)
	three, four := slow("good", 900), slow("other", 600)
	want("within the bound of all", "fourth", 100, -1, http.StatusOK)
	want("beyond it", "fourth", 101, -1, http.StatusServiceUnavailable)
	for _, w := range []*io.PipeWriter{one, two, three, four} {
		_ = w.Close()
	}
	under.Wait()
	for _, user := range users {
		want("after them", user, 1000, -1, http.StatusOK)
	}
}
