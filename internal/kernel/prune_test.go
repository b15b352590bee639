package kernel_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
	"agentkernel/internal/retention"
)

// forgetful is a store in memory that can forget, and remembers what it was asked to.
type forgetful struct {
	*ramStore
	mu      sync.Mutex
	forgot  []agentkernel.PID
	when    []time.Time // of calls of Kin
	during  func()      // runs while Kin is read
	before  func()      // runs before something is forgotten
	storage agentkernel.Storage
}

func (f *forgetful) Lineages(ctx context.Context, fn func(agentkernel.Lineage) error) error {
	f.mu.Lock()
	f.when = append(f.when, time.Now())
	during := f.during
	f.mu.Unlock()
	if during != nil {
		defer during()
	}
	rows, err := f.Processes(ctx, agentkernel.Filter{})
	for _, r := range slices.Backward(rows) {
		k := agentkernel.Lineage{PID: r.PID, Parent: r.Parent, Namespace: r.Namespace, State: r.State, ExitCode: r.ExitCode, Ended: r.Ended}
		if r.Spec.Past != nil {
			k.Past = r.Spec.Past.PID
		}
		if err := fn(k); err != nil {
			return err
		}
	}
	return err
}

func (f *forgetful) Forget(_ context.Context, pids []agentkernel.PID, _ time.Time) (r agentkernel.Removed, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgot = append(f.forgot, pids...)
	for _, pid := range pids {
		f.ramStore.mu.Lock()
		f.remove(pid)
		f.ramStore.mu.Unlock()
	}
	return agentkernel.Removed{Processes: int64(len(pids))}, nil
}

func (f *forgetful) Measure(_ context.Context, pids []agentkernel.PID) (agentkernel.Removed, int64, error) {
	return agentkernel.Removed{Processes: int64(len(pids)), BlobBytes: 7}, 100, nil
}

func (f *forgetful) Sweep(context.Context) (r agentkernel.Removed, more bool, err error) {
	if f.before != nil {
		f.before()
	}
	return r, false, nil
}
func (f *forgetful) SweepStrays(context.Context) (r agentkernel.Removed, err error)   { return r, nil }
func (f *forgetful) SweepPrograms(context.Context) (r agentkernel.Removed, err error) { return r, nil }
func (f *forgetful) Shrink(context.Context) (bool, error)                             { return false, nil }

func (f *forgetful) Storage(context.Context) (agentkernel.Storage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.storage, nil
}

func (f *forgetful) take(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.storage.Database = bytes
}

// times says when it was pruned.
func (f *forgetful) times() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.when)
}

// newForgetful boots a kernel on a store that can forget.
func newForgetful(t *testing.T, keep retention.Config) (*rig, *forgetful) {
	t.Helper()
	f := &forgetful{ramStore: newRAMStore()}
	keep.Store = f
	r := newRig(t, f.ramStore, func(c *kernel.Config) { c.Store, c.Retention = f, retention.New(keep) })
	r.backend.add("hello", func(p *prog) error { p.print("hello"); return nil })
	r.backend.add("fails", func(*prog) error { return agentkernel.Errorf(agentkernel.CodeProgram, "program", "no") })
	r.backend.add("sleeps", func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":1e6}`); return err })
	return r, f
}

func TestPruneSparesWhatIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f := newForgetful(t, retention.Config{})
		old, _ := r.run(t, spec("hello"))
		past, _ := r.run(t, spec("hello"))
		failed, _ := r.run(t, spec("fails"))
		sleeper, err := r.Spawn(t.Context(), rerunning("sleeps", past.PID))
		if err != nil {
			t.Fatal(err)
		}
		o := allEnded()
		o.KeepFailed, o.DryRun = true, true
		out, err := r.Prune(t.Context(), o)
		if want := (agentkernel.Pruned{Removed: agentkernel.Removed{Processes: 1, BlobBytes: 7}, Kept: 1, Freed: 107, DryRun: true}); err != nil || out != want {
			t.Errorf("%+v, %v", out, err)
		}
		if f.forgot != nil {
			t.Errorf("a dry run forgot %v", f.forgot)
		}
		o.DryRun = false
		out, err = r.Prune(t.Context(), o)
		if err != nil || out.Processes != 1 || out.Kept != 1 || !slices.Equal(f.forgot, []agentkernel.PID{old.PID}) {
			t.Errorf("%+v, %v, forgot %v", out, err, f.forgot)
		}
		// When the rerun has ended, all may go: the rerun before its origin.
		if err := r.Signal(t.Context(), sleeper.PID, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // whoever waits for an end is told of it before the kernel lets go of the process
		if out, err = r.Prune(t.Context(), allEnded()); err != nil || out.Processes != 3 || out.Kept != 0 {
			t.Errorf("%+v, %v", out, err)
		}
		if slices.Index(f.forgot, sleeper.PID) > slices.Index(f.forgot, past.PID) || !slices.Contains(f.forgot, failed.PID) {
			t.Errorf("forgot %v", f.forgot)
		}
		_, err = r.Prune(t.Context(), agentkernel.PruneOptions{})
		if agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("without a time: %v", err)
		}
	})
}

