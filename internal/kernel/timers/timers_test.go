package timers

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
}

// A hundred thousand timers that are due within one second ring in order, each once, and none before its time.
func TestManyInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100_000
		ts := New(time.Now)
		begin := time.Now()
		var rang []time.Duration
		early := 0
		random := rand.New(rand.NewPCG(1, 2))
		for range n {
			d := time.Duration(random.Int64N(int64(time.Second)))
			ts.At(begin.Add(d), func() {
				if time.Since(begin) < d {
					early++
				}
				rang = append(rang, d)
			})
		}
		pass(2 * time.Second)
		synctest.Wait()
		if len(rang) != n || early > 0 || !slices.IsSorted(rang) {
			t.Errorf("%d rang, %d too early, in order: %t", len(rang), early, slices.IsSorted(rang))
		}
		ts.Close()
	})
}

func TestStopAndEqualTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(time.Now)
		defer ts.Close()
		var mu sync.Mutex
		var rang []int
		ring := func(i int) {
			mu.Lock()
			defer mu.Unlock()
			rang = append(rang, i)
		}
		expect := func(want ...int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(rang, want) {
				t.Errorf("rang: %v, want %v", rang, want)
			}
		}
		all := make([]*Timer, 10)
		for i := range all {
			all[i] = ts.After(time.Minute, func() { ring(i) })
		}
		all[3].Stop()
		all[3].Stop()
		var none *Timer
		none.Stop()
		if all[3].Waits() || !all[3].When().IsZero() || !all[4].Waits() || none.Waits() || !none.When().IsZero() {
			t.Error("what waits is wrong")
		}
		ts.After(-time.Hour, func() { ring(-1) })     // past: soon
		ts.At(time.Now().Add(2*time.Minute), func() { // one timer may set another
			ts.After(time.Second, func() { ring(11) })
		})
		pass(time.Second)
		expect(-1)
		pass(time.Hour)
		expect(-1, 0, 1, 2, 4, 5, 6, 7, 8, 9, 11)
		if all[4].Waits() {
			t.Error("one that rang waits")
		}
	})
}

// A wall clock that jumps does no harm: forward, what is due rings within half a minute; back, it rings when the clock says so,
// and nothing rings twice.
func TestClockThatJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var jump time.Duration
		now := func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(jump).Round(0) // no monotonic reading
		}
		set := func(d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			jump = d
		}
		ts := New(now)
		defer ts.Close()
		rang := 0
		ring := func() {
			mu.Lock()
			defer mu.Unlock()
			rang++
		}
		expect := func(want int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if rang != want {
				t.Errorf("it rang %d times, not %d", rang, want)
			}
		}
		ts.At(now().Add(24*time.Hour), ring)
		pass(time.Minute)
		set(23 * time.Hour)
		pass(30 * time.Minute)
		expect(0)
		set(25 * time.Hour)
		pass(longest)
		expect(1)
		ts.At(now().Add(time.Hour), ring)
		set(0)
		pass(3 * time.Hour)
		expect(1)
		pass(24 * time.Hour)
		expect(2)
	})
}

func TestCloseWaitsForWhatRings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(time.Now)
		ended := false
		ts.After(0, func() { time.Sleep(time.Minute); ended = true }) //nolint:forbidigo // virtual time
		ts.After(time.Hour, func() { t.Error("it rang after Close") })
		pass(time.Second)
		ts.Close()
		if !ended {
			t.Error("Close did not wait")
		}
		if x := ts.After(0, func() { t.Error("it rang after Close") }); x.Waits() {
			t.Error("it waits after Close")
		}
		pass(2 * time.Hour)
	})
}

// What is called again and again is not any more once it is stopped.
func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(time.Now)
		defer ts.Close()
		n := 0
		stop := ts.Every(time.Second, func() { n++ })
		pass(3500 * time.Millisecond)
		stop()
		pass(time.Minute)
		if n != 3 {
			t.Errorf("%d times", n)
		}
	})
}
