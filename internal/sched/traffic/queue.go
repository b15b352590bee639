package traffic

import (
	"slices"
	"time"

	"agentkernel/internal/sched"
)

// Step is what one level of priority is worth in waiting time, and MostSteps what all levels together are: programs wait for models
// for minutes, and something urgent is to be the next even then.
const (
	Step      = 30 * time.Second
	MostSteps = time.Hour
)

// Patience is how long a call may be overtaken by later ones of its own priority, because others share with it.
const Patience = 5 * time.Minute

// Bound is how much later than a call of priority p one of priority q has to be queued so that it cannot overtake: with
// finite answers nobody starves.
func Bound(p, q int) time.Duration { return handicap(p) - handicap(q) + Patience }

func handicap(priority int) time.Duration {
	return min(time.Duration(max(0, priority))*Step, MostSteps)
}

// queue orders calls. The most urgent priority comes first. Within it namespaces share what there is by their weights, and in each
// namespace its trees do, in virtual time as in [sched.Shares]; one with a reserved share that has had less than that is first.
// Calls of one tree come in order. A call that has waited for long goes before all this; see [Bound].
type queue struct {
	weight   func(namespace string) int
	reserved map[string]float64

	bands   map[int]*band
	open    []*band // those with calls, the most urgent first
	all     flow    // whose children are the namespaces
	granted []*flow // those with a reserved share
	served  float64 // seconds of the whole capacity
	work    float64 // seconds of it that are queued
	count   int
	crowded int // so many trees are worth a look whether all have to be kept
	trees   int
	flows   int // that there have been
}

// band is what is queued with one priority.
type band struct {
	priority int
	count    int
	calls    list // in the order of their coming
	lanes    lanes
}

// flow is a namespace, or a tree in one.
type flow struct {
	name     string
	order    int // of its coming, which decides between equals
	of       *flow
	weight   float64
	reserved float64
	had      float64 // seconds of service by its weight
	granted  float64 // a reserved share's own virtual time: service divided by the share
	now      float64 // virtual time of its children
	children map[string]*flow
	lanes    []*lane
	waiting  int
}

// lane is what a flow has in one band.
type lane struct {
	flow  *flow
	band  *band
	calls list  // of a tree
	below lanes // of a namespace
	place int   // among the lanes above; -1: it is empty
}

// push queues a call; its since says when it came.
func (q *queue) push(c *Call) {
	b := q.bands[c.Priority]
	if b == nil {
		if q.bands == nil {
			q.bands = map[int]*band{}
		}
		b = &band{priority: c.Priority}
		q.bands[c.Priority] = b
	}
	if b.calls.head == nil {
		i, _ := slices.BinarySearchFunc(q.open, b.priority, func(b *band, p int) int { return b.priority - p })
		q.open = slices.Insert(q.open, i, b)
	}
	t := q.tree(c.Namespace, c.Tree)
	tl, nl := t.lane(b), t.of.lane(b)
	t.came()
	if ns := t.of; ns.waiting == 0 {
		ns.granted = max(ns.granted, q.served)
	}
	t.of.came()
	tl.calls.insert(c, 0)
	b.calls.insert(c, 1)
	b.count++
	c.lane = tl
	if tl.place < 0 {
		nl.below.push(tl)
	}
	if nl.place < 0 {
		b.lanes.push(nl)
	}
	q.count++
	q.work += c.work
}

// tree is the flow of a tree.
func (q *queue) tree(namespace, tree string) *flow {
	ns := q.all.children[namespace]
	if ns == nil {
		q.flows++
		ns = &flow{name: namespace, order: q.flows, of: &q.all, weight: 1, had: q.all.now, granted: q.served, reserved: q.reserved[namespace], children: map[string]*flow{}}
		if q.weight != nil {
			ns.weight = float64(min(max(1, q.weight(namespace)), sched.MaxWeight))
		}
		if q.all.children == nil {
			q.all.children = map[string]*flow{}
		}
		q.all.children[namespace] = ns
		if ns.reserved > 0 {
			q.granted = append(q.granted, ns)
		}
	}
	t := ns.children[tree]
	if t == nil {
		q.sweep()
		q.flows++
		t = &flow{name: tree, order: q.flows, of: ns, weight: 1, had: ns.now}
		ns.children[tree] = t
		q.trees++
	}
	return t
}

// sweep forgets the trees that neither wait nor have had more than others.
func (q *queue) sweep() {
	if q.trees < q.crowded {
		return
	}
	for _, ns := range q.all.children {
		for name, t := range ns.children {
			if t.waiting == 0 && t.had <= ns.now {
				delete(ns.children, name)
				q.trees--
			}
		}
		if len(ns.children) == 0 && ns.waiting == 0 && ns.had <= q.all.now && ns.reserved == 0 {
			delete(q.all.children, ns.name)
		}
	}
	q.crowded = 2*q.trees + 64
}

// came notes that one more call of a flow waits. It has no claim to the time when it did not.
func (f *flow) came() {
	if f.waiting++; f.waiting == 1 {
		f.set(max(f.had, f.of.now))
	}
}

