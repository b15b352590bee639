package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/client"
	"agentkernel/internal/datadir"
)

// unheard is a command for a data directory whose kernel is not to be had: what dial says, and how often one was started.
func unheard(t *testing.T, dir *datadir.Dir, dial func(ctx context.Context) (agentkernel.Kernel, error)) (a *app, started *int) {
	started = new(int)
	a = &app{ctx: t.Context(), parts: parts{
		dial: func(ctx context.Context, _ string) (agentkernel.Kernel, error) { return dial(ctx) },
		start: func(context.Context, *app, *datadir.Dir) error { // it finds the lock held
			*started++
			lock, err := dir.Lock(datadir.Holder{OSPID: os.Getpid(), Mode: background})
			if err == nil {
				err = lock.Unlock()
			}
			return err
		},
	}}
	return a, started
}

func heldDir(t *testing.T, mode string) (*datadir.Dir, *datadir.Lock) {
	t.Helper()
	dir, err := datadir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	lock, err := dir.Lock(datadir.Holder{OSPID: os.Getpid(), Version: "1", Mode: mode, Started: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Unlock() })
	return dir, lock
}

func nobodyListens(context.Context) (agentkernel.Kernel, error) {
	return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "attach", "no kernel listens")
}

// hangs is a kernel that accepts connections and does not answer, as client.Dial reports it.
func hangs(ctx context.Context) (agentkernel.Kernel, error) {
	select {
	case <-ctx.Done():
		return nil, agentkernel.Errorf(agentkernel.CodeTimeout, "attach", "%w: %w", client.ErrSilent, ctx.Err())
	case <-time.After(client.DefaultPatience):
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "attach", "%w", client.ErrSilent)
	}
}

// A kernel that holds the directory and is not to be had is named, with what ends it; none is started beside it.
func TestAttachNamesTheKernelThatIsNotHeard(t *testing.T) {
	kill := fmt.Sprintf("kill -9 %d, then: agentkernel recover", os.Getpid())
	end := fmt.Sprintf("agentkernel shutdown (or kill -9 %d), then: agentkernel recover", os.Getpid())
	for name, tc := range map[string]struct {
		mode  string
		dial  func(ctx context.Context) (agentkernel.Kernel, error)
		says  string
		hints []string
	}{
		"it hangs":              {background, hangs, "does not answer on", []string{kill}},
		"its socket is gone":    {"serve", nobodyListens, "does not listen on", []string{end}},
		"it is another command": {"backup", nobodyListens, "does not answer on", []string{"(backup, since", "wait until it has ended"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, _ := heldDir(t, tc.mode)
				a, started := unheard(t, dir, tc.dial)
				began := time.Now()
				_, err := a.attach(dir)
				if agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
					t.Fatal(err)
				}
				contains(t, "the error", asError(err).Message(), tc.says)
				contains(t, "the hint", asError(err).Hint, tc.hints...)
				if *started != 0 || time.Since(began) != startPatience {
					t.Errorf("%d kernels were started in %s", *started, time.Since(began))
				}
			})
		})
	}
}

// The kernel that held the directory ends: then, and not before, another one is started, and at once.
func TestAttachStartsAKernelWhenTheDirectoryIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, lock := heldDir(t, background)
		var a *app
		var started *int
		a, started = unheard(t, dir, func(ctx context.Context) (agentkernel.Kernel, error) {
			if *started > 0 {
				return &fakeKernel{}, nil
			}
			return nobodyListens(ctx)
		})
		began := time.Now()
		time.AfterFunc(7*time.Second, func() { _ = lock.Unlock() })
		_, err := a.attach(dir)
		if took := time.Since(began); err != nil || *started != 1 || took < 7*time.Second || took > 7*time.Second+startPause {
			t.Errorf("%d kernels were started in %s: %v", *started, took, err)
		}
	})
}

// Where the lock is free and no kernel stays all the same, the last one's own error is the answer.
func TestAttachSaysWhyNoKernelStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, lock := heldDir(t, background)
		_ = lock.Unlock()
		a, _ := unheard(t, dir, nobodyListens)
		a.start = func(context.Context, *app, *datadir.Dir) error {
			return agentkernel.Errorf(agentkernel.CodeConflict, "listen", "kernel.sock is there and is not a socket")
		}
		if _, err := a.attach(dir); err == nil || !strings.Contains(err.Error(), "is not a socket") {
			t.Error(err)
		}
	})
}
