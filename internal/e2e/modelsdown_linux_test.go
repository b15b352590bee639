package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel/internal/devllm"
	"agentkernel/internal/llm"
	"agentkernel/internal/llm/models"
	"agentkernel/internal/llm/router"
)

// absent is a server that cannot be reached until a time.
type absent struct {
	direct
	until time.Time
	tried *atomic.Int64
}

func (a absent) RoundTrip(r *http.Request) (*http.Response, error) {
	if time.Now().Before(a.until) {
		a.tried.Add(1)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return a.direct.RoundTrip(r)
}

// TestAProviderIsGoneForAMinute: whoever asks meanwhile is answered when it is back, and hears nothing of it. It is tried a few times,
// and not by each of them.
func TestAProviderIsGoneForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := devllm.New(devllm.Options{FirstToken: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		declared, err := models.ParseAll([]string{"fast openai:gpt-dev url=http://provider/v1"})
		if err != nil {
			t.Fatal(err)
		}
		back := time.Now().Add(time.Minute)
		var tried atomic.Int64
		r, err := router.New(router.Config{Models: declared, Client: &http.Client{Transport: absent{direct{server}, back, &tried}},
			Lookup: func(string) (string, bool) { return "sk-made-up", true }})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				p, err := r.Plan(&llm.Query{ID: fmt.Sprint(i), PID: 1, Tree: 1, Namespace: "n", Priority: 10, Capped: i%2 == 0,
					Request: llm.Request{MaxTokens: 40, Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: fmt.Sprint("question ", i)}}}}}})
				if err == nil {
					err = p.Wait(t.Context())
				}
				if err == nil {
					_, _, err = p.Ask(t.Context(), nil)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		took := time.Since(back)
		total := server.Totals(devllm.Filter{})
		t.Logf("%d attempts while it was gone; all was answered %s after it was back, %v", tried.Load(), took, total.Statuses)
		if n := tried.Load(); n < 5 || n > 60 {
			t.Errorf("%d attempts", n)
		}
		if took < 0 || took > 90*time.Second || total.Requests != 30 || total.Statuses["200"] != 30 {
			t.Errorf("%s, %+v", took, total)
		}
	})
}
