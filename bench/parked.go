package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/embedded"
)

var parkedSection = section{
	name: "parked", title: "Parked processes",
	about: "Many processes of one program (60 lines, importing 20 tools; bench/desk.py) do their first work and then sleep for a very long time. All are parked: " +
		"each is an image in the store and a row in the kernel. Memory is what the Go heap (after a collection) and the goroutines' stacks grew by; RSS is of the whole kernel " +
		"process, SQLite's page cache and free memory of the collector included. Disk is what the files of the data directory grew by, measured after the kernel has closed.",
	run: measureParked,
}

//go:embed desk.py
var deskProgram string

// woken is what the program prints when an interrupt ends its sleep.
const woken = "desk closed: 3 cases\n"

// parkWait is how long the processes may take to be parked when all have been started.
const parkWait = 2 * time.Minute

func measureParked(ctx context.Context, b *bench) ([]table, error) {
	n, probes := b.pick(20_000, 2_000, 40), b.pick(100, 100, 5)
	home, err := b.dir()
	if err != nil {
		return nil, err
	}
	cfg := embedded.Config{Home: home, ParkAfter: 100 * time.Millisecond, Tools: newToolbox(nil).forKernel}
	empty, err := b.seedHome(ctx, cfg)
	if err != nil {
		return nil, err
	}
	t := table{}
	if err := b.liveFigures(ctx, cfg, n, probes, &t); err != nil {
		return nil, err
	}
	used, err := diskUse(home)
	if err != nil {
		return nil, err
	}
	disk := figure("disk, each", roleOurs, "%.2f kB", float64(used-empty)/1000/float64(n))
	disk.judge("at most 6 kB", float64(used-empty) <= 6000*float64(n))
	t.Rows = append(t.Rows, disk)
	b.tell("closed; %d bytes on the disk", used)
	if err := b.recoveryFigures(ctx, cfg, n, probes, &t); err != nil {
		return nil, err
	}
	t.Title = fmt.Sprintf("%d parked processes", n)
	return []table{t}, nil
}

// seedHome runs the program once in a new data directory and says how large the directory is then: what
// is there once, for however many processes.
func (b *bench) seedHome(ctx context.Context, cfg embedded.Config) (int64, error) {
	k, err := b.open(ctx, cfg)
	if err != nil {
		return 0, err
	}
	p, err := k.Spawn(ctx, withTools("desk.py", deskProgram))
	if err == nil {
		err = wakeAndWait(ctx, k, p.PID)
	}
	if cerr := k.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return 0, err
	}
	return diskUse(cfg.Home)
}

// liveFigures fills a kernel with parked processes and measures it.
func (b *bench) liveFigures(ctx context.Context, cfg embedded.Config, n, probes int, t *table) (err error) {
	k, err := b.open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := k.Close(); err == nil {
			err = cerr
		}
	}()
	before := memory()
	began := time.Now()
	pids, err := spawnMany(ctx, k, n, b.tell)
	if err != nil {
		return err
	}
	spawned := time.Since(began)
	if err := allParked(ctx, k, n); err != nil {
		return err
	}
	parked := time.Since(began)
	b.tell("all parked after %s", span(parked))
	after := memory()
	if err := b.profileHeap(); err != nil {
		return err
	}
	each := float64(after.heap-before.heap+after.stacks-before.stacks) / float64(n)
	heap := figure("kernel memory, each", roleOurs, "%.2f kB", each/1000)
	if b.scale == full {
		heap.judge("at most 2 kB", each <= 2000)
	} else {
		t.Notes = append(t.Notes, "The store's cache of images (16 MB at most) is counted, too: with few processes it is most of the memory, so that only a full run is judged.")
	}
	wake, err := wakeSamples(ctx, k, pids[:probes])
	if err != nil {
		return err
	}
	t.Rows = append(t.Rows, heap,
		figure("RSS of the kernel, each", roleOurs, "%.2f kB", float64(after.rss-before.rss)/1000/float64(n)),
		figure("start them (each durable, 16 clients)", roleOurs, "%s, %s each", span(spawned), span(spawned/time.Duration(n))),
		figure("until all are parked", roleOurs, "%s, %s each", span(parked), span(parked/time.Duration(n))),
		latency(contender{name: "wake one by a signal, until its end is durable", role: roleOurs}, series{wake}))
	return nil
}

