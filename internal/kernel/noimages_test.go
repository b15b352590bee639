package kernel_test

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// A backend without images, as that of CPython: its sandboxes stay in memory while they wait, are let go of when the
// kernel stops, and go on by a replay from the beginning.
func TestBackendWithoutImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRAMStore()
		var log bytes.Buffer
		noImages := func(c *kernel.Config) {
			parkSoon(c)
			c.Slots, c.Residents = 2, 2
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		}
		backend := newGoBackend()
		backend.noImages = true
		backend.add("p", func(p *prog) error {
			p.print("before\n")
			slow := p.async("time.sleep", `{"seconds":60}`)
			if _, err := p.call("time.sleep", `{"seconds":30}`); err != nil {
				return err
			}
			p.print("between\n")
			_, err := p.wait(slow)
			p.print("after\n")
			return err
		})
		r := (&rig{backend: backend, tools: &fakeTools{}}).boot(t, store, noImages)
		var pids []agentkernel.PID
		for range 5 { // more than Residents: all of them wait in memory
			p, err := r.Spawn(t.Context(), spec("p"))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, p.PID)
		}
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if n := backend.sandboxes(); n != len(pids) {
			t.Errorf("%d sandboxes are in memory, want %d", n, len(pids))
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if n := backend.sandboxes(); n != 0 {
			t.Errorf("%d sandboxes are left", n)
		}
		if log.Len() > 0 {
			t.Errorf("the kernel complains:\n%s", &log)
		}

		r = r.boot(t, store, noImages)
		if _, err := r.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			p, err := r.Wait(t.Context(), pid)
			if err != nil || p.State != agentkernel.StateExited || p.Usage.Output != int64(len("before\nbetween\nafter\n")) {
				t.Errorf("recovered: %+v %v", p, err)
			}
		}
		if log.Len() > 0 {
			t.Errorf("the kernel complains:\n%s", &log)
		}
	})
}
