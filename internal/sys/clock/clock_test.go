package clock_test

import (
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/sys/clock"
	"agentkernel/internal/sys/systest"
)

func TestNow(t *testing.T) {
	p := systest.New(t, clock.Family())
	p.Since = time.UnixMicro(1_700_000_000_123_456)
	if out, err := p.Now(t, "time.now", `{}`); err != nil || string(out.Result) != "1700000000.123456" {
		t.Errorf("%s, %v", out.Result, err)
	}
}

// A sleep ends when it would have ended without a crash: each time it is begun, it counts from when it was first made.
func TestSleep(t *testing.T) {
	p := systest.New(t, clock.Family())
	const most = 10 * 365 * 24 * time.Hour
	for args, want := range map[string]time.Duration{
		`{"seconds":0}`: 0, `{"seconds":1.5}`: 1500 * time.Millisecond, `{"seconds":1e-9}`: time.Nanosecond,
		`{"seconds":1e300}`: most, `{"seconds":9223372037}`: most, // more nanoseconds than there are numbers
	} {
		if w, err := p.Begin(t, "time.sleep", args); err != nil || !w.Until.Equal(p.Since.Add(want)) || string(w.Result) != "null" {
			t.Errorf("%s: until %s, %s, %v", args, w.Until.Sub(p.Since), w.Result, err)
		}
	}
	for _, args := range []string{`{"seconds":-0.001}`, `{"seconds":"1"}`, `{"seconds":{"$float":"nan"}}`, `{"seconds":1e999}`, `{"second":1}`} {
		if w, err := p.Begin(t, "time.sleep", args); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%s: until %s, %v", args, w.Until, err)
		}
	}
}
