package monty

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"agentkernel"
)

// Stats counts the workers of a backend.
type Stats struct {
	Workers int   `json:"workers"` // processes, starting ones included
	Busy    int   `json:"busy"`    // with a sandbox
	Idle    int   `json:"idle"`    // waiting for another program of their namespace
	Spare   int   `json:"spare"`   // never used
	Waiting int   `json:"waiting"` // sandboxes that wait for a worker
	Started int64 `json:"started"` // since the beginning
	Killed  int64 `json:"killed"`  // thrown away after something odd
}

// pool lends workers. A worker belongs to the namespace of its first program for ever; a fresh one belongs
// to none. Who has to wait is served in the order of asking.
type pool struct {
	cfg    *Config
	engine *engine
	walls  *walls

	mu       sync.Mutex
	closed   bool
	all      map[*worker]bool // value: busy
	starting int              // slots taken by workers that are being started
	spares   int              // how many of these are to be spares
	fresh    []*worker
	idle     map[string][]*worker // by namespace, the one used last at the end
	waiters  *list.List           // of *waiter
	retire   Timer
	cleaner  Timer
	cleaning bool  // cleaner runs
	later    Timer // will start a spare
	counts   struct{ started, killed int64 }
	quit     context.Context
	stop     context.CancelFunc
	tasks    int        // goroutines of the pool and starts under way
	rest     *sync.Cond // tasks is 0
}

// waiter is a sandbox that waits. It is handed a worker, or nil: the right to start one.
type waiter struct {
	namespace string
	wall      uint64 // what the worker needs at least
	grant     chan *worker
}

func newPool(cfg *Config, e *engine) *pool {
	p := &pool{cfg: cfg, engine: e, walls: newWalls(cfg), all: map[*worker]bool{}, idle: map[string][]*worker{}, waiters: list.New()}
	p.quit, p.stop = context.WithCancel(context.Background())
	p.rest = sync.NewCond(&p.mu)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replenish()
	return p
}

var errPoolClosed = agentkernel.Errorf(agentkernel.CodeCanceled, "monty", "the backend is closed")

// acquire gives a worker that is configured and idle; it may be soiled. It retries with another one when the first turns
// out to have died in the meantime.
func (p *pool) acquire(ctx context.Context, namespace string, conf settings) (*worker, error) {
	for left := wallTries; ; {
		w, fromPool, err := p.take(ctx, namespace, conf)
		if err != nil {
			return nil, err
		}
		if fromPool && w.ended() {
			p.release(w, false)
			continue
		}
		if w.conf == conf && fromPool {
			return w, nil
		}
		if err = w.configure(conf); err == nil && fromPool {
			err = w.settle(ctx)
		} else if err == nil {
			err = p.settle(ctx, w)
		}
		if err == nil {
			return w, nil
		}
		p.release(w, false)
		if bad := p.engine.doubt(ctx); bad != nil {
			return nil, bad
		}
		if left--; ctx.Err() == nil && !fromPool && errors.Is(err, errLost) && left > 0 {
			continue
		}
		if ctx.Err() != nil || !fromPool || agentkernel.CodeOf(err) == agentkernel.CodeUnavailable {
			return nil, err
		}
	}
}

// acquireNow gives a worker if one is idle and configured like this; nil: acquire has to wait for one.
func (p *pool) acquireNow(namespace string, conf settings) *worker {
	p.mu.Lock()
	var w *worker
	if !p.closed {
		w = p.pick(namespace, conf.wall())
	}
	if w != nil {
		p.replenish()
	}
	p.mu.Unlock()
	switch {
	case w == nil:
		return nil
	case w.ended():
		p.release(w, false)
		return nil
	case w.conf != conf:
		p.release(w, true)
		return nil
	}
	return w
}

