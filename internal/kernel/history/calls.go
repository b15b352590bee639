package history

import (
	"encoding/json"
	"time"

	"agentkernel"
)

// Call is one system call of a process: in a journal it and its result are two entries.
type Call struct {
	Number    int64 // 1, 2, ... in the order in which they were issued
	Seq       int64 // its entry in the journal
	ResultSeq int64 // the entry of its result, the same if the kernel answered at once; 0: none
	Op        string
	Server    string // tool calls
	Tool      string
	Args      json.RawMessage // canonical
	Effect    agentkernel.Effect
	Async     bool
	Unsent    bool // it is in the journal, and waits for its turn
	Start     time.Time
	End       time.Time // zero: no result
	Result    json.RawMessage
	Err       *agentkernel.Error
	Note      string // of the result, for people: the incarnation of the server
}

// Name is the call as people know it: "github.create_issue" for a tool, the operation for the others.
func (c *Call) Name() string {
	if c.Tool == "" {
		return c.Op
	}
	return c.Server + "." + c.Tool
}

// Open says that nobody knows a result.
func (c *Call) Open() bool { return c.ResultSeq == 0 }

// InDoubt says that it is a write which may have been made, and nobody knows.
func (c *Call) InDoubt() bool { return c.Open() && !c.Unsent && c.Effect == agentkernel.EffectWrite }

// Instant says that the kernel answered at once.
func (c *Call) Instant() bool { return c.ResultSeq == c.Seq }

// Took is how long the result took; of an open call, how long it has been waited for until now.
func (c *Call) Took(now time.Time) time.Duration {
	end := c.End
	if c.Open() {
		end = now
	}
	return max(end.Sub(c.Start), 0)
}

// Calls lists the calls of a journal in the order in which they were issued. The entries are those of one
// process from some position on; a result without its call is left out.
func Calls(entries []agentkernel.Entry) []Call {
	var out []Call
	index := map[int64]int{}
	for i := range entries {
		e := &entries[i]
		switch e.Kind {
		case agentkernel.EntryCall:
			c := Call{Number: e.Call, Seq: e.Seq, Op: e.Op, Args: e.Args, Effect: e.Effect, Async: e.Async, Start: e.At, Unsent: LeavesUnsent(e)}
			var t struct{ Server, Tool string }
			if callsTool(e.Op) && json.Unmarshal(e.Args, &t) == nil && t.Tool != "" {
				c.Server, c.Tool = t.Server, t.Tool
			}
			if e.Done {
				c.answer(e)
			} else {
				index[e.Call] = len(out)
			}
			out = append(out, c)
		case agentkernel.EntryRetry, agentkernel.EntrySettled:
			if at, ok := index[e.Call]; ok {
				out[at].Unsent = LeavesUnsent(e)
			}
		case agentkernel.EntryResult:
			if at, ok := index[e.Call]; ok {
				out[at].answer(e)
				delete(index, e.Call)
			}
		}
	}
	return out
}

// LeavesUnsent says that an entry leaves its call waiting for its turn.
func LeavesUnsent(e *agentkernel.Entry) bool { return e.Reserve[agentkernel.AmountUnsent] > 0 }

func (c *Call) answer(e *agentkernel.Entry) {
	c.ResultSeq, c.End, c.Result, c.Err, c.Note = e.Seq, e.At, e.Data, e.Err, e.Note
}

// Describe is a call as a text, to show where two differ.
func Describe(op string, async bool, args json.RawMessage) json.RawMessage {
	s := op + " " + string(args)
	if async {
		s = "async " + s
	}
	return json.RawMessage(s)
}

// CallOf is what a journal says of a call; nil: it has none of this number.
func CallOf(entries []agentkernel.Entry, number int64) *Call {
	list := Calls(entries)
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Number == number {
			return &list[i]
		}
	}
	return nil
}

// OpenWrite says that a journal has a write that may have been made, and no result of it.
func OpenWrite(entries []agentkernel.Entry, call int64) bool {
	c := CallOf(entries, call)
	return c != nil && c.InDoubt()
}
