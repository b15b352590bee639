package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"agentkernel"
	"agentkernel/embedded"
)

var parkSection = section{
	name: "park", title: "A context switch: unpark, one call, park",
	about: "A kernel with one slot and one worker, and many processes that each call `sleep(0.001)` in a loop: whoever wakes has been parked " +
		"meanwhile, is loaded from its image, is handed its result, calls again, and is parked for the next. The journal tells when each call was " +
		"issued; a sample is the mean of 100 switches with all processes in the loop. Floor: the same switch on a bare Monty worker (Load, ResumeCall, Dump, " +
		"Reset) with the dumps kept in a list.",
	run: measurePark,
}

const switchesPerSample = 100

func measurePark(ctx context.Context, b *bench) ([]table, error) {
	worker, err := startBareWorker(b.engine)
	if err != nil {
		return nil, err
	}
	defer worker.close()
	k, err := b.open(ctx, embedded.Config{Slots: 1, Workers: 1})
	if err != nil {
		return nil, err
	}
	defer k.Close()
	processes := b.pick(200, 200, 25)
	contenders := []contender{
		{name: "bare Monty worker", role: roleFloor, n: b.pick(10, 10, 1), block: func(_ context.Context, n int) ([]time.Duration, error) {
			return worker.switches(processes, n)
		}},
		{name: "kernel, journalled and stored", role: roleOurs, n: b.pick(10, 10, 3), block: func(ctx context.Context, n int) ([]time.Duration, error) {
			return switches(ctx, k, processes, n)
		}},
	}
	results, err := contest(ctx, b.pick(10, 4, 1), b.tell, contenders)
	if err != nil {
		return nil, err
	}
	rows := latencies(contenders, results)
	rows[1].Ratio = results[1].ratio(results[0])
	rows[1].judgeP50(150 * time.Microsecond)
	return []table{{Rows: rows}}, nil
}

// sleeper waits for a common moment, so that all wake together, and then loops.
const sleeper = `from kernel import now, sleep
sleep(max(0.0, %.6f - now()))
for lap in range(%d):
    sleep(0.001)
`

// switches runs a crowd of sleepers and gives samples of the time of one switch: n of them if the crowd
// and its laps are a multiple of a sample.
func switches(ctx context.Context, k *embedded.Kernel, processes, n int) ([]time.Duration, error) {
	// The first lap and the last are not counted: there somebody is not in the loop yet, or any more.
	laps := (n*switchesPerSample+processes-1)/processes + 2
	for lead := 2 * time.Millisecond; lead < time.Second; lead *= 5 {
		together := time.Now().Add(time.Duration(processes) * lead)
		pids, err := startSleepers(ctx, k, processes, laps, together)
		if err != nil {
			return nil, err
		}
		inTime := time.Now().Before(together)
		moments, err := sleptAt(ctx, k, pids, laps)
		if err != nil {
			return nil, err
		}
		if inTime {
			return perSwitch(moments, processes), nil
		}
	}
	return nil, fmt.Errorf("%d processes are not started within minutes", processes)
}

func startSleepers(ctx context.Context, k *embedded.Kernel, processes, laps int, together time.Time) ([]agentkernel.PID, error) {
	spec := python("sleeper.py", fmt.Sprintf(sleeper, float64(together.UnixMicro())/1e6, laps))
	pids := make([]agentkernel.PID, processes)
	for i := range pids {
		p, err := k.Spawn(ctx, spec)
		if err != nil {
			return nil, err
		}
		pids[i] = p.PID
	}
	return pids, nil
}

// sleptAt waits for the sleepers and gives the moments of all their calls but the first.
func sleptAt(ctx context.Context, k *embedded.Kernel, pids []agentkernel.PID, laps int) ([]time.Time, error) {
	var moments []time.Time
	for _, pid := range pids {
		p, err := k.Wait(ctx, pid)
		if err != nil {
			return nil, err
		}
		if err := finished(p); err != nil {
			return nil, err
		}
		entries, err := k.Journal(ctx, pid, 1, 0)
		if err != nil {
			return nil, err
		}
		calls := 0
		for _, e := range entries {
			if e.Kind == agentkernel.EntryCall && e.Op == "time.sleep" {
				if calls++; calls > 1 {
					moments = append(moments, e.At)
				}
			}
		}
		if calls != laps+1 {
			return nil, fmt.Errorf("pid %d slept %d times, not %d", pid, calls, laps+1)
		}
	}
	return moments, nil
}

// perSwitch takes the moments at which calls were issued, leaves out as many at each end as there are
// processes, and gives the mean time between neighbours, sample by sample.
func perSwitch(moments []time.Time, processes int) []time.Duration {
	slices.SortFunc(moments, time.Time.Compare)
	moments = moments[processes : len(moments)-processes]
	var samples []time.Duration
	for i := switchesPerSample; i < len(moments); i += switchesPerSample {
		samples = append(samples, moments[i].Sub(moments[i-switchesPerSample])/switchesPerSample)
	}
	return samples
}

// switches keeps a crowd of dumps and gives samples of the time of Load, ResumeCall, Dump and Reset.
func (w *bareWorker) switches(processes, n int) ([]time.Duration, error) {
	images := make([][]byte, processes)
	ev, _, err := w.feed("for lap in range(1000000):\n    sleep(0.001)\n")
	if err != nil {
		return nil, err
	}
	if _, err := called(ev); err != nil {
		return nil, err
	}
	for i := range images {
		if images[i], err = w.dump(); err != nil {
			return nil, err
		}
	}
	if err := w.reset(); err != nil {
		return nil, err
	}
	samples := make([]time.Duration, 0, n)
	next := 0
	for range n {
		begin := time.Now()
		for range switchesPerSample {
			if images[next], err = w.contextSwitch(images[next]); err != nil {
				return nil, err
			}
			next = (next + 1) % processes
		}
		samples = append(samples, time.Since(begin)/switchesPerSample)
	}
	return samples, w.configure()
}

func (w *bareWorker) contextSwitch(image []byte) ([]byte, error) {
	ev, err := w.load(image)
	if err != nil {
		return nil, err
	}
	id, err := called(ev)
	if err != nil {
		return nil, err
	}
	if ev, err = w.resume(id); err != nil {
		return nil, err
	}
	if _, err := called(ev); err != nil {
		return nil, err
	}
	image, err = w.dump()
	if err != nil {
		return nil, err
	}
	return image, w.reset()
}
