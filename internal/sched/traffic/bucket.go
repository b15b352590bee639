package traffic

import (
	"math"
	"time"
)

// What a limit bounds, in the order of Limits.
const (
	requests = iota
	input
	output
	tokens
	kinds
)

// tiny is what sums of floats may be off.
const tiny = 1e-6

// never is a time that does not come.
const never = math.MaxInt64

// Source says where a limit is known from.
type Source string

// The sources of limits.
const (
	Unknown    Source = ""
	Configured Source = "config"
	Headers    Source = "headers" // the server says it
	Answers    Source = "answers" // found out by what the server refused
)

// bucket is one limit of a server: Amount for each Period, as a bucket that leaks all the time.
//
// It is never fuller than the server's. What is charged when a request is sent is charged by the server up to Guard later, and
// a level that is bounded at the top refills less the later it is charged; so the bucket is smaller by what comes in during
// Guard. What is charged at an unknown time until the answer is there (output) is held until then and charged last.
type bucket struct {
	source Source
	amount float64 // for each period; 0: not known
	period float64 // seconds
	pace   float64 // for each second: what the server has let pass when it refused, as far as that is less; 0: not known
	share  float64 // of it, that this controller has
	level  float64
	held   float64
	margin float64 // what is left in the bucket for strangers with the same key
	faded  int64   // when the margin was last made smaller
	at     int64   // what level is about
	full   int64   // since when the level has been at its top; never: it is not
	peaks  peaks
	raised float64   // what was given back, all together
	recent spendings // what spent was lately
	spent  float64   // what all requests together were charged with, before any of it was given back
	under  float64   // what those under way were charged with when they were sent, of which the server has not said what is left after them
	said   int64     // when the level was last set to what the server had said

	short, long  *window // 1 s and 10 s
	tight, loose bool    // whether short and long bind

	pacing
	guess guess // of period
	told  bool  // the server has said what is left
}

// spendings are what was spent before two moments, of which one is at least Guard ago.
type spendings struct {
	last     int64 // when something was spent last
	at       int64
	new, old float64
}

// note notes what was spent before something is spent now.
func (r *spendings) note(now int64, spent float64) {
	switch {
	case now-r.last >= int64(Guard):
		r.at, r.new, r.old = now, spent, spent
	case now-r.at >= int64(Guard):
		r.at, r.new, r.old = now, spent, r.new
	}
	r.last = now
}

// pacing is how the pace of a bucket is found out.
type pacing struct {
	since  int64   // the last refusal, or the beginning
	passed float64 // what has passed since then
	calm   int     // answers since then
	// The pace that was refused last (0: none was), the last one that was measured, and when it has grown last.
	refused, good float64
	grown         int64
	// What passed each second between the last two refusals, on the average between any two, and how much that varies, as a part of it.
	measured, average, spread float64
}

func (b *bucket) rate() float64 { // for each second
	rate := b.amount / b.period
	if b.pace > 0 && (b.pace < rate || b.amount == 0) {
		rate = b.pace
	}
	return rate * b.share
}

// known says whether it bounds anything.
func (b *bucket) known() bool { return b.amount > 0 || b.pace > 0 }

// top is the most that the bucket has.
func (b *bucket) top() float64 {
	amount := b.amount
	if amount == 0 {
		amount = b.pace * b.period
	}
	return max(0, amount*b.share-b.rate()*Guard.Seconds())
}

func (b *bucket) advance(now int64) {
	b.short.advance(now)
	b.long.advance(now)
	if now <= b.at {
		return
	}
	if b.known() {
		top, rate := b.top(), b.rate()
		level := b.level + rate*float64(now-b.at)/1e9
		if level >= top && b.full > b.at {
			b.full = b.at
			if rate > 0 {
				b.full += int64(max(0, top-b.level) / rate * 1e9)
			}
		}
		b.level = min(level, top)
	}
	b.at = now
	b.peaks.see(now, b.level)
}

// set puts the level where it is now known to be.
func (b *bucket) set(level float64) {
	if !b.known() {
		b.level = level
		return
	}
	top := b.top()
	if b.level = min(level, top); b.level < top-tiny {
		b.full = never
	} else if b.full == never {
		b.full = b.at
	}
	b.peaks.see(b.at, b.level)
}

// refund gives back what a request was charged with too much when it was sent. As much of it as the bucket could not have held since
// is lost: the server, which never took it, was full.
func (b *bucket) refund(call *Call, kind int, amount float64) {
	if b.known() {
		most := call.left[kind] + b.rate()*float64(b.at-call.sent)/1e9 + b.raised - call.raised[kind]
		most = min(most, b.peaks.since(call.sent))
		amount = min(amount, max(0, b.top()-most))
		b.peaks.raise(call.sent, amount)
	}
	b.lift(amount)
}

// charge takes what is charged now, and holds what will be.
func (b *bucket) charge(now int64, amount, held float64) {
	b.recent.note(now, b.spent)
	b.set(b.level - amount)
	b.held += held
	b.spent += amount
	b.under += amount
	b.passed += amount
	b.short.add(now, amount)
	b.long.add(now, amount)
}