// take gives a worker and says whether it stood in the pool.
func (p *pool) take(ctx context.Context, namespace string, conf settings) (w *worker, fromPool bool, err error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, false, errPoolClosed
	}
	if w = p.pick(namespace, conf.wall()); w != nil {
		p.replenish()
		p.mu.Unlock()
		return w, true, nil
	}
	// A spare that is being started is there sooner than a worker that begins now.
	spare := p.waiters.Len() < p.spares && conf.wall() <= spareSettings().wall()
	if !spare && (p.size() < p.cfg.Workers || p.waiters.Len() == 0 && p.evict()) && p.size() < p.cfg.Workers {
		p.reserve()
		p.mu.Unlock()
		w, err = p.spawn(ctx, namespace, conf)
		return w, false, err
	}
	wt := &waiter{namespace: namespace, wall: conf.wall(), grant: make(chan *worker, 1)}
	at := p.waiters.PushBack(wt)
	p.mu.Unlock()
	select {
	case w, ok := <-wt.grant:
		switch {
		case !ok:
			return nil, false, errPoolClosed
		case w != nil:
			return w, true, nil
		}
		w, err = p.spawn(ctx, namespace, conf)
		return w, false, err
	case <-ctx.Done():
		p.giveUp(at, wt)
		return nil, false, ctx.Err()
	}
}

// giveUp takes a waiter out of the queue, passing on what it may have been handed at the same moment.
func (p *pool) giveUp(at *list.Element, wt *waiter) {
	p.mu.Lock()
	p.waiters.Remove(at)
	p.mu.Unlock()
	select {
	case w, ok := <-wt.grant:
		switch {
		case ok && w != nil:
			p.release(w, true)
		case ok:
			p.mu.Lock()
			p.unreserve()
			p.serve()
			p.mu.Unlock()
		}
	default:
	}
}

func (p *pool) size() int { return len(p.all) + p.starting }

// reserve takes the slot of a worker that is about to be started.
func (p *pool) reserve() {
	p.starting++
	p.tasks++
}

func (p *pool) unreserve() {
	p.starting--
	p.done()
}

// background runs f, which ends soon; close waits for it. p.mu is held.
func (p *pool) background(f func()) {
	p.tasks++
	go func() {
		f()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.done()
	}()
}

func (p *pool) done() {
	p.tasks--
	if p.tasks == 0 {
		p.rest.Broadcast()
	}
}

// pick takes an idle worker of the namespace, else a fresh one. Their walls have to be wide enough.
func (p *pool) pick(namespace string, wall uint64) *worker {
	ws := p.idle[namespace]
	for i := len(ws) - 1; i >= 0; i-- {
		if w := ws[i]; w.wall >= wall {
			p.setIdle(namespace, slices.Delete(ws, i, i+1))
			p.all[w] = true
			return w
		}
	}
	if n := len(p.fresh); n > 0 && p.fresh[n-1].wall >= wall {
		w := p.fresh[n-1]
		p.fresh = p.fresh[:n-1]
		w.namespace = namespace
		p.all[w] = true
		return w
	}
	return nil
}

func (p *pool) setIdle(namespace string, ws []*worker) {
	if len(ws) == 0 {
		delete(p.idle, namespace)
		return
	}
	p.idle[namespace] = ws
}

// evict kills the idle worker that waited longest, whatever its namespace, or else a spare; its slot is free
// at once.
func (p *pool) evict() bool {
	var oldest *worker
	for _, ws := range p.idle {
		if w := ws[0]; oldest == nil || w.idleSince.Before(oldest.idleSince) {
			oldest = w
		}
	}
	if oldest == nil && len(p.fresh) > 0 {
		oldest = p.fresh[0]
	}
	if oldest == nil {
		return false
	}
	p.drop(oldest)
	return true
}

// drop takes an idle or fresh worker out of the pool and kills it.
func (p *pool) drop(w *worker) {
	p.forget(w)
	p.background(func() { w.kill(errRetired) })
	p.bury(w)
}

// bury clears away what is left of a worker that ends or has ended and that nobody uses.
func (p *pool) bury(w *worker) {
	p.background(func() {
		<-w.buried
		w.closePipes()
	})
}

var errRetired = errors.New("the worker was retired")

// forget removes a worker from every list.
func (p *pool) forget(w *worker) {
	delete(p.all, w)
	if i := slices.Index(p.fresh, w); i >= 0 {
		p.fresh = slices.Delete(p.fresh, i, i+1)
	}
	if ws := p.idle[w.namespace]; slices.Contains(ws, w) {
		p.setIdle(w.namespace, slices.DeleteFunc(ws, func(x *worker) bool { return x == w }))
	}
}

