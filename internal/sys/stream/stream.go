// Package stream is the family with which programs read streams: stream.next and stream.close. Calls of other families open
// them (sys.Stream). The package knows from the journal which are open, so that it can say of one that went with its kernel
// what has become of it.
package stream

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/journal"
	"agentkernel/internal/sys"
)

const (
	next     = "stream.next"
	closeNow = "stream.close"
)

// Family is the family of streams.
func Family() sys.Family {
	handle := []agentkernel.Param{{Name: "handle", Type: "string", Doc: "what the call that opened the stream has returned"}}
	return sys.Family{Name: "stream",
		Local: &sys.Local{Fold: fold, Save: save, Load: load, Wants: func(op *sys.Op) bool { return op.Opens }},
		Ops: []sys.Op{
			{Subject: subject, Admit: admit, Outside: ask, Syscall: agentkernel.Syscall{
				Name: next, Guest: next, Effect: agentkernel.EffectRead, Capability: "stream", Advances: true,
				Doc:    "Waits for the next items of a stream: `while items := stream.next(handle): ...`",
				Args:   handle,
				Result: "array", ResultDoc: "one item or more; an empty list at the end"}},
			{Subject: subject, Now: closes, Syscall: agentkernel.Syscall{
				Name: closeNow, Guest: closeNow, Effect: agentkernel.EffectPure, Capability: "stream",
				Doc:    "Closes a stream that is not read to its end. The end of the process closes all.",
				Args:   handle,
				Result: "boolean", ResultDoc: "whether it was open"}},
		}}
}

func subject(args json.RawMessage) string {
	return clip.Short(handleOf(args))
}

// handleOf is the handle of a journalled call; "": it has none.
func handleOf(args json.RawMessage) string {
	handle, _ := journal.TextOf(args, "handle")
	return handle
}

func decode(c *sys.Call) (string, error) {
	var a struct {
		Handle string `json:"handle"`
	}
	err := c.Decode(&a)
	return a.Handle, err
}

// admit reserves what the next items may cost.
func admit(c *sys.Call) (sys.Admission, error) {
	h, err := decode(c)
	if err != nil {
		return sys.Admission{}, err
	}
	says := func() string { return c.Streams.Waiting(h) }
	return sys.Admission{Subject: clip.Short(h), Reserve: c.Streams.Reserve(h), Value: h, Waiting: says}, nil
}

func ask(ctx context.Context, c *sys.Call) (sys.Outcome, error) {
	h := c.Admitted.(string)
	out, open, err := c.Streams.Next(ctx, h)
	switch {
	case open:
		return out, err
	case isOpen(c.Local, h) && !hasMore(c.Local, h): // the kernel that gave the last of it has ended
		out.Result = json.RawMessage(`[]`)
		return out, nil
	case isOpen(c.Local, h):
		out.Ends = lost(c, h)
		return out, c.Errorf(agentkernel.CodeSessionLost, "stream %s is lost: the kernel that had it has ended, or another process opened it; what it gave before is all there is", h)
	}
	return out, c.Errorf(agentkernel.CodeNotFound, "stream %s is not open: it was read to its end, it failed, it was closed, or there never was one", clip.Short(h))
}

func closes(c *sys.Call) (sys.Outcome, error) {
	h, err := decode(c)
	if err != nil {
		return sys.Outcome{}, err
	}
	ends, here := c.Streams.Close(h)
	was := isOpen(c.Local, h)
	if was && !here && hasMore(c.Local, h) {
		ends = lost(c, h)
	}
	return sys.Outcome{Result: json.RawMessage(strconv.FormatBool(was)), Ends: ends}, nil
}

// lost settles what is kept for a stream that went with its kernel: what that has used, nobody knows. nil: another process has opened it.
func lost(c *sys.Call, handle string) *sys.Settlement {
	if !strings.HasPrefix(handle, c.PID.String()+".") {
		return nil
	}
	return &sys.Settlement{Call: callOf(handle)}
}

// handles are the streams that are open, as the journal says; false: of those all that they had was given.
type handles = map[string]bool

func isOpen(data any, handle string) bool {
	h, _ := data.(handles)
	_, open := h[handle]
	return open
}

func hasMore(data any, handle string) bool {
	h, _ := data.(handles)
	return h[handle]
}

// fold follows which streams are open.
func fold(data any, s *sys.Step) any {
	open, _ := data.(handles)
	switch {
	case s.Aborted:
		open = maps.Clone(open)
		maps.DeleteFunc(open, func(h string, _ bool) bool { return callOf(h) > s.Call })
	case s.Settled:
		if h := s.PID.String() + "." + strconv.FormatInt(s.Call, 10); open[h] {
			open = maps.Clone(open)
			open[h] = false
		}
	case !s.Answered:
	case s.Op == closeNow && s.Err == nil, s.Op == next && ends(s):
		open = maps.Clone(open)
		delete(open, handleOf(s.Args))
	case s.Op != next && s.Op != closeNow && s.Err == nil:
		var h string
		if json.Unmarshal(s.Result, &h) == nil {
			if open = maps.Clone(open); open == nil {
				open = handles{}
			}
			open[h] = true
		}
	}
	if len(open) == 0 {
		return nil
	}
	return open
}

// callOf is the call that has opened a stream.
func callOf(handle string) int64 {
	_, call, _ := strings.Cut(handle, ".")
	n, _ := strconv.ParseInt(call, 10, 64) // it is the kernel's own text
	return n
}

// ends says whether an answer of stream.next is its stream's last.
func ends(s *sys.Step) bool {
	if s.Err == nil {
		return string(s.Result) == "[]"
	}
	return !sys.AboutTheCall(s.Err.Code)
}

func save(data any) json.RawMessage {
	raw, err := json.Marshal(data)
	if err != nil {
		return nil // numbers always encode
	}
	return raw
}

func load(raw json.RawMessage) (any, error) {
	var h handles
	if err := json.Unmarshal(raw, &h); err != nil {
		return nil, err
	}
	return h, nil
}
