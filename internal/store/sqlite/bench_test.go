package sqlite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/store/sqlite"
)

func open(tb testing.TB) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.Open(context.Background(), config(tb.TempDir()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// program is 60 lines that use 20 tools: what a parked agent typically is.
func program() agentkernel.Program {
	var b bytes.Buffer
	for i := range 20 {
		fmt.Fprintf(&b, "from tools.server%d import tool_%d\n", i%5, i)
	}
	for i := range 40 {
		fmt.Fprintf(&b, "value_%d = tool_%d(path='/data/part_%d.csv', limit=%d)\n", i, i%20, i, i*10)
	}
	return agentkernel.Program{Name: "agent.py", Language: agentkernel.Python, Source: b.String()}
}

func processRow(pid agentkernel.PID, state agentkernel.State) *agentkernel.ProcessRecord {
	p := &agentkernel.ProcessRecord{
		Process: agentkernel.Process{PID: pid, Namespace: "default", Name: "agent.py", Backend: "monty", Priority: 10, State: state,
			Created: time.UnixMicro(1_790_000_000_000_000), Fingerprint: "monty 0.0.23 protocol 2 guest 1"},
		Spec: agentkernel.Spec{Program: program(), Backend: "monty", Namespace: "default", Priority: 10,
			Limits: agentkernel.DefaultLimits(), Tools: []string{"/home/user/project/mcp.json"}, Allow: []string{"filesystem.write_*"}},
	}
	if state.Terminal() {
		p.Ended = time.UnixMicro(1_790_000_000_100_000)
	}
	return p
}

func percentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "µs/p50")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "µs/p99")
}

func call(pid agentkernel.PID, seq int64) agentkernel.Entry {
	return agentkernel.Entry{PID: pid, Seq: seq, Kind: agentkernel.EntryCall, At: time.UnixMicro(1_790_000_000_000_000 + seq), Call: seq,
		Op: "tool.call", Effect: agentkernel.EffectWrite,
		Args: json.RawMessage(`{"arguments":{"content":"a line\n","path":"/data/out.txt"},"server":"filesystem","tool":"append_file"}`)}
}

func result(pid agentkernel.PID, seq int64) agentkernel.Entry {
	return agentkernel.Entry{PID: pid, Seq: seq, Kind: agentkernel.EntryResult, At: time.UnixMicro(1_790_000_000_000_000 + seq), Call: seq - 1,
		Data: json.RawMessage(`{"ok":true,"bytes":7}`), Note: "filesystem#1"}
}

