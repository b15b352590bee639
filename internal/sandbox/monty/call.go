package monty

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/sandbox/monty/intrinsic"
	"agentkernel/internal/sandbox/monty/montypb"
)

// pendingCall is the call at which the program stands.
type pendingCall struct {
	id    uint32
	async bool
	// shape makes the program's value of a result that is not passed on as it is (datetime.now); else nil.
	shape func(result json.RawMessage) ([]byte, error)
}

// functionCall handles a call of a host function. Names come from the functions that were bound, or are
// names of Python that the engine does not know; anything else is an unknown name too.
func (s *sandbox) functionCall(c *montypb.FunctionCall) (turn agentkernel.Turn, done bool, err error) {
	name := c.GetName()
	if c.GetObjectId() != nil {
		return turn, false, s.w.send(notFoundReply(c.GetCallId(), name))
	}
	kind, rest, _ := strings.Cut(name, ".")
	switch kind {
	case "kernel":
		return s.kernelCall(c, rest)
	case "tools":
		return s.toolCall(c, rest)
	case "intrinsic":
		return s.hostCall(c, rest)
	case "output":
		return s.outputCall(c)
	}
	return turn, false, s.w.send(notFoundReply(c.GetCallId(), name))
}

func (s *sandbox) kernelCall(c *montypb.FunctionCall, name string) (turn agentkernel.Turn, done bool, err error) {
	guest, async := strings.CutPrefix(name, "aio.")
	call, ok := s.b.syscalls[guest]
	if !ok {
		return turn, false, s.w.send(notFoundReply(c.GetCallId(), c.GetName()))
	}
	args, err := bindSyscall(call, c)
	return s.issue(c.GetCallId(), async, agentkernel.Call{Op: call.Name, Args: args}, err)
}

func (s *sandbox) toolCall(c *montypb.FunctionCall, name string) (turn agentkernel.Turn, done bool, err error) {
	server, rest, _ := strings.Cut(name, ".")
	fn, async := strings.CutPrefix(rest, "aio.")
	tool := s.prog.tools[server+"."+fn]
	if tool == nil { // a tool named aio.x cannot be: names are identifiers
		return turn, false, s.w.send(notFoundReply(c.GetCallId(), c.GetName()))
	}
	args, err := bindTool(tool, c)
	return s.issue(c.GetCallId(), async, agentkernel.Call{Op: "tool.call", Args: args}, err)
}

// issue hands a call to the kernel, or tells the program that its arguments do not fit.
func (s *sandbox) issue(id uint32, async bool, call agentkernel.Call, bad error) (turn agentkernel.Turn, done bool, err error) {
	if errors.Is(bad, errMalformed) {
		return turn, false, errors.Join(errProtocol, bad)
	}
	if bad != nil {
		if e, ok := errors.AsType[*agentkernel.Error](bad); ok {
			return turn, false, s.w.send(errorReply(id, e.Code.GuestException(), e.GuestText()))
		}
		e := agentkernel.AsError(bad, agentkernel.CodeInvalid, call.Op)
		return turn, false, s.w.send(errorReply(id, "ValueError", e.GuestText()))
	}
	call.Async = async
	s.stage, s.call = stageCall, pendingCall{id: id, async: async}
	return agentkernel.Turn{Kind: agentkernel.TurnCall, Call: call}, true, nil
}

// maxPassedBytes bounds the arguments of a call as the worker sends them: the kernel takes no more, and would
// say so only when all of it has been decoded.
const maxPassedBytes = 64 << 20

func passed(c *montypb.FunctionCall) (n int) {
	for _, a := range c.GetArgs() {
		n += len(a)
	}
	for _, kw := range c.GetKwargs() {
		n += len(kw.GetKey()) + len(kw.GetValue())
	}
	return n
}

// hostCall runs an intrinsic on the program's time: it is work of the program, done by the host.
func (s *sandbox) hostCall(c *montypb.FunctionCall, name string) (turn agentkernel.Turn, done bool, err error) {
	begun := s.b.cfg.Clock.Now()
	err = s.intrinsicCall(c, name)
	s.host += max(s.b.cfg.Clock.Now().Sub(begun), 0)
	if limit := time.Duration(s.req.Limits.Time); err == nil && s.Running() > limit {
		s.stage = stageDead
		s.w.kill(errRetired)
		return failTurn(limitError("time", "the program ran for %s, its limit is %s", s.Running().Round(time.Millisecond), limit)), true, nil
	}
	return turn, false, err
}

