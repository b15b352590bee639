// Package calls joins the entries of a journal, in which a call and its result are two records, into calls:
// what was asked, when, and what came of it. Commands that explain, compare or draw a run start from here.
//
// It works on entries alone: it must never ask a kernel or a store, and never change what it was given.
package calls

import (
	"encoding/json"
	"time"

	"agentkernel"
)

// Call is one system call of a process.
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
	Start     time.Time
	End       time.Time // zero: no result
	Result    json.RawMessage
	Err       *agentkernel.Error
	Note      string // of the result: incarnation of the server, who approved
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

// Of lists the calls of a journal in the order in which they were issued. The entries are those of one
// process from some position on; a result without its call is left out.
func Of(entries []agentkernel.Entry) []Call {
	var out []Call
	index := map[int64]int{}
	for i := range entries {
		e := &entries[i]
		switch e.Kind {
		case agentkernel.EntryCall:
			c := Call{Number: e.Call, Seq: e.Seq, Op: e.Op, Args: e.Args, Effect: e.Effect, Async: e.Async, Start: e.At}
			if e.Op == "tool.call" {
				c.Server, c.Tool = Target(e.Args)
			}
			if e.Done {
				c.answer(e)
			} else {
				index[e.Call] = len(out)
			}
			out = append(out, c)
		case agentkernel.EntryResult:
			if at, ok := index[e.Call]; ok {
				out[at].answer(e)
				delete(index, e.Call)
			}
		}
	}
	return out
}

func (c *Call) answer(e *agentkernel.Entry) {
	c.ResultSeq, c.End, c.Result, c.Err, c.Note = e.Seq, e.At, e.Data, e.Err, e.Note
}

// Target is the server and the tool that the arguments of a tool.call name; "" if they name none.
func Target(args json.RawMessage) (server, tool string) {
	var a struct{ Server, Tool string }
	if json.Unmarshal(args, &a) != nil || a.Tool == "" {
		return "", ""
	}
	return a.Server, a.Tool
}

// Spec is what a process was created with, without its program text, from the first entry of its journal. ok
// is false if the journal does not begin with it.
func Spec(entries []agentkernel.Entry) (spec agentkernel.Spec, ok bool) {
	if len(entries) == 0 || entries[0].Kind != agentkernel.EntryCreated {
		return spec, false
	}
	return spec, json.Unmarshal(entries[0].Data, &spec) == nil
}
