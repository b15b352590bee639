package limits_test

import (
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/limits"
)

var l = agentkernel.Limits{Calls: 10, Journal: 1000, Disk: 1000, Output: 10, InFlight: 4, Processes: 3,
	Time: agentkernel.Duration(time.Second), Wall: agentkernel.Duration(time.Minute)}

// TestWhatMayBeUsed: all of a limit may be used, and not more.
func TestWhatMayBeUsed(t *testing.T) {
	for name, at := range map[string]func(beyond int64) *agentkernel.Error{
		"calls":   func(n int64) *agentkernel.Error { return limits.Calls(&l, 10+n) },
		"journal": func(n int64) *agentkernel.Error { return limits.Journal(&l, 1000+n, 1<<40) },
		"disk":    func(n int64) *agentkernel.Error { return limits.Disk(&l, 1000+n, 7) },
		"output": func(n int64) *agentkernel.Error {
			_, err := limits.Output(&l, 4, strings.Repeat("x", 6+int(n)))
			return err
		},
	} {
		if err := at(0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		err := at(1)
		if err == nil {
			t.Errorf("%s: nothing ends it", name)
			continue
		}
		if limit, _ := err.Limit(); limit != name || err.Code != agentkernel.CodeLimit {
			t.Errorf("%s: %v names %q", name, err, limit)
		}
	}
	if limits.InFlight(&l, 3) != nil || limits.InFlight(&l, 4) == nil {
		t.Error("four calls may be under way")
	}
	if limits.Depth("x", 31) != nil || limits.Depth("x", 32) == nil {
		t.Error("32 processes may stand above one")
	}
}

// Whatever limit the kernel itself ends a program for, the error says what raises it.
func TestErrorsHaveHints(t *testing.T) {
	_, output := limits.Output(&l, 11, "x")
	for _, err := range []*agentkernel.Error{limits.Calls(&l, 99), limits.Journal(&l, 9999, 1<<40), limits.Disk(&l, 9999, 7), limits.Time(&l, time.Hour),
		limits.Wall(&l, time.Hour, 7), limits.InFlight(&l, 9), agentkernel.AsError(limits.Processes(&l), "", ""), output} {
		if err == nil || err.Hint == "" {
			t.Errorf("%v has no hint", err)
		}
	}
}

// TestOutputThatFits: what still fits is shown, and no character is cut.
func TestOutputThatFits(t *testing.T) {
	for _, c := range []struct {
		printed    int64
		text, fits string
	}{
		{0, "0123456789", "0123456789"},
		{8, "abc", "ab"},
		{8, "aäb", "a"}, // the ä does not fit
		{10, "a", ""},
		{20, "a", ""}, // it had more before
		{10, "", ""},
	} {
		if fits, _ := limits.Output(&l, c.printed, c.text); fits != c.fits {
			t.Errorf("%q after %d bytes: %q, want %q", c.text, c.printed, fits, c.fits)
		}
	}
}
