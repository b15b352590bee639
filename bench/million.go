package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentkernel"
	"agentkernel/embedded"
)

var millionSection = section{
	name: "million", title: "A million parked processes",
	about: "The program of the section before, so many times, each started durably with a key of its own and asleep for a very long time. Beyond the first some thousand they are rows of the " +
		"store and nothing else, so that the kernel's heap (after a collection, goroutines' stacks included) is the same for a tenth of them as for all. Waking is a signal, " +
		"until the end of the process is durable; cold means that the pages of the database were dropped from the page cache before each (posix_fadvise). Restarted means that the kernel was closed " +
		"and another has opened the data directory and carries all of them.",
	run:   measureMillion,
	asked: true,
}

// loadedOfAll is how many parked processes a kernel keeps in memory.
const loadedOfAll = 8192

// sleepers is how many processes the section has in full: -sleepers.
var sleepers = 1_000_000

func measureMillion(ctx context.Context, b *bench) ([]table, error) {
	n, probes := b.pick(sleepers, 20_000, 200), b.pick(100, 50, 5)
	home, err := b.dir()
	if err != nil {
		return nil, err
	}
	cfg := embedded.Config{Home: home, ParkAfter: 100 * time.Millisecond, Tools: newToolbox(nil).forKernel}
	empty, err := b.seedHome(ctx, cfg)
	if err != nil {
		return nil, err
	}
	t := table{Title: fmt.Sprintf("%d parked processes", n)}
	floor, err := b.newParkedFloor(ctx)
	if err != nil {
		return nil, err
	}
	sample := min(n, b.pick(20_000, 5_000, 200))
	before, err := floor.rate(ctx, b, sample)
	if err != nil {
		return nil, err
	}
	b.tell("bare workers and the bare store: %.0f a second", before)
	rate, err := b.fillMillion(ctx, cfg, n, probes, &t)
	if err != nil {
		return nil, err
	}
	after, err := floor.rate(ctx, b, sample)
	if err != nil {
		return nil, err
	}
	b.tell("bare workers and the bare store, again: %.0f a second", after)
	bare := figure(fmt.Sprintf("bare workers make the same images, and the bare store keeps the same rows (%d before, %d after)", sample, sample), roleFloor,
		"%.0f a second (%.0f, %.0f)", (before+after)/2, before, after)
	share := rate / ((before + after) / 2)
	parked := figure("rate of spawned and parked, of that floor", roleOurs, "%.2f x", share)
	if b.scale == full {
		parked.judge("at least 0.5 x", share >= 0.5)
	}
	t.Rows = append(t.Rows, bare, parked)
	used, err := diskUse(home)
	if err != nil {
		return nil, err
	}
	disk := figure("disk, each", roleOurs, "%.2f kB", float64(used-empty)/1000/float64(n))
	disk.judge("at most 1 kB", float64(used-empty) <= 1000*float64(n))
	t.Rows = append(t.Rows, disk)
	err = b.restartMillion(ctx, cfg, n, probes, &t)
	return []table{t}, err
}

