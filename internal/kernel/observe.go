package kernel

import (
	"time"

	"agentkernel"
)

// observe tells the observer of a batch that is in the journal now; p.mu is held.
func (k *Kernel) observe(p *process, b *agentkernel.Batch) {
	if k.observed != nil {
		k.observed.Appended(b.Entries, p.snapshot, p.spec.Namespace, k.label)
	}
}

// observeAgain tells the observer of a call that an earlier kernel has begun, and remembers one of a process that is read back.
func (k *Kernel) observeAgain(p *process, f *inflight) {
	if k.observed != nil {
		told := p.parked != nil && p.parked.Kernel == k.stamp()
		k.observed.Again(told, p.parked != nil, agentkernel.ObservedCall{PID: p.pid, Namespace: p.spec.Namespace, Call: f.id, Op: f.op, Label: f.label, Effect: f.effect, Begun: f.since})
	}
}

// observeWait tells the observer that a process which waited may run; p.mu is held.
func (k *Kernel) observeWait(p *process) {
	if k.observed == nil {
		return
	}
	w := agentkernel.ObservedWait{PID: p.pid, Namespace: p.spec.Namespace, Until: k.cfg.Now(), Parked: p.run.box == nil}
	if p.run.lastRun != 0 {
		w.Since = time.Unix(0, p.run.lastRun)
	}
	k.observed.Waited(w)
}
