package transport

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"agentkernel/internal/llm"
)

func TestUntil(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"6m0s": 6 * time.Minute, "1s": time.Second, "120ms": 120 * time.Millisecond, "1h30m0.5s": 90*time.Minute + 500*time.Millisecond,
		"1d": 24 * time.Hour, "1d2h": 26 * time.Hour, "20": 20 * time.Second, "0.25": 250 * time.Millisecond, "0s": 0, "0": 0,
		"2026-11-25T12:00:30Z": 30 * time.Second, "2026-11-25T13:00:00+01:00": 0, "2026-11-25T11:00:00Z": 0,
		"": -1, "soon": -1, "-1": -1, "-5s": -1, "xd": -1, "1dx": -1, "NaN": -1, "1e300": 366 * 24 * time.Hour,
	} {
		if got := Until(text, now); got != want {
			t.Errorf("Until(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		seconds, ms string
		want        time.Duration
	}{
		{"", "", 0}, {"20", "", 20 * time.Second}, {"0.5", "", 500 * time.Millisecond}, {"20", "150", 150 * time.Millisecond},
		{"Wed, 25 Nov 2026 12:01:00 GMT", "", time.Minute}, {"Wed, 25 Nov 2026 11:00:00 GMT", "", 0}, {"-5", "", 0},
		{"soon", "", 0}, {"3", "soon", 3 * time.Second}, {"NaN", "", 0},
	} {
		h := http.Header{}
		h.Set("Retry-After", c.seconds)
		h.Set("Retry-After-Ms", c.ms)
		if got := retryAfter(h, now); got != c.want {
			t.Errorf("%q and %q: %v, want %v", c.seconds, c.ms, got, c.want)
		}
	}
}

// TestServerTime: times of a server whose clock is far from ours are held against its own.
func TestServerTime(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for date, want := range map[string]time.Time{
		"": now, "nonsense": now, "Wed, 25 Nov 2026 12:00:01 GMT": now, "Wed, 25 Nov 2026 12:10:00 GMT": now.Add(10 * time.Minute),
	} {
		if got := serverTime(http.Header{"Date": {date}}, now); !got.Equal(want) {
			t.Errorf("%q: %v, want %v", date, got, want)
		}
	}
}

func TestTighter(t *testing.T) {
	list := Tighter(nil, llm.Limit{What: llm.LimitTokens, Limit: -1, Remaining: -1, Reset: -1})
	list = Tighter(list, llm.Limit{What: llm.LimitTokens, Limit: 10, Remaining: 5, Reset: 1})
	list = Tighter(list, llm.Limit{What: llm.LimitTokens, Limit: 20, Remaining: 3, Reset: 2})
	list = Tighter(list, llm.Limit{What: llm.LimitTokens, Limit: 20, Remaining: 9, Reset: 3})
	if want := []llm.Limit{{What: llm.LimitTokens, Limit: 20, Remaining: 3, Reset: 2}}; !slices.Equal(list, want) {
		t.Errorf("%+v", list)
	}
}

// TestConceal: no message of a server has the key or what was asked, and the rest of it stays.
func TestConceal(t *testing.T) {
	const key = "sk-proj-0123456789abcdef"
	asked := []string{"short", "The patient in room 12 has a rare disease.", "maximum", "line one\nline two of the text"}
	x := &Exchange{key: key, call: Call{Asked: slices.Values(asked)}}
	for in, want := range map[string]string{
		"": "",
		"Incorrect API key provided: " + key + ".":                  "Incorrect API key provided: [key].",
		"invalid: 'The patient in room 12 has a rare disease.'":     "invalid: '[...]'",
		"invalid: 'patient in room 12 has a' (too long)":            "invalid: '[...]' (too long)",
		"the word 'short' is wrong, short of it":                    "the word '[...]' is wrong, short of it",
		"This model's maximum context length is 8192 tokens.":       "This model's maximum context length is 8192 tokens.",
		"line two of the text\x1b[31m":                              "[...] [31m",
		strings.Repeat("é", 2000):                                   strings.Repeat("é", (maxMessage-3)/2) + "...",
		strings.Repeat("y", maxMessage-10) + key:                    strings.Repeat("y", maxMessage-10) + "[key]",
		"bytes \xff in " + strings.ToUpper("the patient in room 1"): "bytes \ufffd in THE PATIENT IN ROOM 1",
	} {
		if got := x.conceal(in); got != want {
			t.Errorf("%q\nbecomes %q\nwant    %q", in, got, want)
		}
	}
}

// TestRefusalsHaveNoKey: of no length of a word that a server says, half a key is left.
func TestRefusalsHaveNoKey(t *testing.T) {
	const key = "sk-attack-SECRET-0123456789abcdefghijklmnopqrst"
	for n := 100; n < 260; n++ {
		x := &Exchange{key: key, head: llm.Head{Status: 400}}
		e := x.Refuse(Fault{Code: strings.Repeat("a", n) + key, RequestID: strings.Repeat("b", n) + key, Message: key}, nil)
		if text := e.Error() + e.Code + e.RequestID; strings.Contains(text, "SECRET") || strings.Contains(text, key[:10]) {
			t.Fatalf("%d: %s", n, text)
		}
	}
}

// TestConcealLongMessages: nor is it where a message is cut, or came cut.
func TestConcealLongMessages(t *testing.T) {
	key := strings.Repeat("Kk7-", 150)
	x := &Exchange{key: key}
	for _, message := range []string{strings.Repeat(key+" ", 200), strings.Repeat("-", 1000) + key[:300], "the key " + key[:len(key)-1]} {
		if got := x.conceal(message); strings.Contains(got, key[:shortestKey]) || got == "" {
			t.Errorf("%d bytes become %q", len(message), got)
		}
	}
}

// TestConcealWhatRepeatsItself: what a program has sent may be millions of times what a message says.
func TestConcealWhatRepeatsItself(t *testing.T) {
	x := &Exchange{call: Call{Asked: slices.Values([]string{strings.Repeat("a", 4<<20)})}}
	begun := time.Now()
	got := x.conceal("Invalid name: '" + strings.Repeat("a", 1000) + "'.")
	if took := time.Since(begun); got != "Invalid name: '[...]'." || took > 10*time.Second {
		t.Errorf("%q after %s", got, took)
	}
}

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		status int
		fault  Fault
		waits  bool
		want   llm.Kind
	}{
		{429, Fault{Code: "rate_limit_exceeded", Type: "requests"}, false, llm.RateLimited},
		{429, Fault{}, true, llm.RateLimited},
		{429, Fault{Code: "insufficient_quota", Type: "insufficient_quota"}, false, llm.Quota},
		{429, Fault{Code: "project_spend_limit_exceeded", Type: "insufficient_quota"}, false, llm.Quota},
		{429, Fault{Code: "organization_usage_limit_exceeded"}, false, llm.Quota},
		{429, Fault{Code: "enforced_spend_limit_reached", Type: "rate_limit_error"}, false, llm.Quota},
		{400, Fault{Type: "invalid_request_error", Message: "You have reached your specified API usage limits. You will regain access on"}, false, llm.Quota},
		{402, Fault{}, false, llm.Quota},
		{402, Fault{}, true, llm.RateLimited},
		{429, Fault{Code: "rate_limit_exceeded", Message: "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000"}, false, llm.TooLong},
		{400, Fault{Code: "context_length_exceeded"}, false, llm.TooLong},
		{400, Fault{Type: "invalid_request_error", Message: "prompt is too long: 208310 tokens > 200000 maximum"}, false, llm.TooLong},
		{400, Fault{Type: "BadRequestError", Message: "This model's maximum context length is 4096 tokens."}, false, llm.TooLong},
		{413, Fault{Type: "request_too_large"}, false, llm.TooLong},
		{400, Fault{Message: "the input length exceeds the context length"}, false, llm.TooLong},
		{400, Fault{Code: "content_filter"}, false, llm.Filtered},
		{400, Fault{Message: "Output blocked by content filtering policy"}, false, llm.Filtered},
		{403, Fault{Type: "moderation"}, false, llm.Filtered},
		{404, Fault{Code: "model_not_found"}, false, llm.NoModel},
		{403, Fault{Code: "model_not_found"}, false, llm.NoModel},
		{404, Fault{Code: "DeploymentNotFound"}, false, llm.NoModel},
		{404, Fault{Type: "not_found_error", Message: "model: claude-x"}, false, llm.NoModel},
		{404, Fault{}, false, llm.Invalid},
		{401, Fault{Code: "invalid_api_key", Type: "invalid_request_error"}, false, llm.Auth},
		{403, Fault{Type: "permission_error"}, false, llm.Auth},
		{529, Fault{Type: "overloaded_error"}, false, llm.Overloaded},
		{529, Fault{}, false, llm.Overloaded},
		{0, Fault{Type: "overloaded_error"}, false, llm.Overloaded},
		{503, Fault{Code: "server_is_overloaded"}, false, llm.Overloaded},
		{503, Fault{Code: "slow_down"}, false, llm.Overloaded},
		{429, Fault{Code: "slow_down"}, false, llm.RateLimited},
		{503, Fault{}, false, llm.Overloaded},
		{503, Fault{Type: "server_error"}, false, llm.Overloaded},
		{529, Fault{Type: "api_error"}, false, llm.Overloaded},
		{503, Fault{Code: "internal_server_error"}, false, llm.Overloaded},
		{503, Fault{Code: "insufficient_quota", Type: "server_error"}, false, llm.Quota},
		{500, Fault{Type: "server_error"}, false, llm.Server},
		{500, Fault{Type: "api_error"}, false, llm.Server},
		{502, Fault{}, false, llm.Server},
		{0, Fault{}, false, llm.Server},
		{0, Fault{Code: "rate_limit_exceeded"}, false, llm.RateLimited},
		{504, Fault{}, false, llm.Timeout},
		{408, Fault{}, false, llm.Timeout},
		{400, Fault{Type: "invalid_request_error"}, false, llm.Invalid},
		{422, Fault{}, false, llm.Invalid},
	} {
		if got := kindOf(c.status, c.fault, c.waits); got != c.want {
			t.Errorf("%d %+v: %s, want %s", c.status, c.fault, got, c.want)
		}
	}
}

