package control_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/control"
	"agentkernel/internal/sched/traffic"
)

// TestLacking: nothing is sent to a deployment before it has what it lacks, however long that takes; what waits says so, goes as soon as it
// has it, and can be cancelled.
func TestLacking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := one(traffic.Limits{}, llm.Traits{})
		cfg.Deployments[0].Lacks = "its key: so it is given"
		c := newControl(t, cfg)
		began := time.Now()
		sent := make(chan time.Duration, 1)
		go func() {
			ticket, err := c.Acquire(t.Context(), control.Call{ID: "1", Alias: "m"})
			if err != nil {
				t.Errorf("acquire: %v", err)
				return
			}
			defer ticket.Drop()
			sent <- time.Since(began)
		}()
		ctx, cancel := context.WithCancel(t.Context())
		canceled := make(chan error, 1)
		go func() {
			_, err := c.Acquire(ctx, control.Call{ID: "2", Alias: "m"})
			canceled <- err
		}()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if text, ok := c.Explain("1"); !ok || text != "waits for its key: so it is given" {
			t.Errorf("%t: %q", ok, text)
		}
		if s := c.Snapshot(); !s.Deployments[0].Lacks || s.Unplaced != 2 {
			t.Errorf("%+v", s)
		}
		cancel()
		if err := <-canceled; kind(err) != llm.Canceled {
			t.Errorf("cancelled: %v", err)
		}
		c.Equip("d")
		if after := <-sent; after != 24*time.Hour {
			t.Errorf("it was sent after %s", after)
		}
		if s := c.Snapshot(); s.Deployments[0].Lacks || s.Unplaced != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestLackingOneOfTwo: others answer for a deployment that lacks something; and one that has refused what it had is preferred again when it
// has another.
func TestLackingOneOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := two()
		cfg.Deployments[0].Lacks = "its key"
		c := newControl(t, cfg)
		take := func() *control.Ticket {
			ticket, err := c.Acquire(t.Context(), control.Call{Alias: "m"})
			if err != nil {
				t.Fatal(err)
			}
			return ticket
		}
		ticket := take()
		if ticket.Deployment().Name != "e" {
			t.Errorf("it is sent to %s", ticket.Deployment().Name)
		}
		c.Equip("d")
		ticket.Done(nil, &llm.Error{Kind: llm.Auth, Status: 401, Sent: true})
		if s := c.Snapshot(); s.Deployments[1].AvoidUntil.IsZero() {
			t.Errorf("%+v", s.Deployments[1])
		}
		c.Equip("e")
		if s := c.Snapshot(); !s.Deployments[1].AvoidUntil.IsZero() || s.Deployments[1].Reason != "" {
			t.Errorf("%+v", s.Deployments[1])
		}
		c.Equip("none")
	})
}
