package traffic

import (
	"math"
	"time"
)

// Level is what a server says of one of its limits with an answer.
type Level struct {
	What      string        // "requests", "input", "output", "tokens"; others are ignored
	Limit     int64         // less than 1: it does not say
	Remaining int64         // less than 0: it does not say
	Reset     time.Duration // until it is whole again; less than 0: it does not say
}

// names are the limits as servers' answers and users have them.
var names = [kinds]string{requests: "requests", input: "input", output: "output", tokens: "tokens"}

// How believed limits follow what servers do.
const (
	leastMargin = 0.01 // of a limit, once there are strangers
	mostMargin  = 0.1
	fading      = 5 * time.Minute  // in which a margin halves
	cut         = 0.9              // of a configured pace, when it is refused for the first time
	closest     = 10 * time.Second // refusals that are closer to each other say little about a pace; there is a pause instead
	firstPause  = 100 * time.Millisecond
	mostPause   = 5 * time.Second
	careful     = 0.99 // of a pace that was measured
	often       = 250  // answers between two refusals: if there are fewer, there is too little left for strangers
	leastSlack  = 0.5  // seconds of a pace that are left for them
	mostSlack   = 8.0
	others      = 1.1              // times the pace that was measured of limits which are not the reason of refusals
	growth      = 5e-6             // by which a pace grows with each answer: it is tried out about every 600 answers
	patient     = 400              // answers, after which it grows twice as fast, and so on
	doubling    = 15 * time.Second // in which a pace doubles that is far from the one which was refused last, or of which none was
	near        = 0.9              // of the pace that was refused last: from there on it grows slowly
	stale       = 5 * time.Minute  // after which it counts no more which was refused last
	probing     = time.Minute      // in which a pace doubles then
	further     = 1.05             // times the pace that was measured: it has grown
	leastFirst  = 5 * time.Second  // in which one call goes out at least after the first refusal, which may mean anything: what has passed until then says little
	shrink      = 0.7              // of the calls under way, when the server has refused one without another reason
	rounding    = 1000             // Anthropic rounds what remains to so many tokens
	doubtful    = 2                // times what a refused call was thought to use: if less was left, it may have been too little
)

// Head corrects what is believed by the head of the answer to a call under way.
func (c *Controller) Head(call *Call, levels []Level, now time.Time) {
	if call.state != underWay {
		return
	}
	c.advance(now)
	c.read(call, levels)
}

// read takes over what a server says; it says whether anything that remains was among it, and whether that is too little for the call.
func (c *Controller) read(call *Call, levels []Level) (said, scarce bool) {
	for _, l := range levels {
		for kind, name := range names {
			if name != l.What {
				continue
			}
			b := &c.buckets[kind]
			fresh := c.limit(b, kind, l)
			if b.guess.see(l) && b.source == Headers {
				b.period = b.guess.period
				b.set(b.level)
			}
			if l.Remaining < 0 {
				continue
			}
			said = true
			b.correct(c.now, call, kind, l, fresh)
			if float64(l.Remaining) < call.doubtful(kind) && b.known() {
				scarce = true
			}
		}
	}
	return said, scarce
}

// limit takes over the height of a limit. It says whether it has changed.
func (c *Controller) limit(b *bucket, kind int, l Level) (fresh bool) {
	amount := float64(l.Limit)
	if b.source == Configured {
		own := [kinds]Limit{c.cfg.Limits.Requests, c.cfg.Limits.Input, c.cfg.Limits.Output, c.cfg.Limits.Tokens}[kind]
		amount = min(amount, float64(own.Amount))
	}
	if amount < 1 || amount == b.amount {
		return false
	}
	if b.amount == 0 {
		b.source, b.pace, b.margin = Headers, 0, 0
		b.period = 60
		b.amount = amount
		b.peaks = peaks{}
		b.set(b.top() + b.rate()*float64(c.now-b.since)/1e9 - b.passed) // it was full at the beginning
		return true
	}
	b.amount = amount
	b.set(b.level)
	return true
}

