package kernel

import (
	"context"
	"unicode/utf8"

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

// watch adds a watcher; p.mu is held.
func (p *process) watch(asks bool) *watch.Watcher {
	w := watch.New(asks)
	p.watchers = append(p.watchers, w)
	if asks { // what was asked before a pause is asked again
		for _, f := range p.inflight {
			if f.asking {
				w.Add(agentkernel.Event{Kind: agentkernel.EventAsk, PID: p.pid, Seq: p.standing.Seq, At: f.since, Ask: f.question()}, p.pos)
			}
		}
	}
	return w
}

func (k *Kernel) unwatch(p *process, w *watch.Watcher) {
	p.mu.Lock()
	for i, x := range p.watchers {
		if x == w {
			p.watchers = append(p.watchers[:i:i], p.watchers[i+1:]...)
			break
		}
	}
	alone := w.Asks() && !p.paused // a pause leaves the question open for whoever resumes
	for _, x := range p.watchers {
		alone = alone && !x.Asks()
	}
	var open []int64
	if alone { // nobody is left who could say yes
		for _, f := range p.inflight {
			if f.asking {
				open = append(open, f.id)
			}
		}
	}
	p.mu.Unlock()
	for _, id := range open {
		// It may have been answered or have ended meanwhile.
		_ = k.answered(p, id, agentkernel.AnswerNo)
	}
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

// validPrefix cuts s to at most n bytes without cutting a character.
func validPrefix(s string, n int) string {
	if n >= len(s) {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:max(n, 0)]
}