// lift makes a bucket fuller.
func (b *bucket) lift(amount float64) {
	b.raised += amount
	b.set(b.level + amount)
}

// maxDebt is how many times all that a bucket holds one answer may have taken beyond what was expected of it: a server that says
// that it was more has made it up, and every call of the key would wait for it.
const maxDebt = 10

// settle corrects what a request was charged with when it was sent to what is right; what was held for it is not any more, and
// later is charged now.
func (b *bucket) settle(call *Call, kind int, now int64, is, later float64) {
	was, held := call.charged[kind], call.held[kind]
	switch seen := call.seen[kind]; {
	case seen > 0 && seen <= b.said: // the level is what the server has said, and that had what is right in it
	case was > is:
		b.refund(call, kind, was-is)
	default:
		b.set(max(b.level+was-is, min(b.level, -maxDebt*b.top())))
	}
	if later < 0 { // the server gives it back now, too
		b.lift(-later)
	} else {
		b.set(b.level - later)
		b.spent += later
	}
	b.release(held)
	b.see(call, kind, now)
	b.passed += is - was + later
	b.short.add(call.sent, is-was)
	b.long.add(call.sent, is-was)
	b.short.add(now, later)
	b.long.add(now, later)
}

// see notes that the server has counted a request by now.
func (b *bucket) see(call *Call, kind int, now int64) {
	if call.seen[kind] > 0 {
		return
	}
	call.seen[kind] = now
	if b.under -= call.charged[kind]; b.under < tiny {
		b.under = 0
	}
}

// release holds so much less.
func (b *bucket) release(held float64) {
	if b.held -= held; b.held < tiny {
		b.held = 0
	}
}

// room is when amount can be taken; now or earlier: at once. which says what it waits for.
func (b *bucket) room(now int64, amount float64) (at int64, which waiting) {
	if amount <= 0 {
		return now, waitNothing
	}
	at = now
	if b.known() {
		if t := b.levelAt(now, amount); t > at {
			at, which = t, waitLevel
		}
	}
	if t := b.windowAt(now, b.short, b.tight, amount); t > at {
		at, which = t, waitShort
	}
	if t := b.windowAt(now, b.long, b.loose, amount); t > at {
		at, which = t, waitLong
	}
	return at, which
}

// levelAt is when the bucket has an amount; never: as soon as answers that are under way have come. An amount that is more than
// the bucket can have is taken when the bucket has been full for a while: the server may think otherwise of it.
func (b *bucket) levelAt(now int64, amount float64) int64 {
	top, rate := b.top(), b.rate()
	if rate <= 0 {
		return never
	}
	if amount > top {
		switch {
		case b.held > 0:
			return never
		case b.full <= now:
			return max(now, b.full+int64(Guard))
		}
		return now + wait((top-b.level)/rate) + int64(Guard)
	}
	need := min(amount+min(b.margin, top/4), top) + b.held
	if b.level+tiny >= need {
		return now
	}
	if need > top+tiny {
		return never
	}
	return now + wait((need-b.level)/rate)
}

func (b *bucket) windowAt(now int64, w *window, binds bool, amount float64) int64 {
	if !binds || b.amount == 0 {
		return now
	}
	most := b.amount * b.share * float64(w.span) / 1e9 / b.period
	if amount = min(amount, most); w.sum+amount <= most+tiny {
		return now
	}
	return max(now+1, w.room(most-amount))
}

// wait is a time in nanoseconds, rounded up.
func wait(seconds float64) int64 {
	return int64(math.Ceil(min(seconds, 1e9)*1e9)) + 1
}

// waiting says what a call waits for.
type waiting int

const (
	waitNothing waiting = iota
	waitLevel
	waitShort
	waitLong
	waitConcurrency
	waitAsked // Retry-After
	waitBackoff
	waitLease
)

// peaks is how full a bucket was at most in each slot of time that is not long ago.
type peaks struct {
	slots [slots]float64
	last  int64 // the newest slot
}

const peakWidth = int64(2 * time.Second)

func (p *peaks) see(now int64, level float64) {
	slot := now / peakWidth
	for i := max(p.last+1, slot-slots+1); i <= slot; i++ {
		p.slots[i%slots] = level // it has risen to that
	}
	p.last = max(p.last, slot)
	p.slots[p.last%slots] = max(p.slots[p.last%slots], level)
}

// since is how full the bucket was at most since a time; of what is too long ago nothing is known.
func (p *peaks) since(then int64) (most float64) {
	first := then / peakWidth
	if first <= p.last-slots {
		return math.MaxFloat64
	}
	most = -math.MaxFloat64
	for i := first; i <= p.last; i++ {
		most = max(most, p.slots[i%slots])
	}
	return most
}

// raise notes that the bucket has been fuller since a time than it was thought to be.
func (p *peaks) raise(then int64, by float64) {
	for i := max(then/peakWidth, p.last-slots+1); i <= p.last; i++ {
		p.slots[i%slots] += by
	}
}