// correct moves the level to what a server says is left. When it said so is not known: it may have been when the call came, and
// then what has happened since is added, or just now. Only what contradicts both is taken over.
func (b *bucket) correct(now int64, call *Call, kind int, l Level, fresh bool) {
	if !b.known() {
		return
	}
	b.see(call, kind, now)
	said := float64(l.Remaining)
	after := b.spent - call.spent[kind]
	upper := max(said, said+b.rate()/max(b.share, tiny)*float64(now-call.sent)/1e9-after)
	least := said - after // what has come in since may have found the bucket full
	b.margin *= math.Exp2(-float64(now-b.faded) / float64(fading))
	b.faded = now
	switch {
	case fresh, !b.told: // also those before this one may have used it
		b.told = true
		b.set(min(b.level, said*b.share, least))
		b.said = now
	case b.level > upper:
		if b.held == 0 { // else it may be the answers under way
			b.margin = max(b.margin, min(1.5*(b.level-upper), mostMargin*b.top()))
		}
		b.set(upper)
		b.said = now
	case b.share == 1:
		if l.Remaining > 0 && l.Remaining%rounding == 0 {
			least -= rounding
		}
		if least -= b.under; b.level < least {
			b.lift(least - b.level)
			b.said = now
		}
	}
}

// Refused ends a call that the server has refused because there were too many; after is how long it wants to be left alone, 0: it
// does not say. The call has used nothing.
func (c *Controller) Refused(call *Call, levels []Level, after time.Duration, now time.Time) {
	if !c.end(call, now) {
		return
	}
	if after > 0 {
		c.pausedUntil = max(c.pausedUntil, c.now+int64(after))
	}
	known := c.known()
	said, scarce := c.read(call, levels)
	c.giveBack(call)
	again := call.sent > c.refusedAt // else it was under way already when another was refused for the same reason
	if again {
		c.refusedAt = c.now
	}
	switch {
	case said && scarce:
		c.strangers(call, levels, again && known)
	case !again:
	case !said && !known && c.running == 0: // it was alone: that is not too many at one moment
		c.repace(call)
	case said:
		if !c.windows(call) {
			c.shrink(call)
		}
	case known && c.plenty() && c.windows(call):
	case !c.repace(call) || !known:
		c.shrink(call)
	}
}

// strangers empties the buckets that a server says are empty, and leaves more in them from now on: somebody else uses the key.
func (c *Controller) strangers(call *Call, levels []Level, more bool) {
	for _, l := range levels {
		for kind, name := range names {
			b := &c.buckets[kind]
			if name != l.What || l.Remaining < 0 || !b.known() || float64(l.Remaining) >= call.doubtful(kind) {
				continue
			}
			b.set(min(b.level, float64(l.Remaining)))
			if top := b.top(); more {
				b.margin = min(max(2*b.margin, leastMargin*top, call.charged[kind]+call.held[kind]), mostMargin*top)
			}
		}
	}
}

// doubtful is how much has to be left of a limit to say for certain that a call was not refused because of it: that it used what
// it was thought to use nobody knows.
func (call *Call) doubtful(kind int) float64 {
	if kind == requests {
		return call.charged[kind]
	}
	return doubtful * (call.charged[kind] + call.held[kind])
}

// windows finds out whether a server that has refused a call although there is enough of everything counts in shorter windows than
// it says: it may, if more was sent in one than its share of the limit.
func (c *Controller) windows(call *Call) (found bool) {
	for _, long := range []bool{true, false} {
		for kind := range c.buckets {
			b := &c.buckets[kind]
			w, binds := b.short, &b.tight
			if long {
				w, binds = b.long, &b.loose
			}
			most := b.amount * float64(w.span) / 1e9 / b.period
			if b.amount > 0 && !*binds && w.sum+call.charged[kind] > most+tiny {
				*binds, found = true, true
			}
		}
		if found {
			return true
		}
	}
	return false
}

