package sched_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"agentkernel/internal/sched"

	"pgregory.net/rapid"
)

// TestShares: flows that wait all the time are served by their weights, whatever an item takes and however many items each has.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flows := rapid.IntRange(2, 5).Draw(t, "flows")
		weights, most := map[string]int{}, map[string]int{}
		for i := range flows {
			name := fmt.Sprint("flow ", i)
			weights[name] = rapid.IntRange(1, 4).Draw(t, "weight")
			most[name] = rapid.IntRange(1, 50).Draw(t, "most ms")
		}
		s := sched.Shares[string]{Weight: func(flow string) int { return weights[flow] }}
		now := time.Unix(0, 0)
		for name := range weights {
			for range rapid.IntRange(1, 20).Draw(t, "waiting") {
				s.Push(name, name, rapid.IntRange(1, 20).Draw(t, "priority"), now)
			}
		}
		had := map[string]time.Duration{}
		for range 600 {
			name, ok := s.Pop()
			if !ok {
				t.Fatal("nothing waits")
			}
			took := time.Duration(rapid.IntRange(0, most[name]).Draw(t, "ms")) * time.Millisecond
			now = now.Add(took)
			s.Charge(name, took)
			had[name] += took
			s.Push(name, name, rapid.IntRange(1, 20).Draw(t, "priority"), now)
		}
		for a, wa := range weights {
			for b, wb := range weights {
				if off := (had[a]/time.Duration(wa) - had[b]/time.Duration(wb)).Abs(); off > 150*time.Millisecond {
					t.Fatalf("%s (weight %d) had %s, %s (weight %d) had %s", a, wa, had[a], b, wb, had[b])
				}
			}
		}
	})
}

// TestSharesOfACrowd: one that comes does not wait for the thousands of another that came before.
func TestSharesOfACrowd(t *testing.T) {
	var s sched.Shares[string]
	now := time.Unix(0, 0)
	for range 10_000 {
		s.Push("crowd", "crowd", 10, now)
	}
	serve := func() string {
		name, _ := s.Pop()
		now = now.Add(time.Millisecond)
		s.Charge(name, time.Millisecond)
		return name
	}
	for range 100 {
		serve()
	}
	for range 10 {
		s.Push("one", "one", 10, now)
	}
	served := map[string]int{}
	for served["one"] < 10 {
		if served[serve()]++; served["crowd"] > 15 {
			t.Fatalf("%d of the crowd were served, and %d of ten others", served["crowd"], served["one"])
		}
	}
}

// TestSharesAfterAMonopoly: who had all slots for long does not stand still for as long.
func TestSharesAfterAMonopoly(t *testing.T) {
	var s sched.Shares[string]
	now := time.Unix(0, 0)
	s.Push("long", "long", 10, now)
	s.Pop()
	s.Charge("long", time.Hour)
	now = now.Add(time.Hour)
	for range 10_000 {
		s.Push("new", "new", 10, now)
	}
	s.Push("long", "long", 10, now)
	waited := time.Duration(0)
	for {
		name, ok := s.Pop()
		if !ok || name == "long" {
			break
		}
		waited += time.Millisecond
		s.Charge(name, time.Millisecond)
	}
	if waited > sched.MostDebt+10*time.Millisecond {
		t.Errorf("it waited for %s", waited)
	}
}

// TestSharesForget: flows that come once are not kept.
func TestSharesForget(t *testing.T) {
	var s sched.Shares[int]
	for i := range 20_000 {
		name := fmt.Sprint(i)
		s.Push(i, name, 10, time.Unix(0, 0))
		s.Pop()
		s.Charge(name, time.Millisecond)
	}
	if n := s.Flows(); n > 100 {
		t.Errorf("%d flows are kept", n)
	}
}

// TestReserved: parts are read, and are no more than all together.
func TestReserved(t *testing.T) {
	got, err := sched.Reserved([]string{"team 70%", " batch  12.5% ", "c 17.5%"})
	if err != nil || !maps.Equal(got, map[string]float64{"team": 0.7, "batch": 0.125, "c": 0.175}) {
		t.Errorf("%v %v", got, err)
	}
	for text, want := range map[string]string{
		"team": "reserves no share", "team 70": "reserves no share", "team 0%": "reserves no share", "team 101%": "reserves no share", "team NaN%": "reserves no share",
		"team -5%": "reserves no share", "team Inf%": "reserves no share", "%": "reserves no share", "a 10%": "a share is reserved for a twice", "d 51%": "are 101% together",
	} {
		if _, err := sched.Reserved([]string{"a 50%", text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
