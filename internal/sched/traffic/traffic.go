// Package traffic is the policy of calls to language models: which of those that wait is sent next, and when, so that
// no server refuses one for having had too many. There is a [Controller] for each key and family of models, because that is
// what servers have limits for. The time is passed in; there are no goroutines, locks, clock or I/O.
//
// A limit is a bucket that fills all the time, one each for requests, input, output and all tokens; beside it there may be
// windows of 1 s and 10 s, and a bound on how many calls are under way. A call is charged with an estimate when it is sent,
// and with what it has used when it is settled. Limits come from the configuration and from what servers say of them; where a
// server says nothing, they are found out by what it refuses. Others may use the same key: what a server says is left, and
// each refusal, corrects what is believed.
//
// It must never import anything of this module but sched.
package traffic

import (
	"math"
	"time"
)

// Limit is an amount for each period, as a bucket that has the whole amount at first and fills all the time. The zero value:
// not known, it is learned.
type Limit struct {
	Amount int64
	Period time.Duration // 0: a minute
	// Second and Ten say that the server holds its share of the amount in each second, and in each ten seconds, too.
	Second, Ten bool
}

// Limits are those of one key for one family of models.
type Limits struct {
	Requests, Input, Output, Tokens Limit // tokens; Tokens are input and output together
	// Concurrency is how many calls may be under way at one moment; 0: it is learned. Of several kernels each has its share of it,
	// rounded down.
	Concurrency int
}

// Capacity says how much of a key's limits a controller may use, where several kernels share the key.
type Capacity interface {
	// Lease is the share of all limits, from 0 to 1, and until when it holds; then it is asked again. Whoever gives shares away
	// has to see to it that those which hold at one moment are never more than 1 together, and that a share is given to another
	// only after the answers to calls sent under it can be expected to have come. It must answer at once.
	Lease(key, family string, now time.Time) (share float64, until time.Time)
}

// Config says what a controller is about.
type Config struct {
	Key, Family string // names, as users know them; never a secret
	Limits      Limits
	// CachedInputFree says that input which the server's cache has does not count.
	CachedInputFree bool
	// OutputPrecharged says that the server charges the most that a call may answer when it begins, and gives back at its end
	// what was not used; OutputKept, that it does not give it back.
	OutputPrecharged, OutputKept bool
	Weight                       func(namespace string) int // nil: all have the same
	// Reserved are shares of the capacity, from 0 to 1, that namespaces have as long as they ask for it, whatever the weights
	// of others are. What they do not ask for goes to others.
	Reserved map[string]float64
	Capacity Capacity // nil: all of it, for ever
	// Cost is what a call is expected to use, as it looks now: what is learned while a call waits counts when it is sent. nil: Call.Cost
	// holds.
	Cost func(call *Call) Cost
}

// Cost is what a call uses, in tokens; it is one request.
type Cost struct {
	Input  int64
	Output int64 // as it is expected
	Most   int64 // output at most; 0: Output is all that is known
}

// Usage is what a call has used, in tokens.
type Usage struct {
	Input  int64 // that no cache had
	Cached int64 // input that the server's cache had
	Output int64
}

// Call is one call that waits, or is under way. Its exported fields must not be changed once it was pushed.
type Call struct {
	Namespace, Tree string
	Priority        int // lower is more urgent
	Cost            Cost
	Restartable     bool      // it may be cancelled and sent once more at no cost: see Victim
	Since           time.Time // when it was queued first, from which its age counts; zero: Push sets it
	Owner           any       // whoever pushes it may find here what it belongs to

	state   state
	since   int64
	due     int64
	sent    int64
	links   [2]link // of its tree's lane and its band
	running link
	lane    *lane
	charged [kinds]float64
	held    [kinds]float64
	late    [kinds]float64 // held for long, and charged then
	spent   [kinds]float64 // by all, as far as the server knows of it for certain when this one comes, and by this one
	seen    [kinds]int64   // when the server had said what is left after it
	left    [kinds]float64 // in the buckets, after it
	raised  [kinds]float64 // what had been given back by then, all together
	seconds float64
	work    float64 // seconds, as they looked when it was queued
	victim  bool
	waited  bool // for what a limit lets pass
}

type state int8

const (
	idle state = iota
	queued
	underWay
)

// Controller decides about the calls of one key and family. It is not safe for concurrent use. Times must not go back; one that
// does counts as the last.
type Controller struct {
	cfg     Config
	epoch   time.Time
	now     int64
	queue   queue
	buckets [kinds]bucket

	running    int
	oldest     *Call // of those under way, by their running links
	newest     *Call
	holding    *Call   // the oldest one whose output is held
	bound      float64 // of calls under way
	additive   float64 // from here on the bound grows slowly
	lastShrunk int64

	pausedUntil int64
	backedUntil int64   // a pause of its own after refusals
	hasty       int     // refusals that were close to each other
	flows       bool    // a call was answered that was sent after the last refusal by which a pace was measured
	slack       float64 // seconds of a measured pace that are left for strangers
	refusedAt   int64   // when the last refusal was known
	leasedUntil int64
	share       float64
	blocked     blocked
}

