package timers

import (
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
		looks, again := 0, true
		r.Add(all, 7, func() bool { looks++; return again })
		for _, c := range []struct {
			after time.Duration
			want  int
		}{{999 * time.Millisecond, 0}, {1001 * time.Microsecond, 1}, {2 * time.Second, 2}, {60 * time.Second, 6}, {time.Hour, 66}} {
			if pass(c.after); looks != c.want {
				t.Errorf("after %v: %d looks, want %d", c.after, looks, c.want)
			}
		}
		before := looks
		r.Ring(7)
		r.Ring(9)
		if looks != before+1 {
			t.Errorf("%d looks when it rang", looks-before)
		}
		again = false
		r.Ring(7)
		if before = looks; len(r.of[7]) != 0 {
			t.Error("it is kept")
		}
		pass(time.Hour)
		if r.Ring(7); looks != before {
			t.Errorf("%d looks for what is over", looks-before)
		}
	})
}
