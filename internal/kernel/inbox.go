package kernel

import (
	"cmp"
	"context"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/sys"
)

// The inbox of a process is in the store: a post is committed with the entry that sent it, and deleted in the batch of the
// entry that took it, so that no crash loses or doubles one. What is in memory is only who waits.

// mail is who looks into an inbox.
type mail struct {
	looking bool // somebody reads it: there is one at most, so that nothing is taken twice
	again   bool // something may have come since it was read
}

// mails are those of the processes that are in memory and have looked.
type mails struct {
	mu  sync.Mutex
	all map[agentkernel.PID]mail
}

func (m *mails) of(pid agentkernel.PID) mail {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[pid]
}

func (m *mails) set(pid agentkernel.PID, now mail) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[agentkernel.PID]mail{}
	}
	if m.all[pid] = now; now == (mail{}) {
		delete(m.all, pid)
	}
}

func (m *mails) drop(pid agentkernel.PID) { m.set(pid, mail{}) }

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
			if err != nil {
				k.mailLater(m.To, err, func() { k.sent([]agentkernel.Post{m}) })
			}
			if p != nil {
				k.look(p)
				k.release(p)
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
	m := &k.table.mails
	if m.of(p.pid).looking {
		m.set(p.pid, mail{looking: true, again: true})
		return
	}
	for again := true; again && p.waitsForMail(); again = m.of(p.pid).again {
		m.set(p.pid, mail{looking: true})
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
	m.drop(p.pid)
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
			k.completeNow(p, f, outcome{Outcome: sys.Outcome{Result: m.Data}, took: []agentkernel.PostID{m.PostID}}, nil)
			return
		}
	}
}
