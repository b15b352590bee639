package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/sandbox/monty/montypb"
	"agentkernel/internal/store/sqlite"
)

var throughputSection = section{
	name: "throughput", title: "Durable external calls",
	about: "64 processes call a read-only tool in a loop. Each call's intent, and everything before it, is on the disk before the tool is called; " +
		"its result is journalled. The tool answers at once inside the kernel's own program, so that the kernel is measured and not a server. A sample is the mean of " +
		"500 calls over all processes while all of them are in the loop; each result is checked by its program. Floors: 64 goroutines that do the same to the " +
		"store alone (append the intent, wait until it is durable, append the result), and 64 bare Monty workers whose programs call as well, with the same " +
		"done to the store between each call and its answer.",
	run: measureThroughput,
}

const ratePerSample = 500

func measureThroughput(ctx context.Context, b *bench) ([]table, error) {
	processes := b.pick(64, 64, 8)
	store, err := b.openStore(ctx)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	samples := b.pick(20, 10, 1)
	contenders := []contender{{name: "the store alone", role: roleFloor, n: samples, block: func(ctx context.Context, n int) ([]time.Duration, error) {
		return storeCalls(ctx, store, processes, n)
	}}}
	crowd, err := startBareWorkers(b.engine, processes)
	if err != nil {
		return nil, err
	}
	defer crowd.close()
	contenders = append(contenders, contender{name: fmt.Sprintf("%d bare Monty workers and the store", processes), role: roleFloor, n: samples,
		block: func(ctx context.Context, n int) ([]time.Duration, error) { return crowd.toolCalls(ctx, store, n) }})
	for _, workers := range []int{processes, processes / 4} {
		counter := &callCounter{}
		k, err := b.open(ctx, embedded.Config{Workers: workers, Tools: newToolbox(counter.answer).forKernel})
		if err != nil {
			return nil, err
		}
		defer k.Close()
		contenders = append(contenders, contender{name: fmt.Sprintf("kernel, %d processes, %d workers", processes, workers), role: roleOurs,
			n: samples, block: func(ctx context.Context, n int) ([]time.Duration, error) {
				return toolCalls(ctx, k, counter, processes, n)
			}})
	}
	results, err := contest(ctx, b.pick(8, 3, 1), b.tell, contenders)
	if err != nil {
		return nil, err
	}
	rows := latencies(contenders, results)
	for i := range rows {
		rows[i].Value = fmt.Sprintf("%.0f calls/s", 1e6/rows[i].P50)
	}
	for i := 1; i < len(rows); i++ {
		rows[i].Ratio = results[i].ratio(results[0])
	}
	share := rows[1].P50 / rows[2].P50
	rows[2].judge("at least 10,000 calls/s", 1e6/rows[2].P50 >= 10_000)
	row := figure("calls of the kernel, of those of bare workers and the store", roleOurs, "%.2f x", share)
	row.judge("at least 0.6 x", share >= 0.6)
	return []table{{Rows: append(rows, row), Notes: []string{
		"p50 and p99 are elapsed time by calls, over all processes; calls/s is its reciprocal at p50.",
		"With fewer workers than processes those that wait are parked to make room, so that each call is a context switch too.",
	}}}, nil
}

// callCounter is the tool: it lets all processes begin together, notes when each call came in, and tells
// all to stop when there are enough.
type callCounter struct {
	mu       sync.Mutex
	missing  int // processes that have not begun
	together chan struct{}
	enough   int
	moments  []time.Time
}

func (c *callCounter) reset(processes, enough int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missing, c.enough = processes, enough
	c.together = make(chan struct{})
	c.moments = make([]time.Time, 0, enough+processes)
}

