// Package budget is the ledger of what trees with a budget, and namespaces with an allowance, have spent and hold. All of it is folded from journals: a book is read
// when the first who is in it needs it, kept by the entries that follow, and dropped at will. It sees no process: whoever calls
// says which books are about one.
package budget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/kernel/history"
)

// Nodes are the processes whose books a process is in: those above it with a budget, the root of the tree first, and itself if it has one.
func Nodes(pid agentkernel.PID, s *agentkernel.Spec) []agentkernel.PID {
	if s.Budget == (agentkernel.Budget{}) {
		return s.Budgets
	}
	return append(slices.Clip(s.Budgets), pid)
}

// The amounts that budgets bound, and sums of them in this order.
var names = agentkernel.BudgetAmounts

type sums [len(names)]int64

func sumsOf(a agentkernel.Amounts) (s sums) {
	for i, name := range names {
		s[i] = a[name]
	}
	return s
}

// add adds a sum so many times; one that is too large stays at the largest number.
func (s *sums) add(more sums, times int64) {
	for i := range s {
		if n := more[i] * times; n > 0 && s[i] > math.MaxInt64-n {
			s[i] = math.MaxInt64
		} else {
			s[i] += n
		}
	}
}

func (s sums) spending() agentkernel.Spending {
	a := agentkernel.Amounts{}
	for i, name := range names {
		a[name] = s[i]
	}
	return agentkernel.SpendingOf(a)
}

// Ledger has the books by the process whose budget each is about, and those of allowances by negative numbers.
type Ledger struct {
	src        Source
	mu         sync.Mutex
	books      map[agentkernel.PID]*book
	allowances allowances
}

// Source is what books are made from.
type Source struct {
	// Loaded calls fn, while nothing changes, with the account of each process in memory that is one of pid and all below it.
	Loaded func(pid agentkernel.PID, fn func(pid agentkernel.PID, account *history.Account))
	// Members is Loaded for those of a namespace.
	Members func(namespace string, fn func(pid agentkernel.PID, account *history.Account))
	// Flush returns when the store has all that was journalled before.
	Flush func(ctx context.Context) error
	Store agentkernel.StoreReader
	// Due lets a goroutine of its own tell a process what Warnings says. It is called with a lock held, and again until that is done. nil:
	// nobody is told.
	Due func(pid agentkernel.PID)
	// Now is the time, by which periods begin and end.
	Now func() time.Time
	// At calls fn, in a goroutine of its own, at a time.
	At func(at time.Time, fn func())
}

// New returns a ledger without books. What allowances there are, says Allow.
func New(src Source) *Ledger { return &Ledger{src: src, books: map[agentkernel.PID]*book{}} }

// book is about one process and all below it, or about a period of an allowance. The ledger's lock guards it.
type book struct {
	of          *period       // nil: it is about a process
	ready       chan struct{} // closed when it is read, or cannot be
	caps        [len(names)]bool
	ended       bool // the process has, when the book was read: nothing raises its budget any more
	limit       sums
	spent, held sums
	warned      sums                     // the limits of which the process was told that most is spent
	seen        map[agentkernel.PID]bool // who counts already, while it is read; nil: all do
	queue       []waiter                 // for what calls under way may give back
}

// waiter is a call that waits.
type waiter struct {
	refused *refusal
	again   func()
}

// errClosed says that a book is not open, or was dropped since it was.
var errClosed = errors.New("the book is closed")

// Within does what may Reserve, with the books of nodes open.
func (l *Ledger) Within(ctx context.Context, nodes []agentkernel.PID, do func() error) error {
	for {
		if err := do(); !errors.Is(err, errClosed) {
			return err
		}
		for _, pid := range nodes {
			if err := l.open(ctx, pid); err != nil {
				return err
			}
		}
	}
}

