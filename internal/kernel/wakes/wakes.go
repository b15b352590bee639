// Package wakes wakes the processes that are parked in the store when their time has come. It keeps those that are due
// first, a page of them, and reads the next page when these have been woken: what it holds in memory does not grow with the
// number of processes that sleep. It never decides what waking means.
package wakes

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/timers"
)

// page is how many processes are read from the store at once; twice as many are kept at most.
const page = 4096

// workers is how many are woken at the same time: each reads a few rows.
const workers = 4

// pause is how long the list waits before it looks into the store again, where nothing else says when: a process that has
// been woken a moment ago may not have said so there yet.
const pause = 10 * time.Millisecond

// patience is pause after an error.
const patience = time.Second

// Config says what a List is made of.
type Config struct {
	// Due reads the store; own: only what this kernel has parked.
	Due func(ctx context.Context, own bool, limit int) ([]agentkernel.Due, error)
	// Wake wakes a process, or does nothing if it is awake. Several are called at the same time.
	Wake   func(ctx context.Context, pid agentkernel.PID) error
	Timers *timers.Timers
	Go     func(func()) bool // runs a function in a goroutine; false: the kernel is stopping
	Now    func() time.Time
	Logger *slog.Logger
}

// List is the parked processes that have to be woken. The zero value is not usable; see New.
type List struct {
	cfg Config
	ctx context.Context

	mu      sync.Mutex
	due     []agentkernel.Due // sorted; a page or two
	more    bool              // the store has others, none due before upTo
	upTo    time.Time
	unread  bool // the store has others that may be due before those of due
	all     bool // also those that other kernels have parked
	held    bool // nothing is woken now
	timer   *timers.Timer
	at      time.Time // what timer is set for
	ringing bool      // a goroutine wakes what is due
	reading bool      // and asks the store, which may not have what is added meanwhile
}

// New returns an empty list. ctx ends its work.
func New(ctx context.Context, cfg Config) *List { return &List{cfg: cfg, ctx: ctx} }

// TakeAll lets the list wake what other kernels have parked, too.
func (l *List) TakeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all, l.unread = true, true
	l.arm(l.cfg.Now())
}

// Hold keeps the list from waking anything, or lets it again.
func (l *List) Hold(held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held = held; !held {
		l.arm(l.cfg.Now())
	}
}

// Add notes a process that was parked.
func (l *List) Add(d agentkernel.Due) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.more && !l.reading && !l.unread && !d.At.Before(l.upTo) {
		return // it is read when it is the next
	}
	l.insert(d)
	if len(l.due) > 2*page {
		clear(l.due[page:])
		l.due, l.more = l.due[:page], true
		l.upTo = l.due[page-1].At
	}
	l.arm(l.due[0].At)
}

// insert puts a process in its place; l.mu is held.
func (l *List) insert(d agentkernel.Due) {
	i, _ := slices.BinarySearchFunc(l.due, d, func(a, b agentkernel.Due) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.PID, b.PID))
	})
	l.due = slices.Insert(l.due, i, d)
}

// arm sees to it that the list rings at a time, or before; l.mu is held.
func (l *List) arm(at time.Time) {
	if l.ringing || l.timer.Waits() && !at.Before(l.at) {
		return
	}
	l.timer.Stop()
	l.at = at
	l.timer = l.cfg.Timers.At(at, func() { l.cfg.Go(l.ring) })
}

// ring wakes what is due, page by page.
func (l *List) ring() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ringing || l.held {
		return
	}
	l.ringing = true
	next, err := l.wakeDue()
	l.ringing = false
	if l.ctx.Err() != nil {
		return
	}
	if err != nil {
		l.cfg.Logger.Error("parked processes cannot be woken now", "err", err)
		next = l.cfg.Now().Add(patience)
	}
	if len(l.due) > 0 && (next.IsZero() || err == nil && l.due[0].At.Before(next)) {
		next = l.due[0].At
	}
	if !next.IsZero() {
		l.arm(next)
	}
}

// wakeDue wakes what is due now, and says when the store has to be asked; l.mu is held, but while it works.
func (l *List) wakeDue() (next time.Time, err error) {
	for {
		if l.unread || len(l.due) == 0 && l.more {
			if err := l.read(); err != nil {
				return next, err
			}
		}
		n, _ := slices.BinarySearchFunc(l.due, l.cfg.Now(), func(d agentkernel.Due, now time.Time) int {
			if d.At.After(now) {
				return 1
			}
			return -1
		})
		if n == 0 {
			return next, nil
		}
		if l.held {
			return next, nil
		}
		batch := slices.Clone(l.due[:n])
		l.due = slices.Delete(l.due, 0, n)
		l.mu.Unlock()
		failed, err := l.wake(batch)
		l.mu.Lock()
		for _, d := range failed {
			l.insert(d)
		}
		if err != nil || l.ctx.Err() != nil {
			return next, err
		}
		if len(l.due) == 0 && l.more { // give those a moment to say that they are awake
			return l.cfg.Now().Add(pause), nil
		}
	}
}

// read asks the store for the next page; l.mu is held, but while it reads.
func (l *List) read() error {
	var found []agentkernel.Due
	for again := true; again; {
		all := l.all
		l.reading, l.unread = true, false
		l.mu.Unlock()
		var err error
		found, err = l.cfg.Due(l.ctx, !all, page)
		l.mu.Lock()
		l.reading = false
		if err != nil {
			l.unread = true
			return err
		}
		again = all != l.all
	}
	if l.more = len(found) == page; l.more {
		l.upTo = found[page-1].At
	}
	for _, d := range found { // others may have been added meanwhile
		if !slices.Contains(l.due, d) {
			l.insert(d)
		}
	}
	return nil
}

// wake wakes some, and says which it could not and why.
func (l *List) wake(batch []agentkernel.Due) (failed []agentkernel.Due, err error) {
	var group sync.WaitGroup
	var mu sync.Mutex
	next := 0
	for range min(workers, len(batch)) {
		group.Go(func() {
			for {
				mu.Lock()
				if next == len(batch) || l.ctx.Err() != nil {
					mu.Unlock()
					return
				}
				d := batch[next]
				next++
				mu.Unlock()
				if werr := l.cfg.Wake(l.ctx, d.PID); werr != nil {
					mu.Lock()
					failed, err = append(failed, d), werr
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return failed, err
}
