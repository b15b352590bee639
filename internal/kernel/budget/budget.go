// Package budget is the ledger of what trees with a budget have spent and hold. All of it is folded from journals: a book is read
// when the first of its tree needs it, kept by the entries that follow, and dropped at will. It sees no process: whoever calls
// says which books are about one.
package budget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

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
var names = [...]string{agentkernel.AmountUSD, agentkernel.AmountTokens, agentkernel.AmountCalls}

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
	return agentkernel.Spending{USD: agentkernel.NanoUSD(s[0]), Tokens: s[1], Calls: s[2]}
}

// standing is what an account has spent and holds.
func standing(a *history.Amounts) (spent, held sums) {
	if a == nil {
		return spent, held
	}
	spent = sumsOf(a.Spent)
	for _, h := range a.Held {
		held.add(sumsOf(h.Amounts), 1)
	}
	return spent, held
}

// Ledger has the books by the process whose budget each is about.
type Ledger struct {
	src   Source
	mu    sync.Mutex
	books map[agentkernel.PID]*book
}

// Source is what books are made from.
type Source struct {
	// Loaded calls fn, while nothing changes, with the account of each process in memory that is one of pid and all below it.
	Loaded func(pid agentkernel.PID, fn func(pid agentkernel.PID, account *history.Account))
	// Flush returns when the store has all that was journalled before.
	Flush func(ctx context.Context) error
	Store agentkernel.StoreReader
	// Due lets a goroutine of its own tell a process what Warnings says. It is called with a lock held, and again until that is done. nil:
	// nobody is told.
	Due func(pid agentkernel.PID)
}

// New returns a ledger without books.
func New(src Source) *Ledger { return &Ledger{src: src, books: map[agentkernel.PID]*book{}} }

// book is about one process and all below it. The ledger's lock guards it.
type book struct {
	ready       chan struct{} // closed when it is read, or cannot be
	caps        [len(names)]bool
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
		b = &book{ready: make(chan struct{}), seen: map[agentkernel.PID]bool{}}
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
	if err == nil {
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
	if seen || !root && rec.State.Terminal() && rec.Usage.Syscalls == 0 {
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
	spent, held := standing(account.Amounts)
	b.spent.add(spent, 1)
	b.held.add(held, 1)
	if root {
		b.limit.add(sumsOf(account.Added), 1)
		b.warned = sumsOf(account.Warned)
	}
}

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
	spent, held := standing(after)
	spentBefore, heldBefore := standing(before)
	spent.add(spentBefore, -1)
	held.add(heldBefore, -1)
	for i := range entries {
		held.add(sumsOf(entries[i].Reserve), -1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, node := range nodes {
		if b := l.books[node]; b != nil && b.counts(pid) {
			b.spent.add(spent, 1)
			b.held.add(held, 1)
			b.wake()
			l.tell(node, b)
		}
	}
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
// there is nothing to wait for: what is spent alone leaves too little.
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
	b.wake() // it may have been given back a moment ago
	return true
}

// Raised says whether a budget is larger than when it refused a call.
func (l *Ledger) Raised(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books[r.pid]
	return b == nil || b.limit[r.which] > r.limit // without a book, asking again tells
}

// Reserve takes what a call wants from all books of nodes, or from none: an *agentkernel.Error for which Refused is true says of
// which too little is left. The entry that says so in the journal follows, before the caller lets go of its process. lost is what the call
// holds already that is made once more: the entry charges it.
func (l *Ledger) Reserve(op string, nodes []agentkernel.PID, want, lost agentkernel.Amounts) error {
	if len(want) == 0 || len(nodes) == 0 {
		return nil
	}
	take, again := sumsOf(want), sumsOf(lost)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, pid := range nodes { // from the root downwards
		b := l.books[pid]
		if b == nil || b.seen != nil {
			return errClosed
		}
		for i, n := range take {
			if left := max(0, b.limit[i]-b.spent[i]-b.held[i]); b.caps[i] && n > left {
				r := &refusal{pid: pid, which: i, want: n, limit: b.limit[i], spent: b.spent[i] + again[i], held: b.held[i] - again[i], again: len(lost) > 0}
				return (&agentkernel.Error{Code: agentkernel.CodeLimit, Op: op, Err: r}).WithHint(advice.RaiseBudget, pid, names[i])
			}
		}
	}
	for _, pid := range nodes {
		l.books[pid].held.add(take, 1)
	}
	return nil
}

// refusal is why a reservation was refused.
type refusal struct {
	pid                      agentkernel.PID
	which                    int // of names
	want, limit, spent, held int64
	again                    bool // it was under way before, and holds something
}

func (r *refusal) Error() string {
	name := names[r.which]
	text := fmt.Sprintf("the call costs %s, and the budget of process %d is %s: spent %s", quantity(name, r.want), r.pid, quantity(name, r.limit), quantity(name, r.spent))
	if r.held > 0 {
		text += fmt.Sprintf(", held by calls under way %s", quantity(name, r.held))
	}
	return text
}

// quantity is an amount as people read it.
func quantity(name string, n int64) string {
	if name == agentkernel.AmountUSD {
		return "$" + agentkernel.NanoUSD(n).String()
	}
	if n == 1 {
		name = strings.TrimSuffix(name, "s")
	}
	return fmt.Sprintf("%d %s", n, name)
}

// Refused says whether an error is a refusal of Reserve.
func Refused(err error) bool {
	_, ok := errors.AsType[*refusal](err)
	return ok
}

// pausedFor begins the notes of pauses because of a budget.
const pausedFor = "budget: "

// PauseNote says why a process is paused whose call was refused.
func PauseNote(err error) string {
	return pausedFor + agentkernel.AsError(err, agentkernel.CodeLimit, "").Message()
}

// Paused says whether the note of a pause is one of those.
func Paused(note string) bool { return strings.HasPrefix(note, pausedFor) }

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
		err = none(pid)
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
		if b == nil || b.seen != nil {
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
	if b := l.books[pid]; b != nil {
		delete(l.books, pid)
		for _, w := range b.queue {
			w.again()
		}
		b.queue = nil
	}
}

// none is the error for a process without a budget.
func none(pid agentkernel.PID) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeNotFound, "budget", "process %d has no budget of its own", pid).WithPID(pid).WithHint(advice.GiveBudget)
}

// Raising is the entry that raises a budget. The error says why it cannot be: nothing, less, and what it does not bound.
func Raising(pid agentkernel.PID, had, more agentkernel.Budget) (agentkernel.Entry, error) {
	e := agentkernel.Entry{Kind: agentkernel.EntryBudget}
	switch {
	case had == (agentkernel.Budget{}):
		return e, none(pid)
	case more == (agentkernel.Budget{}):
		return e, agentkernel.Errorf(agentkernel.CodeInvalid, "budget", "nothing is to be added to the budget of process %d", pid).WithPID(pid)
	}
	if err := more.Validate(); err != nil {
		return e, err
	}
	for _, name := range more.Amounts().Names() {
		if had.Amounts()[name] == 0 {
			return e, agentkernel.Errorf(agentkernel.CodeInvalid, "budget", "the budget of process %d does not bound %s: there is nothing to raise", pid, name).WithPID(pid)
		}
	}
	data, err := json.Marshal(agentkernel.Spending(more))
	e.Data = data
	return e, err
}
