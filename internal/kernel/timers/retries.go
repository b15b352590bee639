package timers

import (
	"slices"
	"sync"
	"time"
)

// How long a look of Retries waits at first, and at most: each waits twice as long as the one before.
const (
	firstRetry = time.Second
	mostRetry  = time.Minute
)

// Retries look for something again and again, each time later, and at once when somebody says that it may be there. The zero value is
// ready.
type Retries struct {
	mu sync.Mutex
	of map[int64][]*retry
}

type retry struct{ look func() (again bool) }

// Add has look called for a key until it returns false. It must not wait.
func (r *Retries) Add(t *Timers, key int64, look func() (again bool)) {
	x := &retry{look}
	r.mu.Lock()
	if r.of == nil {
		r.of = map[int64][]*retry{}
	}
	r.of[key] = append(r.of[key], x)
	r.mu.Unlock()
	r.later(t, key, x, firstRetry)
}

func (r *Retries) later(t *Timers, key int64, x *retry, d time.Duration) {
	t.After(d, func() {
		if r.do(key, x) {
			r.later(t, key, x, min(2*d, mostRetry))
		}
	})
}

// do looks once. False: there is nothing more to look for.
func (r *Retries) do(key int64, x *retry) (again bool) {
	r.mu.Lock()
	there := slices.Contains(r.of[key], x)
	r.mu.Unlock()
	if there && x.look() {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.of[key], x); i >= 0 {
		r.of[key] = slices.Delete(r.of[key], i, i+1)
	}
	if len(r.of[key]) == 0 {
		delete(r.of, key)
	}
	return false
}

// Ring has all of a key look now.
func (r *Retries) Ring(key int64) {
	r.mu.Lock()
	all := slices.Clone(r.of[key])
	r.mu.Unlock()
	for _, x := range all {
		r.do(key, x)
	}
}
