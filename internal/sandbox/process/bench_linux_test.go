package process

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"agentkernel"
)

// quantiles reports what the average hides; before stands in front of the names.
func quantiles(b *testing.B, before string, took []time.Duration) (p50 float64) {
	slices.Sort(took)
	at := func(q float64) float64 {
		return float64(took[min(len(took)-1, int(q*float64(len(took))))].Microseconds())
	}
	b.ReportMetric(at(0.5), before+"p50-µs")
	b.ReportMetric(at(0.99), before+"p99-µs")
	return at(0.5)
}

// answer42 runs print(42) from nothing to its end.
func answer42(b *testing.B, backend *Backend) time.Duration {
	req := agentkernel.StartRequest{Namespace: "default", Limits: agentkernel.DefaultLimits(),
		Program: agentkernel.Program{Name: "p.py", Language: agentkernel.Python, Source: "print(42)"}}
	printed := ""
	req.Output = func(_, text string) { printed += text }
	begun := time.Now()
	box, err := backend.Start(context.Background(), req)
	if err != nil {
		b.Fatal(err)
	}
	turn, err := box.Next(context.Background(), nil)
	took := time.Since(begun)
	if err != nil || turn.Kind != agentkernel.TurnExit || printed != "42\n" {
		b.Fatalf("%+v %v %q", turn, err, printed)
	}
	if err := box.Close(); err != nil {
		b.Fatal(err)
	}
	return took
}

func benchBackend(b *testing.B, isolation string, warm int) *Backend {
	backend := newBackend(b, func(c *Config) { c.Isolation, c.Warm = isolation, warm })
	answer42(b, backend) // the zygote stands, the program is known
	return backend
}

// BenchmarkProgram is a program in and its output out, each in a fresh fork: in turns with all walls and with none, so
// that a busy machine is busy for both.
func BenchmarkProgram(b *testing.B) {
	walled, bare := benchBackend(b, "", -1), benchBackend(b, IsolationNone, -1)
	var with, without []time.Duration
	for b.Loop() {
		with = append(with, answer42(b, walled))
		without = append(without, answer42(b, bare))
	}
	b.ReportMetric(quantiles(b, "walls-", with)/quantiles(b, "bare-", without), "ratio")
}

// BenchmarkEightAtATime is the rate of that, in turns of eighty.
func BenchmarkEightAtATime(b *testing.B) {
	walled, bare := benchBackend(b, "", -1), benchBackend(b, IsolationNone, -1)
	const each = 80
	rate := func(backend *Backend) time.Duration {
		var wg sync.WaitGroup
		next := make(chan struct{})
		begun := time.Now()
		for range 8 {
			wg.Go(func() {
				for range next {
					answer42(b, backend)
				}
			})
		}
		for range each {
			next <- struct{}{}
		}
		close(next)
		wg.Wait()
		return time.Since(begun)
	}
	var with, without time.Duration
	for b.Loop() {
		with += rate(walled)
		without += rate(bare)
	}
	b.ReportMetric(float64(each*b.N)/with.Seconds(), "walls/s")
	b.ReportMetric(float64(each*b.N)/without.Seconds(), "bare/s")
	b.ReportMetric(without.Seconds()/with.Seconds(), "ratio")
}

// BenchmarkWarm takes children that wait, at fifty programs a second.
func BenchmarkWarm(b *testing.B) {
	backend := benchBackend(b, "", 2)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var took []time.Duration
	for b.Loop() {
		<-tick.C
		took = append(took, answer42(b, backend))
	}
	quantiles(b, "", took)
}

// BenchmarkSyscall is one call from the program and its answer, without a kernel.
func BenchmarkSyscall(b *testing.B) {
	backend := benchBackend(b, "", 2)
	box, err := backend.Start(b.Context(), agentkernel.StartRequest{Namespace: "default", Limits: agentkernel.DefaultLimits(),
		Program: agentkernel.Program{Name: "p.py", Language: agentkernel.Python, Source: "from kernel import state\nwhile True: state.get('k')"}})
	if err != nil {
		b.Fatal(err)
	}
	defer box.Close()
	var took []time.Duration
	if _, err := box.Next(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	id := int64(0)
	for b.Loop() {
		id++
		begun := time.Now()
		if turn, err := box.Next(b.Context(), &agentkernel.Reply{ID: id, Result: []byte("1")}); err != nil || turn.Kind != agentkernel.TurnCall {
			b.Fatalf("%+v %v", turn, err)
		}
		took = append(took, time.Since(begun))
	}
	quantiles(b, "", took)
}

// BenchmarkPrint is a line of output.
func BenchmarkPrint(b *testing.B) {
	backend := benchBackend(b, "", 2)
	r := newRun(b, backend, fmt.Sprintf("for i in range(%d): print('a line of some length', i)", b.N))
	r.req.Limits.Output = 1 << 40
	r.req.Limits.Time = agentkernel.Duration(time.Hour)
	r.req.Output = func(string, string) {}
	b.ResetTimer()
	if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
		b.Fatalf("%+v %v", turn, err)
	}
}

// BenchmarkIdle is not about time: it is the memory of a zygote, and of each child that waits (proportional set size).
func BenchmarkIdle(b *testing.B) {
	memory := func(warm int) float64 {
		backend := benchBackend(b, "", warm)
		for warm > 0 && backend.Stats().Waiting < warm {
			runtime.Gosched()
		}
		h, err := backend.tenants.house(b.Context(), Interpreter{}, tenant{"default", stdlibSet, ""})
		if err != nil {
			b.Fatal(err)
		}
		w, ok := h.z.body.(*walled)
		if !ok {
			b.Fatal("no walls")
		}
		sum := 0.0
		for tree := []int{w.process.PID()}; len(tree) > 0; tree = tree[1:] {
			sum += proportional(tree[0])
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", tree[0]))
			for _, word := range strings.Fields(string(text)) {
				n, _ := strconv.Atoi(word)
				tree = append(tree, n)
			}
		}
		return sum
	}
	for b.Loop() {
		alone, four := memory(-1), memory(4)
		b.ReportMetric(alone, "zygote-MB")
		b.ReportMetric((four-alone)/4, "child-MB")
	}
}

func proportional(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			kb, _ := strconv.ParseFloat(f[1], 64)
			return kb / 1024
		}
	}
	return 0
}
