package monty

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"agentkernel"
	"agentkernel/internal/sandbox/monty/montypb"
)

const noFiles = string(agentkernel.CodeDenied) + ": " + agentkernel.NoFiles

// osCall handles what the engine's own modules ask of an operating system. The clock is the kernel's, the
// environment is empty, the local time zone is UTC, and there are no files.
func (s *sandbox) osCall(c *montypb.OsCall) (turn agentkernel.Turn, done bool, err error) {
	id := c.GetCallId()
	switch k := c.GetCall().(type) {
	case *montypb.OsCall_Getenv:
		val := k.Getenv.GetDefault()
		if len(val) == 0 {
			val = appendEmpty(nil, fieldNone)
		}
		return turn, false, s.w.send(valueReply(append(make([]byte, replyRoom), val...), id, false))
	case *montypb.OsCall_Environ:
		val := appendEmpty(make([]byte, replyRoom), fieldDict)
		return turn, false, s.w.send(valueReply(val, id, false))
	case *montypb.OsCall_DateToday:
		turn = s.askTime(id, func(t time.Time) []byte { return appendClockValue(nil, fieldDate, clockOf(t, 0)) })
		return turn, true, nil
	case *montypb.OsCall_DatetimeNow:
		tz := k.DatetimeNow.GetTz()
		turn = s.askTime(id, func(t time.Time) []byte {
			c := clockOf(t, int(tz.GetOffsetSeconds()))
			c.aware, c.zone = tz != nil, tz.GetName()
			return appendClockValue(nil, fieldDateTime, c)
		})
		return turn, true, nil
	}
	return turn, false, s.w.send(errorReply(id, "PermissionError", noFiles))
}

// askTime makes the syscall time.now of a call that wants the time in another form.
func (s *sandbox) askTime(id uint32, value func(time.Time) []byte) agentkernel.Turn {
	s.stage = stageCall
	s.call = pendingCall{id: id, shape: func(result json.RawMessage) ([]byte, error) {
		var seconds float64
		if err := json.Unmarshal(result, &seconds); err != nil {
			return nil, fmt.Errorf("time.now gave %.40s: %w", result, err)
		}
		t := time.UnixMicro(int64(math.Round(seconds * 1e6))).UTC()
		if t.Year() < 1 || t.Year() > 9998 {
			return nil, fmt.Errorf("the time %v is out of range", seconds)
		}
		return value(t), nil
	}}
	return agentkernel.Turn{Kind: agentkernel.TurnCall, Call: agentkernel.Call{Op: "time.now", Args: json.RawMessage("{}")}}
}

func clockOf(t time.Time, offset int) clock {
	t = t.Add(time.Duration(offset) * time.Second)
	return clock{year: t.Year(), month: int(t.Month()), day: t.Day(), hour: t.Hour(), minute: t.Minute(),
		second: t.Second(), micro: t.Nanosecond() / 1000, offset: offset}
}

// undefinedReply answers the look-up of a name: NameError in the program.
func undefinedReply() []byte {
	return frame(&montypb.Request{Kind: &montypb.Request_ResumeName{ResumeName: &montypb.ResumeName{
		Kind: &montypb.ResumeName_Undefined{Undefined: &montypb.Unit{}}}}})
}

func resumeCall(id uint32, r *montypb.Result) []byte {
	return frame(&montypb.Request{Kind: &montypb.Request_ResumeCall{ResumeCall: &montypb.ResumeCall{CallId: id, Result: r}}})
}

// notFoundReply raises NameError.
func notFoundReply(id uint32, name string) []byte {
	return resumeCall(id, &montypb.Result{Kind: &montypb.Result_NotFound{NotFound: name}})
}

// futureReply makes the call awaitable; its result comes later, under the number of the future.
func futureReply(id, future uint32) []byte {
	return resumeCall(id, &montypb.Result{Kind: &montypb.Result_Future{Future: future}})
}

// errorReply raises an exception in the program. Types that the engine cannot raise become their base.
func errorReply(id uint32, typ, text string) []byte {
	return resumeCall(id, &montypb.Result{Kind: &montypb.Result_Error{Error: &montypb.Raised{
		Type: engineException(typ), Message: protoText(text)}}})
}