// open reads a book, or waits until somebody else has.
func (l *Ledger) open(ctx context.Context, pid agentkernel.PID) error {
	l.mu.Lock()
	b := l.books[pid]
	first := b == nil
	if first {
		b = &book{ready: make(chan struct{}), seen: map[agentkernel.PID]bool{}, of: l.allowances.begin(pid, l.src.Now)}
		l.books[pid] = b
	}
	l.mu.Unlock()
	if !first {
		select {
		case <-b.ready:
			return nil // if it could not be read, whoever reserves is told that it is closed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := l.src.Flush(ctx)
	switch {
	case err != nil:
	case b.of != nil:
		err = l.readPeriod(ctx, b, pid)
	default:
		err = l.read(ctx, b, pid)
	}
	if err != nil {
		l.Drop(pid)
	}
	close(b.ready)
	return err
}

// read counts all who are below the process of a book, with it.
func (l *Ledger) read(ctx context.Context, b *book, root agentkernel.PID) error {
	l.src.Loaded(root, func(pid agentkernel.PID, account *history.Account) { l.join(b, pid, account, pid == root) })
	rec, err := l.src.Store.Process(ctx, root)
	if err != nil {
		return err
	}
	caps := rec.Spec.Budget.Amounts()
	l.mu.Lock()
	b.ended = rec.State.Terminal()
	b.limit.add(sumsOf(caps), 1)
	for i, name := range names {
		b.caps[i] = caps[name] != 0
	}
	l.mu.Unlock()
	if err := l.readOne(ctx, b, &rec, true); err != nil {
		return err
	}
	for below := []agentkernel.PID{root}; len(below) > 0; below = below[1:] {
		f := agentkernel.Filter{Parent: below[0]}
		for f.Limit = pageSize; ; {
			page, err := l.src.Store.Processes(ctx, f)
			if err != nil {
				return err
			}
			for i := range page {
				if err := l.readOne(ctx, b, &page[i], false); err != nil {
					return err
				}
				below = append(below, page[i].PID)
			}
			if len(page) < pageSize {
				break
			}
			f.Before = page[len(page)-1].PID
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b.seen = nil
	l.tell(root, b)
	return nil
}

// pageSize is how many rows are in memory at a time.
const pageSize = 100

// readOne counts a process that is in nobody's memory.
func (l *Ledger) readOne(ctx context.Context, b *book, rec *agentkernel.ProcessRecord, root bool) error {
	l.mu.Lock()
	seen := b.seen[rec.PID]
	l.mu.Unlock()
	if seen || !root && rec.State.Terminal() && rec.Usage.Syscalls == 0 && !l.Bounds(&rec.Spec, agentkernel.AmountTime) {
		return nil
	}
	account, err := history.AccountOf(ctx, l.src.Store, rec)
	if err == nil {
		l.join(b, rec.PID, &account, root)
	}
	return err
}

// join counts a process, unless it counts already. root says that the book is about it.
func (l *Ledger) join(b *book, pid agentkernel.PID, account *history.Account, root bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.counts(pid) {
		return
	}
	b.seen[pid] = true
	if b.of != nil && account.Imported {
		return
	}
	spent, held := b.standing(account.Amounts)
	b.spent.add(spent, 1)
	b.held.add(held, 1)
	if root {
		b.limit.add(sumsOf(account.Added), 1)
		b.warned = sumsOf(account.Warned)
	}
}

// open says whether a book is there, and read; the ledger's lock is held.
func (b *book) open() bool { return b != nil && b.seen == nil }

// counts says whether a process is counted; the ledger's lock is held.
func (b *book) counts(pid agentkernel.PID) bool { return b.seen == nil || b.seen[pid] }

// find is a book, or nil.
func (l *Ledger) find(pid agentkernel.PID) *book {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.books[pid]
}

// Join counts a process that is new in memory in the books that are being read; its account does not change meanwhile.
func (l *Ledger) Join(nodes []agentkernel.PID, pid agentkernel.PID, account *history.Account) {
	for _, node := range nodes {
		if b := l.find(node); b != nil {
			l.join(b, pid, account, node == pid)
		}
	}
}

// Note takes what entries, which were appended, have changed in the account of a process. What they reserve counts since Reserve.
func (l *Ledger) Note(nodes []agentkernel.PID, pid agentkernel.PID, before, after *history.Amounts, entries []agentkernel.Entry) {
	if len(nodes) == 0 || before == after {
		return
	}
	spent, held := change(before, after, entries, nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, node := range nodes {
		if b := l.books[node]; b != nil && b.counts(pid) {
			spent, held := spent, held
			if b.of != nil {
				if b.seen == nil {
					b.at(entries[len(entries)-1].At) // what nothing was reserved for may be the first of a period
				}
				spent, held = change(before, after, entries, b.of)
			}
			b.spent.add(spent, 1)
			b.held.add(held, 1)
			b.wake()
			l.tell(node, b)
		}
	}
}

// change is by what entries have changed what is spent and held, all of it or in a period.
func change(before, after *history.Amounts, entries []agentkernel.Entry, in *period) (spent, held sums) {
	spent, held = in.standing(after)
	spentBefore, heldBefore := in.standing(before)
	spent.add(spentBefore, -1)
	held.add(heldBefore, -1)
	for i := range entries {
		if entries[i].Kind != agentkernel.EntryResult && in.has(entries[i].At) { // what a result keeps was reserved before
			held.add(sumsOf(entries[i].Reserve), -1)
		}
	}
	return spent, held
}

// wake lets those try again, in the order in which they came, for whom there is enough now, or never will be; the ledger's lock is held.
func (b *book) wake() {
	if len(b.queue) == 0 {
		return
	}
	var promised sums
	b.queue = slices.DeleteFunc(b.queue, func(w waiter) bool {
		i := w.refused.which
		left := b.limit[i] - b.spent[i]
		if w.refused.want <= left && w.refused.want > left-b.held[i]-promised[i] {
			return false
		}
		promised[i] += w.refused.want
		w.again()
		return true
	})
}

// Await calls again, in a goroutine of the caller's choice, when a call that was refused may be made after all, or is refused for good. False:
// there is nothing to wait for: what is spent alone leaves too little. Whoever is called says Tried afterwards.
func (l *Ledger) Await(err error, again func()) bool {
	r, ok := errors.AsType[*refusal](err)
	if !ok || r.again || r.want > r.limit-r.spent { // two calls that are made again would wait for what each other holds
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books[r.pid]
	if b == nil {
		again()
		return true
	}
	b.queue = append(b.queue, waiter{r, again})
	l.endsAlone(r.pid, b)
	b.wake() // it may have been given back a moment ago
	return true
}

// Tried says that the one has tried again who was called so. If it has taken nothing (its call is gone, or another book has too little for
// it), it is the next one's turn.
func (l *Ledger) Tried(refused error) {
	r, ok := errors.AsType[*refusal](refused)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.books[r.pid]; b != nil {
		b.wake()
	}
}

// Raised says whether what has refused a call is larger now, or has begun anew, or will be no larger any more: its process has ended.
func (l *Ledger) Raised(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books[r.pid]
	return b == nil || b.limit[r.which] > r.limit || !b.caps[r.which] || b.ended && !r.final || b.of != nil && b.of.since != r.of.since // without a book, asking again tells
}

// Reserve takes what a call wants from all books of nodes, or from none: an *agentkernel.Error for which Refused is true says of
// which too little is left. The entry that says so in the journal, of the time that is returned, follows before the caller lets go of its
// process; zero: the time does not matter. lost is what the call holds already that is made once more: the entry charges it.
func (l *Ledger) Reserve(op string, nodes []agentkernel.PID, want, lost agentkernel.Amounts) (at time.Time, err error) {
	if len(want) == 0 || len(nodes) == 0 {
		return at, nil
	}
	take, again := sumsOf(want), sumsOf(lost)
	l.mu.Lock()
	defer l.mu.Unlock()
	at = l.moment(nodes)
	for _, pid := range nodes { // allowances first, then from the root downwards
		b := l.books[pid]
		if !b.open() {
			return at, errClosed
		}
		for i, n := range take {
			if left := max(0, b.limit[i]-b.spent[i]-b.held[i]); b.caps[i] && n > left {
				r := l.refusal(b, pid, i, n)
				if r.again = len(lost) > 0; b.of == nil {
					r.spent, r.held = r.spent+again[i], r.held-again[i]
				}
				return at, r.hinted(op)
			}
		}
	}
	for _, pid := range nodes {
		l.books[pid].held.add(take, 1)
	}
	return at, nil
}

// refusal is why a reservation was refused.
type refusal struct {
	pid                      agentkernel.PID
	which                    int // of names
	want, limit, spent, held int64
	again                    bool   // it was under way before, and holds something
	final                    bool   // the process with the budget has ended
	of                       period // zero: it is a process's
}

// refusal is that of so much by a book; the ledger's lock is held.
func (l *Ledger) refusal(b *book, pid agentkernel.PID, which int, want int64) *refusal {
	r := &refusal{pid: pid, which: which, want: want, limit: b.limit[which], spent: b.spent[which], held: b.held[which], final: b.ended}
	if b.of != nil {
		r.of = *b.of
	}
	return r
}

// hinted is a refusal as an error, with what can be done about it.
func (r *refusal) hinted(op string) *agentkernel.Error {
	err := &agentkernel.Error{Code: agentkernel.CodeLimit, Op: op, Err: r}
	switch {
	case r.of.Namespace != "":
		return err.WithHint("%s", agentkernel.RaiseAllowance)
	case r.final:
		return err.WithHint(advice.BudgetEnded, r.pid)
	}
	name, more := names[r.which], r.shortage().More()
	enough := int64(0)
	if more > 0 {
		enough = r.limit + more
	}
	return err.WithHint(advice.BudgetShort, agentkernel.RaiseBudget(r.pid, name, more), agentkernel.RerunBudget(r.pid, name, enough))
}

// shortage is a refusal as whoever is told of it reads it.
func (r *refusal) shortage() *agentkernel.Shortage {
	s := &agentkernel.Shortage{Amount: names[r.which], Wants: r.want, Limit: r.limit, Spent: r.spent, Held: r.held}
	if r.of.Namespace == "" {
		s.Budget = r.pid
	} else {
		s.Namespace, s.Period, s.Until = r.of.Namespace, r.of.Period, r.of.until
	}
	return s
}

func (r *refusal) Error() string { return r.shortage().String() }

// Refused says whether an error is a refusal of Reserve.
func Refused(err error) bool {
	_, ok := errors.AsType[*refusal](err)
	return ok
}

// Final says that an error is a refusal by the budget of a process that has ended: to wait for more would be in vain.
func Final(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.final
}

// ShortageOf is that because of which an error refuses a call; nil: it refuses none.
func ShortageOf(err error) *agentkernel.Shortage {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.shortage()
	}
	return nil
}

// Raise notes that a budget is larger now. Its journal says so.
func (l *Ledger) Raise(pid agentkernel.PID, by agentkernel.Amounts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.books[pid]; b != nil && b.counts(pid) {
		b.limit.add(sumsOf(by), 1)
		b.wake()
		l.tell(pid, b)
	}
}

// State is what has become of the budget of a process.
func (l *Ledger) State(ctx context.Context, pid agentkernel.PID) (s agentkernel.BudgetState, err error) {
	rec, err := l.src.Store.Process(ctx, pid)
	if err == nil && rec.Spec.Budget == (agentkernel.Budget{}) {
		err = none(pid, &rec.Spec, advice.BudgetAbove)
	}
	if err != nil {
		return s, err
	}
	if rec.State.Terminal() {
		defer l.Drop(pid)
	}
	return s, l.Within(ctx, []agentkernel.PID{pid}, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		b := l.books[pid]
		if !b.open() {
			return errClosed
		}
		s = agentkernel.BudgetState{PID: pid, Limit: b.limit.spending(), Spent: b.spent.spending(), Held: b.held.spending()}
		return nil
	})
}

// Drop closes a book. Who needs it opens it again.
func (l *Ledger) Drop(pid agentkernel.PID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(pid)
}

// drop is Drop; the ledger's lock is held.
func (l *Ledger) drop(pid agentkernel.PID) {
	if b := l.books[pid]; b != nil {
		delete(l.books, pid)
		for _, w := range b.queue {
			w.again()
		}
		b.queue = nil
	}
}

// none is the error for a process without a budget of its own. above is what to do about that of another one, which has the PID.
func none(pid agentkernel.PID, s *agentkernel.Spec, above string) *agentkernel.Error {
	err := &agentkernel.Error{Code: agentkernel.CodeNotFound, Op: "budget", PID: pid}
	if n := len(s.Budgets); n > 0 {
		err.Err = fmt.Errorf("process %d has no budget of its own: it is within that of process %d", pid, s.Budgets[n-1])
		return err.WithHint(above, s.Budgets[n-1])
	}
	err.Err = fmt.Errorf("process %d has no budget of its own", pid)
	return err.WithHint(advice.GiveBudget)
}

// Raising is the entry that raises the budget of a process. The error says why it cannot be: nothing, less, and what it does not bound.
func Raising(pid agentkernel.PID, s *agentkernel.Spec, more agentkernel.Budget) (agentkernel.Entry, error) {
	e := agentkernel.Entry{Kind: agentkernel.EntryBudget}
	switch {
	case s.Budget == (agentkernel.Budget{}):
		return e, none(pid, s, advice.RaiseAbove)
	case more == (agentkernel.Budget{}):
		return e, agentkernel.Errorf(agentkernel.CodeInvalid, "budget", "nothing is to be added to the budget of process %d", pid).WithPID(pid)
	}
	if err := more.Validate(); err != nil {
		return e, err
	}
	for _, name := range more.Amounts().Names() {
		if s.Budget.Amounts()[name] == 0 {
			return e, agentkernel.Errorf(agentkernel.CodeInvalid, "budget", "the budget of process %d does not bound %s: there is nothing to raise", pid, name).WithPID(pid)
		}
	}
	data, err := json.Marshal(agentkernel.Spending(more))
	e.Data = data
	return e, err
}
