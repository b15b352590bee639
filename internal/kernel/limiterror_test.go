package kernel

import "testing"

// Whatever limit the kernel itself ends a program for, the error says what raises it.
func TestLimitErrorsHaveHints(t *testing.T) {
	for _, name := range []string{"time", "wall", "output", "calls", "disk", "journal"} {
		if e := limitError(name, "1", "2"); e.Hint == "" {
			t.Errorf("%s: %v has no hint", name, e)
		}
	}
}
