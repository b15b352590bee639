package monty

import (
	"fmt"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/clip"
	"agentkernel/internal/sandbox/monty/frontend"
	"agentkernel/internal/sandbox/monty/montypb"
)

// raisableTypes are the exceptions that engine 0.0.23 accepts from its parent; it ends a program for another.
const raisableTypes = " Exception BaseException RuntimeError NotImplementedError RecursionError PermissionError OSError" +
	" FileNotFoundError FileExistsError IsADirectoryError NotADirectoryError TimeoutError MemoryError KeyboardInterrupt" +
	" SystemExit TypeError ValueError UnicodeDecodeError UnicodeEncodeError json.JSONDecodeError LookupError KeyError IndexError" +
	" AttributeError NameError UnboundLocalError StopIteration AssertionError ModuleNotFoundError ImportError" +
	" ArithmeticError ZeroDivisionError OverflowError SyntaxError "

func raisable(typ string) bool {
	return typ != "" && !strings.ContainsRune(typ, ' ') && strings.Contains(raisableTypes, " "+typ+" ")
}

// engineException is a type that the engine can raise for the one that is meant.
func engineException(typ string) string {
	if base := agentkernel.GuestBase(typ); base != "" {
		typ = base // Monty cannot be taught new types (docs/errors.md)
	}
	switch {
	case raisable(typ):
		return typ
	case typ == "UnicodeError" || typ == "binascii.Error" || typ == "csv.Error":
		return "ValueError"
	}
	return "RuntimeError"
}

func protoText(s string) *string {
	s = strings.ToValidUTF8(s, "�")
	return &s
}

// maxMessage bounds what an exception of a program says, in bytes: it stands in rows, tables and events.
const maxMessage = 16 << 10

// lacksBuiltins are the builtins of CPython that the engine does not know, and that the front end lets through where a program may
// have defined them. Anything else that is not defined is the program's own mistake, as far as can be told.
const lacksBuiltins = " aiter anext bytearray classmethod compile complex delattr dir eval exec globals input issubclass locals memoryview" +
	" object property staticmethod super vars __build_class__ __import__ "

// faultOf says whose doing an uncaught exception may be. An answer to a call is "code: message", as kernels give it.
func faultOf(x *montypb.Raised, typ, msg string) agentkernel.Fault {
	code, _, isAnswer := strings.Cut(msg, ": ")
	switch {
	case msg == noFiles || strings.HasPrefix(msg, unpassable):
		return agentkernel.FaultBackend // the answer is ours, not the kernel's
	case isAnswer && agentkernel.Code(code).Known():
		return agentkernel.FaultProgram
	case typ == "ZeroDivisionError": // the same everywhere
		return agentkernel.FaultProgram
	case parserError(x) || strings.HasPrefix(msg, "Internal error in monty"):
		return agentkernel.FaultBackend
	case typ == "NotImplementedError" || typ == "ImportError" || typ == "ModuleNotFoundError":
		return agentkernel.FaultBackend
	case typ == "NameError":
		if name := quoted(msg); name != "" && strings.Contains(lacksBuiltins, " "+name+" ") {
			return agentkernel.FaultBackend
		}
	}
	return agentkernel.FaultPerhaps
}

// quoted is the first word in quotes of a message.
func quoted(msg string) string {
	_, after, _ := strings.Cut(msg, "'")
	word, _, ok := strings.Cut(after, "'")
	if !ok {
		return ""
	}
	return word
}

// failTurn is the end of a program by its own doing, or by a limit.
func failTurn(e *agentkernel.Error) agentkernel.Turn {
	return agentkernel.Turn{Kind: agentkernel.TurnFail, Err: e}
}

func limitError(limit, format string, args ...any) *agentkernel.Error {
	return agentkernel.LimitErrorf(limit, limit+" limit reached: "+format, args...)
}

// programFailed turns an exception that nobody caught into the program's end.
func (s *sandbox) programFailed(x *montypb.Raised) (agentkernel.Turn, error) {
	typ, msg := clip.At(x.GetType(), 100), frontend.Clean(clip.At(x.GetMessage(), maxMessage))
	if len(x.GetFrames()) == 0 && strings.HasPrefix(msg, "protocol violation: ") {
		return agentkernel.Turn{}, fmt.Errorf("%w: %s", errProtocol, msg)
	}
	if typ == "SystemExit" {
		return s.systemExit(x), nil
	}
	s.stage = stageEnded
	e := &agentkernel.Error{Code: agentkernel.CodeProgram, Op: "run", Exception: typ}
	text := typ
	if msg != "" {
		text += ": " + msg
	}
	e.Err = fmt.Errorf("%s", text)
	e.Traceback = s.traceback(x, text)
	switch {
	case typ == "TimeoutError" && strings.HasPrefix(msg, "time limit exceeded: "):
		s.spoil()
		return failTurn(s.limitHit(e, "time", "the program ran for %s, its limit is %s", s.Running().Round(time.Millisecond), s.req.Limits.Time)), nil
	case typ == "MemoryError" && strings.HasPrefix(msg, "memory limit exceeded: "):
		s.spoil()
		return failTurn(s.limitHit(e, "memory", "the program needed more memory than its limit of %s", bytesize.InMiB(s.req.Limits.Memory))), nil
	case typ == "RecursionError" && msg == "maximum recursion depth exceeded":
		return failTurn(s.limitHit(e, "recursion", "calls were nested deeper than the limit of %d", s.req.Limits.Recursion)), nil
	case typ == "SyntaxError" && parserError(x):
		e.Code = agentkernel.CodeSyntax
	case typ == "NotImplementedError" && parserError(x):
		e.Code = agentkernel.CodeUnsupported
	case strings.HasPrefix(msg, "Internal error in monty: exceptions can only be called"):
		e.Hint = "exceptions in Monty take no argument or one text: write KeyError(str(key))"
	}
	turn := failTurn(e)
	turn.Fault = faultOf(x, typ, msg)
	return turn, nil
}

// limitHit makes e the answer to a limit and keeps its traceback.
func (s *sandbox) limitHit(e *agentkernel.Error, limit, format string, args ...any) *agentkernel.Error {
	l := limitError(limit, format, args...)
	l.Traceback, l.Exception = e.Traceback, e.Exception
	return l
}

// spoil sees to it that the worker is not used again: it stopped at a point that few have tested.
func (s *sandbox) spoil() { s.w.kill(errRetired) }

// parserError says that the exception came from reading the source: such frames are in no function.
func parserError(x *montypb.Raised) bool {
	frames := x.GetFrames()
	return len(frames) > 0 && frames[len(frames)-1].Function == nil
}

// systemExit is `raise SystemExit`: nothing or a text, as the engine has it. A text goes to stderr, as in
// CPython; sys.exit and kernel.exit are a syscall and do not come here.
func (s *sandbox) systemExit(x *montypb.Raised) agentkernel.Turn {
	s.stage = stageEnded
	turn := agentkernel.Turn{Kind: agentkernel.TurnExit}
	if x.Message != nil {
		turn.ExitCode = agentkernel.ExitFailed
		if s.req.Output != nil {
			s.req.Output("stderr", x.GetMessage()+"\n")
		}
	}
	return turn
}
