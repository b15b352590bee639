package sys

import (
	"context"
	"encoding/json"

	"agentkernel"
)

// Stream is an answer that comes bit by bit. The call that has it (Outcome.Stream) answers a handle, and each
// stream.next on the handle is a call of its own: a replay hands out what the journal has, and asks nothing twice. Next and
// Reserve are called by one goroutine at a time; Close may come at any time, and once.
type Stream interface {
	// Next waits for the next items, one or more; none: there are no more. When ctx ends it returns without having taken
	// anything. Any other error is the end of the stream.
	Next(ctx context.Context) (Items, error)
	Close()
}

// Reserver is a Stream whose items cost.
type Reserver interface {
	// Reserve is what the next Next may use up at most; see Admission.Reserve.
	Reserve() agentkernel.Amounts
}

// Settler is a Stream whose call has kept what it reserved (Outcome.Keeps).
type Settler interface {
	// Settle closes the stream, instead of Close, and says what it has used up in all; nil: nobody knows. It waits for that a moment.
	Settle() agentkernel.Amounts
}

// Ender is a Settler that says when nothing is used up any more, though it may have more to give: others may need what its call has kept.
type Ender interface {
	// OnEnd has fn called once, and nothing locked meanwhile, when the stream has come to its end without being closed: at once, if it
	// has. used is what it has used up in all; nil: nobody knows.
	OnEnd(fn func(used agentkernel.Amounts))
}

// Waiter is a Stream that says what it waits for.
type Waiter interface {
	// Waiting says it in few words: "40 characters so far". It is called at any time.
	Waiting() string
}

// Items are the next of a stream.
type Items struct {
	List   []json.RawMessage   // canonical JSON
	Settle agentkernel.Amounts // see Outcome.Settle
	// Ended says, of a Settler, that nothing is used up any more: Total was, in all; nil: nobody knows. With an error, too.
	Ended bool
	Total agentkernel.Amounts
}

// Settlement is what the stream of a call has used up of what its call has kept; nil: all of it.
type Settlement struct {
	Call int64
	Used agentkernel.Amounts
}

// Result is the list that the program gets.
func (i *Items) Result() json.RawMessage {
	list := []byte{'['}
	for n, item := range i.List {
		if n > 0 {
			list = append(list, ',')
		}
		list = append(list, item...)
	}
	return append(list, ']')
}

// Streams are the open streams of a process. Of one that is not open Next and Close return false.
type Streams interface {
	Next(ctx context.Context, handle string) (out Outcome, open bool, err error)
	// Close says how what the stream's call has kept is settled, if it has kept anything.
	Close(handle string) (ends *Settlement, open bool)
	Reserve(handle string) agentkernel.Amounts
	// Waiting says what a stream waits for; "": nothing is known of it.
	Waiting(handle string) string
}

// AboutTheCall says whether an error is about a call alone, and not about the stream that it asks: the kernel has interrupted or
// refused it, or it took too long.
func AboutTheCall(code agentkernel.Code) bool {
	switch code {
	case agentkernel.CodeInterrupted, agentkernel.CodeLimit, agentkernel.CodeTimeout, agentkernel.CodeDenied, agentkernel.CodeInvalid, agentkernel.CodeCanceled:
		return true
	}
	return false
}
