package mcpserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"agentkernel"
)

// A client that is not told what became of its request makes it again: the kernel died, the connection broke, the client gave
// up too early. So that nothing is done twice, each request to run code has a key, which is in the journal with what it runs:
// the client's own, or one that is made of its connection and the id of the request. A request whose outcome the client was
// not told is remembered: the next that asks for the same is that one, and is answered with what became of it.

// maxOpen is how many requests of a client are remembered whose outcome it was not told.
const maxOpen = 1000

// maxKey is how many bytes a client's key may have.
const maxKey = 256

// metaKey is where a call's _meta has its key; AgentKernel's own calls of tools have one there.
const metaKey = "agentkernel/idempotency_key"

// attempt is one request to run code.
type attempt struct {
	key   string
	given bool // the key is the client's own
	again bool // the client was not told what became of it the last time

	asked   [sha256.Size]byte // what was asked for
	session *session          // where it ran; nil: nowhere, or by itself
	cell    agentkernel.Cell  // of the session
	plan    *TaskPlan         // of a task in plain language
}

// is says whether an attempt at some code is the same request as one before: a client's own key makes a new attempt of each.
func (a *attempt) is(before *attempt, code string) bool {
	return before != nil && a.key == before.key && before.cell.Source == code
}

// attempts are the requests of one client that it was not told the outcome of.
type attempts struct {
	mu   sync.Mutex
	open map[[sha256.Size]byte][]*attempt // oldest first
	n    int
}

// take is the oldest request for something whose outcome the client was not told; nil: it was told all.
func (as *attempts) take(asked [sha256.Size]byte) *attempt {
	as.mu.Lock()
	defer as.mu.Unlock()
	all := as.open[asked]
	if len(all) == 0 {
		return nil
	}
	a := all[0]
	if as.n--; len(all) == 1 {
		delete(as.open, asked)
	} else {
		as.open[asked] = all[1:]
	}
	return a
}

// keep remembers a request for when the client makes it again.
func (as *attempts) keep(a *attempt) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.n >= maxOpen {
		as.open, as.n = nil, 0
	}
	if as.open == nil {
		as.open = map[[sha256.Size]byte][]*attempt{}
	}
	a.again = true
	as.open[a.asked] = append(as.open[a.asked], a)
	as.n++
}

// drop forgets a request whose outcome the client is told otherwise.
func (as *attempts) drop(a *attempt) {
	as.mu.Lock()
	defer as.mu.Unlock()
	at := slices.Index(as.open[a.asked], a)
	if at < 0 {
		return // another client's
	}
	as.open[a.asked] = slices.Delete(as.open[a.asked], at, at+1)
	as.n--
}

// attempt is a call that runs code: parts say what it asks for. key is the client's own, if it gave one.
func (c *call) attempt(key string, parts ...string) *attempt {
	asked := sha256.Sum256(fmt.Appendf(nil, "%q %q", c.tool, parts))
	if key != "" {
		return &attempt{key: key, given: true, asked: asked}
	}
	if a := c.client.attempts.take(asked); a != nil {
		return a
	}
	a := &attempt{key: rand.Text(), asked: asked}
	if id := requestID(c.req.Extra); id != "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %x", c.client.id, id, asked))
		a.key = hex.EncodeToString(sum[:16])
	}
	return a
}

// settle notes what a client is told of a request: if that is not what became of it, the request stays open.
func (c *call) settle(ctx context.Context, a *attempt, out *executeOutput, err error) {
	switch {
	case a.given:
	case err != nil && !untold(err):
	case err != nil:
		c.client.attempts.keep(a)
	case c.inDoubt(ctx, a, out):
		out.addNote(notAgain)
		c.client.attempts.keep(a)
	}
}

// notAgain is what a client is told of code that may have written.
const notAgain = "the same code is answered with this and not run again, since it may have written: look first. To run it all the same, change it"

// inDoubt says whether the code of a request has made a write that may or may not have happened. out is what the client is told
// of it; nil: nothing.
func (c *call) inDoubt(ctx context.Context, a *attempt, out *executeOutput) bool {
	return out != nil && (out.doubtful() || out.Error != nil && (a.again || out.cutOff()) && c.leftWrite(ctx, a, agentkernel.PID(out.PID)))
}

