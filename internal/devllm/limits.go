package devllm

import (
	"fmt"
	"time"
)

// Span is a duration that JSON has as a text such as "10s".
type Span time.Duration

// MarshalText implements encoding.TextMarshaler.
func (s Span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a time such as 10s", text)
	}
	*s = Span(d)
	return nil
}

// Limits are what one key may use of one family of models in a minute. 0 of an amount is no limit.
type Limits struct {
	Requests int64 `json:"requests"`
	Input    int64 `json:"input"`  // tokens of prompts
	Output   int64 `json:"output"` // tokens of answers
	Total    int64 `json:"total"`  // tokens of both

	// Window is the interval in which the limits are checked, in fixed windows that begin at multiples of it: each has
	// its share of the minute. 0: continuous buckets. A request that is larger than a window's share passes in a
	// window without use, and is paid off by the next ones.
	Window Span `json:"window"`
	// Burst is how much a continuous bucket holds, in time; 0: a minute.
	Burst Span `json:"burst"`
	// Foreign is the share that others use of the same key, between 0 and 0.95, all the time.
	Foreign float64 `json:"foreign"`
}

// maxLimit keeps the arithmetic of meters in 64 bits.
const maxLimit = 50_000_000

func (l Limits) validate() error {
	for name, n := range map[string]int64{"requests": l.Requests, "input": l.Input, "output": l.Output, "total": l.Total} {
		if n < 0 || n > maxLimit {
			return bad("say a number a minute from 0 (no limit) to %d", maxLimit).of("the limit of %s is %d", name, n)
		}
	}
	if w := time.Duration(l.Window); w != 0 && (w < 100*time.Millisecond || w > time.Minute) {
		return bad("1s and 10s are what providers use; 0s is a continuous bucket").of("the window of the limits is %s", w)
	}
	if b := time.Duration(l.Burst); b != 0 && (b < 100*time.Millisecond || b > time.Minute) {
		return bad("say 100ms to 1m").of("the burst of the limits is %s", b)
	}
	if !(l.Foreign >= 0 && l.Foreign <= 0.95) {
		return bad("say a share between 0 and 0.95").of("the foreign share of the limits is %v", l.Foreign)
	}
	return nil
}

// dimension is what a limit counts.
type dimension int

const (
	requestsDim dimension = iota
	inputDim
	outputDim
	totalDim
	dimensions
)

func (d dimension) String() string {
	return [...]string{"requests", "input", "output", "total"}[d]
}

// amounts are charged together.
type amounts [dimensions]int64

func (l Limits) of(d dimension) int64 {
	return [...]int64{l.Requests, l.Input, l.Output, l.Total}[d]
}

// meter enforces one limit. Amounts are scaled by the nanoseconds of a minute, so that what flows in is a whole number
// in each nanosecond and nothing is lost by rounding.
type meter struct {
	limit  int64         // a minute, as clients are told
	rate   int64         // a minute, without what others use
	window time.Duration // 0: a bucket
	held   int64         // bucket: what it holds at most, scaled
	at     time.Time     // bucket: as of when level counts; window: when it begins
	level  int64         // bucket: what is left, scaled; below 0: debt
	used   int64         // window: what was used, scaled, with the debt of earlier ones
}

const scale = int64(time.Minute)

func newMeter(l Limits, d dimension, now time.Time) *meter {
	m := &meter{at: now}
	m.set(l, d, now)
	return m
}

// set changes the limit. What was used stays used.
func (m *meter) set(l Limits, d dimension, now time.Time) {
	m.advance(now)
	burst := time.Duration(l.Burst)
	if burst == 0 {
		burst = time.Minute
	}
	if m.window != time.Duration(l.Window) {
		m.used, m.at, m.level = 0, now, 0
	}
	fresh := m.limit == 0 // nothing was counted
	m.limit, m.window = l.of(d), time.Duration(l.Window)
	m.rate = int64(float64(m.limit) * (1 - l.Foreign))
	m.held = m.limit * int64(burst)
	m.level = min(m.level, m.held)
	if fresh {
		m.level = m.held
	}
	if m.window > 0 {
		m.at = now.Truncate(m.window)
	}
}

// advance lets time flow in.
func (m *meter) advance(now time.Time) {
	if m.window > 0 {
		if n := int64(now.Sub(m.at) / m.window); n > 0 {
			m.at = m.at.Add(time.Duration(n) * m.window)
			if share := m.share(); share > 0 && n <= m.used/share {
				m.used -= n * share
			} else {
				m.used = 0
			}
		}
		return
	}
	if d := now.Sub(m.at); d > 0 {
		if m.rate > 0 && int64(d) > (m.held-m.level)/m.rate {
			m.level = m.held
		} else {
			m.level += m.rate * int64(d)
		}
		m.at = now
	}
}

// share is what a window may use, scaled.
func (m *meter) share() int64 { return m.rate * int64(m.window) }

// tooLarge is a wait that never ends.
const tooLarge = time.Duration(-1)

// wait is how long n does not pass yet: 0 if it passes now, tooLarge if it never does.
func (m *meter) wait(n int64, now time.Time) time.Duration {
	m.advance(now)
	switch {
	case m.limit == 0 || n <= 0:
		return 0
	case n > m.limit || m.rate == 0:
		return tooLarge
	case m.window > 0:
		// It passes when what is used and n are within the share, or nothing is used.
		free := max(m.share()-n*scale, 0)
		if m.used <= free {
			return 0
		}
		windows := (m.used - free + m.share() - 1) / m.share()
		return m.at.Add(time.Duration(windows) * m.window).Sub(now)
	}
	need := min(n*scale, m.held)
	if m.level >= need {
		return 0
	}
	return time.Duration((need - m.level + m.rate - 1) / m.rate)
}

// charge takes n; a negative n is given back, in a window only if it was taken in the same one, since when `since` is.
func (m *meter) charge(n int64, since, now time.Time) {
	m.advance(now)
	switch {
	case m.limit == 0:
	case m.window == 0:
		m.level = min(m.level-n*scale, m.held)
	case n > 0 || !since.Before(m.at):
		m.used = max(m.used+n*scale, 0)
	}
}

// remaining is what is left now, in whole units.
func (m *meter) remaining(now time.Time) int64 {
	m.advance(now)
	left := m.level
	if m.window > 0 {
		left = m.share() - m.used
	}
	return max(left/scale, 0)
}

// reset is how long it takes until all is there again.
func (m *meter) reset(now time.Time) time.Duration {
	m.advance(now)
	switch {
	case m.limit == 0 || m.rate == 0:
		return 0
	case m.window > 0:
		if m.used == 0 {
			return 0
		}
		windows := (m.used + m.share() - 1) / m.share()
		return m.at.Add(time.Duration(windows) * m.window).Sub(now)
	}
	return time.Duration((m.held - m.level + m.rate - 1) / m.rate)
}
