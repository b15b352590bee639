package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/store/sqlite"
)

const hello = "print(6*7)"

var warmSection = section{
	name: "warm", title: "A small program, warm",
	about: "`print(6*7)` through a running kernel: created, checked, run in a pooled worker, its output and its end on the " +
		"disk before they are reported. Floors: the same program on a bare Monty worker that is already running (feed, reset, configure); " +
		"one durable commit of one row to the same kind of store; and the two one after the other, which is what a run has to do.",
	run: measureWarm,
}

func measureWarm(ctx context.Context, b *bench) ([]table, error) {
	worker, err := startBareWorker(b.engine)
	if err != nil {
		return nil, err
	}
	defer worker.close()
	commit, closeStore, err := b.commitFloor(ctx)
	if err != nil {
		return nil, err
	}
	defer closeStore()
	k, err := b.open(ctx, embedded.Config{})
	if err != nil {
		return nil, err
	}
	defer k.Close()
	node, closeNode := nodePeer(b.pick(200, 100, 5))
	defer closeNode()

	n, few := b.pick(200, 100, 5), b.pick(10, 5, 1)
	relaxed := python("hello.py", hello)
	relaxed.Durability = agentkernel.DurabilityRelaxed
	contenders := []contender{
		{name: "bare Monty worker", role: roleFloor, n: n, run: func(context.Context) error { return worker.whole(hello, "42\n") }},
		{name: "one durable one-row commit", role: roleFloor, n: n, run: commit},
		{name: "worker, then commit", role: roleFloor, n: n, run: func(ctx context.Context) error {
			if err := worker.whole(hello, "42\n"); err != nil {
				return err
			}
			return commit(ctx)
		}},
		{name: "kernel, durable exit", role: roleOurs, n: n, run: func(ctx context.Context) error {
			return runAndCheck(ctx, k, python("hello.py", hello), "42\n")
		}},
		{name: "kernel, `durability: relaxed`", role: roleOurs, n: n, run: func(ctx context.Context) error {
			return runAndCheck(ctx, k, relaxed, "42\n")
		}},
		node,
		pythonPeer(ctx, few, "-c", hello),
		bwrapPeer(ctx, few, "-c", hello),
	}
	results, err := contest(ctx, b.pick(25, 8, 2), b.tell, contenders)
	if err != nil {
		return nil, err
	}
	rows := latencies(contenders, results)
	both := results[2]
	rows[2].Ratio = both.ratio(results[0], results[1])
	rows[3].judgeRatio(results[3].ratio(both), 1.5, "(worker, then commit)")
	rows[4].judgeRatio(results[4].ratio(results[0]), 2.5, "worker")
	for i := 5; i < len(rows); i++ {
		rows[i].Ratio = results[i].ratio(both)
	}
	return []table{{Rows: rows, Notes: []string{
		"The ratio of \"worker, then commit\" is to the sum of the two measured apart: each alone keeps its processor awake and its caches warm, " +
			"in turns neither does. To that sum the durable run of the kernel is " + fmt.Sprintf("%.2f x.", results[3].ratio(results[0], results[1])),
		"The ratios of the peers are to (worker, then commit) too; the peers keep no record of what they ran.",
	}}}, nil
}

// commitFloor gives a run that appends one entry to a store of its own and waits until it is durable.
func (b *bench) commitFloor(ctx context.Context) (run func(context.Context) error, done func(), err error) {
	store, err := b.openStore(ctx)
	if err != nil {
		return nil, nil, err
	}
	pid, err := seedProcess(ctx, store)
	if err != nil {
		return nil, func() { _ = store.Close() }, err
	}
	seq := int64(1)
	return func(ctx context.Context) error {
		seq++
		pos, err := store.Append(agentkernel.Batch{Entries: []agentkernel.Entry{{PID: pid, Seq: seq, Kind: agentkernel.EntryCall,
			At: time.Now(), Call: seq, Op: "log.write", Effect: agentkernel.EffectPure, Args: json.RawMessage(`{"message":"x"}`), Done: true}}})
		if err != nil {
			return err
		}
		return store.Flush(ctx, pos)
	}, func() { _ = store.Close() }, nil
}

// openStore opens a store of the kind that kernels have, in a directory of its own.
func (b *bench) openStore(ctx context.Context) (*sqlite.Store, error) {
	dir, err := b.dir()
	if err != nil {
		return nil, err
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "kernel.db"), Blobs: filepath.Join(dir, "blobs"), Key: key})
}

// seedProcess makes a process's row and first entry durable.
func seedProcess(ctx context.Context, store *sqlite.Store) (agentkernel.PID, error) {
	pid, err := store.NewPID(ctx)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	pos, err := store.Append(agentkernel.Batch{
		Entries: []agentkernel.Entry{{PID: pid, Seq: 1, Kind: agentkernel.EntryCreated, At: now}},
		Process: &agentkernel.ProcessRecord{
			Process: agentkernel.Process{PID: pid, Namespace: "default", Name: "floor.py", State: agentkernel.StateUnfinished, Created: now},
			Spec:    python("floor.py", hello),
		},
	})
	if err != nil {
		return 0, err
	}
	return pid, store.Flush(ctx, pos)
}
