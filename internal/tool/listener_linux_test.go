package tool_test

import (
	"net"
	"net/http"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/tool/tooltest"
)

// asNobody runs f with the rights of another user, in a thread that ends with it.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make another user's sockets")
	}
	const nobody = 65534
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and not unlocked: the thread is the other user's
		if _, err := unix.SetfsuidRetUid(nobody); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

// Whoever listens at the port that a program has left is sent nothing: neither the token nor a call.
func TestPortOfProgramIsAnothers(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0"} {
		t.Run(addr, func(t *testing.T) {
			s := newHTTPServer(t, nil)
			var stranger net.Listener
			asNobody(t, func() {
				var err error
				if stranger, err = net.Listen("tcp", addr); err != nil {
					t.Error(err)
				}
			})
			if stranger == nil {
				t.Skip("no such address here")
			}
			tokens := make(chan string, 10)
			theirs := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tokens <- r.Header.Get("Authorization")
				s.Config.Handler.ServeHTTP(w, r)
			})}
			go func() { _ = theirs.Serve(stranger) }()
			defer theirs.Close()
			_, port, err := net.SplitHostPort(stranger.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			src := open(t, httpConfig(), map[string]tooltest.Server{"own": {"url": "http://127.0.0.1:" + port + "/mcp", "program": 4711,
				"headers": map[string]string{"Authorization": "Bearer of-the-program"}}})
			_, err = call(t, src, "own", "count", obj{})
			wantCode(t, err, agentkernel.CodeUnavailable, agentkernel.OfProgram)
			wantCode(t, src.(agentkernel.ToolHosts).Gone(t.Context()), agentkernel.CodeUnavailable, agentkernel.OfProgram)
			if len(tokens) > 0 || s.calls.Load() > 0 {
				t.Errorf("the stranger was sent %q and %d calls", <-tokens, s.calls.Load())
			}
		})
	}
}
