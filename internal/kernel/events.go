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
		if ev.Kind != agentkernel.EventAsk || w.Asks() {
			w.Add(ev, p.pos)
		}
	}
}

// watch adds a watcher; p.mu is held. One who answers hears what was asked before, and lets a process go on that waited for him.
func (k *Kernel) watch(p *process, asks bool) *watch.Watcher {
	w := watch.New(asks)
	p.watchers = append(p.watchers, w)
	if !asks {
		return w
	}
	for _, f := range p.inflight {
		if f.asking {
			w.Add(agentkernel.Event{Kind: agentkernel.EventAsk, PID: p.pid, Seq: p.standing.Seq, At: f.since, Ask: f.question()}, p.pos)
		}
	}
	if p.unheard() {
		k.resume(p)
	}
	return w
}

func (k *Kernel) unwatch(p *process, w *watch.Watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.watchers, w); i >= 0 {
		p.watchers = slices.Delete(slices.Clone(p.watchers), i, i+1)
	}
	k.pauseUnheard(p)
}

// pump delivers a process's events, each only when what it reports is durable, until the process ends,
// or pauses if untilPause is set. seen is the last journal position that the reader has.
func (k *Kernel) pump(ctx context.Context, p *process, w *watch.Watcher, seen int64, untilPause bool, fn func(agentkernel.Event) error) error {
	read := seen // in the journal
	for {
		if err := w.Wait(ctx); err != nil {
			return err
		}
		events, pos, lagged, failure := w.Take()
		if p.spec.Durability != agentkernel.DurabilityRelaxed && (len(events) > 0 || lagged) {
			if err := k.store.Flush(ctx, pos); err != nil {
				return err
			}
		}
		if lagged {
			paused := false
			last, done, err := k.replayEvents(ctx, p.pid, seen+1, func(ev agentkernel.Event) error {
				paused = ev.Process != nil && ev.Process.Paused
				return fn(ev)
			})
			if err != nil || done || untilPause && paused {
				return err
			}
			seen, read = max(seen, last), max(read, last)
		}
		for _, ev := range events {
			known := ev.Seq <= seen
			switch ev.Kind {
			case agentkernel.EventAsk, agentkernel.EventState:
				known = false
			case agentkernel.EventIdle: // it may come after what was journalled behind it: a session that is resumed while its piece is given up
				known = ev.Seq <= read
			}
			if known {
				continue
			}
			seen = max(seen, ev.Seq)
			if err := fn(ev); err != nil {
				return err
			}
			if ev.Kind == agentkernel.EventEnd || untilPause && ev.Kind == agentkernel.EventState && ev.Process.Paused {
				return nil
			}
		}
		if failure != nil {
			return failure
		}
	}
}

// replayEvents reports the events that the journal has from a position on, each when it is durable. done: the last was the end.
func (k *Kernel) replayEvents(ctx context.Context, pid agentkernel.PID, from int64, fn func(agentkernel.Event) error) (last int64, done bool, err error) {
	return history.Report(ctx, k.store, pid, from, func(ctx context.Context) error { return k.settledOf(ctx, pid) }, fn)
}
