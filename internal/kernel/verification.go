package kernel

import (
	"context"
	"encoding/json"
	"sync"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/replay"
	"agentkernel/internal/kernel/specs"
	"agentkernel/internal/kernel/steps"
	"agentkernel/internal/sys"
)

// verificationNamespace is where recorded programs run: a worker never changes its namespace, so that one that ran
// a stranger's program serves nobody else.
const verificationNamespace = "$replay"

// verification makes a process repeat a journal and do nothing else: no call is made, nothing is journalled, and
// whatever the journal does not have ends it as a divergence. It is not in the process table.
type verification struct {
	cut     bool               // the journal does not show the program's own end
	last    int64              // number of the last recorded call
	stop    *agentkernel.Error // ends a process that has repeated all of a journal that was cut
	done    chan struct{}      // closed when the process has ended
	once    sync.Once
	outcome ending
}

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
	e := &p.run.verifies.outcome
	out.Calls, out.Repeated = p.run.calls, e.err == p.run.verifies.stop
	out.State, out.ExitCode, out.Result, out.Error = e.state, e.exitCode, e.result, e.err
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
	case <-p.run.verifies.done:
		return nil
	case <-k.ctx.Done():
	case <-ctx.Done():
	}
	k.killFor(p, agentkernel.Errorf(agentkernel.CodeCanceled, "replay", "the replay was given up"))
	<-p.run.verifies.done
	if k.ctx.Err() != nil {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "replay", "the kernel is stopping")
	}
	return agentkernel.AsError(ctx.Err(), agentkernel.CodeCanceled, "replay")
}

// verifier makes the process of a verification, or says why its program cannot run here. nil: the program had not begun,
// and needs what only a beginning finds out.
func (k *Kernel) verifier(v *agentkernel.Verification) (*process, error) {
	unsupported := func(format string, args ...any) error {
		return agentkernel.Errorf(agentkernel.CodeUnsupported, "replay", format, args...)
	}
	found := k.backends.Find(v.Backend)
	program := &v.Spec.Program
	switch {
	case v.Backend == specs.Hosted:
		return nil, unsupported("the program ran outside the kernel and is not in the recording")
	case found == nil:
		return nil, unsupported("the program ran on the backend %.40q, which is not here", v.Backend)
	case !found.Replayable || !program.Language.Replayable():
		return nil, unsupported("programs in %s on the backend %s do not repeat themselves", program.Language, found.Name)
	}
	spec := agentkernel.Spec{Program: *program, Namespace: verificationNamespace, Backend: found.Name, Deny: v.Spec.Deny,
		Limits: verificationLimits(v, k.cfg.Limits)}
	needs, err := found.Check(spec.Program)
	if err != nil {
		return nil, err
	}
	h := history.Fold(history.Base{}, v.Journal)
	var tools []agentkernel.Tool
	noted := h.Noted && json.Unmarshal(h.Tools, &tools) == nil
	if !noted && len(needs.Tools) > 0 {
		return nil, nil
	}
	// Not a PID of the store's: none is used up, and none is like it.
	p := k.newProcess(agentkernel.PID(k.verifications.Add(-1)), k.specs.Own(&spec), found)
	p.run.fingerprint, p.standing.Noted = found.Now().Fingerprint, true
	p.run.bound = &sys.Binding{Tools: tools}
	p.run.replay = replay.New(h.Queue, spec.Program.Session)
	p.standing.Account = h.Account
	p.run.verifies = &verification{cut: v.Cut, last: p.standing.Account.Calls, done: make(chan struct{}),
		stop: agentkernel.Errorf(agentkernel.CodeCanceled, "replay", "the recording ends here")}
	if p.run.replay.Empty() { // replayed would end it: it has not begun
		p.run.replay = nil
	}
	return p, nil
}

// verificationLimits are those of the recorded process where they matter for what the program does, but never more of this
// machine than whoever asks for the verification grants.
func verificationLimits(v *agentkernel.Verification, defaults agentkernel.Limits) agentkernel.Limits {
	granted := agentkernel.Limits{Time: v.Time, Memory: v.Memory}.WithDefaults(defaults)
	l := v.Spec.Limits.WithDefaults(defaults)
	l.Time, l.Memory, l.Wall = min(l.Time, granted.Time), min(l.Memory, granted.Memory), 0
	return l
}

// repeated is called when nothing is left to repeat; p.mu is held.
func (v *verification) repeated(p *process) {
	if v.cut && p.cause() == nil {
		p.endRun(v.stop)
	}
}

// beyond deals with a call that the journal of a verification does not have. False: the process has ended.
func (k *Kernel) beyond(p *process, f *inflight, canonical json.RawMessage) bool {
	if f.id < p.run.verifies.last && f.async {
		// It was under way when the process ended, and not as far as its journal.
		p.mu.Lock()
		p.inflight.add(f)
		p.mu.Unlock()
		return true
	}
	k.finish(p, endingFor(replay.Diverged("the program goes on with call %d, which the recording does not have: %s", f.id,
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
		k.finish(p, endingFor(cause))
	case waits:
		k.finish(p, endingFor(replay.Diverged("the program waits for a result that the recording does not have")))
	}
}

// ended takes how the process of a verification ended.
func (v *verification) ended(e ending) {
	v.once.Do(func() {
		v.outcome = e
		close(v.done)
	})
}