func (c *callCounter) answer(ctx context.Context, _ string, arguments json.RawMessage) (json.RawMessage, error) {
	var a struct {
		OrderID int `json:"order_id"`
	}
	if err := json.Unmarshal(arguments, &a); err != nil {
		return nil, err
	}
	c.mu.Lock()
	together := c.together
	if a.OrderID < 0 {
		if c.missing--; c.missing == 0 {
			close(c.together)
		}
		c.mu.Unlock()
		select {
		case <-together:
			return json.RawMessage("null"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer c.mu.Unlock()
	c.moments = append(c.moments, time.Now())
	return json.RawMessage(fmt.Sprintf(`{"id": %d, "more": %t}`, a.OrderID, len(c.moments) < c.enough)), nil
}

// caller calls until it is told to stop; its value is how many answers were right, of how many.
const caller = `from tools.shop import get_order
get_order(-1)
right = made = 0
while True:
    order = get_order(made)
    if order["id"] == made:
        right += 1
    made += 1
    if not order["more"]:
        break
[right, made]
`

// toolCalls runs the processes and gives n samples of the time of one call over all of them.
func toolCalls(ctx context.Context, k *embedded.Kernel, counter *callCounter, processes, n int) ([]time.Duration, error) {
	counter.reset(processes, n*ratePerSample+1)
	pids := make([]agentkernel.PID, processes)
	for i := range pids {
		p, err := k.Spawn(ctx, withTools("caller.py", caller))
		if err != nil {
			return nil, err
		}
		pids[i] = p.PID
	}
	arrived := 0
	for _, pid := range pids {
		p, err := k.Wait(ctx, pid)
		if err != nil {
			return nil, err
		}
		if err := finished(p); err != nil {
			return nil, err
		}
		var answers [2]int // right, made
		if err := json.Unmarshal(p.Result, &answers); err != nil || answers[0] != answers[1] {
			return nil, fmt.Errorf("pid %d says of its answers: %s", pid, p.Result)
		}
		arrived += answers[1]
	}
	counter.mu.Lock()
	defer counter.mu.Unlock()
	if arrived != len(counter.moments) {
		return nil, fmt.Errorf("the tool was called %d times, and %d answers arrived", len(counter.moments), arrived)
	}
	return perCall(counter.moments, n)
}

// perCall gives the mean time between calls, sample by sample: n samples of moments in ascending order.
func perCall(moments []time.Time, n int) ([]time.Duration, error) {
	if len(moments) <= n*ratePerSample {
		return nil, fmt.Errorf("%d calls were made, too few for %d samples of %d", len(moments), n, ratePerSample)
	}
	samples := make([]time.Duration, n)
	for i := range samples {
		samples[i] = moments[(i+1)*ratePerSample].Sub(moments[i*ratePerSample]) / ratePerSample
	}
	return samples, nil
}

// storeCalls does to a store what the processes' calls do.
func storeCalls(ctx context.Context, store *sqlite.Store, processes, n int) ([]time.Duration, error) {
	return crowdCalls(ctx, store, processes, n, func(_ int, call func() (more bool, err error)) error {
		for {
			if more, err := call(); err != nil || !more {
				return err
			}
		}
	})
}

// bareCaller calls until its worker is reset.
const bareCaller = `made = 0
while True:
    get_order(made)
    made += 1
`

// bareWorkers are workers with nothing around them.
type bareWorkers []*bareWorker

func startBareWorkers(engine string, n int) (all bareWorkers, err error) {
	for range n {
		w, err := startBareWorker(engine)
		if err != nil {
			all.close()
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

func (all bareWorkers) close() {
	for _, w := range all {
		_ = w.close() // it was killed
	}
}

// toolCalls has each worker run a program that calls, and does to a store what a kernel does before it answers.
func (all bareWorkers) toolCalls(ctx context.Context, store *sqlite.Store, n int) ([]time.Duration, error) {
	return crowdCalls(ctx, store, len(all), n, func(i int, call func() (more bool, err error)) error {
		w := all[i]
		ev, _, err := w.ask(&montypb.Request{Kind: &montypb.Request_Feed{Feed: &montypb.Feed{Code: bareCaller, SkipTypeCheck: true,
			Inputs: []*montypb.Input{functionInput("get_order", "get_order")}}}})
		for {
			if err != nil {
				return err
			}
			id, err := called(ev)
			if err != nil {
				return err
			}
			if more, err := call(); err != nil {
				return err
			} else if !more {
				return errors.Join(w.reset(), w.configure())
			}
			if ev, err = w.resume(id); err != nil {
				return err
			}
		}
	})
}

// crowdCalls has a crowd do to a store what the processes' calls do; caller number i calls until there is enough.
func crowdCalls(ctx context.Context, store *sqlite.Store, processes, n int, caller func(i int, call func() (more bool, err error)) error) ([]time.Duration, error) {
	pids := make([]agentkernel.PID, processes)
	for i := range pids {
		var err error
		if pids[i], err = seedProcess(ctx, store); err != nil {
			return nil, err
		}
	}
	var made atomic.Int64
	enough := int64(n*ratePerSample + 1)
	moments := make([][]time.Time, processes)
	errs := make(chan error, processes)
	for i, pid := range pids {
		go func() {
			var number int64
			errs <- caller(i, func() (more bool, err error) {
				if err := storeCall(ctx, store, pid, number); err != nil {
					return false, err
				}
				number++
				moments[i] = append(moments[i], time.Now())
				return made.Add(1) < enough, nil
			})
		}()
	}
	var first error
	for range processes {
		if err := <-errs; first == nil {
			first = err
		}
	}
	if first != nil {
		return nil, first
	}
	all := slices.Concat(moments...)
	slices.SortFunc(all, time.Time.Compare)
	return perCall(all, n)
}

func storeCall(ctx context.Context, store *sqlite.Store, pid agentkernel.PID, call int64) error {
	args := json.RawMessage(fmt.Sprintf(`{"arguments":{"order_id":%d},"server":"shop","tool":"get_order"}`, call))
	pos, err := store.Append(agentkernel.Batch{Entries: []agentkernel.Entry{{PID: pid, Seq: 2 + 2*call, Kind: agentkernel.EntryCall, At: time.Now(),
		Call: call + 1, Op: "tool.call", Effect: agentkernel.EffectRead, Args: args}}})
	if err != nil {
		return err
	}
	if err := store.Flush(ctx, pos); err != nil {
		return err
	}
	_, err = store.Append(agentkernel.Batch{Entries: []agentkernel.Entry{{PID: pid, Seq: 3 + 2*call, Kind: agentkernel.EntryResult, At: time.Now(),
		Call: call + 1, Data: json.RawMessage(fmt.Sprintf(`{"id":%d,"status":"paid"}`, call)), Note: "1"}}})
	return err
}
