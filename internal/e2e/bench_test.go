package e2e_test

import (
	"testing"

	"agentkernel"
)

// BenchmarkWarmRun is a small program through a running kernel, for profiles; `make bench` has the figures
// beside their floors.
func BenchmarkWarmRun(b *testing.B) {
	for _, d := range []agentkernel.Durability{agentkernel.DurabilityFull, agentkernel.DurabilityRelaxed} {
		b.Run(string(d), func(b *testing.B) {
			k := openEmbedded(b, home(b))
			s := program("print(6*7)")
			s.Durability = d
			for b.Loop() {
				run(b, k, s)
			}
		})
	}
}
