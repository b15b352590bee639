package devllm

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// requestID is what the provider calls a request.
func (x *exchange) requestID() string { return fmt.Sprintf("req_dev%08d", x.id) }

// tellLimits writes the headers that say how much is left, in the provider's form.
func (s *Server) tellLimits(h http.Header, x *exchange, refused *failure) {
	switch s.opts.Profile.Headers {
	case "openai":
		h.Set("x-request-id", x.requestID())
		h.Set("openai-version", "2020-10-01")
		s.tellOpenAI(h, x, "limit", "remaining", "reset")
	case "azure":
		h.Set("x-request-id", x.requestID())
		h.Set("apim-request-id", x.requestID())
		h.Set("x-ms-region", "Nowhere")
		s.tellOpenAI(h, x, "remaining")
	case "anthropic":
		h.Set("request-id", x.requestID())
		s.tellAnthropic(h, x)
	default:
		h.Set("x-request-id", x.requestID())
	}
	if refused == nil || refused.noRetry || refused.retry <= 0 {
		return
	}
	ms := (refused.retry + time.Millisecond - 1) / time.Millisecond
	switch s.opts.Profile.RetryAfter {
	case "ms":
		h.Set("retry-after-ms", strconv.FormatInt(int64(ms), 10))
		fallthrough
	case "seconds":
		h.Set("retry-after", strconv.FormatInt(int64((ms+999)/1000), 10))
	}
}

func (s *Server) tellOpenAI(h http.Header, x *exchange, what ...string) {
	if x.group.key == "" {
		return
	}
	now := s.opts.Clock.Now()
	st := s.limiter.standings(x.group, now)
	for name, one := range map[string]standing{"requests": st[requestsDim], "tokens": st[totalDim]} {
		if one.limit == 0 {
			continue
		}
		for _, w := range what {
			value := ""
			switch w {
			case "limit":
				value = strconv.FormatInt(one.limit, 10)
			case "remaining":
				value = strconv.FormatInt(s.rounded(one.remaining, name), 10)
			case "reset":
				value = openaiSpan(one.reset)
			}
			h.Set("x-ratelimit-"+w+"-"+name, value)
		}
	}
}

// openaiSpan is a duration such as 6m0s, 1.5s or 17ms: whole milliseconds, rounded up.
func openaiSpan(d time.Duration) string {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond).String()
}

func (s *Server) tellAnthropic(h http.Header, x *exchange) {
	if x.group.key == "" {
		return
	}
	now := s.opts.Clock.Now()
	st := s.limiter.standings(x.group, now)
	rows := map[string]standing{"requests": st[requestsDim], "input-tokens": st[inputDim], "output-tokens": st[outputDim]}
	if st[inputDim].limit > 0 && st[outputDim].limit > 0 { // the stricter of what is in force
		all := standing{st[inputDim].limit + st[outputDim].limit, st[inputDim].remaining + st[outputDim].remaining, max(st[inputDim].reset, st[outputDim].reset)}
		rows["tokens"] = all
	}
	if st[totalDim].limit > 0 {
		rows["tokens"] = st[totalDim]
	}
	for name, one := range rows {
		if one.limit == 0 {
			continue
		}
		h.Set("anthropic-ratelimit-"+name+"-limit", strconv.FormatInt(one.limit, 10))
		h.Set("anthropic-ratelimit-"+name+"-remaining", strconv.FormatInt(s.rounded(one.remaining, name), 10))
		h.Set("anthropic-ratelimit-"+name+"-reset", now.Add(one.reset+time.Second-1).UTC().Truncate(time.Second).Format(time.RFC3339))
	}
}

// rounded is a remaining amount as clients are told it.
func (s *Server) rounded(n int64, name string) int64 {
	r := s.opts.Profile.Rounding
	if r <= 1 || name == "requests" {
		return n
	}
	return (n + r/2) / r * r
}

// fail writes an error.
func (s *Server) fail(w http.ResponseWriter, x *exchange, f *failure) {
	x.entry.Status, x.entry.Limit = f.code(), f.limit
	if f.retry > 0 && !f.noRetry {
		x.entry.RetryAfter = Span(f.retry)
	}
	s.tellLimits(w.Header(), x, f)
	if f.raw != "" {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(f.code())
		_, _ = w.Write([]byte(f.raw))
		return
	}
	body := x.d.failBody(f, x.requestID())
	switch _, own := x.d.(ollamaDialect); {
	case own:
	case s.opts.Profile.Name == "openrouter":
		body = s.openrouterBody(x, f)
	case s.opts.Profile.Name == "azure":
		body = azureBody(f)
	case s.opts.Profile.Name == "vllm":
		body = vllmBody(f)
	}
	writeJSON(w, f.code(), body)
}

// azureBody has codes of Azure's gateway for what that refuses; the rest is OpenAI's.
func azureBody(f *failure) any {
	switch f.cause {
	case limited:
		wait := int64((f.retry + time.Second - 1) / time.Second)
		return map[string]any{"error": map[string]any{"code": "429", "message": fmt.Sprintf("Requests have exceeded call rate limit. %s Please retry after %d seconds.", f.message, wait)}}
	case wrongKey:
		return map[string]any{"error": map[string]any{"code": "401", "message": "Access denied due to invalid subscription key or wrong API endpoint."}}
	case noModel:
		return map[string]any{"error": map[string]any{"code": "DeploymentNotFound", "message": "The API deployment for this resource does not exist."}}
	case noPath:
		return map[string]any{"error": map[string]any{"code": "404", "message": f.message}}
	}
	return f.openaiBody()
}

// vllmBody has the status as a number for a code.
func vllmBody(f *failure) any {
	kind := "InternalServerError"
	switch code := f.code(); {
	case code == http.StatusNotFound:
		kind = "NotFoundError"
	case code == http.StatusServiceUnavailable:
		kind = "ServiceUnavailableError"
	case code < 500:
		kind = "BadRequestError"
	}
	return map[string]any{"error": map[string]any{"message": f.message, "type": kind, "param": nil, "code": f.code()}}
}

// openrouterBody has the limits of a 429 inside of the error.
func (s *Server) openrouterBody(x *exchange, f *failure) any {
	inner := map[string]any{"message": f.message, "code": f.code()}
	if f.code() == http.StatusTooManyRequests && x.group.key != "" {
		now := s.opts.Clock.Now()
		one := s.limiter.standings(x.group, now)[requestsDim]
		inner["metadata"] = map[string]any{"provider_name": nil, "headers": map[string]string{
			"X-RateLimit-Limit": strconv.FormatInt(one.limit, 10), "X-RateLimit-Remaining": strconv.FormatInt(one.remaining, 10),
			"X-RateLimit-Reset": strconv.FormatInt(now.Add(f.retry).UnixMilli(), 10)}}
	}
	return map[string]any{"error": inner, "user_id": "user_dev"}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b := []byte(compact(v))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}