// blocked says since when calls wait for the same thing.
type blocked struct {
	kind  int
	why   waiting
	since int64
}

// FirstBound is how many calls may be under way before anything is known of a server; each answer allows for one more.
const FirstBound = 8

// MostBound is how many calls may be under way at most where no bound is configured.
const MostBound = 1 << 16

// HoldFor is for how long the output of a call is held in a bucket, for the server may charge it at any time. After that it counts as
// charged, though the answer is not there yet: else answers that take minutes could use no more than one bucket in that time.
const HoldFor = 30 * time.Second

// offset is the controller's own time at its beginning: windows reach back.
const offset = int64(time.Hour)

// New returns a controller.
func New(cfg Config, now time.Time) *Controller {
	c := &Controller{cfg: cfg, epoch: now, now: offset, bound: FirstBound, additive: MostBound, share: 1, refusedAt: -1, lastShrunk: -1}
	c.queue.weight, c.queue.reserved = cfg.Weight, cfg.Reserved
	if n := cfg.Limits.Concurrency; n > 0 {
		c.bound = float64(n)
	}
	for i, l := range []Limit{cfg.Limits.Requests, cfg.Limits.Input, cfg.Limits.Output, cfg.Limits.Tokens} {
		b := &c.buckets[i]
		*b = bucket{at: c.now, pacing: pacing{since: c.now}, share: 1, period: 60, short: newWindow(time.Second, c.now), long: newWindow(10*time.Second, c.now), tight: l.Second, loose: l.Ten}
		if l.Period > 0 {
			b.period = l.Period.Seconds()
		}
		if l.Amount > 0 {
			b.source, b.amount = Configured, float64(l.Amount)
			b.level = b.top()
		}
		b.peaks.see(c.now, b.level)
	}
	c.leasedUntil = never
	if cfg.Capacity != nil {
		c.leasedUntil = c.now
		c.lease()
	}
	return c
}

// advance moves the controller to a time.
func (c *Controller) advance(now time.Time) {
	at := offset + int64(now.Sub(c.epoch))
	if at <= c.now {
		return
	}
	c.now = at
	for i := range c.buckets {
		c.buckets[i].advance(c.now)
	}
	if c.now >= c.leasedUntil {
		c.lease()
	}
	for c.holding != nil && c.holding.sent+int64(HoldFor) <= c.now {
		call := c.holding
		for i := range c.buckets {
			b := &c.buckets[i]
			b.set(b.level - call.held[i])
			b.passed += call.held[i]
			b.spent += call.held[i]
			b.release(call.held[i])
			call.late[i], call.held[i] = call.held[i], 0
		}
		c.holding = call.running.after
	}
}

// time is a time of the controller's own as one of the world's.
func (c *Controller) time(at int64) time.Time { return c.epoch.Add(time.Duration(at - offset)) }

// lease asks for the controller's share of the limits.
func (c *Controller) lease() {
	share, until := c.cfg.Capacity.Lease(c.cfg.Key, c.cfg.Family, c.time(c.now))
	c.share, c.leasedUntil = min(max(share, 0), 1), never
	if !until.IsZero() {
		c.leasedUntil = offset + int64(until.Sub(c.epoch))
	}
	if c.leasedUntil <= c.now {
		c.share, c.leasedUntil = 0, c.now+int64(time.Second)
	}
	for i := range c.buckets {
		b := &c.buckets[i]
		full := b.level >= b.top() && b.share >= c.share
		b.share = c.share
		if b.set(b.level); full && b.known() {
			b.set(b.top())
		}
	}
}

// Push queues a call. One that has Since gets the place that it would have if it had been queued then.
func (c *Controller) Push(call *Call, now time.Time) {
	if call.state != idle {
		return
	}
	c.advance(now)
	if call.Since.IsZero() {
		call.Since = c.time(c.now)
	}
	call.since = min(c.now, offset+int64(call.Since.Sub(c.epoch)))
	call.due = call.since + int64(handicap(call.Priority))
	call.state = queued
	call.victim = false
	c.weigh(call)
	call.work = call.seconds
	c.queue.push(call)
}

// Remove takes a call that waits out of the queue, because nobody wants its answer any more. It says whether it waited.
func (c *Controller) Remove(call *Call, now time.Time) bool {
	if call.state != queued {
		return false
	}
	c.advance(now)
	c.queue.remove(call)
	call.state = idle
	return true
}

