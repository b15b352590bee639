package llm

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"agentkernel"
)

// Engine sends the questions of programs to models.
type Engine interface {
	// Plan says how a query would be answered. Nothing is sent, and nothing waits.
	Plan(q *Query) (Plan, error)
	// Check refuses declarations of models that no process may bring.
	Check(declared []string) error
}

// Query is what a call asks, and for whom.
type Query struct {
	Model     string // an alias; "": the default
	ID        string // of the call, among all that are under way
	PID, Tree agentkernel.PID
	Namespace string
	Brought   []string // declarations of models that come before the engine's own (agentkernel.Spec.Models)
	Priority  int
	Bounded   bool // the dollars that its process spends are bounded
	Capped    bool // something that its process spends is
	Streams   bool // somebody is told the answer bit by bit (Plan.Ask)
	// Reuse lets an answer be given again that its namespace got to the same query at most so long ago; 0: none is. Not of what Streams.
	Reuse time.Duration
	// Shrink lets the oldest turns of Request be left out, once, if it is too long for the model.
	Shrink  bool
	Request Request
	Embed   *EmbedRequest // instead of Request
	// Held says that nothing may go out at this moment; nil: it may. Ask then ends with ErrWaits.
	Held func() bool
	// Requeues says that the query, by its ID, is planned anew after a try that has failed and cost nothing: Ask then ends with ErrWaits, too.
	// So nothing is held for what waits for a limit or for a server, and its time does not go on.
	Requeues bool
}

// ErrWaits is the error of a query that has nothing under way, and waits for its turn again.
var ErrWaits = errors.New("the query waits for its turn again")

type endKey struct{}

// WithEnd says until when the first bit of an answer has to be there, for Ask of a query that Streams: what it has for all of it is longer.
func WithEnd(ctx context.Context, at time.Time) context.Context {
	return context.WithValue(ctx, endKey{}, at)
}

// End is until when the answer has to be there, or its first bit.
func End(ctx context.Context) (at time.Time, bounded bool) {
	if at, bounded = ctx.Value(endKey{}).(time.Time); bounded {
		return at, true
	}
	return ctx.Deadline()
}

// Plan is a query that can be asked. It belongs to one call.
type Plan interface {
	// Alias is the model that programs know: that of the query, or the default.
	Alias() string
	// Reserve is what it may use up at most, in all. After Wait it may be less: an answer has come that is given again.
	Reserve() agentkernel.Amounts
	// Wait returns when it is its turn. What it got is kept for Ask, or given back by Drop, which may come several times. Ready says that
	// it is its turn at once, and then is as good as Wait.
	Wait(ctx context.Context) error
	Ready() bool
	Drop()
	// Waiting says why Wait has not returned: "queued 2.1 s: tokens/min of key a, 31 ahead"; "": it has.
	Waiting() string
	// Leave says that nobody waits for the answer: nothing more goes out. It returns what was used up; nil: nobody knows, as where a request is
	// on its way. It comes at most once, at any time, also while Ask is under way.
	Leave() agentkernel.Amounts
	// Wanted says that others wait for the place of a request which is under way.
	Wanted() bool
	// Ask asks, as often as it takes. used is what was used up, with an error, too; nil: nobody knows. tell is told each bit of the answer
	// as it comes, and ends it with its error; nil: nobody is. Of a query that Streams alone. Behind the first bit nothing is asked again: the stream has broken.
	Ask(ctx context.Context, tell func(Delta) error) (a *Result, used agentkernel.Amounts, err error)
}

// Result is what has come of a query.
type Result struct {
	*Answer
	Embeddings *Embeddings          // to Query.Embed
	Data       json.RawMessage      // what Request.Schema asked for, checked; nil: nothing
	Cost       *agentkernel.NanoUSD // nil: nobody knows the price
	LeftOut    int                  // how many messages of the request were left out, since it was too long
	Reused     bool                 // it was given before (Query.Reuse): it has used nothing, and must not be changed
}
