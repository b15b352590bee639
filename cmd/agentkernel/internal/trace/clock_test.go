package trace

import (
	"testing"
	"time"
)

// TestClockSetBack: two times of a journal of which the later one is earlier do not say how long it was.
func TestClockSetBack(t *testing.T) {
	at := time.Unix(1e9, 0)
	for _, c := range []struct {
		to   time.Time
		want string
	}{
		{at.Add(2 * time.Second), "nothing ran for 2.0 s"},
		{at, "nothing ran for 0 µs"},
		{at.Add(-24 * time.Hour), "nothing ran for an unknown time (the clock was set back)"},
	} {
		if got := since("nothing ran for", at, c.to); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
