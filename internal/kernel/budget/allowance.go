package budget

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// allowances are those of namespaces. Each period of one has a book, by a negative number in place of a PID: its node. The ledger's lock
// guards them.
type allowances struct {
	all   agentkernel.Allowances
	keys  []key // node -1 is of keys[0]
	nodes map[string][]agentkernel.PID
}

// key names the books of an allowance, which follow one another.
type key struct {
	Namespace string
	Period    agentkernel.Period
}

// period is what one of them is about.
type period struct {
	key
	since, until time.Time
	timed        bool // the ledger is called when it ends
}

// begin is the period of a node that it is now; nil: the node is a process.
func (a *allowances) begin(node agentkernel.PID, now func() time.Time) *period {
	if node > 0 {
		return nil
	}
	p := &period{key: a.keys[-node-1]}
	p.since, p.until = p.Period.Around(now())
	return p
}

// of are the nodes of a namespace, shared.
func (a *allowances) of(namespace string) []agentkernel.PID {
	nodes, known := a.nodes[namespace]
	if known || len(a.all) == 0 {
		return nodes
	}
	for _, p := range []agentkernel.Period{agentkernel.PeriodMonth, agentkernel.PeriodDay} {
		if a.all.Of(namespace, p) == (agentkernel.Spending{}) {
			continue
		}
		k := key{namespace, p}
		i := slices.Index(a.keys, k)
		if i < 0 {
			i = len(a.keys)
			a.keys = append(a.keys, k)
		}
		nodes = append(nodes, agentkernel.PID(-i-1))
	}
	a.nodes[namespace] = nodes
	return nodes
}

// standing is what amounts have spent and hold in a period; nil: at all.
func (p *period) standing(a *history.Amounts) (spent, held sums) {
	switch {
	case a == nil:
	case p != nil:
		s, h := a.Between(history.DateOf(p.since), history.DateOf(p.until))
		return sumsOf(s), sumsOf(h)
	default:
		spent = sumsOf(a.Spent)
		for _, h := range a.Held {
			held.add(sumsOf(h.Amounts), 1)
		}
	}
	return spent, held
}

func (b *book) standing(a *history.Amounts) (spent, held sums) { return b.of.standing(a) }

// has says whether a call that begins at a time belongs to a period; nil: each does.
func (p *period) has(at time.Time) bool {
	return p == nil || !at.Before(p.since) && at.Before(p.until)
}

// at lets the book of an allowance be about the period of a time, or a later one, and is the time at which a call begins that is in it: a
// clock that is set back finds what was spent already. The ledger's lock is held.
func (b *book) at(now time.Time) time.Time {
	switch {
	case now.Before(b.of.since):
		return b.of.since
	case !now.Before(b.of.until): // nothing that began before counts any more, and nothing has begun since
		b.of.since, b.of.until = b.of.Period.Around(now)
		b.of.timed = false
		b.spent, b.held = sums{}, sums{}
		b.wake()
	}
	return now
}

// moment is when a call begins that is in books of nodes; zero: it does not matter. The ledger's lock is held.
func (l *Ledger) moment(nodes []agentkernel.PID) (at time.Time) {
	for range 2 { // what one says of the time, the other has to know
		for _, node := range nodes {
			if b := l.books[node]; b.open() && b.of != nil {
				if at.IsZero() {
					at = l.src.Now()
				}
				at = b.at(at)
			}
		}
	}
	return at
}

// endsAlone lets those who wait for a book of an allowance try again when its period ends; the ledger's lock is held.
func (l *Ledger) endsAlone(node agentkernel.PID, b *book) {
	if b.of == nil || b.of.timed {
		return
	}
	b.of.timed = true
	l.src.At(b.of.until, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if b := l.books[node]; b.open() {
			b.at(l.src.Now())
		}
	})
}

// readPeriod counts all of a namespace who may have spent something in the period of a book.
func (l *Ledger) readPeriod(ctx context.Context, b *book, node agentkernel.PID) error {
	l.src.Members(b.of.Namespace, func(pid agentkernel.PID, account *history.Account) { l.join(b, pid, account, false) })
	f := agentkernel.Filter{Namespace: b.of.Namespace, Limit: pageSize}
	for {
		page, err := l.src.Store.Processes(ctx, f)
		if err != nil {
			return err
		}
		for i := range page {
			if r := &page[i]; r.State.Terminal() && r.Ended.Before(b.of.since) {
				continue
			}
			if err := l.readOne(ctx, b, &page[i], false); err != nil {
				return err
			}
		}
		if len(page) < pageSize {
			break
		}
		f.Before = page[len(page)-1].PID
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b.bound(l.allowances.all)
	b.seen = nil
	return nil
}

// bound takes what an allowance is; the ledger's lock is held.
func (b *book) bound(all agentkernel.Allowances) {
	caps := all.Of(b.of.Namespace, b.of.Period).Amounts()
	b.limit = sumsOf(caps)
	for i, name := range names {
		b.caps[i] = caps[name] != 0
	}
}

// Allow replaces the allowances. Calls that wait for one that is larger now, or gone, are made.
func (l *Ledger) Allow(all agentkernel.Allowances) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.allowances.all, l.allowances.nodes = all, map[string][]agentkernel.PID{}
	for node, b := range l.books {
		switch {
		case b.of == nil:
		case all.Of(b.of.Namespace, b.of.Period) == (agentkernel.Spending{}):
			l.drop(node) // it is kept no longer
		case b.seen == nil:
			b.bound(all)
			b.wake()
		}
	}
}