// BenchmarkOneRow is the floor: one entry, durable.
func BenchmarkOneRow(b *testing.B) {
	s := open(b)
	pid := newPID(s)
	var took []time.Duration
	for seq := int64(1); b.Loop(); seq++ {
		begin := time.Now()
		pos := must(s.Append(agentkernel.Batch{Entries: []agentkernel.Entry{call(pid, seq)}}))
		if err := s.Flush(b.Context(), pos); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	percentiles(b, took)
}

// BenchmarkWarmRun is what the kernel does for a small program: created, output and terminal in one commit.
func BenchmarkWarmRun(b *testing.B) {
	s := open(b)
	var took []time.Duration
	for b.Loop() {
		pid := newPID(s)
		created, output, end := call(pid, 1), result(pid, 2), result(pid, 3)
		created.Kind, output.Kind, end.Kind = agentkernel.EntryCreated, agentkernel.EntryOutput, agentkernel.EntryTerminal
		first, last := processRow(pid, agentkernel.StateUnfinished), processRow(pid, agentkernel.StateExited)
		begin := time.Now()
		must(s.Append(agentkernel.Batch{Entries: []agentkernel.Entry{created}, Process: first}))
		must(s.Append(agentkernel.Batch{Entries: []agentkernel.Entry{output}}))
		pos := must(s.Append(agentkernel.Batch{Entries: []agentkernel.Entry{end}, Process: last}))
		if err := s.Flush(b.Context(), pos); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	percentiles(b, took)
	b.ReportMetric(float64(s.Commits())/float64(len(took)), "commits/run")
}

// BenchmarkAppend is what the caller pays without waiting.
func BenchmarkAppend(b *testing.B) {
	s := open(b)
	pid := newPID(s)
	for seq := int64(1); b.Loop(); seq++ {
		must(s.Append(agentkernel.Batch{Entries: []agentkernel.Entry{call(pid, seq)}}))
	}
}

// BenchmarkCalls is 64 processes making durable external calls: intent, flush, result.
func BenchmarkCalls(b *testing.B) {
	const processes = 64
	s := open(b)
	work := make(chan struct{})
	var group sync.WaitGroup
	for range processes {
		pid := newPID(s)
		group.Go(func() {
			for seq := int64(1); ; seq += 2 {
				if _, ok := <-work; !ok {
					return
				}
				pos := must(s.Append(agentkernel.Batch{Entries: []agentkernel.Entry{call(pid, seq)}}))
				if err := s.Flush(context.Background(), pos); err != nil {
					panic(err)
				}
				must(s.Append(agentkernel.Batch{Entries: []agentkernel.Entry{result(pid, seq+1)}}))
			}
		})
	}
	begin, before := time.Now(), s.Commits()
	n := 0
	for b.Loop() {
		work <- struct{}{}
		n++
	}
	close(work)
	group.Wait()
	b.ReportMetric(float64(n)/time.Since(begin).Seconds(), "calls/s")
	b.ReportMetric(float64(n)/float64(s.Commits()-before), "calls/commit")
}

// imageOf is like a parked program: mostly what every process of the program has, a little of its own.
func imageOf(pid agentkernel.PID, step int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	im := make([]byte, 6000)
	r.Read(im)
	im = append(im, program().Source...)
	im = append(im, program().Source...)
	for i := range step {
		im = fmt.Appendf(im, "order %d of agent %d: %d\n", i, pid, i*int(pid))
	}
	return im
}

// BenchmarkParkUnpark is an image appended and read again at once.
func BenchmarkParkUnpark(b *testing.B) {
	s := open(b)
	var pids []agentkernel.PID
	for range 256 {
		pid := newPID(s)
		pids = append(pids, pid)
		must(s.Append(agentkernel.Batch{Process: processRow(pid, agentkernel.StateUnfinished)}))
	}
	bytes := imageOf(1, 10)
	seq := int64(0)
	var took []time.Duration
	for b.Loop() {
		seq++
		pid := pids[seq%256]
		begin := time.Now()
		must(s.Append(agentkernel.Batch{Image: &agentkernel.Image{PID: pid, Seq: seq, Fingerprint: "monty 0.0.23 protocol 2 guest 1", Kernel: []byte(`{"calls":7}`), Bytes: bytes}}))
		must(s.Image(b.Context(), pid))
		took = append(took, time.Since(begin))
	}
	percentiles(b, took)
}

// BenchmarkReads is what recovery and inspection pay per process.
func BenchmarkReads(b *testing.B) {
	cfg := config(b.TempDir())
	cfg.ImageCache = -1
	s := must(sqlite.Open(b.Context(), cfg))
	defer s.Close()
	pid := newPID(s)
	batch := agentkernel.Batch{Process: processRow(pid, agentkernel.StateUnfinished), State: map[string]json.RawMessage{"k": json.RawMessage(`1`)},
		Image: &agentkernel.Image{PID: pid, Seq: 20, Fingerprint: "f", Kernel: []byte(`{}`), Bytes: imageOf(pid, 10)}}
	for seq := int64(1); seq < 20; seq += 2 {
		batch.Entries = append(batch.Entries, call(pid, seq), result(pid, seq+1))
	}
	if err := s.Flush(b.Context(), must(s.Append(batch))); err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	b.Run("process", func(b *testing.B) {
		for b.Loop() {
			must(s.Process(ctx, pid))
		}
	})
	b.Run("20 entries", func(b *testing.B) {
		for b.Loop() {
			must(s.Entries(ctx, pid, 1, 0))
		}
	})
	b.Run("state", func(b *testing.B) {
		for b.Loop() {
			must(s.State(ctx, pid))
		}
	})
	b.Run("image from disk", func(b *testing.B) {
		for b.Loop() {
			must(s.Image(ctx, pid))
		}
	})
}

// BenchmarkTakeUp is what a kernel reads and appends of a process that another one has left, by itself and among many.
func BenchmarkTakeUp(b *testing.B) {
	const processes = 4096
	for _, together := range []bool{false, true} {
		b.Run(map[bool]string{false: "one", true: "among many"}[together], func(b *testing.B) {
			cfg := config(b.TempDir())
			cfg.ImageCache = -1
			s := must(sqlite.Open(b.Context(), cfg))
			for range processes {
				pid := newPID(s)
				must(s.Append(agentkernel.Batch{Process: processRow(pid, agentkernel.StateUnfinished), Entries: []agentkernel.Entry{call(pid, 1), result(pid, 2), call(pid, 3)},
					Image: &agentkernel.Image{PID: pid, Seq: 3, Fingerprint: "f", Kernel: []byte(`{}`), Bytes: imageOf(pid, 10)}}))
			}
			must(0, s.Close())
			for b.Loop() { // b.N times all of them
				b.StopTimer()
				s := must(sqlite.Open(b.Context(), cfg)) // has not seen them
				b.StartTimer()
				ctx, done := b.Context(), func() {}
				if together {
					ctx, done = s.Moment(ctx)
				}
				for pid := agentkernel.PID(1); pid <= processes; pid++ {
					rec, _, err := s.ProcessLeft(ctx, pid)
					must(rec, err)
					im := must(s.Image(ctx, pid))
					list, _, err := s.EntriesLeft(ctx, pid, im.Seq, 0)
					must(list, err)
					rec.Recoveries++
					must(s.Append(agentkernel.Batch{Process: &rec, Entries: []agentkernel.Entry{result(pid, list[len(list)-1].Seq+1)}}))
				}
				done()
				b.StopTimer()
				must(0, s.Close())
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/processes, "µs/process")
		})
	}
}

// BenchmarkOpen is what a command pays that has its own kernel.
func BenchmarkOpen(b *testing.B) {
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			s := must(sqlite.Open(b.Context(), config(b.TempDir())))
			s.Close()
		}
	})
	b.Run("existing", func(b *testing.B) {
		dir := b.TempDir()
		for b.Loop() {
			s := must(sqlite.Open(b.Context(), config(dir)))
			s.Close()
		}
	})
}
