package eviction_test

import (
	"testing"

	"agentkernel/internal/kernel/eviction"
)

func TestBefore(t *testing.T) {
	want := []eviction.Rank{ // each goes before all behind it
		{Images: true, LastRun: 1, PID: 9},
		{Images: true, LastRun: 2, PID: 7},
		{Images: true, LastRun: 2, PID: 8},
		{Images: true, Ready: true, LastRun: 4, PID: 5},
		{Images: true, Ready: true, LastRun: 3, PID: 6},
		{LastRun: 1, PID: 1},
	}
	for i, a := range want {
		for j, b := range want {
			if a.Before(b) != (i < j) {
				t.Errorf("%+v before %+v: %t", a, b, a.Before(b))
			}
		}
	}
}
