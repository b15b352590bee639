package kernel

import (
	"context"
	"slices"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/watch"
)

// publish shows an event to the watchers; p.mu is held and the entry behind it is appended.
func (k *Kernel) publish(p *process, ev agentkernel.Event) { k.publishAt(p, p.standing.Seq, ev) }

func (k *Kernel) publishAt(p *process, seq int64, ev agentkernel.Event) {
	if len(p.watchers) == 0 {
		return
	}
	ev.PID, ev.Seq = p.pid, seq
	if ev.At.IsZero() {
		ev.At = k.cfg.Now()
	}
	for _, w := range p.watchers {
		w.Add(ev, p.pos)
	}
}

// watch adds a watcher; p.mu is held.
func (k *Kernel) watch(p *process, asks bool) *watch.Watcher {
	w := watch.New(asks)
	k.listen(p, w)
	return w
}

// listen shows a watcher the events of a process from now on, and, if it answers questions, what is asked below it; p.mu is held.
func (k *Kernel) listen(p *process, w *watch.Watcher) {
	p.watchers = append(p.watchers, w)
	k.table.audience.Join(p.pid, w)
}

func (k *Kernel) unwatch(p *process, w *watch.Watcher) {
	k.table.audience.Leave(p.pid, w)
	p.mu.Lock()
	p.watchers = slices.DeleteFunc(slices.Clone(p.watchers), func(other *watch.Watcher) bool { return other == w })
	p.mu.Unlock()
	k.askers(p, w, k.pauseUnheard)
}

// pump delivers a process's events, each only when what it reports is durable, until the process ends,
// or pauses if untilPause is set. seen is the last journal position that the reader has.
func (k *Kernel) pump(ctx context.Context, p *process, w *watch.Watcher, seen int64, untilPause bool, fn func(agentkernel.Event) error) error {
	return w.Read(ctx, watch.Source{
		Durable: func(ctx context.Context, pos agentkernel.Position) error {
			if p.spec.Durability == agentkernel.DurabilityRelaxed {
				return nil
			}
			return k.store.Flush(ctx, pos)
		},
		Journal: func(ctx context.Context, from int64, fn func(agentkernel.Event) error) (int64, bool, error) {
			return k.replayEvents(ctx, p.pid, from, fn)
		},
	}, seen, untilPause, fn)
}

// replayEvents reports the events that the journal has from a position on, each when it is durable. done: the last was the end.
func (k *Kernel) replayEvents(ctx context.Context, pid agentkernel.PID, from int64, fn func(agentkernel.Event) error) (last int64, done bool, err error) {
	return history.Report(ctx, k.store, pid, from, func(ctx context.Context) error { return k.settledOf(ctx, pid) }, fn)
}