// Pop takes the next call if it may be sent now, and charges it; nil: none may.
func (c *Controller) Pop(now time.Time) *Call {
	c.advance(now)
	call := c.queue.first()
	if call == nil {
		c.blocked = blocked{}
		return nil
	}
	c.weigh(call)
	kind, why, _ := c.room(call)
	if why != waitNothing {
		call.waited = call.waited || why == waitLevel
		if c.blocked.why != why || c.blocked.kind != kind {
			c.blocked = blocked{kind, why, c.now}
		}
		return nil
	}
	c.queue.remove(call)
	c.queue.serve(call, call.seconds)
	call.state, call.sent = underWay, c.now
	for i := range c.buckets {
		b := &c.buckets[i]
		b.charge(c.now, call.charged[i], call.held[i])
		call.spent[i], call.left[i], call.raised[i] = b.recent.old+call.charged[i], b.level, b.raised
	}
	call.running = link{before: c.newest}
	if c.newest != nil {
		c.newest.running.after = call
	} else {
		c.oldest = call
	}
	c.newest = call
	if c.holding == nil {
		c.holding = call
	}
	c.running++
	return call
}

// weigh works out what a call will be charged with, and how long it occupies the whole capacity.
func (c *Controller) weigh(call *Call) {
	if c.cfg.Cost != nil {
		call.Cost = c.cfg.Cost(call)
	}
	in, out := float64(call.Cost.Input), min(float64(call.Cost.Output), c.mostOutput())
	most := max(out, min(float64(call.Cost.Most), c.mostOutput()))
	call.charged, call.held = [kinds]float64{requests: 1, input: in, tokens: in}, [kinds]float64{}
	call.late, call.seen = [kinds]float64{}, [kinds]int64{}
	if c.cfg.OutputPrecharged {
		call.charged[output], call.charged[tokens] = most, in+most
	} else {
		call.held[output], call.held[tokens] = out, out
	}
	call.seconds = c.seconds(1, in, call.charged[output]+call.held[output])
}

// mostOutput is how much output a call is charged with at most: all that a limit lets pass in its period. A program may ask for far more, and
// whatever becomes of its call, the others who share the key shall not have to wait longer for it.
func (c *Controller) mostOutput() float64 {
	most := math.MaxFloat64
	for _, kind := range []int{output, tokens} {
		if b := &c.buckets[kind]; b.amount > 0 {
			most = min(most, b.amount)
		} else if b.pace > 0 {
			most = min(most, b.pace*b.period)
		}
	}
	return most
}

// seconds is how long something occupies the whole capacity: that of the scarcest limit.
func (c *Controller) seconds(calls, in, out float64) (seconds float64) {
	for i, amount := range [kinds]float64{requests: calls, input: in, output: out, tokens: in + out} {
		if b := &c.buckets[i]; b.amount > 0 {
			seconds = max(seconds, amount*b.period/b.amount)
		} else if b.pace > 0 {
			seconds = max(seconds, amount/b.pace)
		}
	}
	if seconds == 0 { // no limit is known: a thousand tokens are as good a measure as any
		seconds = (calls*100 + in + out) / 1000
	}
	return seconds
}

// room says what keeps the first call from being sent, and when that will be over if nothing else happens.
func (c *Controller) room(call *Call) (kind int, why waiting, at int64) {
	switch {
	case c.share <= 0:
		return 0, waitLease, c.leasedUntil
	case c.pausedUntil > c.now:
		return 0, waitAsked, c.pausedUntil
	case c.backedUntil > c.now:
		return 0, waitBackoff, c.backedUntil
	case c.running >= c.most():
		return 0, waitConcurrency, c.leasedUntil
	}
	at = c.now
	for i := range c.buckets {
		if t, w := c.buckets[i].room(c.now, call.charged[i]+call.held[i]); t > at {
			kind, why, at = i, w, t
		}
	}
	return kind, why, min(at, c.leasedUntil)
}

// most is how many calls may be under way.
func (c *Controller) most() int {
	most := int(math.Floor(c.bound*c.share + tiny))
	if c.cfg.Limits.Concurrency == 0 {
		most = max(most, 1)
	}
	return most
}

// Next is when Pop should be asked again if nothing else happens before; ok is false when that would be no use.
func (c *Controller) Next(now time.Time) (at time.Time, ok bool) {
	c.advance(now)
	call := c.queue.first()
	if call == nil {
		return at, false
	}
	c.weigh(call)
	_, _, next := c.room(call)
	return c.time(next), next != never
}

