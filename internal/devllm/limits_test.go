package devllm

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func start() time.Time { return time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC) }

// A bucket that nobody else uses admits in any span at most what it holds and what flows in, and a request that was told
// to wait passes exactly then.
func TestMetersAgainstARecount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limits{Total: rapid.Int64Range(60, 100_000).Draw(t, "limit")}
		l.Window = rapid.SampledFrom([]Span{0, Span(time.Second), Span(10 * time.Second), Span(time.Minute)}).Draw(t, "window")
		l.Burst = rapid.SampledFrom([]Span{0, Span(time.Second), Span(10 * time.Second)}).Draw(t, "burst")
		l.Foreign = rapid.SampledFrom([]float64{0, 0.3, 0.5}).Draw(t, "foreign")
		now := start().Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "offset")))
		m := newMeter(l, totalDim, now)
		type admitted struct {
			at time.Time
			n  int64
		}
		var all []admitted
		share := l.Total
		if l.Window > 0 {
			share = m.share() / scale
		} else if l.Burst > 0 {
			share = m.held / scale
		}
		for range rapid.IntRange(1, 60).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(5*time.Second)).Draw(t, "gap")))
			n := rapid.Int64Range(1, max(share, 1)).Draw(t, "n")
			wait := m.wait(n, now)
			if wait > 0 && rapid.Bool().Draw(t, "patient") {
				if m.wait(n, now.Add(wait-1)) == 0 {
					t.Fatalf("%d passes before %s is over", n, wait)
				}
				now = now.Add(wait)
				if again := m.wait(n, now); again != 0 {
					t.Fatalf("%d was told to wait %s, and then %s", n, wait, again)
				}
				wait = 0
			}
			if wait == 0 {
				m.charge(n, now, now)
				all = append(all, admitted{now, n})
			}
		}
		for i, from := range all {
			sum := int64(0)
			for _, a := range all[i:] {
				sum += a.n
				most := m.held + m.rate*int64(a.at.Sub(from.at)) // what it holds, and what flows in
				if l.Window > 0 {
					windows := a.at.Truncate(m.window).Sub(from.at.Truncate(m.window))/m.window + 1
					most = int64(windows) * m.share()
					if share == 0 { // a request is more than a window's share: one is let in, and paid off
						most += scale
					}
				}
				if sum*scale > most {
					t.Fatalf("%d were let in within %s; %d is the most", sum, a.at.Sub(from.at), most/scale)
				}
			}
		}
	})
}

func TestMeters(t *testing.T) {
	second := func(n float64) time.Time { return start().Add(time.Duration(n * float64(time.Second))) }
	m := newMeter(Limits{Total: 600}, totalDim, start())
	for _, c := range []struct {
		at     float64
		n      int64
		wait   time.Duration
		remain int64
	}{
		{0, 400, 0, 200},
		{0, 200, 0, 0},
		{0, 1, 100 * time.Millisecond, 0},
		{1, 10, 0, 0},
		{1.05, 10, 950 * time.Millisecond, 0},
		{100, 601, tooLarge, 600},
		{100, 600, 0, 0},
	} {
		wait := m.wait(c.n, second(c.at))
		if wait == 0 {
			m.charge(c.n, second(c.at), second(c.at))
		}
		if got := m.remaining(second(c.at)); wait != c.wait || got != c.remain {
			t.Errorf("at %v s: %d waits %s and %d remain, not %s and %d", c.at, c.n, wait, got, c.wait, c.remain)
		}
	}
	if got := m.reset(second(100)); got != time.Minute {
		t.Errorf("all is there again in %s", got)
	}
}

