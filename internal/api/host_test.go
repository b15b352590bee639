package api

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/api/wire"
)

// ender is the host of a process that ends with its first call, whose answer comes late.
type ender struct {
	agentkernel.Host
	over chan struct{}
}

func (e *ender) Attached() agentkernel.Attached { return agentkernel.Attached{PID: 1, Epoch: 1} }
func (e *ender) Done() <-chan struct{}          { return e.over }
func (e *ender) Err() error                     { return nil }

func (e *ender) Issue(agentkernel.HostedCall) agentkernel.Awaited {
	close(e.over)
	return func(ctx context.Context) (json.RawMessage, error) {
		select {
		case <-time.After(time.Second):
			return nil, agentkernel.Errorf(agentkernel.CodeDiverged, "time.now", "the journal has another call there")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ended is a kernel whose one process has ended.
type ended struct{ agentkernel.Kernel }

func (ended) Process(_ context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	return agentkernel.Process{PID: pid, State: agentkernel.StateFailed}, nil
}

// TestACallIsAnsweredBeforeTheEnd: a program whose call has ended the process is told why.
func TestACallIsAnsweredBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Kernel: ended{}, IdleAfter: -1})
		if err != nil {
			t.Fatal(err)
		}
		program, conn := net.Pipe()
		c := &hosting{s: s, r: httptest.NewRequest("GET", "/", nil), h: &ender{over: make(chan struct{})}, lines: wire.NewLines(conn, bufio.NewReader(conn), wire.Beat)}
		served := make(chan struct{})
		go func() {
			defer close(served)
			c.serve(t.Context())
		}()
		lines := wire.NewLines(program, bufio.NewReader(program), wire.Beat)
		defer lines.Close()
		var got []string
		for range 3 {
			var line wire.KernelLine
			b, err := lines.ReadLine()
			if err == nil {
				err = json.Unmarshal(b, &line)
			}
			switch {
			case err != nil:
			case line.Attached != nil:
				got = append(got, "attached")
				err = lines.Send(wire.HostLine{HostedCall: agentkernel.HostedCall{Place: agentkernel.Place{N: 1}, Op: "time.now"}})
			case line.Error != nil:
				got = append(got, string(line.Error.Code))
			case line.Ended != nil:
				got = append(got, "ended")
			}
			if err != nil {
				t.Fatalf("after %q: %v", got, err)
			}
		}
		if want := []string{"attached", "diverged", "ended"}; !slices.Equal(got, want) {
			t.Errorf("it is told %q", got)
		}
		<-served
	})
}

// TestAnEndIsNoCall: a line with both is a mistake, and neither is done.
func TestAnEndIsNoCall(t *testing.T) {
	for _, line := range []string{`{"end":{},"lane":"","n":1,"op":"time.now"}`, `{"end":{},"op":"time.now"}`, `{"end":{},"lane":"x"}`, `{"end":{},"args":{}}`} {
		var c hosting // no host: what is done of the line fails
		if err := c.take(t.Context(), []byte(line)); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%s: %v", line, err)
		}
	}
}
