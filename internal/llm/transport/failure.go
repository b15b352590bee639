package transport

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/sse"
	"agentkernel/internal/portowner"
)

// Fault is what a server says of a failure.
type Fault struct {
	Code, Type, Message string
	RequestID           string
	Status              int // that it names in the body; 0: none
}

// newError is an error of a request that is as far as this one.
func (x *Exchange) newError(kind llm.Kind) *llm.Error {
	e := &llm.Error{Kind: kind, Status: x.head.Status, RequestID: x.head.RequestID, Sent: x.sent.Load() || x.head.Status != 0, Began: x.began}
	if x.resp != nil {
		e.RetryAfter = retryAfter(x.resp.Header, serverTime(x.resp.Header, time.Now()))
	}
	return e
}

// Refuse is the error for a failure that the server tells of, in the body of an answer or amid a stream. used is what it has
// said of usage so far; nil: nothing.
func (x *Exchange) Refuse(f Fault, used *llm.Usage) *llm.Error {
	e := x.newError("")
	status := x.head.Status
	if status == http.StatusOK {
		status = f.Status
	}
	e.Code = clean(x.conceal(f.Code))
	if e.Code == "" {
		e.Code = clean(x.conceal(f.Type))
	}
	e.Message = x.conceal(f.Message)
	if e.Message == "" {
		e.Message = "the server says nothing more"
		if text := http.StatusText(status); text != "" {
			e.Message = strings.ToLower(text)
		}
	}
	if e.RequestID == "" {
		e.RequestID = clean(x.conceal(f.RequestID))
	}
	e.Kind = kindOf(status, f, e.RetryAfter > 0)
	e.Usage = x.used(used)
	return e
}

// Fail is the error for a request that did not come to its end: what the connection, a reader or a decoder says, or whoever is
// told of it. used is what the server has said of usage so far; nil: nothing.
func (x *Exchange) Fail(err error, used *llm.Usage) *llm.Error {
	e := x.fail(err)
	e.Usage = x.used(used)
	return e
}

// used is the usage of a request that has failed: what the server said, and an estimate of the rest if some of it had come.
func (x *Exchange) used(said *llm.Usage) *llm.Usage {
	if !x.began {
		return said
	}
	u := x.Partial(said)
	return &u
}

// Partial is what an answer has used whose server did not say it to the end: an estimate, but for what it did say.
func (x *Exchange) Partial(said *llm.Usage) llm.Usage {
	u := llm.Usage{Input: x.call.Input, Output: Tokens(x.text), Reasoning: Tokens(x.reasoning), Estimated: true}
	if said == nil {
		return u
	}
	if said.Inputs() > 0 {
		u.Input, u.CacheRead, u.CacheWrite, u.CacheWrite1h = said.Input, said.CacheRead, said.CacheWrite, said.CacheWrite1h
	}
	if said.Outputs() >= u.Outputs() {
		u.Output, u.Reasoning = said.Output, said.Reasoning
	}
	u.Raw = said.Raw
	return u
}

func (x *Exchange) fail(err error) *llm.Error {
	var already *llm.Error
	var told refused
	var wrong malformed
	var timeout net.Error
	var other *portowner.Other
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err // it would name the address
	}
	cause := error(nil)
	if x.ctx != nil {
		cause = context.Cause(x.ctx)
	}
	e := x.newError(llm.Network)
	switch {
	case errors.As(err, &told), errors.As(cause, &told):
		e.Kind, e.Err = llm.Canceled, told.error
	case errors.As(err, &already):
		return already
	case errors.As(err, &other):
		e.Kind, e.Message, e.Err = llm.Auth, "the key was not sent", other
	case x.parent.Err() != nil:
		e.Kind, e.Message, e.Err = llm.Canceled, "the request was canceled", context.Cause(x.parent)
	case errors.Is(cause, errSilent):
		e.Kind, e.Message, e.Err = llm.Timeout, "nothing came from the server for "+x.idle.String(), errSilent
	case errors.As(err, &wrong):
		e.Kind, e.Message = llm.Malformed, string(wrong)
	case errors.Is(err, errTooLarge), errors.Is(err, sse.ErrTooLong):
		e.Kind, e.Message, e.Err = llm.Malformed, "the answer has more than "+strconv.FormatInt(x.server.most(x.call), 10)+" bytes", err
	case isJSON(err):
		e.Kind, e.Message = llm.Malformed, "the answer is not the JSON that it should be"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Message, e.Err = "the connection was closed before the end of the answer", io.ErrUnexpectedEOF
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		e.Kind, e.Message, e.Err = llm.Timeout, "the server did not answer in time", err
	default:
		e.Message, e.Err = x.conceal(err.Error()), err
	}
	return e
}

func isJSON(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind)
}

// kindOf sorts a failure. What the server calls it counts more than the status: limits that waiting helps against and money
// that is used up come with the same one. waits says that the server wants to be asked again later.
func kindOf(status int, f Fault, waits bool) llm.Kind {
	names := strings.ToLower(f.Code + " " + f.Type)
	message := strings.ToLower(f.Message)
	named := func(list ...string) bool { return containsAny(names, list) }
	says := func(list ...string) bool { return containsAny(message, list) }
	switch {
	case named("insufficient_quota", "credit_balance", "spend_limit", "usage_limit", "billing", "insufficient_credits", "payment_required"),
		says("specified api usage limits", "specified workspace api usage limits", "credit balance is too low"),
		status == http.StatusPaymentRequired && !waits:
		return llm.Quota
	case named("context_length_exceeded", "request_too_large", "string_above_max_length"),
		says("prompt is too long", "maximum context length", "exceed context limit", "exceeds the context", "exceeds the available context",
			"longer than the context length", "exceeds maximum context", "exceeds the model's maximum context", "input is too long",
			"request too large for"), // one that is larger than what the limit has in a minute never passes
		status == http.StatusRequestEntityTooLarge:
		return llm.TooLong
	case named("content_filter", "content_policy", "responsibleaipolicy", "invalid_prompt", "bio_policy", "cyber_policy", "moderation"),
		says("content management policy", "blocked by content filtering", "was flagged", "requires moderation"):
		return llm.Filtered
	case named("model_not_found", "deploymentnotfound", "model_not_available", "invalid_model"), says("is not a valid model"),
		status == http.StatusNotFound && says("model", "deployment"):
		return llm.NoModel
	case named("invalid_api_key", "authentication", "permission"), status == http.StatusUnauthorized, status == http.StatusForbidden:
		return llm.Auth
	case named("overloaded"), named("slow_down") && status != http.StatusTooManyRequests,
		isOverloaded(status) && named("server_error", "api_error", "internal"): // words that go with any 5xx: the status says more
		return llm.Overloaded
	case named("rate_limit", "too_many_requests", "ratelimit"), status == http.StatusTooManyRequests, status == http.StatusPaymentRequired:
		return llm.RateLimited
	case named("timeout"), status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return llm.Timeout
	case named("server_error", "api_error", "internal"):
		return llm.Server
	case named("invalid_request", "invalid_value", "invalid_type", "unsupported", "image"):
		return llm.Invalid
	}
	switch {
	case isOverloaded(status):
		return llm.Overloaded
	case status >= 500, status == http.StatusConflict, status == 0:
		return llm.Server
	}
	return llm.Invalid
}

// isOverloaded says whether a status says that the server has too much to do.
func isOverloaded(status int) bool {
	const overloaded = 529 // Anthropic's
	return status == http.StatusServiceUnavailable || status == overloaded
}

func containsAny(s string, list []string) bool {
	for _, part := range list {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}
