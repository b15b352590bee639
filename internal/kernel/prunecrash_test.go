package kernel_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"agentkernel"
	"agentkernel/internal/kernel"
	"agentkernel/internal/retention"
	"agentkernel/internal/store/faulty"
	"agentkernel/internal/store/sqlite"
	"agentkernel/internal/sys/families"
)

// crowd is a kernel on a real database that is pruned while programs run, until the store crashes.
type crowd struct {
	*rapid.T
	dir     string
	backend *goBackend
	k       *kernel.Kernel
	store   *faulty.Store

	mu   sync.Mutex
	live []agentkernel.PID // durable, and never end by themselves
}

func (c *crowd) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("%v", err)
	}
}

func (c *crowd) boot(plan faulty.Plan) {
	inner, err := sqlite.Open(context.Background(), sqlite.Config{Path: filepath.Join(c.dir, "kernel.db"), Blobs: filepath.Join(c.dir, "blobs"), Key: make([]byte, 32)})
	c.must(err)
	c.store = faulty.Wrap(inner, plan)
	c.k, err = kernel.New(kernel.Config{Store: c.store, Retention: retention.New(retention.Config{Store: c.store}), Backends: []agentkernel.Backend{c.backend}, Grace: time.Millisecond,
		Tools: toolsOf(nil), Families: families.All(families.Parts{})})
	c.must(err)
}

const bigText = 40_000 // bytes: a file of its own

// programs of the crowd: some end, some never do.
func (c *crowd) programs() {
	c.backend = newGoBackend()
	big := func(p *prog, letter string) { p.print("%s", strings.Repeat(letter, bigText)) }
	forEver := func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":1e6}`); return err }
	c.backend.add("ends", func(p *prog) error { big(p, "e"); return nil })
	c.backend.add("stays", func(p *prog) error { big(p, "e"); big(p, "s"); return forEver(p) })
	c.backend.add("parent", func(p *prog) error {
		child, err := p.call("proc.spawn", `{"source":"ends"}`)
		if err != nil {
			return err
		}
		if _, err := p.call("proc.wait", `{"pid":`+string(child)+`}`); err != nil {
			return err
		}
		big(p, "p")
		if err := forEver(p); err != nil {
			return err
		}
		_, err = p.call("proc.wait", `{"pid":`+string(child)+`}`)
		return err
	})
}

// crashed says that the planned fault is why something went wrong.
func crashed(err error) bool {
	return errors.Is(err, faulty.ErrCrashed) || agentkernel.CodeOf(err) == agentkernel.CodeStorage || agentkernel.CodeOf(err) == agentkernel.CodeCanceled
}

// load starts programs, and reruns of some that have ended, which may have been pruned by then.
func (c *crowd) load(names []string) {
	var ended []agentkernel.PID
	for _, name := range names {
		s := spec(name)
		s.Tools, s.Allow = nil, nil
		if name == "rerun" {
			if len(ended) == 0 {
				continue
			}
			s.Program.Source = "stays"
			s.Past = &agentkernel.Past{PID: ended[len(ended)-1]}
		}
		if name == "ends" {
			p, err := c.k.Run(context.Background(), s, func(agentkernel.Event) error { return nil })
			if err != nil {
				return
			}
			ended = append(ended, p.PID)
			continue
		}
		p, err := c.k.Spawn(context.Background(), s)
		switch {
		case err == nil:
			c.mu.Lock()
			c.live = append(c.live, p.PID)
			c.mu.Unlock()
		case name == "rerun" && agentkernel.AsError(err, "", "").Op == agentkernel.OpPruned:
		case crashed(err):
			return
		default:
			c.Errorf("%s: %v", name, err)
			return
		}
	}
}

// whole fails unless a process that lives has everything: its journal without gaps and with its large texts, its origin,
// its children.
func (c *crowd) whole(pid agentkernel.PID) {
	ctx := context.Background()
	p, err := c.k.Process(ctx, pid)
	if err != nil || p.State.Terminal() {
		c.Fatalf("process %d should live: %+v, %v", pid, p, err)
	}
	entries, err := c.k.Journal(ctx, pid, 1, 0)
	c.must(err)
	for i, e := range entries {
		if e.Seq != int64(i+1) {
			c.Fatalf("process %d: entry %d stands at place %d", pid, e.Seq, i+1)
		}
		if e.Kind == agentkernel.EntryOutput && len(e.Data) != bigText+2 {
			c.Fatalf("process %d: entry %d has %d bytes", pid, e.Seq, len(e.Data))
		}
		if e.Kind == agentkernel.EntryCall && e.Op == "proc.spawn" && e.Done {
			var child agentkernel.PID
			c.must(json.Unmarshal(e.Data, &child))
			_, err := c.k.Process(ctx, child)
			c.must(err)
		}
	}
	s, err := c.k.Spec(ctx, pid)
	c.must(err)
	if s.Past != nil {
		past, err := c.k.Journal(ctx, s.Past.PID, 1, 0)
		if err != nil || len(past) < 2 || past[len(past)-1].Kind != agentkernel.EntryTerminal {
			c.Fatalf("process %d: its past %d has %d entries, %v", pid, s.Past.PID, len(past), err)
		}
	}
}

