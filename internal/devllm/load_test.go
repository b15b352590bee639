package devllm

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// Hundreds of clients at once never get more than the limit, in any span, and the log's sums are those of what they were told.
func TestLimitsHoldAgainstACrowd(t *testing.T) {
	for _, window := range []Span{0, Span(time.Second), Span(10 * time.Second)} {
		t.Run(fmt.Sprint(time.Duration(window)), func(t *testing.T) {
			r := newRig(t, "anthropic", func(o *Options) {
				o.Profile.Limits = Limits{Total: 60_000, Window: window, Burst: Span(time.Second)}
			})
			var told, refused int64
			var mu sync.Mutex
			for range 20 { // half-seconds
				var crowd sync.WaitGroup
				for range 20 {
					crowd.Go(func() {
						g := r.post("/v1/messages", claudeOf("Hello", "max_tokens", 60))
						mu.Lock()
						defer mu.Unlock()
						if g.status == 429 {
							refused++
							return
						}
						u := dig(g.json(t), "usage")
						told += int64(dig(u, "input_tokens").(float64) + dig(u, "output_tokens").(float64))
					})
				}
				crowd.Wait()
				r.clock.Advance(500 * time.Millisecond)
			}
			r.logged(400)
			total := r.Totals(Filter{})
			if total.Refused["total"] != refused || refused == 0 || total.Charged.Total != told || total.Tokens.Input()+total.Tokens.Answer() != told {
				t.Errorf("%d refused and %d tokens told: %+v", refused, told, total)
			}
			share := map[Span]int64{0: 1000, Span(time.Second): 1000, Span(10 * time.Second): 10_000}[window]
			if got := total.Most["1s"].Total; got > 2*share {
				t.Errorf("%d tokens within a second", got)
			}
			if got := total.Most["10s"].Total; got > 11*1000 {
				t.Errorf("%d tokens within ten seconds of 1000 each, and a burst", got)
			}
		})
	}
}
