package kernel

import (
	"cmp"
	"context"

	"agentkernel"
	"agentkernel/internal/sys"
)

// The inbox of a process is in the store: a post is committed with the entry that sent it, and deleted in the batch of the
// entry that took it, so that no crash loses or doubles one. What is in memory is only who waits.

// mail is what a process waits for out of its inbox.
type mail struct {
	looking bool // somebody reads the inbox: there is one at most, so that nothing is taken twice
	again   bool // something may have come since it was read
}

// send puts what a family sends with a call into the batch of the call; p.mu is held.
func (p *process) send(posts []sys.Post) (sent []agentkernel.Post) {
	for _, m := range posts {
		sent = append(sent, agentkernel.Post{To: m.To, Kind: m.Kind, Priority: cmp.Or(m.Priority, agentkernel.DefaultPriority), Data: m.Data})
	}
	return sent
}

// reachable refuses posts to who cannot have any: of another namespace, ended, or never there.
func (k *Kernel) reachable(ctx context.Context, p *process, f *inflight, posts []sys.Post) error {
	for _, m := range posts {
		rec, err := k.store.Process(ctx, m.To)
		switch {
		case err != nil && agentkernel.CodeOf(err) != agentkernel.CodeNotFound:
			return err
		case err != nil || rec.Namespace != p.spec.Namespace:
			return agentkernel.Errorf(agentkernel.CodeNotFound, f.op, "there is no process %d", m.To)
		case rec.State.Terminal():
			return agentkernel.Errorf(agentkernel.CodeConflict, f.op, "process %d has ended: %s", m.To, rec.State)
		}
	}
	return nil
}

// sent lets those look into their inboxes who have been sent something.
func (k *Kernel) sent(posts []agentkernel.Post) {
	for i, m := range posts {
		if i > 0 && posts[i-1].To == m.To {
			continue
		}
		k.external.Go(func() {
			p, err := k.acquire(k.ctx, m.To)
			if err != nil && k.ctx.Err() == nil {
				k.cfg.Logger.Error("a process cannot be told of what it was sent", "pid", m.To, "err", err)
			}
			if p != nil {
				k.look(p)
				k.release(p)
			}
		})
	}
}

// look hands a process what its inbox has for those of its calls that wait for that, the most urgent first.
func (k *Kernel) look(p *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mail == nil {
		p.mail = &mail{}
	}
	if p.mail.again = true; p.mail.looking {
		return
	}
	p.mail.looking = true
	for p.mail.again && p.waitsForMail() {
		p.mail.again = false
		p.mu.Unlock()
		posts, err := k.store.Inbox(k.ctx, p.pid)
		p.mu.Lock()
		if err != nil {
			if k.ctx.Err() == nil {
				k.cfg.Logger.Error("an inbox cannot be read", "pid", p.pid, "err", err)
			}
			break
		}
		for i := range posts {
			k.take(p, &posts[i])
		}
	}
	p.mail.looking = false
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
	for _, f := range p.inflight {
		if f.mail == m.Kind && f.intended() {
			f.timer.Stop()
			k.completeNow(p, f, outcome{Outcome: sys.Outcome{Result: m.Data}, took: []agentkernel.PostID{m.PostID}}, nil)
			return
		}
	}
}