// A request that is larger than a window's share passes alone, and is paid off by the windows behind it.
func TestALargeRequestIsPaidOff(t *testing.T) {
	m := newMeter(Limits{Total: 6000, Window: Span(time.Second)}, totalDim, start()) // 100 a window
	if wait := m.wait(350, start()); wait != 0 {
		t.Fatalf("it waits %s", wait)
	}
	m.charge(350, start(), start())
	if wait := m.wait(60, start()); wait != 4*time.Second {
		t.Errorf("60 wait %s, and not for the window of which 50 are used already to be over", wait)
	}
	if wait := m.wait(50, start()); wait != 3*time.Second {
		t.Errorf("50 wait %s, not 3s", wait)
	}
}

// What was taken in advance comes back to a bucket, and to a window only as long as it is the same one.
func TestGivingBack(t *testing.T) {
	bucket := newMeter(Limits{Output: 1000}, outputDim, start())
	bucket.charge(1000, start(), start())
	bucket.charge(-900, start(), start().Add(time.Second))
	if got := bucket.remaining(start().Add(time.Second)); got != 916 {
		t.Errorf("%d remain in the bucket, not 900 and what flowed in", got)
	}
	window := newMeter(Limits{Output: 6000, Window: Span(10 * time.Second)}, outputDim, start())
	window.charge(1000, start(), start())
	window.charge(-900, start(), start().Add(9*time.Second))
	if got := window.remaining(start().Add(9 * time.Second)); got != 900 {
		t.Errorf("%d remain in the window", got)
	}
	window.charge(900, start().Add(9*time.Second), start().Add(9*time.Second))
	window.charge(500, start().Add(10*time.Second), start().Add(10*time.Second))
	window.charge(-900, start().Add(9*time.Second), start().Add(11*time.Second))
	if got := window.remaining(start().Add(11 * time.Second)); got != 500 {
		t.Errorf("%d remain in the next window, to which nothing is given back", got)
	}
}

// A limit that is halved midway counts at once, and what was used stays used.
func TestLimitsChangeWhileTheyCount(t *testing.T) {
	l := newLimiter(Limits{Total: 1000})
	g := group{"k", "f"}
	if no := l.take(g, amounts{1, 300, 0, 300}, false, start()); no != nil {
		t.Fatal(no)
	}
	l.set("", Limits{Total: 500}, start())
	no := l.take(g, amounts{1, 501, 0, 501}, false, start())
	if no == nil || no.wait != tooLarge {
		t.Errorf("more than the new limit: %+v", no)
	}
	if no := l.take(g, amounts{1, 500, 0, 500}, false, start()); no != nil {
		t.Errorf("what is left of the old limit is the new one: %+v", no)
	}
	if no := l.take(g, amounts{1, 1, 0, 1}, false, start()); no == nil || no.dim != totalDim || no.wait != 120*time.Millisecond {
		t.Errorf("%+v", no)
	}
	l.set("f", Limits{}, start())
	if no := l.take(g, amounts{1, 1e6, 0, 1e6}, false, start()); no != nil {
		t.Errorf("no limit: %+v", no)
	}
}

// All of a request is charged, or nothing; a refused request counts as one where the provider counts it.
func TestAllOrNothing(t *testing.T) {
	for _, counted := range []bool{false, true} {
		l := newLimiter(Limits{Requests: 10, Input: 100})
		g := group{"k", "f"}
		if no := l.take(g, amounts{1, 90, 0, 90}, counted, start()); no != nil {
			t.Fatal(no)
		}
		if no := l.take(g, amounts{1, 20, 0, 20}, counted, start()); no == nil || no.dim != inputDim {
			t.Errorf("%+v", no)
		}
		want := int64(9)
		if counted {
			want = 8
		}
		if st := l.standings(g, start()); st[requestsDim].remaining != want || st[inputDim].remaining != 10 {
			t.Errorf("counted %t: %+v", counted, st)
		}
	}
}

func TestBadLimits(t *testing.T) {
	for _, l := range []Limits{{Requests: -1}, {Total: maxLimit + 1}, {Window: 1}, {Window: Span(time.Hour)}, {Burst: 1}, {Foreign: 1}, {Foreign: -0.1}} {
		if l.validate() == nil {
			t.Errorf("%+v is accepted", l)
		}
	}
}
