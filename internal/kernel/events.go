package kernel

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/history"
)

// settleTime is how long output may wait for more before a commit is asked for on its behalf. A program
// that ends within it costs one commit in all.
const settleTime = time.Millisecond

// watcherLimit bounds what a slow reader may leave unread in memory; beyond it the reader is sent back to
// the journal.
const watcherLimit = 8 << 20

// watcher is one reader of a process's events.
type watcher struct {
	mu       sync.Mutex
	events   []agentkernel.Event
	size     int
	pos      agentkernel.Position
	lagged   bool
	err      error
	asks     bool          // answers EventAsk
	poke     chan struct{} // something is there that should not wait for more
	timer    *time.Timer   // pokes when output has settled
	settling bool          // the timer runs
	held     bool          // it need not: whoever reads drives the process itself
}

func newWatcher(asks bool) *watcher {
	return &watcher{asks: asks, poke: make(chan struct{}, 1)}
}

func (w *watcher) add(ev agentkernel.Event, pos agentkernel.Position) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pos = max(w.pos, pos)
	if w.size > watcherLimit && !w.lagged && ev.Kind != agentkernel.EventAsk {
		w.lag()
	}
	if !w.lagged || ev.Kind == agentkernel.EventAsk {
		w.events = append(w.events, ev)
		w.size += len(ev.Text) + 64
		if ev.Ask != nil {
			w.size += len(ev.Ask.Args)
		}
	}
	switch ev.Kind {
	case agentkernel.EventOutput, agentkernel.EventCreated, agentkernel.EventLog:
		w.settle()
	default:
		signal(w.poke)
	}
}

// lag sends the reader back to the journal. Questions stay: no journal has them; w.mu is held.
func (w *watcher) lag() {
	w.events = slices.DeleteFunc(w.events, func(ev agentkernel.Event) bool { return ev.Kind != agentkernel.EventAsk })
	w.size, w.lagged = 0, true
	for _, ev := range w.events {
		w.size += len(ev.Ask.Args) + 64
	}
}

// settle wakes the reader in a while, so that what comes soon shares its commit; w.mu is held.
func (w *watcher) settle() {
	switch {
	case w.settling || w.held:
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(settleTime, func() { signal(w.poke) })
	default:
		w.timer.Reset(settleTime)
	}
	w.settling = true
}

// hold lets output wait for a reader that will look by itself, until letGo. A timer costs as much as a small program.
func (w *watcher) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = true
}

func (w *watcher) letGo() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = false
	if len(w.events) > 0 && len(w.poke) == 0 {
		w.settle()
	}
}

// hurry wakes the reader now if there is something to read.
func (w *watcher) hurry() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.events) > 0 || w.lagged {
		signal(w.poke)
	}
}

func (w *watcher) fail(err error) {
	w.mu.Lock()
	if w.err == nil {
		w.err = err
	}
	w.mu.Unlock()
	signal(w.poke)
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// wait returns when there is something worth a commit.
func (w *watcher) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.poke:
		return nil
	}
}

func (w *watcher) take() (events []agentkernel.Event, pos agentkernel.Position, lagged bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events, lagged, pos = w.events, w.lagged, w.pos
	w.events, w.size, w.lagged = nil, 0, false
	if w.settling {
		w.timer.Stop()
		w.settling = false
	}
	return events, pos, lagged, w.err
}

// publish shows an event to the watchers; p.mu is held and the entry behind it is appended.
func (k *Kernel) publish(p *process, ev agentkernel.Event) { k.publishAt(p, p.seq, ev) }

func (k *Kernel) publishAt(p *process, seq int64, ev agentkernel.Event) {
	if len(p.watchers) == 0 {
		return
	}
	ev.PID, ev.Seq = p.pid, seq
	if ev.At.IsZero() {
		ev.At = k.cfg.Now()
	}
	for _, w := range p.watchers {
		if ev.Kind != agentkernel.EventAsk || w.asks {
			w.add(ev, p.pos)
		}
	}
}

// watch adds a watcher; p.mu is held.
func (p *process) watch(asks bool) *watcher {
	w := newWatcher(asks)
	p.watchers = append(p.watchers, w)
	if asks { // what was asked before a pause is asked again
		for _, f := range p.inflight {
			if f.asking {
				w.add(agentkernel.Event{Kind: agentkernel.EventAsk, PID: p.pid, Seq: p.seq, At: f.since, Ask: f.question()}, p.pos)
			}
		}
	}
	return w
}

func (k *Kernel) unwatch(p *process, w *watcher) {
	p.mu.Lock()
	for i, x := range p.watchers {
		if x == w {
			p.watchers = append(p.watchers[:i:i], p.watchers[i+1:]...)
			break
		}
	}
	alone := w.asks && !p.paused // a pause leaves the question open for whoever resumes
	for _, x := range p.watchers {
		alone = alone && !x.asks
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
		_ = k.Answer(context.Background(), p.pid, id, agentkernel.AnswerNo)
	}
}

// pump delivers a process's events, each only when what it reports is durable, until the process ends,
// or pauses if untilPause is set. seen is the last journal position that the reader has.
func (k *Kernel) pump(ctx context.Context, p *process, w *watcher, seen int64, untilPause bool, fn func(agentkernel.Event) error) error {
	read := seen // in the journal
	for {
		if err := w.wait(ctx); err != nil {
			return err
		}
		events, pos, lagged, failure := w.take()
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

// jsonString writes text that may come from a sandbox: what is not UTF-8 in it is replaced.
func jsonString(s string) json.RawMessage {
	return journal.AppendString(nil, strings.ToValidUTF8(s, "\uFFFD"))
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