// Backlog is how long a call that is queued now will have to wait, roughly, if it is neither more urgent than others nor less.
func (c *Controller) Backlog(now time.Time) time.Duration {
	c.advance(now)
	seconds := c.queue.work + float64(max(0, c.pausedUntil-c.now))/1e9
	for i := range c.buckets {
		if b := &c.buckets[i]; b.known() && b.level < b.held {
			seconds += (b.held - b.level) / max(b.rate(), tiny)
		}
	}
	return time.Duration(min(seconds, 1e6) * 1e9)
}

// Queued is how many calls wait.
func (c *Controller) Queued() int { return c.queue.count }

// Running is how many calls are under way.
func (c *Controller) Running() int { return c.running }

// Crowded says that calls wait for others to end, since as many are under way as may be.
func (c *Controller) Crowded() bool { return c.queue.count > 0 && c.running >= c.most() }

// Drop takes back a call that was not sent after all: all that it was charged with is given back.
func (c *Controller) Drop(call *Call, now time.Time) {
	if !c.end(call, now) {
		return
	}
	c.giveBack(call)
}

// giveBack takes back what a call was charged with.
func (c *Controller) giveBack(call *Call) {
	for i := range c.buckets {
		c.buckets[i].settle(call, i, c.now, 0, -call.late[i])
	}
	c.queue.correct(call, -call.seconds)
}

// Settle ends a call that was answered: it is charged with what it has used instead of what was expected.
func (c *Controller) Settle(call *Call, used Usage, now time.Time) {
	if !c.end(call, now) {
		return
	}
	c.flows = c.flows || call.sent > c.buckets[requests].since
	in, out := float64(used.Input), float64(used.Output)
	if !c.cfg.CachedInputFree {
		in += float64(used.Cached)
	}
	c.grow(call)
	c.fit(call, in, out)
	c.charge(call, in, out)
}

// SettleUnknown ends a call that has failed, or was cancelled, after it had reached the server: what was expected stays charged.
func (c *Controller) SettleUnknown(call *Call, now time.Time) {
	if c.end(call, now) {
		c.charge(call, call.charged[input], call.charged[output]+call.held[output]+call.late[output])
	}
}

// charge charges a call with what it has used.
func (c *Controller) charge(call *Call, in, out float64) {
	was := call.charged[output] + call.held[output] + call.late[output]
	if c.cfg.OutputPrecharged && c.cfg.OutputKept {
		out = max(out, call.charged[output])
	}
	is := [kinds]float64{requests: 1, input: in, tokens: in}
	var later [kinds]float64 // what the server charges, or gives back, when it has answered
	if c.cfg.OutputPrecharged {
		is[output], is[tokens] = call.charged[output], in+call.charged[output]
		later[output], later[tokens] = out-call.charged[output], out-call.charged[output]
	} else {
		later[output], later[tokens] = out, out
	}
	for i := range c.buckets {
		c.buckets[i].settle(call, i, c.now, is[i], later[i]-call.late[i])
	}
	c.queue.correct(call, c.seconds(1, in, out)-c.seconds(1, call.charged[input], was))
}

// end takes a call out of those under way.
func (c *Controller) end(call *Call, now time.Time) bool {
	if call.state != underWay {
		return false
	}
	c.advance(now)
	call.state = idle
	c.running--
	at := call.running
	if at.before != nil {
		at.before.running.after = at.after
	} else {
		c.oldest = at.after
	}
	if at.after != nil {
		at.after.running.before = at.before
	} else {
		c.newest = at.before
	}
	if c.holding == call {
		c.holding = at.after
	}
	call.running = link{}
	return true
}

// Pause has all calls wait, because the server wants to be left alone.
func (c *Controller) Pause(d time.Duration, now time.Time) {
	c.advance(now)
	c.pausedUntil = max(c.pausedUntil, c.now+int64(d))
}

// Victim is a call under way that should be cancelled because a more urgent one waits for its place: of those that may be, the
// least urgent one that was sent last. nil: there is none, or cancelling would not help. Each call is named once.
func (c *Controller) Victim(now time.Time) (victim *Call) {
	c.advance(now)
	first := c.queue.first()
	if first == nil {
		return nil
	}
	c.weigh(first)
	if _, why, _ := c.room(first); why != waitConcurrency {
		return nil
	}
	for call := c.newest; call != nil; call = call.running.before {
		if call.victim { // one at a time
			return nil
		}
		if call.Restartable && call.Priority > first.Priority && (victim == nil || call.Priority > victim.Priority) {
			victim = call
		}
	}
	if victim != nil {
		victim.victim = true
	}
	return victim
}

// Paused is for how long the server wants to be left alone.
func (c *Controller) Paused(now time.Time) time.Duration {
	c.advance(now)
	return time.Duration(max(0, c.pausedUntil-c.now))
}
