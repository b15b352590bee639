package kernel_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
	"agentkernel/internal/store/sqlite"
)

// A process that sleeps, beyond those that stay loaded, costs the kernel next to no memory and the disk less than a kilobyte: what a
// kernel keeps of each (process, call, timer, Spec) would be more than two. `make bench-million` measures it at its full size.
func TestSleepersAreRowsOnly(t *testing.T) {
	const few, more = 300, 3000
	const mostMemory, mostDisk = 1000, 1000 // bytes, each; the backend of the tests keeps some hundred of memory
	path := filepath.Join(t.TempDir(), "kernel.db")
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Blobs: filepath.Join(t.TempDir(), "blobs"), Key: make([]byte, 32), ImageCache: -1})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, newRAMStore(), func(c *kernel.Config) {
		c.Store, c.Loaded, c.ParkAfter, c.Residents = store, 50, time.Millisecond, 4
	})
	r.backend.add("sleeper", func(p *prog) error {
		_, err := p.call("time.sleep", `{"seconds":360000}`)
		return err
	})
	spawned := 0
	spawn := func(n int) (heap int64) {
		for n += spawned; spawned < n; {
			each := make([]agentkernel.Instance, min(500, n-spawned))
			for i := range each {
				each[i].IdempotencyKey = fmt.Sprintf("sleeper/%d", spawned+i)
			}
			if _, err := r.SpawnMany(t.Context(), spec("sleeper"), each); err != nil {
				t.Fatal(err)
			}
			spawned += len(each)
		}
		every := time.NewTicker(10 * time.Millisecond)
		defer every.Stop()
		for r.info(t).Parked < spawned-50 {
			select {
			case <-every.C:
			case <-t.Context().Done():
				t.Fatal("the sleepers are not parked")
			}
		}
		runtime.GC()
		runtime.GC() // what finalizers held
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) + int64(m.StackInuse)
	}
	heap := spawn(few)
	memory := (spawn(more) - heap) / more
	if memory > mostMemory {
		t.Errorf("a sleeper costs %d bytes of memory, %d at most", memory, mostMemory)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil { // writes the log back
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	each := info.Size() / (few + more)
	if each > mostDisk {
		t.Errorf("a sleeper costs %d bytes of the disk, %d at most", each, mostDisk)
	}
	t.Logf("each sleeper: %d bytes of memory, %d of the disk", memory, each)
}