// spawn starts a worker in a slot that was counted as starting.
func (p *pool) spawn(ctx context.Context, namespace string, conf settings) (*worker, error) {
	w, err := p.launch(ctx, conf)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil && p.closed:
		err = errPoolClosed
		p.drop(w)
	case err == nil:
		w.namespace = namespace
		p.all[w] = true
	}
	p.unreserve()
	if err != nil {
		p.serve()
		return nil, err
	}
	p.replenish()
	return w, nil
}

// launch starts a worker process. The version of the engine is asked for beside it, once, unless another kernel has.
func (p *pool) launch(ctx context.Context, conf settings) (*worker, error) {
	path, err := p.engine.find()
	if err != nil {
		return nil, err
	}
	verdict := make(chan error, 1)
	go func() { verdict <- p.engine.check(ctx, path) }()
	w, err := p.walls.start(ctx, path, conf, p.ended)
	bad := <-verdict
	if bad == nil && err != nil {
		bad = p.engine.doubt(ctx)
	}
	if late := cmp.Or(bad, err); errors.Is(late, errLate) && p.walls.stillHung() == nil {
		p.walls.hangs(late)
	}
	if bad != nil {
		if w != nil {
			p.mu.Lock()
			p.drop(w)
			p.mu.Unlock()
		}
		return nil, bad
	}
	if err == nil {
		p.mu.Lock()
		p.counts.started++
		p.mu.Unlock()
	}
	return w, err
}

// settle waits until a new worker is ready, and keeps in mind whether the engine answers at all.
func (p *pool) settle(ctx context.Context, w *worker) error {
	err := w.settle(ctx)
	switch {
	case err == nil:
		p.walls.hung.Store(nil)
	case errors.Is(err, errLate):
		err = p.walls.hungNow(w.engine)
	}
	return err
}

// hung is why no worker is asked for: the engine did not answer when it was started last. After a while it is tried
// again, beside the programs that go elsewhere meanwhile.
func (p *pool) hung() error {
	h := p.walls.hung.Load()
	if h == nil {
		return nil
	}
	if p.walls.stillHung() == nil {
		p.mu.Lock()
		p.replenish()
		p.mu.Unlock()
	}
	return h.err
}

// release takes a worker back: for the next program of its namespace, or, after anything odd, to be killed.
func (p *pool) release(w *worker, healthy bool) {
	w.unbind()
	p.mu.Lock()
	defer p.mu.Unlock()
	healthy = healthy && !p.closed && w.killedFor() == nil
	if _, mine := p.all[w]; !mine { // it ended by itself and was forgotten
		p.bury(w)
		return
	}
	if !healthy {
		p.counts.killed++
		p.drop(w)
		p.serve()
		p.replenish()
		return
	}
	if front := p.waiters.Front(); front != nil {
		wt := front.Value.(*waiter)
		if wt.namespace == w.namespace && wt.wall <= w.wall {
			p.waiters.Remove(front)
			wt.grant <- w
			return
		}
		if p.waiters.Len() > p.spares { // else those who wait are about to get what is being started
			p.drop(w) // the first in the queue may not have it, but may have its slot
			p.serve()
			return
		}
	}
	p.all[w] = false
	w.idleSince = p.cfg.Clock.Now()
	p.idle[w.namespace] = append(p.idle[w.namespace], w)
	p.armRetire()
	p.armClean()
}

// serve gives free slots and fresh workers to those who wait.
func (p *pool) serve() {
	for front := p.waiters.Front(); front != nil && !p.closed; front = p.waiters.Front() {
		wt := front.Value.(*waiter)
		w := p.pick(wt.namespace, wt.wall)
		if w == nil {
			if p.size() >= p.cfg.Workers && !p.evict() {
				return
			}
			p.reserve()
		}
		p.waiters.Remove(front)
		wt.grant <- w
	}
}

// replenish starts spare workers beside everything else, if there is room.
func (p *pool) replenish() {
	for !p.closed && len(p.fresh)+p.spares < p.cfg.Spare && p.size() < p.cfg.Workers {
		p.reserve()
		p.spares++
		go p.startSpare()
	}
}

func spareSettings() settings { return settingsOf(agentkernel.DefaultLimits()) }

