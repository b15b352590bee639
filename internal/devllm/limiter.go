package devllm

import (
	"sync"
	"time"
)

// limiter holds the meters of every key and family of models.
type limiter struct {
	mu       sync.Mutex
	limits   Limits
	families map[string]Limits // those with limits of their own
	groups   map[group]*[dimensions]*meter
}

// group is whose meters count: limits are pooled by family.
type group struct {
	key    string // the fingerprint
	family string
}

func newLimiter(l Limits) *limiter {
	return &limiter{limits: l, families: map[string]Limits{}, groups: map[group]*[dimensions]*meter{}}
}

func (l *limiter) of(family string) Limits {
	if own, ok := l.families[family]; ok {
		return own
	}
	return l.limits
}

// set changes the limits of a family, or, with "", of all families.
func (l *limiter) set(family string, to Limits, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if family == "" {
		l.limits = to
		clear(l.families)
	} else {
		l.families[family] = to
	}
	for g, meters := range l.groups {
		for d, m := range meters {
			m.set(l.of(g.family), dimension(d), now)
		}
	}
}

func (l *limiter) meters(g group, now time.Time) *[dimensions]*meter {
	meters := l.groups[g]
	if meters == nil {
		meters = new([dimensions]*meter)
		for d := range dimensions {
			meters[d] = newMeter(l.of(g.family), d, now)
		}
		l.groups[g] = meters
	}
	return meters
}

// refusal says which limit did not let a request through, and for how long; tooLarge: it never will.
type refusal struct {
	dim   dimension
	wait  time.Duration
	limit int64
	used  int64
	asked int64
}

// take charges all of it, or nothing: then it says why. countRefused charges a request that is refused as a request.
func (l *limiter) take(g group, a amounts, countRefused bool, now time.Time) *refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	meters := l.meters(g, now)
	var no *refusal
	for d, m := range meters {
		wait := m.wait(a[d], now)
		if wait == 0 || no != nil && (no.wait == tooLarge || wait != tooLarge && wait <= no.wait) {
			continue
		}
		no = &refusal{dim: dimension(d), wait: wait, limit: m.limit, used: m.limit - m.remaining(now), asked: a[d]}
	}
	if no != nil {
		if m := meters[requestsDim]; countRefused && m.wait(1, now) == 0 {
			m.charge(1, now, now)
		}
		return no
	}
	for d, m := range meters {
		m.charge(a[d], now, now)
	}
	return nil
}

// settle corrects what was taken at `since`: positive amounts are charged, negative ones given back.
func (l *limiter) settle(g group, correction amounts, since, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for d, m := range l.meters(g, now) {
		m.charge(correction[d], since, now)
	}
}

// standing is what clients are told of one limit.
type standing struct {
	limit, remaining int64
	reset            time.Duration
}

func (l *limiter) standings(g group, now time.Time) (s [dimensions]standing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for d, m := range l.meters(g, now) {
		s[d] = standing{m.limit, m.remaining(now), m.reset(now)}
	}
	return s
}
