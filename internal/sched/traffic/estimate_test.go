package traffic_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"agentkernel/internal/sched/traffic"
)

// TestEstimate: at first estimates are safe; then 19 of 20 requests have no more than was foreseen, and not much less; and a model that
// counts otherwise from now on is learned again.
func TestEstimate(t *testing.T) {
	var e traffic.Estimator
	rnd := rand.New(rand.NewPCG(1, 2))
	first := traffic.Content{Text: 10_000}
	if n := e.Input(first); n < 5000 || n > 5100 {
		t.Errorf("10 kB of text are assumed to be %d tokens", n)
	}
	if n := e.Output(500); n != 500 {
		t.Errorf("an answer of at most 500 is assumed to be %d", n)
	}
	if n := e.Output(0); n != traffic.SafeTokens {
		t.Errorf("an answer is assumed to be %d", n)
	}
	for _, density := range []float64{0.25, 0.4, 0.2} {
		var above, foreseen, used float64
		const calls = 4000
		for i := range calls {
			c := traffic.Content{Text: 1000 + rnd.Int64N(50_000)}
			if i%3 == 0 {
				c = traffic.Content{Code: 1000 + rnd.Int64N(50_000), Text: 500}
			}
			in := int64(float64(c.Text+c.Code) * density * (0.9 + 0.2*rnd.Float64()))
			if i >= calls/2 {
				n := e.Input(c)
				foreseen, used = foreseen+float64(n), used+float64(in)
				if in > n {
					above++
				}
			}
			e.Learn(c, 1000, in, int64(1000*(0.1+0.2*rnd.Float64())))
		}
		if part := above / (calls / 2); part > 0.08 {
			t.Errorf("%.3f of requests with %.2f tokens a byte had more than was foreseen", part, density)
		}
		if foreseen > 1.2*used {
			t.Errorf("%.2f tokens a byte: foreseen %.0f, used %.0f", density, foreseen, used)
		}
	}
	if n := e.Output(1000); n < 280 || n > 315 {
		t.Errorf("answers of 100 to 300 of 1,000 tokens are assumed to be %d", n)
	}
}

// TestEstimateOfMixtures: what is known of one kind of content does not follow another that comes along with it.
func TestEstimateOfMixtures(t *testing.T) {
	var e traffic.Estimator
	for range 500 {
		e.Learn(traffic.Content{Text: 4000}, 0, 1000, 50)
		e.Learn(traffic.Content{Text: 400, Image: 100_000}, 0, 1500+100, 50)
	}
	if n := e.Input(traffic.Content{Text: 4000}); n < 1000 || n > 1100 {
		t.Errorf("4 kB of text are %d tokens", n)
	}
	if n := e.Input(traffic.Content{Image: 100_000}); n < 1450 || n > 1650 {
		t.Errorf("a picture is %d tokens", n)
	}
	if n := e.Output(0); n < 50 || n > 55 {
		t.Errorf("answers of 50 tokens are assumed to be %d", n)
	}
}

// TestEstimateOfAbsurdities: after an answer that cannot have been, estimates are of what can be.
func TestEstimateOfAbsurdities(t *testing.T) {
	for _, most := range []int64{0, 1000, math.MaxInt64} {
		var e traffic.Estimator
		e.Learn(traffic.Content{Text: 9}, most, math.MaxInt64, math.MaxInt64)
		if n := e.Input(traffic.Content{Text: 100_000}); n < 100_000 || n > 2_000_000 {
			t.Errorf("100 kB are %d tokens", n)
		}
		if n := e.Output(0); n < 1 || n > 2_000_000 {
			t.Errorf("an answer is assumed to be %d", n)
		}
		if n := e.Output(most); most > 0 && n != most {
			t.Errorf("an answer of at most %d is assumed to be %d", most, n)
		}
	}
}