// untold says whether an error leaves open what became of a request. A refusal does not.
func untold(err error) bool {
	switch agentkernel.CodeOf(err) {
	case agentkernel.CodeStorage, agentkernel.CodeInternal, agentkernel.CodeCanceled, agentkernel.CodeFenced:
		return true
	}
	return agentkernel.KernelGone(err)
}

// doubtful says whether code ended because of a write that may or may not have happened.
func (o *executeOutput) doubtful() bool {
	return o.Error != nil && (o.Error.Code == string(agentkernel.CodeOutcomeUnknown) || strings.Contains(o.Error.Message, string(agentkernel.CodeOutcomeUnknown)+": "))
}

// cutOff says whether code was ended from outside, so that it may have been in the middle of a write.
func (o *executeOutput) cutOff() bool {
	switch agentkernel.Code(o.Error.Code) {
	case agentkernel.CodeTimeout, agentkernel.CodeInterrupted, agentkernel.CodeKilled, agentkernel.CodeLimit, agentkernel.CodeCrashed:
		return true
	}
	return false
}

// leftWrite says whether code that was cut off has made a write that may or may not have happened.
func (c *call) leftWrite(ctx context.Context, a *attempt, pid agentkernel.PID) bool {
	entries, err := c.kernel().Journal(ctx, pid, 1, 0)
	if err != nil {
		return true // it may have
	}
	ours := a.session == nil // a session has had other code, too
	asks, open := map[int64]bool{}, map[int64]bool{}
	for _, e := range entries {
		switch {
		case e.Kind == agentkernel.EntryCall && e.Op == "proc.next":
			asks[e.Call] = true
		case e.Kind == agentkernel.EntryCall && ours && e.Effect == agentkernel.EffectWrite && !e.Done:
			open[e.Call] = e.Reserve[agentkernel.AmountUnsent] == 0
		case e.Kind == agentkernel.EntryRetry:
			if _, is := open[e.Call]; is { // it has had its turn
				open[e.Call] = true
			}
		case e.Kind == agentkernel.EntryResult && asks[e.Call]:
			var next agentkernel.NextCell
			ours = json.Unmarshal(e.Data, &next) == nil && next.Cell.Key == a.key
		case e.Kind == agentkernel.EntryResult && (e.Err == nil || e.Err.Code != agentkernel.CodeInterrupted && e.Err.Code != agentkernel.CodeOutcomeUnknown):
			delete(open, e.Call)
		}
	}
	return slices.Contains(slices.Collect(maps.Values(open)), true)
}

// sameCall is what a client is told whose kernel went away.
const sameCall = "make the same call again"

// lost is the error of a request whose kernel went away, or whose server ends.
func (c *call) lost(err error, what string) error {
	if err = c.cutShort(err); !agentkernel.KernelGone(err) {
		return err
	}
	why, hint := "its kernel went away", sameCall
	if errors.Is(err, errEnding) {
		why, hint = "its server ended", sameCall+", with the idempotency_key that it had (without one look first, since it is run again)"
	}
	e := agentkernel.Errorf(agentkernel.CodeUnavailable, "execute_code", "%s: %s. What it has done is kept; it may have written, and may not have ended: %w", what, why, err)
	return e.WithHint("%s: it is taken up where it was, and nothing that it did is done twice", hint)
}

// errEnding is why a client goes whose server ends. It has cancelled nothing: what its calls run goes on, as it does where a
// connection breaks.
var errEnding = errors.New("the MCP server is ending")

// ending says whether the server ends while the client is there.
func (c *call) ending() bool { return errors.Is(context.Cause(c.client.here), errEnding) }

// cutShort is the error of a call that was cut off: not canceled, where its server ends.
func (c *call) cutShort(err error) error {
	if !c.ending() || !errors.Is(err, context.Canceled) && agentkernel.CodeOf(err) != agentkernel.CodeCanceled {
		return err
	}
	return agentkernel.Errorf(agentkernel.CodeUnavailable, agentkernel.OpKernel, "%w", errEnding).WithHint(sameCall)
}
