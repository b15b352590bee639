package tool

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// track follows one request through the SDK, which hides two things that matter here: whether any byte of
// the request left, and the bytes of the answer (decoding them into maps would lose the order of members,
// big integers and the difference between 1 and 1.0). It travels in the request's context.
type track struct {
	mu     sync.Mutex
	sent   bool
	result json.RawMessage
	failed *jsonrpc.Error
	tooBig bool
	status int // HTTP status of a refusal
}

type trackKey struct{}

func withTrack(ctx context.Context) (context.Context, *track) {
	t := new(track)
	return context.WithValue(ctx, trackKey{}, t), t
}

func trackOf(ctx context.Context) *track {
	t, _ := ctx.Value(trackKey{}).(*track)
	return t
}

func (t *track) markSent() {
	t.mu.Lock()
	t.sent = true
	t.mu.Unlock()
}

func (t *track) refuse(status int) {
	t.mu.Lock()
	t.status = status
	t.mu.Unlock()
}

func (t *track) markTooBig() {
	t.mu.Lock()
	t.tooBig = true
	t.mu.Unlock()
}

func (t *track) answer(result json.RawMessage, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result, t.failed = result, nil
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok && wire != nil {
		t.failed = wire
	}
}

// outcome is what is known after the request has returned.
type outcome struct {
	sent   bool
	result json.RawMessage // the server's answer, nil if it gave none
	failed *jsonrpc.Error  // the server's refusal
	tooBig bool
	status int
}

func (t *track) outcome() outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	return outcome{t.sent, t.result, t.failed, t.tooBig, t.status}
}
