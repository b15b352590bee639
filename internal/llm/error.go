package llm

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"agentkernel/internal/clip"
)

// Kind says what kind of failure an error is.
type Kind string

// The kinds of failures.
const (
	RateLimited Kind = "rate_limited" // too much in too short a time: waiting helps
	Overloaded  Kind = "overloaded"   // the server has too much to do: waiting helps
	Quota       Kind = "quota"        // the account's money or spend limit is used up: waiting does not help
	Auth        Kind = "auth"         // the key is wrong, missing, or may not do this
	NoModel     Kind = "no_model"     // there is no such model, or not for this key
	TooLong     Kind = "too_long"     // the conversation does not fit the model's context
	Invalid     Kind = "invalid"      // the server refuses the request as it is
	Filtered    Kind = "filtered"     // the provider's filter refuses what was asked, or answered
	Unsupported Kind = "unsupported"  // the provider cannot do this; nothing was sent
	Server      Kind = "server"       // it failed
	Network     Kind = "network"      // it could not be reached, or the connection broke
	Timeout     Kind = "timeout"      // it did not answer in time, or a stream fell silent
	Malformed   Kind = "malformed"    // what it answered is not what the protocol says
	Canceled    Kind = "canceled"     // whoever asked does not want it any more
)

// Error is why a request has failed. No text of it has the key, or what was asked.
type Error struct {
	Kind    Kind
	Status  int    // of HTTP; 0: there was no answer
	Code    string // the server's own word: "rate_limit_exceeded"
	Message string // what the server says, or what is wrong with its answer; at most 1 kB
	// RetryAfter is how long the server wants to be left alone; 0: it does not say.
	RetryAfter time.Duration
	RequestID  string
	// Sent says that the server may have got the request, and so may charge for it. Usage is what it says it has charged.
	Sent  bool
	Usage *Usage // nil: it does not say
	// Began says that bits of the answer had come (Watch.Delta): asking again may answer something else.
	Began bool
	Err   error // what is behind it; nil: the server's answer alone
}

// Error says what went wrong.
func (e *Error) Error() string {
	text := e.Message
	if text == "" && e.Err != nil {
		text = e.Err.Error()
	}
	if e.Code != "" {
		text = e.Code + ": " + text
	}
	if e.Status >= 300 { // what went wrong behind a status of success is not in it
		return fmt.Sprintf("HTTP %d: %s", e.Status, text)
	}
	return text
}

// Brief is what went wrong in a few words, for lists of what is waited for: "connection refused (127.0.0.1:7779)", "HTTP 500: the server failed".
func (e *Error) Brief() string {
	if e.Kind == Network {
		if errno, ok := errors.AsType[syscall.Errno](e.Err); ok {
			if op, ok := errors.AsType[*net.OpError](e.Err); ok && op.Addr != nil {
				return errno.Error() + " (" + op.Addr.String() + ")"
			}
			return errno.Error()
		}
	}
	return clip.Short(e.Error())
}

// Unwrap is what is behind it.
func (e *Error) Unwrap() error { return e.Err }

// Refused says that nothing listens at the address of the server: to ask it costs nothing.
func (e *Error) Refused() bool { return e.Kind == Network && errors.Is(e.Err, syscall.ECONNREFUSED) }

// Charged says whether the server has charged for the request, or may have.
func (e *Error) Charged() bool { return e.MayCharge() || e.Usage != nil }

// Retry says whether the same request may succeed later.
func (e *Error) Retry() bool {
	switch e.Kind {
	case RateLimited, Overloaded, Server, Network, Timeout, Malformed:
		return true
	}
	return false
}

// MayCharge says whether the server may have charged for a request of which it has not said so: it had it, and did not refuse it.
func (e *Error) MayCharge() bool {
	switch e.Kind {
	case Network, Timeout, Malformed, Canceled:
		return e.Sent
	}
	return e.Began
}