// fillMillion starts the processes, and measures the kernel when a tenth of them and when all of them are parked.
func (b *bench) fillMillion(ctx context.Context, cfg embedded.Config, n, probes int, t *table) (rate float64, err error) {
	k, err := b.open(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	began := time.Now()
	if _, err := spawnBatches(ctx, k, 0, n/10, b.tell); err != nil {
		return 0, err
	}
	if err := noneResident(ctx, k, n/10); err != nil {
		return 0, err
	}
	took := time.Since(began)
	tenth := memory()
	b.tell("a tenth is parked after %s; heap %d MB", span(took), tenth.heap>>20)
	began = time.Now()
	pids, err := spawnBatches(ctx, k, n/10, n-n/10, b.tell)
	if err != nil {
		return 0, err
	}
	spawned := took + time.Since(began)
	if err := noneResident(ctx, k, n); err != nil {
		return 0, err
	}
	took += time.Since(began)
	all := memory()
	if err := b.profileHeap(); err != nil {
		return 0, err
	}
	rate = float64(n) / took.Seconds()
	t.Rows = append(t.Rows, b.heapRows("", tenth, all)...)
	t.Rows = append(t.Rows, figure(fmt.Sprintf("spawn them, durable, %d in one request", spawnedAtOnce), roleOurs, "%s, %.0f a second", span(spawned), float64(n)/spawned.Seconds()),
		figure("until all of them are parked", roleOurs, "%s, %.0f a second", span(took), rate))
	warm, err := wakeSamples(ctx, k, pids[:probes])
	if err != nil {
		return 0, err
	}
	row := latency(contender{name: "wake one, from the page cache", role: roleOurs}, series{warm})
	row.judge("p50 at most 1.5 ms", row.P50 <= 1500)
	t.Rows = append(t.Rows, row)
	return rate, nil
}

const spawnedAtOnce = 500

// millionKey is the idempotency key of one of them.
func millionKey(i int) string { return fmt.Sprintf("million/%d", i) }

// keptPIDs is how many PIDs spawnBatches returns at most: what the benchmark holds counts as memory of the kernel.
const keptPIDs = 1000

// spawnBatches starts n processes from the one with the number first on, each with a key, many in one request.
func spawnBatches(ctx context.Context, k *embedded.Kernel, first, n int, tell func(string, ...any)) (pids []agentkernel.PID, err error) {
	for done := 0; done < n; {
		each := make([]agentkernel.Instance, min(spawnedAtOnce, n-done))
		for i := range each {
			each[i].IdempotencyKey = millionKey(first + done + i)
		}
		some, err := k.SpawnMany(ctx, withTools("desk.py", deskProgram), each)
		if err != nil {
			return pids, err
		}
		if done/20_000 != (done+len(some))/20_000 {
			tell("%d of %d started", done+len(some), n)
		}
		done += len(some)
		pids = append(pids, some[:min(len(some), keptPIDs-len(pids))]...)
	}
	return pids, nil
}

// heapRows are the figures of memory with a tenth of the processes and with all.
func (b *bench) heapRows(when string, tenth, all memoryUse) []row {
	size := func(m memoryUse) float64 { return float64(m.heap+m.stacks) / 1e6 }
	heap := figure("kernel memory"+when, roleOurs, "%.1f MB", size(all))
	heap.judge("at most 100 MB", size(all) <= 100)
	rows := []row{heap, figure("RSS"+when, roleOurs, "%.0f MB", float64(all.rss)/1e6)}
	if tenth.heap > 0 {
		ratio := figure("kernel memory, of what it is with a tenth of them", roleOurs, "%.2f x (%.1f MB)", size(all)/size(tenth), size(tenth))
		if b.scale == full && sleepers/10 > loadedOfAll { // else a tenth of them is less than what stays loaded of all
			ratio.judge("at most 1.2 x", size(all) <= 1.2*size(tenth))
		}
		rows = append(rows, ratio)
	}
	return rows
}

// restartMillion opens the full data directory again.
func (b *bench) restartMillion(ctx context.Context, cfg embedded.Config, n, probes int, t *table) (err error) {
	began := time.Now()
	k, err := b.open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	if _, err := k.Recover(ctx, 0); err != nil {
		return err
	}
	ready := time.Since(began)
	info, err := k.Info(ctx)
	if err != nil {
		return err
	}
	if info.Processes != n-probes || info.Unfinished != 0 {
		return fmt.Errorf("after a restart the kernel carries %d processes, not %d, and %d are unfinished", info.Processes, n-probes, info.Unfinished)
	}
	opened := figure("open a kernel on them and carry them all", roleOurs, "%s", span(ready))
	opened.judge("at most 2 s", ready <= 2*time.Second)
	t.Rows = append(t.Rows, opened)
	t.Rows = append(t.Rows, b.heapRows(", restarted", memoryUse{}, memory())...)
	some, err := k.List(ctx, agentkernel.Filter{Unfinished: true, Limit: probes})
	if err != nil {
		return err
	}
	cold := make([]time.Duration, 0, probes)
	for _, p := range some {
		if err := dropPages(cfg.Home); err != nil {
			return err
		}
		began := time.Now()
		if err := wakeAndWait(ctx, k, p.PID); err != nil {
			return err
		}
		cold = append(cold, time.Since(began))
	}
	row := latency(contender{name: "wake one of another kernel, cold", role: roleOurs}, series{cold})
	row.judge("p50 at most 10 ms", row.P50 <= 10_000)
	t.Rows = append(t.Rows, row)
	return nil
}

// noneResident waits until so many processes are carried and none has a sandbox.
func noneResident(ctx context.Context, k *embedded.Kernel, n int) error {
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	deadline := time.Now().Add(parkWait)
	for {
		info, err := k.Info(ctx)
		if err != nil || info.Processes == n && info.Resident == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d processes have a sandbox after %s", info.Resident, info.Processes, parkWait)
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
