package api_test

import (
	"context"
	"testing"

	"agentkernel"
	"agentkernel/client"
	"agentkernel/internal/api"
)

// instant is a kernel that answers at once, so that only the way to it is measured.
type instant struct {
	agentkernel.Kernel
	events int
	size   int
}

func (k instant) Info(context.Context) (agentkernel.KernelInfo, error) {
	return agentkernel.KernelInfo{Version: "1.0", API: agentkernel.APIVersion}, nil
}

func (k instant) Run(_ context.Context, _ agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
	p := agentkernel.Process{PID: 1, State: agentkernel.StateExited}
	text := string(make([]byte, k.size))
	for i := range k.events {
		ev := agentkernel.Event{Kind: agentkernel.EventOutput, PID: 1, Seq: int64(i + 1), Stream: "stdout", Text: text}
		switch i {
		case 0:
			ev = agentkernel.Event{Kind: agentkernel.EventCreated, PID: 1, Seq: 1, Process: &p}
		case k.events - 1:
			ev = agentkernel.Event{Kind: agentkernel.EventEnd, PID: 1, Seq: int64(k.events), Process: &p}
		}
		if err := fn(ev); err != nil {
			return p, err
		}
	}
	return p, nil
}

func BenchmarkDialAndClose(b *testing.B) {
	s := serve(b, api.Config{Kernel: instant{}})
	for b.Loop() {
		c, err := client.Dial(b.Context(), client.Options{Socket: s.socket, Version: "1.0"})
		if err != nil {
			b.Fatal(err)
		}
		_ = c.Close()
	}
}

func BenchmarkInfo(b *testing.B) {
	c := serve(b, api.Config{Kernel: instant{}}).dial(b)
	for b.Loop() {
		if _, err := c.Info(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRun3Events(b *testing.B)   { benchmarkRun(b, 3, 20) }
func BenchmarkRun100kLines(b *testing.B) { benchmarkRun(b, 100_000, 20) }

func benchmarkRun(b *testing.B, events, size int) {
	c := serve(b, api.Config{Kernel: instant{events: events, size: size}}).dial(b)
	s := spec("x")
	for b.Loop() {
		n := 0
		if _, err := c.Run(b.Context(), s, func(agentkernel.Event) error { n++; return nil }); err != nil || n != events {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
}
