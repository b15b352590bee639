package devllm

import (
	"fmt"
	"net/http"
	"time"
)

// cause is why a request fails. Each dialect has its own words for it.
type cause int

const (
	badInput cause = iota
	wrongKey
	noModel
	noPath
	tooLong
	limited
	requestTooLarge
	spent
	overloaded
	internalFault
	unavailable
	queueFull
	notKept
)

// failure is an answer that is an error.
type failure struct {
	cause   cause
	status  int // 0: the usual one of the cause
	message string
	param   string
	limit   string        // which one refused it, for the log
	retry   time.Duration // when to come again; 0: not said
	noRetry bool          // the retry is not said in any case
	raw     string        // the body as it is, instead of the dialect's
}

func badRequest(format string, args ...any) *failure {
	return &failure{cause: badInput, message: fmt.Sprintf(format, args...)}
}

func (f *failure) at(param string) *failure {
	f.param = param
	return f
}

// code is the HTTP status.
func (f *failure) code() int {
	if f.status != 0 {
		return f.status
	}
	switch f.cause {
	case badInput, tooLong:
		return http.StatusBadRequest
	case wrongKey:
		return http.StatusUnauthorized
	case noModel, noPath, notKept:
		return http.StatusNotFound
	case limited, requestTooLarge, spent:
		return http.StatusTooManyRequests
	case overloaded:
		return 529
	case unavailable, queueFull:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// openaiKind is the type and the code of the error in OpenAI's form.
func (f *failure) openaiKind() (kind string, code any) {
	switch f.cause {
	case wrongKey:
		return "invalid_request_error", "invalid_api_key"
	case noModel:
		return "invalid_request_error", "model_not_found"
	case noPath, notKept:
		return "invalid_request_error", nil
	case tooLong:
		return "invalid_request_error", "context_length_exceeded"
	case limited, requestTooLarge:
		kind = "tokens"
		if f.limit == requestsDim.String() {
			kind = "requests"
		}
		return kind, "rate_limit_exceeded"
	case spent:
		return "insufficient_quota", "insufficient_quota"
	case overloaded, unavailable, queueFull:
		return "server_error", "server_is_overloaded"
	case internalFault:
		return "server_error", nil
	}
	return "invalid_request_error", nil
}

// openaiBody is the error in OpenAI's form.
func (f *failure) openaiBody() map[string]any {
	kind, code := f.openaiKind()
	var param any
	if f.param != "" {
		param = f.param
	}
	return map[string]any{"error": map[string]any{"message": f.message, "type": kind, "param": param, "code": code}}
}

// anthropicKind is the type of the error in Anthropic's form.
func (f *failure) anthropicKind() string {
	switch f.cause {
	case wrongKey:
		return "authentication_error"
	case noModel, noPath, notKept:
		return "not_found_error"
	case limited, requestTooLarge, spent:
		return "rate_limit_error"
	case overloaded, unavailable, queueFull:
		return "overloaded_error"
	case internalFault:
		return "api_error"
	}
	return "invalid_request_error"
}

func (f *failure) anthropicBody(requestID string) map[string]any {
	inner := map[string]any{"type": f.anthropicKind(), "message": f.message}
	if f.cause == spent {
		inner["error_code"] = "enforced_spend_limit_reached"
	}
	return map[string]any{"type": "error", "error": inner, "request_id": requestID}
}

// ofRefusal is the 429 for a limit that is used up.
func ofRefusal(no *refusal, model string) *failure {
	unit := [...]string{"requests per min (RPM)", "input tokens per min (ITPM)", "output tokens per min (OTPM)", "tokens per min (TPM)"}[no.dim]
	f := &failure{cause: limited, limit: no.dim.String(), retry: no.wait}
	if no.wait == tooLarge {
		f.cause, f.retry = requestTooLarge, 0
		f.message = fmt.Sprintf("Request too large for %s on %s: Limit %d, Requested %d. The input or output tokens must be reduced in order to run successfully.", model, unit, no.limit, no.asked)
		return f
	}
	f.message = fmt.Sprintf("Rate limit reached for %s on %s: Limit %d, Used %d, Requested %d. Please try again in %s.", model, unit, no.limit, no.used, no.asked, no.wait.Round(time.Millisecond))
	return f
}
