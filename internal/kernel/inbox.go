package kernel

import (
	"time"

	"agentkernel"
	"agentkernel/internal/sys"
)

// The inbox of a process is in the store: a post is committed with the entry that sent it, and deleted in the batch of the
// entry that took it, so that no crash loses or doubles one. What is in memory is only who waits.

// sent lets those look into their inboxes who have been sent something.
func (k *Kernel) sent(posts []agentkernel.Post) {
	for i, m := range posts {
		if i > 0 && posts[i-1].To == m.To {
			continue
		}
		k.external.Go(func() {
			p, err := k.acquire(k.ctx, m.To)
			if err != nil {
				k.mailLater(m.To, err, func() { k.sent([]agentkernel.Post{m}) })
			}
			if p != nil {
				k.look(p)
				k.unpin(p)
			}
		})
	}
}

// mailRetry is how long a read of an inbox that failed is waited for before it is tried again.
const mailRetry = time.Second

// mailLater tries again what could not be read: what was sent is in the store, and must not wait for the next kernel.
func (k *Kernel) mailLater(pid agentkernel.PID, why error, again func()) {
	if k.ctx.Err() != nil {
		return
	}
	k.cfg.Logger.Error("an inbox cannot be read now", "pid", pid, "err", why)
	k.timers.After(mailRetry, func() { k.external.Go(again) })
}

// look hands a process what its inbox has for those of its calls that wait for that, the most urgent first.
func (k *Kernel) look(p *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !k.table.looks.Begin(p.pid) {
		return
	}
	for again := true; again && p.waitsForMail(); again = k.table.looks.Again(p.pid) {
		p.mu.Unlock()
		posts, err := k.store.Inbox(k.ctx, p.pid)
		p.mu.Lock()
		if err != nil {
			k.mailLater(p.pid, err, func() { k.look(p) })
			break
		}
		for i := range posts {
			k.take(p, &posts[i])
		}
	}
	k.table.looks.End(p.pid)
}

// waitsForMail says whether a call of the process waits for its inbox; p.mu is held.
func (p *process) waitsForMail() bool {
	if p.state.Terminal() {
		return false
	}
	for _, f := range p.inflight {
		if f.mail != "" {
			return true
		}
	}
	return false
}

// take answers the first call that waits for a post of this kind; p.mu is held.
func (k *Kernel) take(p *process, m *agentkernel.Post) {
	if m.Kind == agentkernel.PostSignal && p.standing.Account.Masks > 0 {
		return
	}
	for _, f := range p.inflight {
		if f.mail == m.Kind && f.intended() {
			f.timer.Stop()
			k.completeLocked(p, f, outcome{Outcome: sys.Outcome{Result: m.Data}, took: []agentkernel.PostID{m.PostID}}, nil)
			return
		}
	}
}
