package confine

import (
	"context"
	"fmt"
	"testing"
)

func TestSharesOfAll(t *testing.T) {
	a, b, c := &Process{}, &Process{}, &Process{}
	w := newShares(100, 200)
	for i, tc := range []struct {
		p    *Process
		n    int64
		want bool
	}{
		{a, 100, false}, {b, 90, false}, {a, 101, true}, {a, 100, false},
		{c, 20, false}, // too many together, but others have more
		{b, 90, false}, {a, 100, true},
	} {
		if got := w.exceeded(tc.p, tc.n); got != tc.want {
			t.Errorf("%d: %t", i, got)
		}
	}
	w.drop(a)
	w.drop(a)
	if w.exceeded(b, 100) || w.sum != 120 {
		t.Errorf("after its end %d are left", w.sum)
	}
}

// TestSandboxesShareWatches starts three that together have more than all may have: one has to end.
func TestSandboxesShareWatches(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		s := newSpawner(t)
		s.watches = newShares(10_000, 10_000)
		hoard := func(n int) *running {
			return launchWhole(t, s, pythonConfig(t, fmt.Sprintf(`
import os, select, signal
keep = [select.epoll() for i in range(40)]
fds = [os.dup(0) for i in range(%d)]
r, w = os.pipe()
for fd in fds: os.dup2(r, fd)
for e in keep:
    for fd in fds: e.register(fd)
print("up", flush=True)
signal.pause()`, n/40)))
		}
		list := []*running{hoard(3000), hoard(3000)}
		for _, r := range list {
			r.out.await(t, "up")
		}
		most := hoard(6000)
		if e := most.finish(t); e.Limit != Watches {
			t.Errorf("the one with the most ended by %s", e)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, r := range list {
			if e, err := r.Wait(ctx); err == nil {
				t.Errorf("one with less ended by %s\n%s", e, r.err)
			}
		}
	})
}
