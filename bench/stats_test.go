package main

import (
	"math"
	"slices"
	"testing"
	"time"
)

func us(values ...int) []time.Duration {
	out := make([]time.Duration, len(values))
	for i, v := range values {
		out[i] = time.Duration(v) * time.Microsecond
	}
	return out
}

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	for name, tc := range map[string]struct {
		sorted []time.Duration
		p      float64
		want   int
	}{
		"none":              {nil, 50, 0},
		"one":               {us(7), 99, 7},
		"median of three":   {us(1, 2, 9), 50, 2},
		"median of four":    {us(1, 2, 8, 9), 50, 2},
		"p99 of a hundred":  {us(hundred...), 99, 99},
		"p50 of a hundred":  {us(hundred...), 50, 50},
		"p99 of ten":        {us(1, 2, 3, 4, 5, 6, 7, 8, 9, 50), 99, 50},
		"p0 is the least":   {us(3, 4), 0, 3},
		"p100 is the most":  {us(3, 4), 100, 4},
		"just over a place": {us(1, 2, 3, 4), 50.1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := percentile(tc.sorted, tc.p), us(tc.want)[0]; got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestSeriesDoesNotDependOnOrder(t *testing.T) {
	s := series{us(9, 1), us(5), nil, us(3, 7)}
	if got := s.p50(); got != 5*time.Microsecond {
		t.Errorf("p50 is %v", got)
	}
	if got := s.p99(); got != 9*time.Microsecond {
		t.Errorf("p99 is %v", got)
	}
	if !slices.Equal(s[0], us(9, 1)) {
		t.Errorf("the samples were reordered: %v", s[0])
	}
}

func TestMedian(t *testing.T) {
	for name, tc := range map[string]struct {
		values []float64
		want   float64
	}{
		"none": {nil, 0}, "one": {[]float64{3}, 3}, "odd": {[]float64{9, 1, 2}, 2}, "even": {[]float64{1, 10, 2, 4}, 3},
	} {
		if got := median(tc.values); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

func TestRatioIsTakenBlockByBlock(t *testing.T) {
	for name, tc := range map[string]struct {
		ours   series
		floors []series
		want   float64
	}{
		// The machine is ten times slower in the second round: over all samples the quotient would be wrong.
		"a machine that changes": {series{us(20), us(200), us(20)}, []series{{us(10), us(100), us(10)}}, 2},
		"a sum of floors":        {series{us(30), us(60)}, []series{{us(10), us(20)}, {us(5), us(10)}}, 2},
		"one odd round":          {series{us(20), us(900), us(22)}, []series{{us(10), us(10), us(10)}}, 2.2},
		"a round is missing":     {series{us(20), us(90)}, []series{{us(10)}}, 2},
		"an empty block":         {series{us(20), {}}, []series{{us(10), us(10)}}, 2},
		"nothing to compare":     {series{us(20)}, []series{nil}, 0},
		"a floor of zero":        {series{us(20)}, []series{{us(0)}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.ours.ratio(tc.floors...); math.Abs(got-tc.want) > 1e-9 {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestPerSwitchLeavesOutBothEnds(t *testing.T) {
	begin := time.Unix(0, 0)
	var moments []time.Time
	const processes = 50
	for i := range processes + switchesPerSample + 1 + processes {
		d := time.Duration(i) * time.Millisecond
		if i >= processes && i <= processes+switchesPerSample {
			d = processes*time.Millisecond + time.Duration(i-processes)*time.Microsecond
		}
		moments = append(moments, begin.Add(d))
	}
	slices.Reverse(moments) // journals are read one after the other: the order means nothing
	if got := perSwitch(moments, processes); !slices.Equal(got, us(1)) {
		t.Errorf("got %v, want one sample of 1 µs", got)
	}
}

func TestPerCall(t *testing.T) {
	moments := make([]time.Time, 2*ratePerSample+10)
	for i := range moments {
		moments[i] = time.Unix(0, 0).Add(time.Duration(i) * 3 * time.Microsecond)
	}
	for n := 1; n <= 2; n++ {
		got, err := perCall(moments, n)
		if err != nil || !slices.Equal(got, us(3, 3)[:n]) {
			t.Errorf("%d samples: got %v, %v", n, got, err)
		}
	}
	if got, err := perCall(moments, 3); err == nil {
		t.Errorf("three samples of too few calls: %v", got)
	}
}
