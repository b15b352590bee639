package kernel

import (
	"context"
	"encoding/json"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/ends"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/replay"
	"agentkernel/internal/kernel/steps"
	"agentkernel/internal/kernel/verify"
	"agentkernel/internal/sys"
)

// Verify runs a program on nothing but a journal.
func (h *host) Verify(ctx context.Context, v agentkernel.Verification) (agentkernel.Verified, error) {
	k := (*Kernel)(h)
	p, err := k.verifier(&v)
	if err != nil {
		return agentkernel.Verified{}, err
	}
	if p == nil {
		return agentkernel.Verified{NotBegun: true}, nil
	}
	out := agentkernel.Verified{Engine: p.run.fingerprint, Limits: p.spec.InForce, Output: p.standing.Account.Output}
	if p.run.replay == nil && v.Cut { // nothing was recorded that could be repeated
		out.Repeated = true
		return out, nil
	}
	if err := k.runVerifier(ctx, p); err != nil {
		return out, err
	}
	e := &p.run.verifies.Outcome
	out.Calls, out.Repeated = p.run.calls, e.Err == p.run.verifies.Stop
	out.State, out.ExitCode, out.Result, out.Error = e.State, e.ExitCode, e.Result, e.Err
	return out, nil
}

// runVerifier runs the process of a verification to its end.
func (k *Kernel) runVerifier(ctx context.Context, p *process) error {
	// Close waits for programs that run; this one is in no table in which it could be found.
	release := context.AfterFunc(k.ctx, func() {
		k.killFor(p, agentkernel.Errorf(agentkernel.CodeUnavailable, "replay", "the kernel is stopping"))
	})
	defer release()
	p.mu.Lock()
	p.step(steps.Begin)
	p.mu.Unlock()
	k.queue.Push(p)
	select {
	case <-p.run.verifies.Done:
		return nil
	case <-k.ctx.Done():
	case <-ctx.Done():
	}
	k.killFor(p, agentkernel.Errorf(agentkernel.CodeCanceled, "replay", "the replay was given up"))
	<-p.run.verifies.Done
	if k.ctx.Err() != nil {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "replay", "the kernel is stopping")
	}
	return agentkernel.AsError(ctx.Err(), agentkernel.CodeCanceled, "replay")
}

// verifier makes the process of a verification, or says why its program cannot run here. nil: the program had not begun,
// and needs what only a beginning finds out.
func (k *Kernel) verifier(v *agentkernel.Verification) (*process, error) {
	plan, err := verify.New(v, k.backends, k.cfg.Limits)
	if plan == nil || err != nil {
		return nil, err
	}
	h := plan.History
	// Not a PID of the store's: none is used up, and none is like it.
	p := k.newProcess(agentkernel.PID(k.verifications.Add(-1)), k.specs.Own(&plan.Spec), plan.Backend)
	p.run.fingerprint, p.standing.Noted = plan.Backend.Now().Fingerprint, true
	p.run.bound = &sys.Binding{Tools: plan.Tools}
	p.run.replay = replay.New(h.Queue, plan.Spec.Program.Session, &k.forest.Repeated)
	p.standing.Account = h.Account
	p.run.verifies = &verify.Run{Cut: v.Cut, Last: p.standing.Account.Calls, Done: make(chan struct{}),
		Stop: agentkernel.Errorf(agentkernel.CodeCanceled, "replay", "the recording ends here")}
	if p.run.replay.Empty() { // replayed would end it: it has not begun
		p.run.replay = p.run.replay.Drop()
	}
	return p, nil
}

// beyond deals with a call that the journal of a verification does not have. False: the process has ended.
func (k *Kernel) beyond(p *process, f *inflight, canonical json.RawMessage) bool {
	if f.id < p.run.verifies.Last && f.async {
		// It was under way when the process ended, and not as far as its journal.
		p.mu.Lock()
		p.inflight.Add(f)
		p.mu.Unlock()
		return true
	}
	k.finish(p, ends.For(replay.Diverged("the program goes on with call %d, which the recording does not have: %s", f.id,
		journal.Short(history.Describe(f.op, f.async, canonical), 120))))
	return false
}

// stuck ends a process of a verification that waits: nothing comes from outside.
func (k *Kernel) stuck(p *process) {
	p.mu.Lock()
	waits := p.state == agentkernel.StateWaiting && !p.owned && !p.deliverable()
	cause := p.cause()
	p.mu.Unlock()
	switch {
	case cause != nil:
		k.finish(p, ends.For(cause))
	case waits:
		k.finish(p, ends.For(replay.Diverged("the program waits for a result that the recording does not have")))
	}
}
