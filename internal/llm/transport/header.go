package transport

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"agentkernel/internal/llm"
)

// serverTime is what the server's clock says, if that is far from ours: its times are to be held against its own.
func serverTime(h http.Header, now time.Time) time.Time {
	const near = 2 * time.Second // the header has whole seconds, and was on its way
	if t, err := http.ParseTime(h.Get("Date")); err == nil && t.Sub(now).Abs() > near {
		return t
	}
	return now
}

// retryAfter is how long the server wants to be left alone; 0: it does not say. The header counts in seconds, which may have
// a fraction, or names a time; retry-after-ms, where it is, is more exact.
func retryAfter(h http.Header, now time.Time) time.Duration {
	return min(askedPause(h, now), longestPause)
}

// longestPause bounds how long a server keeps all calls of a key waiting: what it said may be a mistake, and is asked again then.
const longestPause = time.Hour

func askedPause(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return span(ms * float64(time.Millisecond))
	}
	text := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		return span(s * float64(time.Second))
	}
	if t, err := http.ParseTime(text); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}

// span bounds what a header says to a year: it is a number that a stranger wrote.
func span(ns float64) time.Duration {
	const most = 366 * 24 * time.Hour
	if !(ns > 0) { // not a number, too
		return 0
	}
	return time.Duration(min(ns, float64(most)))
}

// Number reads a count; -1: there is none.
func Number(text string) int64 {
	if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil && n >= 0 && n < 1e15 { // more is no limit
		return n
	}
	return -1
}

// Until reads when a limit is whole again: a duration ("6m0s", "120ms", "1d2h"), seconds ("20", "0.5"), or a time of RFC 3339;
// -1: it does not say.
func Until(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return max(0, t.Sub(now))
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil && s >= 0 {
		return span(s * float64(time.Second))
	}
	days := time.Duration(0)
	if count, rest, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseUint(count, 10, 16)
		if err != nil {
			return -1
		}
		days, text = time.Duration(n)*24*time.Hour, rest
		if text == "" {
			return days
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return days + d
	}
	return -1
}

// Tighter adds a limit to a list. Of two on the same thing, the one with less left counts.
func Tighter(list []llm.Limit, l llm.Limit) []llm.Limit {
	if l.Limit < 0 && l.Remaining < 0 && l.Reset < 0 {
		return list
	}
	for i, have := range list {
		if have.What == l.What {
			if l.Remaining >= 0 && (have.Remaining < 0 || l.Remaining < have.Remaining) {
				list[i] = l
			}
			return list
		}
	}
	return append(list, l)
}
