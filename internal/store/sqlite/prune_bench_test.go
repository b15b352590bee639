package sqlite

import (
	"testing"
	"time"

	"agentkernel"
)

// BenchmarkPruneSteps measures the steps of housekeeping, during each of which nobody else can commit: 64 processes that
// are forgotten, and what is swept and given back after them.
func BenchmarkPruneSteps(b *testing.B) {
	s, err := Open(b.Context(), testConfig(b.TempDir()))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	steps := map[string]*timed{"forget": {}, "sweep": {}, "programs": {}, "shrink": {}}
	for b.Loop() {
		b.StopTimer()
		var pids []agentkernel.PID
		var last agentkernel.Position
		for range 64 {
			pid := newPID(s)
			p := exampleRow(pid)
			p.Spec.Program.Source = "print(" + pid.String() + ")"
			batch := agentkernel.Batch{Process: p}
			for seq := range int64(20) {
				batch.Entries = append(batch.Entries, note(pid, seq+1, 400).Entries...)
			}
			batch.Entries = append(batch.Entries, note(pid, 21, BlobThreshold+int(pid)%1000).Entries...)
			end := endedBatch(*p, 22)
			batch.Process, batch.Entries = end.Process, append(batch.Entries, end.Entries...)
			if last, err = s.Append(batch); err != nil {
				b.Fatal(err)
			}
			pids = append(pids, pid)
		}
		if err := s.Flush(b.Context(), last); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		steps["forget"].run(b, func() (bool, error) { _, err := s.Forget(b.Context(), pids, prunedAt); return false, err })
		steps["sweep"].run(b, func() (bool, error) { _, more, err := s.Sweep(b.Context()); return more, err })
		steps["programs"].run(b, func() (bool, error) { _, err := s.SweepPrograms(b.Context()); return false, err })
		steps["shrink"].run(b, func() (bool, error) { return s.Shrink(b.Context()) })
	}
	for name, st := range steps {
		b.ReportMetric(float64(st.sum.Microseconds())/float64(st.n)/1000, name+"-ms")
		b.ReportMetric(float64(st.worst.Microseconds())/1000, name+"-max-ms")
	}
}

type timed struct {
	n          int
	sum, worst time.Duration
}

func (s *timed) run(b *testing.B, step func() (bool, error)) {
	for more := true; more; {
		begun := time.Now()
		var err error
		if more, err = step(); err != nil {
			b.Fatal(err)
		}
		took := time.Since(begun)
		s.n, s.sum, s.worst = s.n+1, s.sum+took, max(s.worst, took)
	}
}
