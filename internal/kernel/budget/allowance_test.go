package budget_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/budget"
	"agentkernel/internal/kernel/history"
)

// clock is the time of a ledger, and what waits for it.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	waits []func()
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// set lets it be so late, and calls what waits.
func (c *clock) set(now string) {
	c.mu.Lock()
	c.now, _ = time.Parse(time.DateTime, now)
	waits := c.waits
	c.waits = nil
	c.mu.Unlock()
	for _, fn := range waits {
		fn()
	}
}

// namespaceOf gives a ledger over a namespace of so many processes.
func namespaceOf(members int, c *clock, allowances ...string) (*budget.Ledger, []*member) {
	var all []*member
	for i := range members {
		all = append(all, &member{pid: agentkernel.PID(i + 1)})
	}
	l := budget.New(budget.Source{Store: rows{}, Now: c.Now, Flush: func(context.Context) error { return nil },
		Members: func(_ string, fn func(agentkernel.PID, *history.Account)) {
			for _, m := range all {
				m.mu.Lock()
				fn(m.pid, &m.account)
				m.mu.Unlock()
			}
		},
		At: func(_ time.Time, fn func()) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.waits = append(c.waits, fn)
		}})
	parsed, err := agentkernel.ParseAllowances(allowances)
	if err != nil {
		panic(err)
	}
	l.Allow(parsed)
	return l, all
}

var inTeam = &agentkernel.Spec{Namespace: "team"}

// TestAnAllowanceOfManySpenders: a thousand spend at once, a hundred in each of ten processes. Not a nano-dollar more than the allowance is
// spent in a day, while its book is dropped and read again, and the next day nobody who waited is forgotten.
func TestAnAllowanceOfManySpenders(t *testing.T) {
	const most = 400
	c := &clock{}
	c.set("2026-02-28 12:00:00")
	l, all := namespaceOf(10, c, "team day usd 0.0000004", "team month usd 0.0000007")
	var spenders, waiting sync.WaitGroup
	var mu sync.Mutex
	paid, refused := int64(0), 0
	waiting.Add(1000)
	next := make(chan struct{})
	for i := range 1000 {
		m := all[i%len(all)]
		spenders.Go(func() {
			days := 0
			for {
				again := make(chan struct{})
				err := m.pay(l, l.Nodes(m.pid, inTeam), 3, 1)
				switch {
				case err == nil:
					mu.Lock()
					paid++
					mu.Unlock()
					if days == 0 {
						waiting.Done()
					}
					return
				case !budget.Refused(err):
					t.Errorf("spender %d: %v", i, err)
					return
				case l.Await(err, sync.OnceFunc(func() { close(again) })):
					<-again
				case days == 0:
					days++
					waiting.Done()
					<-next
				default:
					mu.Lock()
					refused++
					mu.Unlock()
					return
				}
			}
		})
		if i%100 == 0 {
			l.Drop(-1)
		}
	}
	waiting.Wait()
	if paid > most || paid < most-2 {
		t.Errorf("%d have paid", paid)
	}
	first := paid
	c.set("2026-03-01 00:00:00")
	close(next)
	spenders.Wait()
	if paid-first > most || paid-first < most-2 || paid+int64(refused) != 1000 {
		t.Errorf("%d have paid the next day, and %d could not", paid-first, refused)
	}
	states, err := l.Allowances(t.Context(), "")
	if err != nil || len(states) != 2 || states[0].Spent.USD != agentkernel.NanoUSD(paid-first) || states[0].Held.USD != 0 || states[1].Spent != states[0].Spent {
		t.Errorf("%+v %v", states, err)
	}
}