// A rerun that begins while processes are being pruned keeps its origin, or finds that it is gone; nothing between.
func TestARerunThatBeginsDuringAPrune(t *testing.T) {
	for _, when := range []string{"while it decides", "between two steps"} {
		synctest.Test(t, func(t *testing.T) {
			r, f := newForgetful(t, retention.Config{})
			var all []agentkernel.PID
			for range 200 { // several steps
				p, _ := r.run(t, spec("hello"))
				all = append(all, p.PID)
			}
			var once sync.Once
			past, gone := all[150], all[0]
			begin := func() {
				once.Do(func() {
					if _, err := r.Spawn(t.Context(), rerunning("sleeps", past)); err != nil {
						t.Errorf("%s: %v", when, err)
					}
					if when == "between two steps" {
						if _, err := r.Spawn(t.Context(), rerunning("sleeps", gone)); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
							t.Errorf("%s, of one that is gone: %v", when, err)
						}
					}
				})
			}
			if when == "while it decides" {
				f.during = begin
			} else {
				f.before = begin
			}
			out, err := r.Prune(t.Context(), allEnded())
			if err != nil || out.Processes != 199 || out.Kept != 1 || slices.Contains(f.forgot, past) {
				t.Errorf("%s: %+v, %v", when, out, err)
			}
			if _, err := r.Process(t.Context(), past); err != nil {
				t.Errorf("%s: %v", when, err)
			}
			synctest.Wait() // the sandbox of the rerun has started
		})
	}
}

func TestOnePruneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f := newForgetful(t, retention.Config{})
		r.run(t, spec("hello"))
		f.during = func() {
			_, err := r.Prune(t.Context(), allEnded())
			if agentkernel.CodeOf(err) != agentkernel.CodeConflict || !strings.Contains(err.Error(), "pruning already") {
				t.Errorf("the second prune: %v", err)
			}
		}
		if _, err := r.Prune(t.Context(), allEnded()); err != nil {
			t.Error(err)
		}
		plain := newRig(t, newRAMStore())
		if _, err := plain.Prune(t.Context(), allEnded()); agentkernel.CodeOf(err) != agentkernel.CodeUnsupported {
			t.Errorf("a store that keeps everything: %v", err)
		}
	})
}

// A canceled prune stops at the next step, and the kernel's end cancels it.
func TestACanceledPruneStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f := newForgetful(t, retention.Config{})
		for range 200 {
			r.run(t, spec("hello"))
		}
		ctx, cancel := context.WithCancel(t.Context())
		f.before = cancel
		out, err := r.Prune(ctx, allEnded())
		if agentkernel.CodeOf(err) != agentkernel.CodeCanceled || out.Processes == 0 || out.Processes == 200 {
			t.Errorf("%+v, %v", out, err)
		}
		closed := make(chan error, 1)
		f.before = func() {
			go func() { closed <- r.Close() }()
			synctest.Wait() // Close waits for this step
		}
		if _, err = r.Prune(t.Context(), allEnded()); agentkernel.CodeOf(err) != agentkernel.CodeCanceled {
			t.Errorf("at the end of the kernel: %v", err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if _, err = r.Prune(t.Context(), allEnded()); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
			t.Errorf("after the end of the kernel: %v", err)
		}
	})
}

func TestTheQuotaRefusesNewcomersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r, f := newForgetful(t, retention.Config{Rules: retention.Rules{Quota: 100 << 20}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		parent := make(chan struct{})
		r.backend.add("parent", func(p *prog) error {
			if _, err := p.call("time.sleep", `{"seconds":10}`); err != nil {
				return err
			}
			_, err := p.call("proc.spawn", `{"source":"hello"}`)
			p.print("spawn: %v", err)
			close(parent)
			return nil
		})
		running, err := r.Spawn(t.Context(), spec("parent"))
		if err != nil {
			t.Fatal(err)
		}
		f.take(85 << 20)
		pass(2 * time.Second)
		if _, out := r.run(t, spec("hello")); out != "hello" {
			t.Errorf("at 85 %%: %q", out)
		}
		info, err := r.Info(t.Context())
		if err != nil || !strings.Contains(info.Storage.Warning(), "85 % of the storage quota is used") || !strings.Contains(log.String(), "85 % of the storage quota") {
			t.Errorf("%q, %v; log %s", info.Storage.Warning(), err, log.String())
		}
		f.take(100 << 20)
		pass(2 * time.Second)
		_, err = r.Spawn(t.Context(), spec("hello"))
		e := agentkernel.AsError(err, "", "")
		if e == nil || e.Code != agentkernel.CodeLimit || e.Op != "storage.quota" || !strings.Contains(e.Error(), "the storage quota is 100 MiB") || !strings.Contains(e.Hint, "agentkernel prune") {
			t.Errorf("at 100 %%: %v", err)
		}
		<-parent
		p, err := r.Wait(t.Context(), running.PID)
		if out := printed(t, r, running.PID); err != nil || p.State != agentkernel.StateExited || !strings.Contains(out, "no new process can start") {
			t.Errorf("who runs goes on: %+v, %v, %q", p, err, out)
		}
		f.take(10 << 20)
		if _, err := r.Prune(t.Context(), allEnded()); err != nil { // measures anew, without waiting for it
			t.Error(err)
		}
		if _, out := r.run(t, spec("hello")); out != "hello" {
			t.Errorf("after the prune: %q", out)
		}
		if n := strings.Count(log.String(), "storage quota"); n != 2 {
			t.Errorf("%d lines in the log:\n%s", n, log.String())
		}
	})
}

// storage.keep: the first time soon, then every hour, as long as the kernel lives.
func TestTheKernelPrunesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f := newForgetful(t, retention.Config{Rules: retention.Rules{Keep: 24 * time.Hour, KeepFailed: true}})
		begun := time.Now()
		first, _ := r.run(t, spec("hello"))
		failed, _ := r.run(t, spec("fails"))
		pass(20 * time.Second)
		synctest.Wait()
		if when := f.times(); len(when) != 1 || when[0].Sub(begun) != 15*time.Second || f.forgot != nil {
			t.Errorf("pruned at %v, forgot %v", when, f.forgot)
		}
		pass(23 * time.Hour)
		second, _ := r.run(t, spec("hello"))
		pass(3 * time.Hour)
		synctest.Wait()
		if n := len(f.times()); n < 25 || n > 27 {
			t.Errorf("%d times in 26 hours", n)
		}
		if !slices.Equal(f.forgot, []agentkernel.PID{first.PID}) {
			t.Errorf("forgot %v; %d is too young and %d failed", f.forgot, second.PID, failed.PID)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		n := len(f.times())
		pass(3 * time.Hour)
		synctest.Wait()
		if len(f.times()) != n {
			t.Error("it prunes after its end")
		}
	})
}

// The rules may change while the kernel runs: the quota counts at once, and pruning begins and ends.
func TestTheRulesOfRetentionMayChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &forgetful{ramStore: newRAMStore()}
		keeper := retention.New(retention.Config{Store: f})
		r := newRig(t, f.ramStore, func(c *kernel.Config) { c.Store, c.Retention = f, keeper })
		r.backend.add("hello", func(*prog) error { return nil })
		old, _ := r.run(t, spec("hello"))
		f.take(100 << 20)
		pass(25 * time.Hour)
		if n := len(f.times()); n != 0 {
			t.Errorf("pruned %d times", n)
		}
		keeper.SetRules(retention.Rules{Quota: 100 << 20, Keep: 24 * time.Hour})
		if _, err := r.Spawn(t.Context(), spec("hello")); agentkernel.CodeOf(err) != agentkernel.CodeLimit {
			t.Errorf("beyond the new quota: %v", err)
		}
		keeper.SetRules(retention.Rules{Quota: 200 << 20, Keep: 24 * time.Hour})
		r.run(t, spec("hello"))
		pass(20 * time.Second)
		synctest.Wait()
		if !slices.Equal(f.forgot, []agentkernel.PID{old.PID}) {
			t.Errorf("forgot %v", f.forgot)
		}
		n := len(f.times())
		keeper.SetRules(retention.Rules{})
		pass(48 * time.Hour)
		synctest.Wait()
		if len(f.times()) != n {
			t.Errorf("pruned %d times more", len(f.times())-n)
		}
	})
}

// allEnded means every process that has ended.
func allEnded() agentkernel.PruneOptions {
	return agentkernel.PruneOptions{Before: time.Now().Add(time.Hour)}
}