// recoveryFigures opens the full data directory again.
func (b *bench) recoveryFigures(ctx context.Context, cfg embedded.Config, n, probes int, t *table) (err error) {
	began := time.Now()
	k, err := b.open(ctx, cfg)
	if err != nil {
		return err
	}
	opened := time.Since(began)
	defer func() {
		if cerr := k.Close(); err == nil {
			err = cerr
		}
	}()
	left, err := k.Count(ctx, agentkernel.Filter{Unfinished: true})
	if err != nil {
		return err
	}
	if left != n-probes {
		return fmt.Errorf("%d processes are unfinished after the kernel was closed, not %d", left, n-probes)
	}
	some, err := k.List(ctx, agentkernel.Filter{Unfinished: true, Limit: probes})
	if err != nil {
		return err
	}
	var one []time.Duration
	var pids []agentkernel.PID
	for _, p := range some {
		begin := time.Now()
		if taken, err := k.Recover(ctx, p.PID); err != nil || len(taken) != 1 {
			return fmt.Errorf("recovering pid %d: %d taken up, %w", p.PID, len(taken), err)
		}
		one = append(one, time.Since(begin))
		pids = append(pids, p.PID)
	}
	wake, err := wakeSamples(ctx, k, pids)
	if err != nil {
		return err
	}
	began = time.Now()
	if _, err := k.Recover(ctx, 0); err != nil {
		return err
	}
	all := time.Since(began)
	info, err := k.Info(ctx)
	if err != nil {
		return err
	}
	if info.Processes != n-2*probes || info.Unfinished != 0 {
		return fmt.Errorf("after recover the kernel carries %d processes, not %d, and %d are unfinished", info.Processes, n-2*probes, info.Unfinished)
	}
	b.tell("recovered all after %s", span(all))
	t.Rows = append(t.Rows,
		figure("open a kernel on their data directory", roleOurs, "%s", span(opened)),
		latency(contender{name: "recover one of them", role: roleOurs}, series{one}),
		latency(contender{name: "wake a recovered one, until its end is durable", role: roleOurs}, series{wake}),
		figure("recover all the others at once", roleOurs, "%s, %s each", span(all), span(all/time.Duration(info.Processes))))
	return nil
}

// spawnMany starts n processes from 16 clients at once.
func spawnMany(ctx context.Context, k *embedded.Kernel, n int, tell func(string, ...any)) ([]agentkernel.PID, error) {
	const clients = 16
	pids := make([]agentkernel.PID, n)
	errs := make(chan error, clients)
	for c := range clients {
		go func() {
			for i := c; i < n; i += clients {
				p, err := k.Spawn(ctx, withTools("desk.py", deskProgram))
				if err != nil {
					errs <- err
					return
				}
				pids[i] = p.PID
				if i > 0 && i%5000 == 0 {
					tell("%d of %d started", i, n)
				}
			}
			errs <- nil
		}()
	}
	var first error
	for range clients {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return pids, first
}

// allParked waits until n processes wait without a sandbox.
func allParked(ctx context.Context, k *embedded.Kernel, n int) error {
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	deadline := time.Now().Add(parkWait)
	for {
		parked := 0
		for page, err := range agentkernel.Pages(ctx, k, agentkernel.Filter{Unfinished: true}) {
			if err != nil {
				return err
			}
			for i := range page {
				if page[i].State == agentkernel.StateWaiting && !page[i].Resident {
					parked++
				}
			}
		}
		if parked == n {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d processes are parked after %s", parked, n, parkWait)
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wakeSamples interrupts processes one after the other and waits for the end of each.
func wakeSamples(ctx context.Context, k *embedded.Kernel, pids []agentkernel.PID) ([]time.Duration, error) {
	samples := make([]time.Duration, 0, len(pids))
	for _, pid := range pids {
		begin := time.Now()
		if err := wakeAndWait(ctx, k, pid); err != nil {
			return nil, err
		}
		samples = append(samples, time.Since(begin))
	}
	return samples, nil
}

// wakeAndWait interrupts the sleep of a process and checks how it ended.
func wakeAndWait(ctx context.Context, k *embedded.Kernel, pid agentkernel.PID) error {
	if err := k.Signal(ctx, pid, agentkernel.SignalInterrupt); err != nil {
		return err
	}
	p, err := k.Wait(ctx, pid)
	if err != nil {
		return err
	}
	if err := finished(p); err != nil {
		return err
	}
	if p.Usage.Output != int64(len(woken)) {
		return fmt.Errorf("pid %d printed %d bytes, not %q", pid, p.Usage.Output, woken)
	}
	return nil
}

// profileHeap writes the heap profile that was asked for.
func (b *bench) profileHeap() error {
	if b.heapProfile == "" {
		return nil
	}
	f, err := os.Create(b.heapProfile)
	if err != nil {
		return err
	}
	return errors.Join(pprof.WriteHeapProfile(f), f.Close())
}

// memoryUse is in bytes.
type memoryUse struct{ heap, stacks, rss int64 }

func memory() memoryUse {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u := memoryUse{heap: int64(m.HeapAlloc), stacks: int64(m.StackInuse)}
	if b, err := os.ReadFile("/proc/self/status"); err == nil {
		if _, rest, ok := bytes.Cut(b, []byte("VmRSS:")); ok {
			kb, _, _ := strings.Cut(strings.TrimSpace(string(rest)), " ")
			if v, err := strconv.ParseInt(kb, 10, 64); err == nil {
				u.rss = v << 10
			}
		}
	}
	return u
}

// diskUse sums the sizes of the files below a directory.
func diskUse(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}