// repace finds out how much a server lets pass that says nothing about its limits. Between two refusals a bucket was empty at both
// ends, so what has passed in between is what comes in. Which of the limits it is shows only with time: that of which the same
// passes each time. It is held to what has passed; the others, if they are limits at all, are at least a little higher.
func (c *Controller) repace(call *Call) (found bool) {
	known := c.known() // what is not known is the reason only where nothing is
	if took := c.now - c.buckets[requests].since; known && took < int64(closest) {
		for i := range c.buckets {
			if b := &c.buckets[i]; b.pace > 0 {
				b.turnBack(c.now, c.flows)
			}
		}
		c.backOff()
		return true
	}
	if known && !c.flows { // it refuses all for a while
		defer c.backOff()
	} else {
		c.hasty = 0
	}
	if calm := c.buckets[requests].calm; known && calm < often {
		c.slack = min(max(2*c.slack, leastSlack), mostSlack)
	} else if calm > patient {
		c.slack /= 2
	}
	reason := -1
	for i := range c.buckets {
		b := &c.buckets[i]
		if b.known() != known || known && b.level-b.held > b.top()/2 {
			continue
		}
		if c.flows { // else the server refuses all for a while, whatever the pace is
			b.refused = b.rate() / max(b.share, tiny)
		}
		b.measure(c.now)
		if reason < 0 || b.spread < c.buckets[reason].spread {
			reason = i
		}
	}
	for i := range c.buckets {
		b := &c.buckets[i]
		if reason >= 0 && b.known() == known && b.measured > 0 {
			level := b.level
			if !known {
				b.source, level = Answers, math.MaxFloat64
				b.peaks = peaks{}
			}
			b.pace = max(b.measured, b.average) * others / max(b.share, tiny)
			if i == reason {
				b.pace = b.measured * careful / max(b.share, tiny)
				level, found = min(level, -c.slack*b.rate()), true
			}
			least := b.period // one such call for each period: with less nothing more would ever be found out
			if !known {
				least = leastFirst.Seconds()
			}
			b.pace = max(b.pace, (call.charged[i]+call.held[i]+call.late[i])/least/max(b.share, tiny))
			b.good, b.grown = b.pace, c.now
			b.set(level)
		}
		b.since, b.passed, b.calm, b.measured = c.now, 0, 0, 0
	}
	c.flows = false
	return found
}

// backOff lets nothing go out for a while, which is longer each time.
func (c *Controller) backOff() {
	c.hasty++
	pause := min(firstPause<<min(c.hasty, 10), mostPause)
	c.backedUntil = c.now + int64(pause)
	for i := range c.buckets {
		if b := &c.buckets[i]; b.pace > 0 { // or there would be a burst after the pause
			b.set(min(b.level, b.held-b.pace*pause.Seconds()))
		}
	}
}

// measure works out what a limit lets pass for each second, when something was refused that it may be the reason of.
func (b *bucket) measure(now int64) {
	rate, took := b.rate(), float64(now-b.since)/1e9
	switch {
	case !b.known():
		b.measured = b.firstPace(now)
	case b.amount > 0 && b.pace == 0:
		b.measured = cut * rate
	default:
		b.measured = min(rate, max(b.passed/took, rate/2))
		b.spread += (math.Abs(b.measured/max(b.average, tiny)-1) - b.spread) / 4
		b.average += (b.measured - b.average) / 4
		return
	}
	b.average = b.measured
}

// turnBack takes back half of what a pace has grown fast, if it was that which is refused. flows: something has passed since the last time.
func (b *bucket) turnBack(now int64, flows bool) {
	if b.pace > further*b.good && flows {
		b.refused = b.pace
		b.pace = math.Sqrt(b.good * b.pace)
	}
	b.grown = now
}

// grow lets a pace grow after an answer: fast as long as it is far from the one that was refused last, and slowly from there on.
func (b *bucket) grow(now int64) {
	took := float64(now - b.grown)
	b.grown = now
	switch {
	case now-b.since > int64(stale):
		b.pace *= math.Exp2(min(1, took/float64(probing)))
	case b.refused == 0:
		b.pace *= math.Exp2(min(1, took/float64(doubling)))
	case b.pace < near*b.refused:
		b.pace = min(near*b.refused, b.pace*math.Exp2(min(1, took/float64(doubling))))
	default:
		b.pace *= min(1+growth*float64(int(1)<<min(max(0, b.calm-patient)/100, 14)), math.Exp2(took/float64(probing)))
	}
}