// tidy fails unless the files are those that the table blobs names.
func (c *crowd) tidy() {
	q, err := sqlite.OpenQuery(context.Background(), sqlite.Config{Path: filepath.Join(c.dir, "kernel.db"), Blobs: filepath.Join(c.dir, "blobs")})
	c.must(err)
	defer q.Close()
	t, err := q.Run(context.Background(), `SELECT (SELECT count(*) FROM main.blobs), (SELECT count(*) FROM main.blobs WHERE refs < 1), (SELECT count(*) FROM main.leftovers),
  (SELECT count(*) FROM main.entries WHERE pid NOT IN (SELECT pid FROM main.processes))`, 0)
	c.must(err)
	files := 0
	c.must(filepath.WalkDir(filepath.Join(c.dir, "blobs"), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			files++
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}))
	if got, want := fmt.Sprint(t.Rows[0]), fmt.Sprintf("[%d 0 0 0]", files); got != want {
		c.Fatalf("rows of blobs, without a name, leftovers, journals of nobody: %s; want %s: the files that are there", got, want)
	}
}

// TestPruneUnderLoadWithCrashes prunes while programs run and end, and crashes at a random operation of the store:
// afterwards every process that lives goes on with all that it had, and what nobody names is gone.
func TestPruneUnderLoadWithCrashes(t *testing.T) {
	root, err := os.MkdirTemp("/dev/shm", "agentkernel-test-") // a crash here is no power cut: waiting for a disk proves nothing
	if err != nil {
		root = t.TempDir()
	} else {
		t.Cleanup(func() { _ = os.RemoveAll(root) })
	}
	fewer(t, "15") // each is a kernel or two, with a real database
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		c := &crowd{T: rt, dir: filepath.Join(root, fmt.Sprint(run))}
		c.must(os.Mkdir(c.dir, 0o700))
		c.programs()
		c.boot(faulty.Plan{At: int64(rapid.IntRange(0, 250).Draw(rt, "crash at")), Keep: func(n int) int { return n / 2 },
			Counts: func(op faulty.Op) bool { return op != faulty.Read },
			Mode:   rapid.SampledFrom([]faulty.Mode{faulty.CrashBefore, faulty.CrashAfter, faulty.Fail}).Draw(rt, "mode")})
		var loaders, pruner sync.WaitGroup
		for range 2 {
			names := rapid.SliceOfN(rapid.SampledFrom([]string{"ends", "ends", "stays", "parent", "rerun"}), 4, 12).Draw(rt, "programs")
			loaders.Go(func() { c.load(names) })
		}
		loaded := make(chan struct{})
		pruner.Go(func() {
			for {
				_, err := c.k.Prune(context.Background(), allEnded())
				select {
				case <-loaded:
					return
				default:
				}
				switch {
				case err == nil:
				case crashed(err):
					return
				default:
					rt.Errorf("prune: %v", err)
					return
				}
			}
		})
		loaders.Wait()
		close(loaded)
		pruner.Wait()
		_ = c.k.Close() // says what the fault was

		c.boot(faulty.Plan{})
		_, err := c.k.Recover(context.Background(), 0)
		c.must(err)
		for _, pid := range c.live {
			c.whole(pid)
		}
		_, err = c.k.Prune(context.Background(), allEnded())
		c.must(err)
		for _, pid := range c.live {
			c.whole(pid)
		}
		c.must(c.k.Close())
		c.tidy()
		c.must(os.RemoveAll(c.dir))
	})
}

// fewer lets rapid try so often, unless the command line says how often.
func fewer(t *testing.T, checks string) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	if was := f.Value.String(); was == f.DefValue {
		if err := f.Value.Set(checks); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(was) })
	}
}
