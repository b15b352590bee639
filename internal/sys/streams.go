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

// Items are the next of a stream.
type Items struct {
	List   []json.RawMessage   // canonical JSON
	Settle agentkernel.Amounts // see Outcome.Settle
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
	Close(handle string) (open bool)
	Reserve(handle string) agentkernel.Amounts
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