// Nodes are those whose books a process is in: the allowances of its namespace, the processes above it with a budget, the root of the tree
// first, and itself if it has one.
func (l *Ledger) Nodes(pid agentkernel.PID, s *agentkernel.Spec) []agentkernel.PID {
	own := Nodes(pid, s)
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.allowances.of(s.Namespace); len(of) > 0 {
		return slices.Concat(of, own)
	}
	return own
}

// Bounds says whether something bounds the money (AmountUSD) that a process spends, or the time that its program runs (AmountTime).
func (l *Ledger) Bounds(s *agentkernel.Spec, amount string) bool {
	if amount == agentkernel.AmountUSD && s.BoundsUSD() || amount == agentkernel.AmountTime && s.BoundsTime() {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.allowances.all) > 0 && l.allowances.all.Bounds(s.Namespace, amount)
}

// States says what has become of budgets and allowances.
type States struct{ ledger *Ledger }

// States are those of the ledger's books.
func (l *Ledger) States() States { return States{l} }

// Budget is what has become of the budget of a process, when that is durable.
func (s States) Budget(ctx context.Context, pid agentkernel.PID) (b agentkernel.BudgetState, err error) {
	if b, err = s.ledger.State(ctx, pid); err != nil {
		return b, err
	}
	return b, s.ledger.src.Flush(ctx)
}

// Allowances is what has become of the allowances of a namespace, when that is durable.
func (s States) Allowances(ctx context.Context, namespace string) ([]agentkernel.AllowanceState, error) {
	all, err := s.ledger.Allowances(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return all, s.ledger.src.Flush(ctx)
}

// Allowances is what has become of the allowances of a namespace; "": of all that have their own, or whose books are open.
func (l *Ledger) Allowances(ctx context.Context, namespace string) (states []agentkernel.AllowanceState, err error) {
	states = []agentkernel.AllowanceState{}
	for _, node := range l.nodesOf(namespace) {
		err := l.Within(ctx, []agentkernel.PID{node}, func() error {
			l.mu.Lock()
			defer l.mu.Unlock()
			b := l.books[node]
			if !b.open() {
				return errClosed
			}
			b.at(l.src.Now())
			states = append(states, agentkernel.AllowanceState{
				Allowance: agentkernel.Allowance{Namespace: b.of.Namespace, Period: b.of.Period, Limit: b.limit.spending()},
				Spent:     b.spent.spending(), Held: b.held.spending(), Since: b.of.since, Until: b.of.until,
			})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(states, func(a, b agentkernel.AllowanceState) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(string(a.Period), string(b.Period)))
	})
	return states, nil
}

func (l *Ledger) nodesOf(namespace string) (nodes []agentkernel.PID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if namespace != "" {
		return slices.Clone(l.allowances.of(namespace))
	}
	names := l.allowances.all.Namespaces()
	for _, k := range l.allowances.keys {
		names = append(names, k.Namespace)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		nodes = append(nodes, l.allowances.of(name)...)
	}
	return nodes
}

// Outdated says whether a shortage is one of an allowance of a namespace that is another one now: there may be enough. nil is none.
func (l *Ledger) Outdated(namespace string, s *agentkernel.Shortage) bool {
	if s == nil || s.Budget != 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.Namespace != namespace || l.allowances.all.Of(namespace, s.Period).Amounts()[s.Amount] != s.Limit
}

// Stale says whether the budget or the allowance of a shortage is another by now, or nobody's.
func (l *Ledger) Stale(ctx context.Context, namespace string, short *agentkernel.Shortage) bool {
	if short == nil || short.Budget == 0 {
		return l.Outdated(namespace, short)
	}
	rec, err := l.src.Store.Process(ctx, short.Budget)
	if err != nil || rec.State.Terminal() {
		return agentkernel.CodeOf(err) == agentkernel.CodeNotFound || err == nil
	}
	s, err := l.State(ctx, short.Budget)
	return err == nil && s.Limit.Amounts()[short.Amount] != short.Limit
}
