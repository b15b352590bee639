// Package budget is the ledger of what trees with a budget have spent and hold. All of it is folded from journals: a book is read
// when the first of its tree needs it, kept by the entries that follow, and dropped at will. It sees no process: whoever calls
// says which books are about one.
package budget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
}

// New returns a ledger without books.
func New(src Source) *Ledger { return &Ledger{src: src, books: map[agentkernel.PID]*book{}} }

// book is about one process and all below it.
type book struct {
	ready chan struct{} // closed when it is read, or cannot be

	mu    sync.Mutex
	limit agentkernel.Amounts
	spent agentkernel.Amounts
	held  agentkernel.Amounts
	seen  map[agentkernel.PID]bool // who counts already, while it is read; nil: all do
	queue []waiter                 // for what calls under way may give back
}

// waiter is a call that waits.
type waiter struct {
	refused *refusal
	again   func()
}

// errClosed says that a book is not open, or was dropped since it was.
var errClosed = errors.New("the book is closed")

func (l *Ledger) find(pid agentkernel.PID) *book {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.books[pid]
}

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
		err = b.read(ctx, &l.src, pid)
	}
	if err != nil {
		l.Drop(pid)
	}
	close(b.ready)
	return err
}

// read counts all who are below the process of a book, with it.
func (b *book) read(ctx context.Context, src *Source, root agentkernel.PID) error {
	src.Loaded(root, func(pid agentkernel.PID, account *history.Account) {
		b.join(pid, account, pid == root)
	})
	rec, err := src.Store.Process(ctx, root)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.limit = b.limit.Plus(rec.Spec.Budget.Amounts())
	b.mu.Unlock()
	if err := b.readOne(ctx, src.Store, &rec, true); err != nil {
		return err
	}
	for below := []agentkernel.PID{root}; len(below) > 0; below = below[1:] {
		f := agentkernel.Filter{Parent: below[0]}
		for f.Limit = pageSize; ; {
			page, err := src.Store.Processes(ctx, f)
			if err != nil {
				return err
			}
			for i := range page {
				if err := b.readOne(ctx, src.Store, &page[i], false); err != nil {
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
	b.mu.Lock()
	b.seen = nil
	b.mu.Unlock()
	return nil
}

// pageSize is how many rows are in memory at a time.
const pageSize = 100

// readOne counts a process that is in nobody's memory.
func (b *book) readOne(ctx context.Context, store agentkernel.StoreReader, rec *agentkernel.ProcessRecord, root bool) error {
	b.mu.Lock()
	seen := b.seen[rec.PID]
	b.mu.Unlock()
	if seen || !root && rec.State.Terminal() && rec.Usage.Syscalls == 0 {
		return nil
	}
	account, err := history.AccountOf(ctx, store, rec)
	if err != nil {
		return err
	}
	b.join(rec.PID, &account, root)
	return nil
}

// join counts a process, unless it counts already. root says that the book is about it.
func (b *book) join(pid agentkernel.PID, account *history.Account, root bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.counts(pid) {
		return
	}
	b.seen[pid] = true
	spent, held := account.Amounts.Used()
	b.spent, b.held = b.spent.Plus(spent), b.held.Plus(held)
	if root {
		b.limit = b.limit.Plus(account.Added)
	}
}

// counts says whether a process is counted; b.mu is held.
func (b *book) counts(pid agentkernel.PID) bool { return b.seen == nil || b.seen[pid] }

// Join counts a process that is new in memory in the books that are being read; its account does not change meanwhile.
func (l *Ledger) Join(nodes []agentkernel.PID, pid agentkernel.PID, account *history.Account) {
	for _, node := range nodes {
		if b := l.find(node); b != nil {
			b.join(pid, account, node == pid)
		}
	}
}

// Note takes what entries, which were appended, have changed in the account of a process. What they reserve counts since Reserve.
func (l *Ledger) Note(nodes []agentkernel.PID, pid agentkernel.PID, before, after *history.Amounts, entries []agentkernel.Entry) {
	if len(nodes) == 0 || before == after {
		return
	}
	var reserved agentkernel.Amounts
	for i := range entries {
		reserved = reserved.Plus(entries[i].Reserve)
	}
	spentBefore, heldBefore := before.Used()
	spentAfter, heldAfter := after.Used()
	for _, node := range nodes {
		b := l.find(node)
		if b == nil {
			continue
		}
		b.mu.Lock()
		if b.counts(pid) {
			b.spent = minus(b.spent.Plus(spentAfter), spentBefore)
			b.held = minus(minus(b.held.Plus(heldAfter), heldBefore), reserved)
			b.wake()
		}
		b.mu.Unlock()
	}
}

// wake lets those try again, in the order in which they came, for whom there is enough now, or never will be; b.mu is held.
func (b *book) wake() {
	promised := map[string]int64{}
	b.queue = slices.DeleteFunc(b.queue, func(w waiter) bool {
		r := w.refused
		left := b.limit[r.Name] - b.spent[r.Name]
		if r.Want <= left && r.Want > left-b.held[r.Name]-promised[r.Name] {
			return false
		}
		promised[r.Name] += r.Want
		w.again()
		return true
	})
}

// Raised says whether a budget is larger than when it refused a call.
func (l *Ledger) Raised(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		return false
	}
	b := l.find(r.PID)
	if b == nil {
		return true // asking again tells
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit[r.Name] > r.Limit
}

// Await calls again, in a goroutine of the caller's choice, when a call that was refused may be made after all, or is refused for good. False:
// there is nothing to wait for: what is spent alone leaves too little.
func (l *Ledger) Await(err error, again func()) bool {
	r, ok := errors.AsType[*refusal](err)
	if !ok || r.Again || r.Want > r.Limit-r.Spent { // two calls that are made again would wait for what each other holds
		return false
	}
	b := l.find(r.PID)
	if b == nil {
		again()
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, waiter{r, again})
	b.wake() // it may have been given back a moment ago
	return true
}

// minus is a without b.
func minus(a, b agentkernel.Amounts) agentkernel.Amounts {
	if len(b) == 0 {
		return a
	}
	rest := maps.Clone(a)
	if rest == nil {
		rest = agentkernel.Amounts{}
	}
	for name, n := range b {
		if rest[name] -= n; rest[name] == 0 {
			delete(rest, name)
		}
	}
	return rest
}

// Reserve takes what a call wants from all books of nodes, or from none: an *agentkernel.Error for which Refused is true says of
// which too little is left. The entry that says so in the journal follows, before the caller lets go of its process. lost is what the call
// holds already that is made once more: the entry charges it.
func (l *Ledger) Reserve(op string, nodes []agentkernel.PID, want, lost agentkernel.Amounts) error {
	if len(want) == 0 {
		return nil
	}
	books := make([]*book, 0, len(nodes))
	for _, pid := range nodes {
		b := l.find(pid)
		if b == nil {
			return errClosed
		}
		books = append(books, b)
	}
	for i, b := range books { // from the root downwards, as everybody does
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.seen != nil { // another one is being read
			return errClosed
		}
		if err := b.refusal(op, nodes[i], want, lost); err != nil {
			return err
		}
	}
	for _, b := range books {
		b.held = b.held.Plus(want)
	}
	return nil
}

// refusal says why a call cannot have what it wants; b.mu is held.
func (b *book) refusal(op string, pid agentkernel.PID, want, lost agentkernel.Amounts) error {
	for _, name := range want.Names() {
		limit, capped := b.limit[name]
		if left := max(0, limit-b.spent[name]-b.held[name]); capped && want[name] > left {
			r := &refusal{PID: pid, Name: name, Want: want[name], Limit: limit, Spent: b.spent[name] + lost[name], Held: b.held[name] - lost[name], Again: len(lost) > 0}
			return (&agentkernel.Error{Code: agentkernel.CodeLimit, Op: op, Err: r}).WithHint(advice.RaiseBudget, pid, name)
		}
	}
	return nil
}

// refusal is why a reservation was refused.
type refusal struct {
	PID                      agentkernel.PID
	Name                     string
	Want, Limit, Spent, Held int64
	Again                    bool // it was under way before, and holds something
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("the call costs %s, and the budget of process %d is %s: %s are spent", quantity(r.Name, r.Want), r.PID, quantity(r.Name, r.Limit), quantity(r.Name, r.Spent))
	if r.Held > 0 {
		text += fmt.Sprintf(", and calls under way hold %s", quantity(r.Name, r.Held))
	}
	return text
}

// quantity is an amount as people read it.
func quantity(name string, n int64) string {
	if name == agentkernel.AmountUSD {
		return "$" + agentkernel.NanoUSD(n).String()
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
	if b := l.find(pid); b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.counts(pid) {
			b.limit = b.limit.Plus(by)
			b.wake()
		}
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
		b := l.find(pid)
		if b == nil {
			return errClosed
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.seen != nil {
			return errClosed
		}
		s = agentkernel.BudgetState{PID: pid, Limit: agentkernel.SpendingOf(b.limit), Spent: agentkernel.SpendingOf(b.spent), Held: agentkernel.SpendingOf(b.held)}
		return nil
	})
}

// Drop closes a book. Who needs it opens it again.
func (l *Ledger) Drop(pid agentkernel.PID) {
	l.mu.Lock()
	b := l.books[pid]
	delete(l.books, pid)
	l.mu.Unlock()
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.queue {
		w.again()
	}
	b.queue = nil
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
