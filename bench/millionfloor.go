package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/datadir"
	"agentkernel/internal/sandbox/monty/frontend"
	"agentkernel/internal/sandbox/monty/montypb"
	"agentkernel/internal/store/sqlite"
)

// parkedFloor is what remains of spawning and parking where there is no kernel: bare workers make the images, and the bare store
// keeps them with the rows that a kernel wrote for such a process.
type parkedFloor struct {
	engine  string
	feeds   []*montypb.Feed
	rec     agentkernel.ProcessRecord
	entries []agentkernel.Entry
	image   agentkernel.Image
	head    []byte // of the image: what comes before the engine's dump
}

// floorWorkers is how many bare workers there are: as many as the kernel has by default would be no faster, for they only compute.
const floorWorkers = 2

// newParkedFloor has a kernel park one process, and reads what it wrote.
func (b *bench) newParkedFloor(ctx context.Context) (*parkedFloor, error) {
	home, err := b.dir()
	if err != nil {
		return nil, err
	}
	k, err := b.open(ctx, embedded.Config{Home: home, ParkAfter: 100 * time.Millisecond, Tools: newToolbox(nil).forKernel})
	if err != nil {
		return nil, err
	}
	pids, err := spawnBatches(ctx, k, 0, 1, b.tell)
	if err == nil {
		err = allParked(ctx, k, 1)
	}
	if err = errors.Join(err, k.Close()); err != nil {
		return nil, err
	}
	f := &parkedFloor{engine: b.engine}
	if err := f.read(ctx, home, pids[0]); err != nil {
		return nil, err
	}
	return f, f.bind()
}

func (f *parkedFloor) read(ctx context.Context, home string, pid agentkernel.PID) (err error) {
	store, err := openStore(ctx, home)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if f.rec, err = store.Process(ctx, pid); err != nil {
		return err
	}
	if f.entries, err = store.Entries(ctx, pid, 1, 0); err != nil {
		return err
	}
	if f.image, err = store.Image(ctx, pid); err != nil {
		return err
	}
	if len(f.image.Bytes) < 5 || f.rec.Parked == nil {
		return fmt.Errorf("pid %d was not parked", pid)
	}
	f.head = f.image.Bytes[:5+binary.LittleEndian.Uint32(f.image.Bytes[1:])]
	return nil
}

// openStore opens the store of a data directory that no kernel has.
func openStore(ctx context.Context, home string) (*sqlite.Store, error) {
	dir, err := datadir.Open(home)
	if err != nil {
		return nil, err
	}
	key, err := dir.Key()
	if err != nil {
		return nil, err
	}
	return sqlite.Open(ctx, sqlite.Config{Path: dir.Database(), Blobs: dir.Blobs(), Key: key})
}

// openReader opens the database of a kernel to be read, which may run.
func openReader(ctx context.Context, home string) (*sqlite.Reader, error) {
	dir, err := datadir.Open(home)
	if err != nil {
		return nil, err
	}
	return sqlite.OpenReader(ctx, sqlite.Config{Path: dir.Database(), Blobs: dir.Blobs()})
}

// bind makes of the program what the engine is fed.
func (f *parkedFloor) bind() error {
	bundle, err := frontend.Bind(withTools("desk.py", deskProgram).Program, newToolbox(nil).tools)
	if err != nil {
		return err
	}
	for i, feed := range bundle.Feeds {
		req := &montypb.Feed{Code: feed.Code, SkipTypeCheck: true}
		if len(bytes.TrimSpace([]byte(feed.Code))) == 0 {
			req.Code = "pass"
		}
		if i == 0 {
			for _, fn := range bundle.Functions {
				req.Inputs = append(req.Inputs, functionInput(fn.Input, fn.Name))
			}
		}
		f.feeds = append(f.feeds, req)
	}
	return nil
}

// make has a worker run the program to its sleep, and gives its dump.
func (f *parkedFloor) make(w *bareWorker) ([]byte, error) {
	for i, feed := range f.feeds {
		ev, _, err := w.ask(&montypb.Request{Kind: &montypb.Request_Feed{Feed: feed}})
		if err != nil {
			return nil, err
		}
		if _, done := ev.Kind.(*montypb.Event_Complete); done && i < len(f.feeds)-1 {
			continue
		}
		if _, err := called(ev); err != nil {
			return nil, err
		}
	}
	dump, err := w.dump()
	if err != nil {
		return nil, err
	}
	dump = slices.Clone(dump)
	return dump, errors.Join(w.reset(), w.configure())
}

// rate is how many processes a second are made and durable.
func (f *parkedFloor) rate(ctx context.Context, b *bench, n int) (rate float64, err error) {
	home, err := b.dir()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	store, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(home, "kernel.db"), Blobs: filepath.Join(home, "blobs"), Key: make([]byte, 32)})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	errs := make(chan error, floorWorkers)
	began := time.Now()
	for range floorWorkers {
		go func() { errs <- f.fill(ctx, store, n/floorWorkers) }()
	}
	for range floorWorkers {
		err = errors.Join(err, <-errs)
	}
	return float64(n/floorWorkers*floorWorkers) / time.Since(began).Seconds(), err
}

func (f *parkedFloor) fill(ctx context.Context, store *sqlite.Store, n int) (err error) {
	w, err := startBareWorker(f.engine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var last agentkernel.Position
	for range n {
		dump, err := f.make(w)
		if err != nil {
			return err
		}
		pid, err := store.NewPID(ctx)
		if err != nil {
			return err
		}
		rec, image, entries := f.rec, f.image, slices.Clone(f.entries)
		rec.PID, image.PID, image.Bytes = pid, pid, slices.Concat(f.head, dump)
		rec.Spec.IdempotencyKey = millionKey(int(pid))
		for i := range entries {
			entries[i].PID = pid
		}
		if last, err = store.Append(agentkernel.Batch{Entries: entries, Process: &rec, Image: &image}); err != nil {
			return err
		}
	}
	return store.Flush(ctx, last)
}
