package agentkernel

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Signal is out-of-band and goes ahead of every message.
type Signal string

// The signals. Pause, resume, stop and kill reach the descendants too, but for those that are detached.
const (
	// SignalInterrupt raises KernelInterrupt in the call that the program waits for, or else in its next one.
	SignalInterrupt Signal = "interrupt"
	// SignalStop asks as SignalInterrupt does, and kills what has not ended when the grace time is over.
	SignalStop Signal = "stop"
	// SignalUser puts a payload before the program, which takes it with signals.wait.
	SignalUser Signal = "user"
	// SignalPause stops at once, or, in a sandbox that is no Suspender, at the next syscall.
	SignalPause Signal = "pause"
	// SignalResume also lets the descendants go on that were paused with it; those paused by themselves stay so.
	SignalResume Signal = "resume"
	// SignalKill ends at once.
	SignalKill Signal = "kill"
)

// Signals are all of them.
func Signals() []Signal {
	return []Signal{SignalInterrupt, SignalStop, SignalUser, SignalPause, SignalResume, SignalKill}
}

// Validate says which signals there are.
func (s Signal) Validate() error {
	if slices.Contains(Signals(), s) {
		return nil
	}
	names := make([]string, 0, len(Signals()))
	for _, known := range Signals() {
		names = append(names, string(known))
	}
	last := len(names) - 1
	return Errorf(CodeInvalid, "signal", "signal %.40q is not known: %s or %s", string(s), strings.Join(names[:last], ", "), names[last])
}

// SignalOptions says more about a signal. The zero value means nothing special.
type SignalOptions struct {
	// Grace is how long a process may take to end that is asked to stop; 0: DefaultGrace.
	Grace Duration `json:"grace,omitempty"`
	// Payload is what SignalUser puts before the program: any JSON value; nil: null.
	Payload json.RawMessage `json:"payload,omitempty"`
	// Tree also reaches the descendants that are detached, and, with an interrupt or a user signal, those that are attached.
	Tree bool `json:"tree,omitempty"`
}

// The bounds of SignalOptions.
const (
	DefaultGrace     = Duration(10 * time.Second)
	MaxGrace         = Duration(24 * time.Hour)
	MaxDeadline      = 10 * 365 * 24 * time.Hour // 3,650 days, how far ahead Spec.Deadline may be
	MaxSignalPayload = 64 << 10                  // bytes
	// MaxSignalsWaiting is how many user signals wait for a program that does not take them.
	MaxSignalsWaiting = 1000
)

// OpDeadline is the Op of the CodeKilled of a process that was asked to stop because of its deadline.
const OpDeadline = "deadline"

// OpImport is the Op of the CodeKilled of a process whose recording was made before it ended.
const OpImport = "import"

// PostSignal is the kind of a Post that is a user signal.
const PostSignal = "signal"

// Of checks the options of a signal and fills in what is not given (CodeInvalid).
func (o SignalOptions) Of(s Signal) (SignalOptions, error) {
	if err := s.Validate(); err != nil {
		return o, err
	}
	invalid := func(format string, args ...any) (SignalOptions, error) {
		return o, Errorf(CodeInvalid, "signal", format, args...)
	}
	switch {
	case o.Grace != 0 && s != SignalStop:
		return invalid("a grace time goes with stop, not with %s", s)
	case o.Grace < 0 || o.Grace > MaxGrace:
		return invalid("a grace time of %s: it is more than 0 and at most %s", o.Grace, MaxGrace)
	case o.Payload != nil && s != SignalUser:
		return invalid("a payload goes with the signal user, not with %s", s)
	case len(o.Payload) > MaxSignalPayload:
		return invalid("the payload of the signal is %d bytes long; the limit is %d", len(o.Payload), MaxSignalPayload)
	case o.Payload != nil && !json.Valid(o.Payload):
		return invalid("the payload of the signal is not JSON")
	}
	if s == SignalStop && o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	if s == SignalUser && o.Payload == nil {
		o.Payload = json.RawMessage("null")
	}
	return o, nil
}

// OptionsOf are the options with which a signal was sent, of which there is one at most, checked and complete (CodeInvalid).
func OptionsOf(s Signal, with []SignalOptions) (o SignalOptions, err error) {
	switch len(with) {
	case 0:
	case 1:
		o = with[0]
	default:
		return o, Errorf(CodeInvalid, "signal", "a signal has one set of options, not %d", len(with))
	}
	return o.Of(s)
}
