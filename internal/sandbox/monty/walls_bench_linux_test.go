package monty

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkWarmBehindWalls alternates workers without and with walls, so that both see the same machine, and reports
// the medians of a run in a worker that is there, and of the start of a worker.
func BenchmarkWarmBehindWalls(b *testing.B) {
	kinds := []*Backend{
		newBackend(b, func(c *Config) { c.Spare = -1 }),
		walledBackend(b, func(c *Config) { c.Spare = -1 }),
	}
	warm, cold := make([][]time.Duration, 2), make([][]time.Duration, 2)
	timed := func(to *[]time.Duration, backend *Backend) *run {
		begin := time.Now()
		r := newRun(b, backend, "print(1)")
		if _, err := r.finish(); err != nil {
			b.Fatal(err)
		}
		*to = append(*to, time.Since(begin))
		return r
	}
	for _, backend := range kinds {
		_ = timed(new([]time.Duration), backend).box.Close()
	}
	for b.Loop() {
		for i, backend := range kinds {
			_ = timed(&warm[i], backend).box.Close()
		}
		if len(warm[0])%20 != 0 {
			continue
		}
		for i, backend := range kinds { // kill what stands there: the next run starts one
			backend.pool.mu.Lock()
			backend.pool.evict()
			backend.pool.mu.Unlock()
			_ = timed(&cold[i], backend).box.Close()
		}
	}
	for i, name := range []string{"plain", "walls"} {
		for what, d := range map[string][]time.Duration{"warm": warm[i], "start": cold[i]} {
			if slices.Sort(d); len(d) > 0 {
				b.ReportMetric(float64(d[len(d)/2].Microseconds()), name+"-"+what+"-p50-µs")
			}
		}
	}
}