// TestTheDayOfACall: what a call reserves and uses belongs to the day on which it begins, whatever the day on which it ends, and wherever
// the clock is set meanwhile.
func TestTheDayOfACall(t *testing.T) {
	c := &clock{}
	c.set("2026-11-30 23:59:59")
	l, all := namespaceOf(1, c, "team day usd 0.00000001", "* month usd 0.00000002")
	m, nodes := all[0], l.Nodes(1, inTeam)
	begin := func(call int64) error {
		return l.Within(t.Context(), nodes, func() error {
			want := agentkernel.Amounts{agentkernel.AmountUSD: 7}
			at, err := l.Reserve("pay", nodes, want, nil)
			if err == nil {
				m.note(l, nodes, agentkernel.Entry{Kind: agentkernel.EntryCall, At: at, Call: call, Reserve: want})
			}
			return err
		})
	}
	end := func(call, used int64) {
		m.note(l, nodes, agentkernel.Entry{Kind: agentkernel.EntryResult, At: c.Now(), Call: call, Settle: agentkernel.Amounts{agentkernel.AmountUSD: used}})
	}
	say := func(when string, day, dayHeld, month, monthHeld int64) {
		t.Helper()
		for _, dropped := range []bool{false, true} {
			if dropped { // what is read from the accounts is the same
				l.Drop(-1)
				l.Drop(-2)
			}
			s, err := l.Allowances(t.Context(), "team")
			if err != nil || len(s) != 2 {
				t.Fatal(s, err)
			}
			if got := [4]int64{int64(s[0].Spent.USD), int64(s[0].Held.USD), int64(s[1].Spent.USD), int64(s[1].Held.USD)}; got != [4]int64{day, dayHeld, month, monthHeld} {
				t.Errorf("%s, dropped %t: %v", when, dropped, got)
			}
		}
	}
	if err := begin(1); err != nil {
		t.Fatal(err)
	}
	say("under way", 0, 7, 0, 7)
	if err := begin(2); !budget.Refused(err) || budget.ShortageOf(err).Until.String() != "2026-12-01 00:00:00 +0000 UTC" {
		t.Errorf("%v, until %v", err, budget.ShortageOf(err).Until)
	}
	c.set("2026-12-01 00:00:00")
	say("after midnight", 0, 0, 0, 0)
	if err := begin(2); err != nil {
		t.Fatal(err)
	}
	end(1, 5) // of yesterday
	say("two days", 0, 7, 0, 7)
	end(2, 6)
	say("today", 6, 0, 6, 0)
	if err := begin(3); !budget.Refused(err) {
		t.Error(err)
	}
	c.set("2026-12-02 00:00:00")
	say("the day after", 0, 0, 6, 0)
	for call := range int64(2) {
		if err := begin(3 + call); err != nil {
			t.Fatal(err)
		}
		end(3+call, 3)
	}
	say("the day after, later", 6, 0, 12, 0)
	c.set("2026-12-03 00:00:00")
	if err := begin(5); err != nil {
		t.Fatal(err)
	}
	if err := begin(6); !budget.Refused(err) || budget.ShortageOf(err).Until.String() != "2027-01-01 00:00:00 +0000 UTC" {
		t.Errorf("%v", err)
	}
	c.set("2026-12-01 00:00:00") // it finds what was spent
	if err := begin(6); !budget.Refused(err) {
		t.Error(err)
	}
}

// TestAllowReplaces: what waits for an allowance is let go when it is larger, or gone; and one that comes back knows what was spent.
func TestAllowReplaces(t *testing.T) {
	c := &clock{}
	c.set("2026-06-15 08:00:00")
	l, all := namespaceOf(1, c, "team day usd 0.000000005")
	all[0].now = c.Now()
	pay := func() error { return all[0].pay(l, l.Nodes(1, inTeam), 3, 3) }
	if err := pay(); err != nil {
		t.Fatal(err)
	}
	refused := pay()
	if !budget.Refused(refused) || l.Raised(refused) {
		t.Errorf("%v", refused)
	}
	for _, next := range []string{"team day usd 0.000000006", "team day calls 1", "* day usd 1"} {
		parsed, err := agentkernel.ParseAllowances([]string{next})
		if err != nil {
			t.Fatal(err)
		}
		if l.Allow(parsed); !l.Raised(refused) {
			t.Errorf("%s: a call that was refused may be made", next)
		}
	}
	l.Allow(nil)
	if !l.Raised(refused) || len(l.Nodes(1, inTeam)) != 0 {
		t.Error("there is no allowance any more")
	}
	if err := pay(); err != nil {
		t.Fatal(err)
	}
	parsed, err := agentkernel.ParseAllowances([]string{"* day usd 1", "other month usd 1"})
	if err != nil {
		t.Fatal(err)
	}
	l.Allow(parsed)
	if s, err := l.Allowances(t.Context(), "team"); err != nil || len(s) != 1 || s[0].Spent.USD != 6 {
		t.Errorf("%+v %v", s, err)
	}
	if s, err := l.Allowances(t.Context(), ""); err != nil || len(s) != 3 || s[0].Namespace != "other" || s[2].Namespace != "team" {
		t.Errorf("%+v %v", s, err)
	}
}