// set changes what a flow has had.
func (f *flow) set(had float64) {
	if had == f.had {
		return
	}
	f.had = had
	for _, l := range f.lanes {
		if l.place >= 0 {
			l.above().fix(l.place)
		}
	}
}

func (f *flow) lane(b *band) *lane {
	for _, l := range f.lanes {
		if l.band == b {
			return l
		}
	}
	l := &lane{flow: f, band: b, place: -1}
	f.lanes = append(f.lanes, l)
	return l
}

// above is where the lane has its place.
func (l *lane) above() *lanes {
	if l.flow.of.of == nil {
		return &l.band.lanes
	}
	return &l.flow.of.lane(l.band).below
}

// first is the call that is to be sent next; nil: none waits.
func (q *queue) first() *Call {
	if len(q.open) == 0 {
		return nil
	}
	urgent := q.open[0]
	l := urgent.lanes[0]
	for _, f := range q.granted { // the first of them that is owed something
		if f.waiting > 0 && f.granted < q.served && (l.flow.reserved == 0 || l.flow.granted >= q.served || f.granted < l.flow.granted) {
			if own := f.lane(urgent); own.place >= 0 {
				l = own
			}
		}
	}
	c := l.below[0].calls.head
	due := c.due - int64(Patience)
	for _, b := range q.open {
		if old := b.calls.head; old.due < due {
			c, due = old, old.due
		}
	}
	return c
}

// remove takes a call out.
func (q *queue) remove(c *Call) {
	tl := c.lane
	t, b := tl.flow, tl.band
	nl := t.of.lane(b)
	tl.calls.remove(c, 0)
	b.calls.remove(c, 1)
	b.count--
	if tl.calls.head == nil {
		nl.below.remove(tl.place)
	}
	if len(nl.below) == 0 {
		b.lanes.remove(nl.place)
	}
	t.waiting--
	t.of.waiting--
	if b.calls.head == nil {
		i := slices.Index(q.open, b)
		q.open = slices.Delete(q.open, i, i+1)
	}
	if q.count--; q.count == 0 {
		q.work = 0
	} else {
		q.work -= c.work
	}
}

// serve notes that a call, which is in no queue any more, gets some service, in seconds of the whole capacity.
func (q *queue) serve(c *Call, seconds float64) {
	t := c.lane.flow
	ns := t.of
	ns.now, q.all.now = max(ns.now, t.had), max(q.all.now, ns.had)
	q.correct(c, seconds)
}

// correct notes that a call has got more than was noted, or less.
func (q *queue) correct(c *Call, seconds float64) {
	t := c.lane.flow
	ns := t.of
	t.set(t.had + seconds/t.weight)
	ns.set(ns.had + seconds/ns.weight)
	q.served += seconds
	if ns.reserved > 0 { // what it has had beyond its share it has borrowed, and need not give back for long
		ns.granted = min(ns.granted+seconds/ns.reserved, q.served+sched.MostDebt.Seconds())
	}
	if q.count == 0 { // nobody was kept waiting by it
		ns.now, q.all.now = max(ns.now, t.had), max(q.all.now, ns.had)
	}
}

// lanes are a heap: first is the one whose flow has had least.
type lanes []*lane

func (h lanes) less(i, j int) bool {
	a, b := h[i].flow, h[j].flow
	return a.had < b.had || a.had == b.had && a.order < b.order
}

func (h lanes) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *lanes) push(l *lane) {
	l.place = len(*h)
	*h = append(*h, l)
	h.fix(l.place)
}

func (h *lanes) remove(i int) {
	last := len(*h) - 1
	(*h).swap(i, last)
	(*h)[last].place = -1
	(*h)[last] = nil
	if *h = (*h)[:last]; i < last {
		h.fix(i)
	}
}

func (h lanes) fix(i int) {
	for i > 0 && h.less(i, (i-1)/2) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h.less(child+1, child) {
			child++
		}
		if !h.less(child, i) {
			return
		}
		h.swap(i, child)
		i = child
	}
}

// list is a list of calls that costs nothing but the calls; a call is in as many as it has links.
type list struct{ head, tail *Call }

type link struct{ before, after *Call }

// insert puts a call behind those that came before it. Almost always that is the end; one that is queued again finds its old place
// near the head.
func (l *list) insert(c *Call, which int) {
	before := l.tail
	if before != nil && before.since > c.since {
		before = nil
		for after := l.head; after.since <= c.since; after = after.links[which].after {
			before = after
		}
	}
	after := l.head
	if before != nil {
		after = before.links[which].after
		before.links[which].after = c
	} else {
		l.head = c
	}
	if after != nil {
		after.links[which].before = c
	} else {
		l.tail = c
	}
	c.links[which] = link{before, after}
}

func (l *list) remove(c *Call, which int) {
	at := c.links[which]
	if at.before != nil {
		at.before.links[which].after = at.after
	} else {
		l.head = at.after
	}
	if at.after != nil {
		at.after.links[which].before = at.before
	} else {
		l.tail = at.before
	}
	c.links[which] = link{}
}