func TestOptions(t *testing.T) {
	d := Dialect{BaseURL: "https://models.example/v1"}
	for name, opts := range map[string]llm.Options{
		"no address":     {BaseURL: "models.example"},
		"another scheme": {BaseURL: "ftp://models.example"},
		"a password":     {BaseURL: "https://user:secret-password@models.example"},
		"a query":        {BaseURL: "https://models.example?key=secret-password"},
	} {
		if _, err := New(opts, d); err == nil || strings.Contains(err.Error(), "secret-password") {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, err := New(llm.Options{}, d)
	if err != nil || s.Base() != d.BaseURL || !s.Official("models.example") || !s.Official("example") || s.Official("odels.example") {
		t.Errorf("%+v, %v", s, err)
	}
}

// BenchmarkConceal is what a failure costs whose conversation is long.
func BenchmarkConceal(b *testing.B) {
	text := strings.Repeat("The report says that sales have grown by 4 %, which is more than in the year before.\n", 6000)
	x := &Exchange{key: "sk-proj-0123456789abcdef", call: Call{Asked: slices.Values([]string{text})}}
	const message = "Rate limit reached for gpt-5 in organization org-1 on tokens per min (TPM): Limit 30000, Used 29000, Requested 4000. Please try again in 6s."
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if got := x.conceal(message); got != message {
			b.Fatal(got)
		}
	}
}

// TestLargestAnswer: vectors may be larger than words, unless whoever makes the server says how large an answer may be.
func TestLargestAnswer(t *testing.T) {
	for said, want := range map[int64][2]int64{0: {maxWords, maxVectors}, 1000: {1000, 1000}} {
		s := &Server{maxAnswer: said}
		if got := [2]int64{s.most(Call{}), s.most(Call{Vectors: true})}; got != want {
			t.Errorf("of %d: %v, want %v", said, got, want)
		}
	}
}
