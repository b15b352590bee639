package timers

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestRetries: what is looked for again and again is looked for ever less often, and at once when somebody says so.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := New(time.Now)
		defer all.Close()
		var r Retries
		var looks atomic.Int64
		var over atomic.Bool
		r.Add(all, 7, func() bool { looks.Add(1); return !over.Load() })
		for _, c := range []struct {
			after time.Duration
			want  int64
		}{{999 * time.Millisecond, 0}, {1001 * time.Microsecond, 1}, {2 * time.Second, 2}, {60 * time.Second, 6}, {time.Hour, 66}} {
			if pass(c.after); looks.Load() != c.want {
				t.Errorf("after %v: %d looks, want %d", c.after, looks.Load(), c.want)
			}
		}
		before := looks.Load()
		r.Ring(7)
		r.Ring(9)
		if looks.Load() != before+1 {
			t.Errorf("%d looks when it rang", looks.Load()-before)
		}
		over.Store(true)
		r.Ring(7)
		r.mu.Lock()
		if before = looks.Load(); len(r.of[7]) != 0 {
			t.Error("it is kept")
		}
		r.mu.Unlock()
		pass(time.Hour)
		if r.Ring(7); looks.Load() != before {
			t.Errorf("%d looks for what is over", looks.Load()-before)
		}
	})
}
