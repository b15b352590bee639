package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"agentkernel/internal/incoming"
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
	noRoom bool
	held   *incoming.Hold  // of the answer; nil: it is small
	over   bool            // nobody takes an answer any more
	until  time.Time       // when that is so at the latest
	status int             // HTTP status of a refusal
	id     json.RawMessage // of the request over HTTP; nil: it has none, or is not known
}

type trackKey struct{}

// mostPatience is how long a large answer may come to a request that has no time limit.
const mostPatience = 2 * time.Minute

func withTrack(ctx context.Context) (context.Context, *track) {
	t := new(track)
	var limited bool
	if t.until, limited = ctx.Deadline(); !limited {
		t.until = time.Now().Add(mostPatience)
	}
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

// ask notes the id of the request; t may be nil.
func (t *track) ask(req *http.Request) error {
	if t == nil || req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return err
	}
	defer body.Close()
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.NewDecoder(body).Decode(&m) // the SDK has written it
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.ID != nil {
		t.id = m.ID
	}
	return nil
}

// asked says whether an answer with this id is the one to the request.
func (t *track) asked(id json.RawMessage) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id == nil || bytes.Equal(t.id, id)
}

func (t *track) refuse(status int) {
	t.mu.Lock()
	t.status = status
	t.mu.Unlock()
}

// markDropped notes why the answer was not kept: errTooBig or errNoRoom.
func (t *track) markDropped(why error) {
	t.mu.Lock()
	t.tooBig, t.noRoom = errors.Is(why, errTooBig), errors.Is(why, errNoRoom)
	t.mu.Unlock()
}

// answer takes the answer, and what it holds.
func (t *track) answer(result json.RawMessage, err error, held *incoming.Hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		held.Release()
		return
	}
	t.held.Release()
	t.held = held
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
	noRoom bool
	held   *incoming.Hold // whoever asks for the outcome releases it
	status int
}

func (t *track) outcome() outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	return outcome{t.sent, t.result, t.failed, t.tooBig, t.noRoom, t.held, t.status}
}