// intrinsicCall answers a pure function of the standard library that the engine lacks. No turn, no journal.
func (s *sandbox) intrinsicCall(c *montypb.FunctionCall, name string) error {
	id := c.GetCallId()
	if len(c.GetKwargs()) > 0 {
		return s.w.send(errorReply(id, "TypeError", name+"() takes no keyword arguments"))
	}
	args := []byte{'['}
	for i, a := range c.GetArgs() {
		if i > 0 {
			args = append(args, ',')
		}
		var err error
		if args, err = appendJSON(args, a); errors.Is(err, errMalformed) {
			return errors.Join(errProtocol, err)
		} else if err != nil {
			return s.w.send(errorReply(id, "ValueError", err.Error()))
		}
	}
	result, err := intrinsic.Call(name, append(args, ']'))
	if err != nil {
		typ, text := "RuntimeError", err.Error()
		if e, ok := errors.AsType[*agentkernel.Error](err); ok {
			typ, text = e.Exception, e.Message() // the words of Python, not of the kernel
		}
		return s.w.send(errorReply(id, typ, text))
	}
	return s.answer(id, &agentkernel.Reply{Result: result}, false)
}

// outputCall is sys.stderr.write, which the engine lacks: text for stderr, within the same limit as print.
func (s *sandbox) outputCall(c *montypb.FunctionCall) (turn agentkernel.Turn, done bool, err error) {
	var text []byte
	ok := len(c.GetArgs()) == 1 && len(c.GetKwargs()) == 0 && c.GetName() == "output.stderr"
	if ok {
		text, ok = strValue(c.GetArgs()[0])
	}
	if !ok {
		return turn, false, s.w.send(errorReply(c.GetCallId(), "TypeError", "write() argument must be str"))
	}
	const stderr = 2
	turn, done, err = s.print(&montypb.Print{Stream: stderr, Text: string(text)})
	if done || err != nil {
		return turn, done, err
	}
	return turn, false, s.answer(c.GetCallId(), &agentkernel.Reply{Result: orNull(nil)}, false)
}

// answer hands the program a result or an error: of a call, or (future) of an async one that it waits for.
func (s *sandbox) answer(id uint32, reply *agentkernel.Reply, future bool) error {
	shape := s.call.shape
	s.call = pendingCall{}
	if future {
		reply = settled(reply)
	}
	if reply.Err != nil {
		return s.w.send(errorReply(id, reply.Err.Code.GuestException(), reply.Err.GuestText()))
	}
	buf := make([]byte, replyRoom, replyRoom+len(reply.Result)+len(reply.Result)/8+16)
	var err error
	if shape != nil && !future {
		var val []byte
		val, err = shape(reply.Result)
		buf = append(buf, val...)
	} else {
		var out []byte
		if out, err = appendValue(buf, reply.Result); err == nil {
			buf = out
		}
	}
	if err == nil && len(buf) > s.b.cfg.MaxFrame {
		err = errTooLarge
	}
	if err != nil {
		e := agentkernel.Errorf(agentkernel.CodeUnsupported, "monty", unpassableText+": %w", err)
		if future {
			return s.answer(id, &agentkernel.Reply{ID: reply.ID, Err: e}, true)
		}
		return s.w.send(errorReply(id, "RuntimeError", e.GuestText()))
	}
	return s.w.send(valueReply(buf, id, future))
}

// settled is a result as the coroutine around an async function expects it (frontend: awaitable): a tuple
// that holds the value, or an exception. The engine is never handed an error for a future.
func settled(reply *agentkernel.Reply) *agentkernel.Reply {
	if reply.Err == nil {
		value := make([]byte, 0, len(reply.Result)+16)
		value = append(append(append(value, `{"$tuple":[`...), orNull(reply.Result)...), `]}`...)
		return &agentkernel.Reply{ID: reply.ID, Result: value}
	}
	text, err := json.Marshal(map[string]any{"$exception": map[string]string{
		"type": engineException(reply.Err.Code.GuestException()), "arg": strings.ToValidUTF8(reply.Err.GuestText(), "�")}})
	if err != nil { // strings always marshal
		text = []byte(`{"$exception":{"type":"RuntimeError","arg":null}}`)
	}
	return &agentkernel.Reply{ID: reply.ID, Result: text}
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// The beginning of what a program is told where a result has no form in the engine.
const (
	unpassableText = "the result cannot be handed to the program"
	unpassable     = string(agentkernel.CodeUnsupported) + ": " + unpassableText
)

var errTooLarge = errors.New("it is larger than one message to the engine may be")
