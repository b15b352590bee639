package main

import (
	"fmt"
	"syscall"
	"testing"

	"agentkernel"
	"agentkernel/embedded"
)

// BenchmarkModels is a request to a model by the processor time of this process, in which the server is, too; post is what it takes without a kernel.
func BenchmarkModels(b *testing.B) {
	server, err := serveModel()
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	b.Setenv(agentsKey, "sk-bench")
	k, err := embedded.Open(b.Context(), embedded.Config{Home: b.TempDir(), Version: "bench", Engine: findEngine(".."),
		Models: []string{"fast openai:bench url=" + server.url + " key=env:" + agentsKey + " price=1/10"}})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	cpu := func(b *testing.B, run func(n int) error) {
		b.ReportAllocs()
		if err := run(20); err != nil {
			b.Fatal(err)
		}
		var before, after syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
		b.ResetTimer()
		err := run(b.N)
		b.StopTimer()
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(after.Utime.Nano()-before.Utime.Nano())/1e3/float64(b.N), "user-µs/op")
		b.ReportMetric(float64(after.Stime.Nano()-before.Stime.Nano())/1e3/float64(b.N), "sys-µs/op")
	}
	for _, kB := range []int{2, 64, 512} {
		b.Run(fmt.Sprintf("post/%dkB", kB), func(b *testing.B) {
			post := server.post(kB << 10)
			cpu(b, func(n int) error {
				for range n {
					if err := post(b.Context()); err != nil {
						return err
					}
				}
				return nil
			})
		})
		b.Run(fmt.Sprintf("complete/%dkB", kB), func(b *testing.B) {
			turns, err := converse(b.Context(), k, kB<<10, agentkernel.DurabilityRelaxed)
			if err != nil {
				b.Fatal(err)
			}
			cpu(b, func(n int) error {
				_, err := turns(b.Context(), n)
				return err
			})
		})
	}
}