func (p *pool) startSpare() {
	w, err := p.launch(p.quit, spareSettings())
	if err == nil {
		err = p.settle(p.quit, w)
	}
	if err != nil {
		_ = p.engine.doubt(p.quit) // the next Start is told
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spares--
	p.unreserve()
	if err != nil && p.quit.Err() == nil { // the next Start reports it to somebody who can do something about it
		p.cfg.Logger.Debug("no spare monty worker", "error", err)
	}
	switch {
	case w == nil:
		p.serve()
	case err != nil || w.ended():
		p.bury(w)
		p.serve()
	case p.closed:
		p.drop(w)
	default:
		p.all[w] = false
		p.fresh = append(p.fresh, w)
		p.serve()
		if len(p.fresh) == 0 && p.later == nil {
			p.later = p.cfg.Clock.AfterFunc(spareAfter, p.replenishLater)
		}
	}
}

// spareAfter is how long after a spare that was waited for the next is started: beside the program that has waited, it
// would take the processor from it.
const spareAfter = 10 * time.Millisecond

func (p *pool) replenishLater() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.later = nil
	p.replenish()
}

// ended is told of every worker process that is gone.
func (p *pool) ended(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	busy, known := p.all[w]
	if !known {
		return
	}
	p.forget(w)
	p.counts.killed++
	if w.killedFor() == nil {
		p.cfg.Logger.Warn("a worker of Monty ended that nobody had told to", "how", w.how, "busy", busy)
	}
	if !busy {
		p.bury(w)
	}
	p.serve()
	p.replenish()
}

// armRetire sees to it that idle workers are looked at again.
func (p *pool) armRetire() {
	if p.retire == nil {
		p.retire = p.cfg.Clock.AfterFunc(p.cfg.IdleAfter, p.retireIdle)
	}
}

// cleanAfter is how long an idle worker keeps what the last program left in it. A program that comes sooner has it wiped
// in the same message that brings it: to wake the worker takes longer than to wipe it.
const cleanAfter = 10 * time.Millisecond

// armClean sees to it that workers are wiped also if no other program comes.
func (p *pool) armClean() {
	if p.cleaning {
		return
	}
	p.cleaning = true
	if p.cleaner == nil {
		p.cleaner = p.cfg.Clock.AfterFunc(cleanAfter, p.cleanIdle)
	} else {
		p.cleaner.Reset(cleanAfter)
	}
}

// cleanIdle wipes the workers that have been idle for long enough.
func (p *pool) cleanIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleaning = false
	if p.closed {
		return
	}
	now := p.cfg.Clock.Now()
	left := false
	for _, ws := range p.idle {
		for _, w := range slices.Clone(ws) {
			switch {
			case w.soiled && now.Sub(w.idleSince) < cleanAfter:
				left = true
			case w.clean() != nil:
				p.drop(w)
			}
		}
	}
	if left {
		p.armClean()
	}
}

// retireIdle kills the workers that nobody used for a while. The spares stay.
func (p *pool) retireIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retire = nil
	if p.closed {
		return
	}
	now := p.cfg.Clock.Now()
	var next time.Duration
	for _, ws := range p.idle {
		for _, w := range slices.Clone(ws) {
			if left := p.cfg.IdleAfter - now.Sub(w.idleSince); left <= 0 {
				p.drop(w)
			} else if next == 0 || left < next {
				next = left
			}
		}
	}
	if next > 0 {
		p.retire = p.cfg.Clock.AfterFunc(next, p.retireIdle)
	}
}

func (p *pool) stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stats{Workers: p.size(), Spare: len(p.fresh), Waiting: p.waiters.Len(),
		Started: p.counts.started, Killed: p.counts.killed}
	for _, busy := range p.all {
		if busy {
			s.Busy++
		}
	}
	s.Idle = s.Workers - p.starting - s.Busy - s.Spare
	return s
}

// close kills every worker and waits until they are gone.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.stop()
	if p.retire != nil {
		p.retire.Stop()
	}
	if p.cleaner != nil {
		p.cleaner.Stop()
	}
	if p.later != nil {
		p.later.Stop()
	}
	for at := p.waiters.Front(); at != nil; at = at.Next() {
		close(at.Value.(*waiter).grant)
	}
	p.waiters.Init()
	var busy []*worker
	for w, b := range p.all {
		if b { // whoever uses it closes its pipes
			busy = append(busy, w)
			continue
		}
		p.drop(w)
	}
	p.mu.Unlock()
	for _, w := range busy {
		w.kill(errPoolClosed)
	}
	for _, w := range busy {
		<-w.buried
	}
	p.engine.tidied.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.tasks > 0 {
		p.rest.Wait()
	}
}
