package budget_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/budget"
	"agentkernel/internal/kernel/history"
)

// rows are a store that has the rows of processes whose accounts are in memory.
type rows struct {
	agentkernel.StoreReader
	budgets map[agentkernel.PID]agentkernel.Budget
}

func (s rows) Process(_ context.Context, pid agentkernel.PID) (agentkernel.ProcessRecord, error) {
	b, ok := s.budgets[pid]
	if !ok {
		return agentkernel.ProcessRecord{}, agentkernel.Errorf(agentkernel.CodeNotFound, "store", "there is no process %d", pid)
	}
	return agentkernel.ProcessRecord{Process: agentkernel.Process{PID: pid, State: agentkernel.StateUnfinished}, Spec: agentkernel.Spec{Budget: b}}, nil
}

func (s rows) Processes(context.Context, agentkernel.Filter) ([]agentkernel.ProcessRecord, error) {
	return nil, nil
}

// member is a process as the kernel keeps it: its lock, and the account that its journal comes to.
type member struct {
	mu      sync.Mutex
	pid     agentkernel.PID
	seq     int64
	now     time.Time // where the ledger does not say when a call begins
	account history.Account
}

// ledgerOf gives a ledger over a chain of processes, each with a budget of so many nano-dollars.
func ledgerOf(caps ...agentkernel.NanoUSD) (*budget.Ledger, []*member, []agentkernel.PID) {
	store := rows{budgets: map[agentkernel.PID]agentkernel.Budget{}}
	var chain []*member
	var nodes []agentkernel.PID
	for i, most := range caps {
		pid := agentkernel.PID(i + 1)
		store.budgets[pid] = agentkernel.Budget{USD: most}
		chain, nodes = append(chain, &member{pid: pid}), append(nodes, pid)
	}
	l := budget.New(budget.Source{Store: store, Flush: func(context.Context) error { return nil },
		Loaded: func(top agentkernel.PID, fn func(agentkernel.PID, *history.Account)) {
			for _, m := range chain[min(int(top)-1, len(chain)):] {
				m.mu.Lock()
				fn(m.pid, &m.account)
				m.mu.Unlock()
			}
		}})
	return l, chain, nodes
}

