package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"agentkernel"
	"agentkernel/embedded"
)

var syscallSection = section{
	name: "syscall", title: "A pure syscall",
	about: "One `kernel.now()` of a running program: out of the worker, dispatched, journalled, answered, back. A sample is the mean of 100 " +
		"calls. Floor: the same loop on a bare Monty worker whose calls are answered with None at once.",
	run: measureSyscall,
}

const callsPerSample = 100

// measureSyscall: the program's own clock readings are the measurement, for now() is the call.
func measureSyscall(ctx context.Context, b *bench) ([]table, error) {
	worker, err := startBareWorker(b.engine)
	if err != nil {
		return nil, err
	}
	defer worker.close()
	k, err := b.open(ctx, embedded.Config{})
	if err != nil {
		return nil, err
	}
	defer k.Close()
	ours := func(ctx context.Context, n int) ([]time.Duration, error) {
		return runMarks(ctx, k, python("marks.py", fmt.Sprintf(marksProgram, "from kernel import now", n, callsPerSample-1)), n)
	}
	n := b.pick(20, 20, 3)
	contenders := []contender{
		{name: "bare Monty worker: call and answer", role: roleFloor, n: n, block: func(_ context.Context, n int) ([]time.Duration, error) {
			return worker.calls(n)
		}},
		{name: "syscall through the kernel", role: roleOurs, n: n, block: ours},
	}
	results, err := contest(ctx, b.pick(40, 15, 2), b.tell, contenders)
	if err != nil {
		return nil, err
	}
	rows := latencies(contenders, results)
	rows[1].Ratio = results[1].ratio(results[0])
	rows[1].judgeP50(30 * time.Microsecond)
	return []table{{Rows: rows}}, nil
}

// marksProgram notes the time at the start and after each sample; its value is the list.
const marksProgram = `%s
marks = [now()]
for sample in range(%d):
    for call in range(%d):
        now()
    marks.append(now())
marks
`

// runMarks runs marksProgram and gives the time of one call for each of its n samples.
func runMarks(ctx context.Context, k *embedded.Kernel, program agentkernel.Spec, n int) ([]time.Duration, error) {
	p, err := k.Spawn(ctx, program)
	if err != nil {
		return nil, err
	}
	if p, err = k.Wait(ctx, p.PID); err != nil {
		return nil, err
	}
	if err := finished(p); err != nil {
		return nil, err
	}
	var marks []float64
	if err := json.Unmarshal(p.Result, &marks); err != nil || len(marks) != n+1 {
		return nil, fmt.Errorf("the program's value is %s", p.Result)
	}
	samples := make([]time.Duration, n)
	for i := range samples {
		samples[i] = time.Duration((marks[i+1] - marks[i]) / callsPerSample * float64(time.Second))
	}
	return samples, nil
}

// calls runs the same loop on a bare worker.
func (w *bareWorker) calls(n int) ([]time.Duration, error) {
	ev, _, err := w.feed(fmt.Sprintf(marksProgram, "", n, callsPerSample-1))
	if err != nil {
		return nil, err
	}
	call := func() error {
		id, err := called(ev)
		if err != nil {
			return err
		}
		ev, err = w.resume(id)
		return err
	}
	if err := call(); err != nil { // the first mark
		return nil, err
	}
	samples := make([]time.Duration, 0, n)
	for range n {
		begin := time.Now()
		for range callsPerSample {
			if err := call(); err != nil {
				return nil, err
			}
		}
		samples = append(samples, time.Since(begin)/callsPerSample)
	}
	if err := w.reset(); err != nil {
		return nil, err
	}
	return samples, w.configure()
}
