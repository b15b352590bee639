package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"agentkernel"
	"agentkernel/client"
)

var signalsSection = section{
	name: "signals", title: "Signals into a busy kernel, and its end",
	about: "`agentkernel serve` has 100,000 processes that wait, each with a timer that is due in a day and for a signal. Measured at the client over the socket: `signal PID user` to one of them, until the kernel says that it is durable, and until the program " +
		"has taken it and its next call is in the journal; `halt`, until it is acknowledged. Floor: a request that reads one row. Then the same while 500 more processes set a key of their state and sleep for a millisecond, over and over, so that all processors are busy all the time: there the " +
		"goal is not asked for, and a request waits for the processors. In the end `serve` is ended with SIGTERM, and started again: all go on.",
	run: measureSignals,
}

// listener takes signals and says so.
const listener = `from kernel import signals, state
while True:
    state.set("lap", signals.wait(timeout=86400))
`

const spinner = `from kernel import sleep, state
for lap in range(100000000):
    state.set("lap", lap)
    sleep(0.001)
`

// The goals: how long a signal may take, at the 99th percentile, and the end of the kernel.
const (
	signalGoal = time.Millisecond
	endGoal    = 5 * time.Second
)

func measureSignals(ctx context.Context, b *bench) (tables []table, err error) {
	parked, busy, rounds := b.pick(100_000, 5_000, 50), b.pick(500, 100, 8), b.pick(500, 200, 10)
	home, err := b.dir()
	if err != nil {
		return nil, err
	}
	s := &server{b: b, home: home}
	defer s.kill()
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	k, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	listeners, err := spawnInBulk(ctx, k, python("listener.py", listener), parked)
	if err != nil {
		return nil, err
	}
	b.tell("%d processes wait for a signal", parked)
	calm, err := sendSignals(ctx, k, listeners, rounds)
	if err != nil {
		return nil, err
	}
	endless := python("spinner.py", spinner)
	endless.Limits = agentkernel.Limits{Time: agentkernel.Duration(time.Hour), Wall: agentkernel.Duration(time.Hour), Calls: 1 << 40, Journal: 1 << 40}
	spinners, err := spawnInBulk(ctx, k, endless, busy)
	if err != nil {
		return nil, err
	}
	if _, err := s.await(ctx, spinners, standing{}, 1); err != nil {
		return nil, err
	}
	b.tell("%d more are busy", busy)
	took, err := sendSignals(ctx, k, listeners, rounds)
	if err != nil {
		return nil, err
	}
	before, err := lapsOf(ctx, home)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := s.stop(); err != nil {
		return nil, err
	}
	ended := time.Since(began)
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	if _, err := s.await(ctx, spinners, standing{laps: before}, 1); err != nil {
		return nil, err
	}
	alone, busyRows := calm.rows(), took.rows()
	end := figure(fmt.Sprintf("SIGTERM of `serve` with %d busy processes, until it is gone", busy), roleOurs, "%s", span(ended))
	if b.scale == full {
		alone[1].judge("p99 at most "+span(signalGoal), percentile(calm.acked, 99) <= signalGoal)
		end.judge("at most "+span(endGoal), ended <= endGoal)
	}
	return []table{
		{Title: fmt.Sprintf("%d wait", parked), Rows: alone},
		{Title: fmt.Sprintf("%d wait, and %d are busy", parked, busy), Rows: append(busyRows, end, figure("processes that did not go on afterwards", roleOurs, "0"))},
	}, nil
}

// signalTimes are samples of what signals and halts take.
type signalTimes struct{ floor, acked, taken, halts []time.Duration }

// rows are what is shown of them; the samples are in order from then on.
func (t *signalTimes) rows() []row {
	line := func(what string, role role, all []time.Duration) row {
		slices.Sort(all)
		return row{What: what, Role: role, P50: micros(percentile(all, 50)), P99: micros(percentile(all, 99)), Samples: len(all)}
	}
	return []row{
		line("a request that reads one row", roleFloor, t.floor),
		line("`signal PID user`, until it is durable", roleOurs, t.acked),
		line("until the program has taken it, and its next call is there", roleOurs, t.taken),
		line("`halt` of the kernel", roleOurs, t.halts),
	}
}

// sendSignals signals processes that wait for that, one after the other, and halts the kernel some times.
func sendSignals(ctx context.Context, k *client.Client, listeners []agentkernel.PID, rounds int) (t signalTimes, err error) {
	for i := range rounds {
		pid := listeners[i*len(listeners)/rounds]
		began := time.Now()
		if _, err := k.Spec(ctx, pid); err != nil {
			return t, err
		}
		t.floor = append(t.floor, time.Since(began))
		began = time.Now()
		if err := k.Signal(ctx, pid, agentkernel.SignalUser, agentkernel.SignalOptions{Payload: fmt.Append(nil, i)}); err != nil {
			return t, err
		}
		t.acked = append(t.acked, time.Since(began))
		for {
			now, err := k.State(ctx, pid)
			if err != nil {
				return t, err
			}
			if string(now["lap"]) == fmt.Sprint(i) {
				break
			}
			if time.Since(began) > time.Minute {
				return t, fmt.Errorf("process %d has not taken its signal within a minute", pid)
			}
		}
		t.taken = append(t.taken, time.Since(began))
	}
	for range max(rounds/20, 3) {
		began := time.Now()
		if err := k.Halt(ctx, agentkernel.Hold{}); err != nil {
			return t, err
		}
		t.halts = append(t.halts, time.Since(began))
		if err := k.Thaw(ctx, agentkernel.Hold{}); err != nil {
			return t, err
		}
	}
	return t, nil
}

// spawnInBulk spawns processes of one program, many in a request.
func spawnInBulk(ctx context.Context, k *client.Client, s agentkernel.Spec, n int) (pids []agentkernel.PID, err error) {
	for len(pids) < n {
		some, err := k.SpawnMany(ctx, s, make([]agentkernel.Instance, min(spawnedAtOnce, n-len(pids))))
		if err != nil {
			return nil, err
		}
		pids = append(pids, some...)
	}
	return pids, nil
}