// firstPace is what a limit of which nothing is known lets pass for each second, when something is refused for the first time: at some
// time the bucket was full, and all that has passed since then is what was in it and what has come in.
func (b *bucket) firstPace(now int64) (pace float64) {
	p := &b.peaks
	for slot := max(p.last-slots+1, offset/peakWidth); slot <= p.last; slot++ {
		took := float64(now-slot*peakWidth) / 1e9
		pace = max(pace, (p.slots[slot%slots]-b.level+b.held)/(b.period+took))
	}
	return pace
}

// known says whether any limit is.
func (c *Controller) known() bool {
	for i := range c.buckets {
		if c.buckets[i].known() {
			return true
		}
	}
	return false
}

// plenty says whether there is much left of all limits that are known.
func (c *Controller) plenty() bool {
	for i := range c.buckets {
		if b := &c.buckets[i]; b.known() && b.level-b.held < b.top()/2 {
			return false
		}
	}
	return true
}

// grow allows for more after an answer: for more calls under way, and for more of what the server has refused once.
func (c *Controller) grow(call *Call) {
	most := float64(MostBound)
	if n := c.cfg.Limits.Concurrency; n > 0 {
		most = float64(n)
	}
	if c.blocked.why == waitConcurrency && c.queue.count > 0 {
		if c.bound < c.additive {
			c.bound++
		} else {
			c.bound += 1 / c.bound
		}
		c.bound = min(c.bound, most)
	}
	if c.queue.count == 0 && !call.waited { // a program that asks one thing after the other leaves no queue behind
		return
	}
	for i := range c.buckets {
		b := &c.buckets[i]
		b.calm++
		if b.pace == 0 {
			continue
		}
		if b.level-b.held > b.top()/2 { // it is not what calls wait for
			b.grown = c.now
		} else {
			b.grow(c.now)
		}
		if b.amount > 0 && b.pace >= b.amount/b.period || b.amount == 0 && b.calm > 4*patient && c.now-b.since > 3*int64(stale) { // it is none
			b.pace = 0
		}
	}
}

// fit raises the paces of limits that nobody has said to what one call has used, for each period: the server had let that pass. Else a pace that
// was measured while small calls were refused would hold a large one, and all behind it, for hours.
func (c *Controller) fit(call *Call, in, out float64) {
	for i, used := range [kinds]float64{requests: 1, input: in, output: out, tokens: in + out} {
		if b := &c.buckets[i]; b.pace > 0 && b.amount == 0 {
			expected := call.charged[i] + call.held[i] + call.late[i]
			used = min(used, max(expected, maxDebt*b.pace*b.period)) // what a server says beyond that it may have made up
			b.pace = max(b.pace, used/b.period/max(b.share, tiny))
		}
	}
}

// Overloaded ends a call that the server could not answer because it has too much to do, which is not a matter of the key. after
// is how long it wants to be left alone; 0: it does not say.
func (c *Controller) Overloaded(call *Call, after time.Duration, now time.Time) {
	if !c.end(call, now) {
		return
	}
	if after > 0 {
		c.pausedUntil = max(c.pausedUntil, c.now+int64(after))
	}
	c.giveBack(call)
	c.shrink(call)
}

// shrink lets fewer calls be under way, once for all that were when the server had too many.
func (c *Controller) shrink(call *Call) {
	if call.sent <= c.lastShrunk {
		return
	}
	c.lastShrunk = c.now
	c.bound = max(1, min(c.bound, shrink*float64(c.running+1)))
	c.additive = c.bound
}

// guess finds out for how long a limit is: a bucket that fills all the time is whole again when what is missing has come in.
type guess struct {
	period float64 // seconds
	count  int
}

// see takes a look at what a server says; true: the period is known.
func (g *guess) see(l Level) bool {
	missing := float64(l.Limit - l.Remaining)
	if l.Limit <= 0 || l.Remaining < 0 || l.Reset < 2*time.Second || missing < float64(l.Limit)/10 {
		return false
	}
	period := l.Reset.Seconds() * float64(l.Limit) / missing
	for _, known := range []float64{60, 3600, 86400} {
		if period < known/1.25 || period > known*1.25 {
			continue
		}
		if g.period != known {
			g.period, g.count = known, 0
		}
		g.count++
		return g.count >= 3
	}
	g.count = 0
	return false
}
