package kernel_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"agentkernel"
)

// Recovering one process takes up its unfinished descendants with it, parents first, and nobody else.
func TestRecoverOneTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("sleeper", func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":100}`); return err })
		r.backend.add("short", func(*prog) error { return nil })
		spawn := func(program string, parent agentkernel.PID) agentkernel.PID {
			t.Helper()
			s := spec(program)
			s.Parent = parent
			p, err := r.Spawn(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			return p.PID
		}
		root := spawn("sleeper", 0)
		other := spawn("sleeper", 0)
		child := spawn("sleeper", root)
		spawn("sleeper", other)
		twin := spawn("sleeper", root)
		if _, err := r.Wait(t.Context(), spawn("short", child)); err != nil { // has ended, and that is durable
			t.Fatal(err)
		}
		grandchild := spawn("sleeper", child)
		synctest.Wait()

		r2 := r.boot(t, r.store.crash())
		if info, err := r2.Info(t.Context()); err != nil || info.Unfinished != 6 {
			t.Fatalf("%d unfinished, want 6; error %v", info.Unfinished, err)
		}
		for _, test := range []struct {
			pid  agentkernel.PID
			want []agentkernel.PID
		}{
			{child, []agentkernel.PID{child, grandchild}},
			{root, []agentkernel.PID{root, twin}}, // the others are carried already
			{root, nil},
		} {
			taken, err := r2.Recover(t.Context(), test.pid)
			if err != nil {
				t.Fatal(err)
			}
			var got []agentkernel.PID
			for _, p := range taken {
				got = append(got, p.PID)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("recover %d took up %v, want %v", test.pid, got, test.want)
			}
		}
		if info, err := r2.Info(t.Context()); err != nil || info.Unfinished != 2 {
			t.Errorf("%d are left, want 2; error %v", info.Unfinished, err)
		}
	})
}