// pay reserves and settles as a call does.
func (m *member) pay(l *budget.Ledger, nodes []agentkernel.PID, reserve, use int64) error {
	want := agentkernel.Amounts{agentkernel.AmountUSD: reserve}
	var call int64
	err := l.Within(context.Background(), nodes, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		at, err := l.Reserve("pay", nodes, want, nil)
		if err != nil {
			return err
		}
		if at.IsZero() {
			at = m.now
		}
		m.seq++
		call = m.seq
		m.note(l, nodes, agentkernel.Entry{Kind: agentkernel.EntryCall, At: at, Call: call, Reserve: want})
		return nil
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(l, nodes, agentkernel.Entry{Kind: agentkernel.EntryResult, Call: call, Settle: agentkernel.Amounts{agentkernel.AmountUSD: use}})
	return nil
}

func (m *member) note(l *budget.Ledger, nodes []agentkernel.PID, e agentkernel.Entry) {
	before := m.account.Amounts
	m.account.Add(&e)
	l.Note(nodes, m.pid, before, m.account.Amounts, []agentkernel.Entry{e})
}

// TestManySpenders: a thousand spend at once below one cap. Not a nano-dollar more is spent, and as long as there is enough nobody is refused
// for good.
func TestManySpenders(t *testing.T) {
	const most = 700
	l, chain, nodes := ledgerOf(most, 100_000)
	var all sync.WaitGroup
	var mu sync.Mutex
	paid := int64(0)
	for i := range 1000 {
		all.Go(func() {
			for {
				again := make(chan struct{})
				err := chain[1].pay(l, nodes, 3, 1)
				switch {
				case err == nil:
					mu.Lock()
					paid++
					mu.Unlock()
					return
				case !budget.Refused(err):
					t.Errorf("spender %d: %v", i, err)
					return
				case !l.Await(err, sync.OnceFunc(func() { close(again) })):
					return
				}
				<-again
			}
		})
	}
	all.Wait()
	s, err := l.State(t.Context(), 1)
	if err != nil || int64(s.Spent.USD) != paid || s.Held != (agentkernel.Spending{}) || s.Spent.USD > most || s.Spent.USD < most-2 {
		t.Errorf("%d have paid: %+v %v", paid, s, err)
	}
	if below, err := l.State(t.Context(), 2); err != nil || below.Spent != s.Spent {
		t.Errorf("%+v %v", below, err)
	}
}

// TestWhileABookIsRead: what is spent while a book is dropped and read again counts once.
func TestWhileABookIsRead(t *testing.T) {
	l, chain, nodes := ledgerOf(1e9, 1e9, 1e9)
	var all sync.WaitGroup
	for i := range chain {
		all.Go(func() {
			for range 2000 {
				if err := chain[i].pay(l, nodes[:i+1], 2, 1); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for range 500 {
				l.Drop(nodes[i])
			}
		})
	}
	all.Wait()
	for i, want := range []agentkernel.NanoUSD{6000, 4000, 2000} {
		if s, err := l.State(t.Context(), nodes[i]); err != nil || s.Spent.USD != want || s.Held.USD != 0 {
			t.Errorf("book %d: %+v %v, want %d spent", nodes[i], s, err, want)
		}
	}
}

// TestABookThatCannotBeRead: whoever asks is told, and may ask again.
func TestABookThatCannotBeRead(t *testing.T) {
	l, _, _ := ledgerOf(1)
	for range 2 {
		err := l.Within(t.Context(), []agentkernel.PID{9}, func() error {
			_, err := l.Reserve("x", []agentkernel.PID{9}, agentkernel.Amounts{"usd": 1}, nil)
			return err
		})
		if agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
			t.Error(err)
		}
	}
}

func BenchmarkReserveAndSettle(b *testing.B) {
	for _, depth := range []int{1, 8} {
		b.Run(fmt.Sprint("depth=", depth), func(b *testing.B) {
			var caps []agentkernel.NanoUSD
			for range depth {
				caps = append(caps, 1<<60)
			}
			l, chain, nodes := ledgerOf(caps...)
			m := chain[depth-1]
			if err := m.pay(l, nodes, 2, 1); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := m.pay(l, nodes, 2, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestWhoIsCalledAndTakesNothing: what was given back is the next one's then.
func TestWhoIsCalledAndTakesNothing(t *testing.T) {
	l, chain, nodes := ledgerOf(5)
	want := agentkernel.Amounts{agentkernel.AmountUSD: 5}
	if err := chain[0].pay(l, nodes, 1, 0); err != nil { // opens the book
		t.Fatal(err)
	}
	if _, err := l.Reserve("pay", nodes, want, nil); err != nil {
		t.Fatal(err)
	}
	_, refused := l.Reserve("pay", nodes, want, nil)
	var called []string
	for _, name := range []string{"gone", "next"} {
		if !l.Await(refused, func() { called = append(called, name) }) {
			t.Fatal(refused)
		}
	}
	m := chain[0]
	m.mu.Lock()
	m.account.Add(&agentkernel.Entry{Kind: agentkernel.EntryCall, Call: 9, Reserve: want})
	m.note(l, nodes, agentkernel.Entry{Kind: agentkernel.EntryResult, Call: 9, Settle: agentkernel.Amounts{}})
	m.mu.Unlock()
	if fmt.Sprint(called) != "[gone]" {
		t.Errorf("%v are called, and there is enough for one", called)
	}
	if l.Tried(refused); fmt.Sprint(called) != "[gone next]" {
		t.Errorf("%v are called", called)
	}
}
