package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// tenant is the namespace of all processes.
const tenant = "default"

// daily is what was spent and is held, by the day on which the calls began, folded without the kernel's code.
type daily struct {
	spent map[string]agentkernel.Amounts
	on    map[int64]string // the day of each call that holds something
}

func dayOf(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// begin notes that a call holds something from now on.
func (d *daily) begin(e *agentkernel.Entry) {
	if d.on == nil {
		d.on, d.spent = map[int64]string{}, map[string]agentkernel.Amounts{}
	}
	d.on[e.Call] = dayOf(e.At)
}

// charge notes that a call has spent something.
func (d *daily) charge(call int64, a agentkernel.Amounts, at time.Time) {
	day := d.on[call]
	if day == "" {
		day = dayOf(at)
	}
	if d.spent == nil {
		d.on, d.spent = map[int64]string{}, map[string]agentkernel.Amounts{}
	}
	d.spent[day] = d.spent[day].Plus(a)
}

// within says whether a day is of the period of another.
func within(p agentkernel.Period, day, of string) bool {
	if p == agentkernel.PeriodMonth {
		return day[:len("2000-01")] == of[:len("2000-01")]
	}
	return day == of
}

// allowed is what is allowed in the period of a day, and what of it is spent and held; d.mu is held.
func (d *disk) allowed(p agentkernel.Period, day string) (limit, spent, held agentkernel.Amounts) {
	for _, l := range d.ledgers {
		for on, a := range l.purse.daily.spent {
			if within(p, on, day) {
				spent = spent.Plus(a)
			}
		}
		for call, a := range l.purse.held {
			if within(p, l.purse.daily.on[call], day) {
				held = held.Plus(a)
			}
		}
	}
	return d.allowances.Of(tenant, p).Amounts(), spent, held
}

// checkAllowances says which allowance is passed by what a batch has reserved; d.mu is held.
func (d *disk) checkAllowances(b *agentkernel.Batch) error {
	for i := range b.Entries {
		e := &b.Entries[i]
		if len(e.Reserve) == 0 {
			continue
		}
		for _, p := range []agentkernel.Period{agentkernel.PeriodDay, agentkernel.PeriodMonth} {
			limit, spent, held := d.allowed(p, dayOf(e.At))
			for name, n := range limit {
				if spent[name]+held[name] > n {
					return fmt.Errorf("all may spend %d %s in the %s of %s: %d are spent, and %d held", n, name, p, e.At, spent[name], held[name])
				}
			}
		}
	}
	return nil
}

// shortToday says whether too little of what is allowed is left for a call now; held: others may give something back; d.mu is held.
func (d *disk) shortToday(want agentkernel.Amounts) (short, held bool) {
	for _, p := range []agentkernel.Period{agentkernel.PeriodDay, agentkernel.PeriodMonth} {
		limit, spent, holds := d.allowed(p, dayOf(time.Now()))
		for name, n := range want {
			if most, capped := limit[name]; capped && n > most-spent[name]-holds[name] {
				short, held = true, held || holds[name] > 0
			}
		}
	}
	return short, held
}

// bounded says whether something bounds what a process spends.
func (w *World) bounded(r *agentkernel.ProcessRecord) bool {
	return r.Spec.Budget != (agentkernel.Budget{}) || len(r.Spec.Budgets) > 0 || len(w.disk.allowances) > 0
}

// waitsForTomorrow says of a paused process that it is because of an allowance.
func (d *disk) waitsForTomorrow(pid agentkernel.PID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.view.rows[pid]
	return r != nil && strings.HasPrefix(r.PauseNote, "budget: ") && strings.Contains(r.PauseNote, ", and the allowance of namespace ")
}

// checkTomorrow checks that a process that is paused for an allowance is right to be.
func (w *World) checkTomorrow(r *agentkernel.ProcessRecord, l *ledger, s *standing) {
	if !w.disk.waitsForTomorrow(r.PID) || w.disk.halted(r) || w.running("allow") || s.kind != issuing || !l.hasTo(s.call-1) {
		return
	}
	if l.signalled {
		return // the call that was too dear may have been interrupted: the process stays paused, as it was
	}
	if l.mayRepeat() {
		return // that may be the call that was too dear, which does not wait for what others give back
	}
	if short, _ := w.disk.broke(r, &s.issues); !short {
		w.failf("process %d is paused, and there is enough: %s", r.PID, r.PauseNote)
	}
}

// eve is how long before the end of a month simulations with allowances begin.
const eve = time.Minute

// allot gives the namespace allowances that it may well use up, and lets the clock stand a while before the end of a month.
func (w *World) allot() {
	if w.opt.Seed%5 != 1 { // the others are as they were before there were any
		return
	}
	limit := func(p agentkernel.Period, usd, calls int) {
		a := agentkernel.Allowance{Namespace: []string{tenant, agentkernel.AnyNamespace}[w.rng.IntN(2)], Period: p}
		if w.chance(2, 3) {
			a.Limit.USD = agentkernel.NanoUSD(price + w.rng.IntN(usd))
		}
		if a.Limit.USD == 0 || w.chance(1, 2) {
			a.Limit.Calls = int64(1 + w.rng.IntN(calls))
		}
		w.disk.allowances = append(w.disk.allowances, a)
	}
	limit(agentkernel.PeriodDay, 150, 60)
	if w.chance(1, 3) {
		limit(agentkernel.PeriodMonth, 300, 120)
	}
	_, until := agentkernel.PeriodMonth.Around(time.Now())
	time.Sleep(time.Until(until) - eve)
}

// allowMore raises the allowances by up to so much.
func (w *World) allowMore(k *kernel.Kernel, most int) *op {
	w.disk.mu.Lock()
	more := slices.Clone(w.disk.allowances)
	for i := range more {
		l := &more[i].Limit
		if l.USD != 0 {
			l.USD += agentkernel.NanoUSD(1 + w.rng.IntN(most))
		}
		if l.Calls != 0 {
			l.Calls += int64(1 + w.rng.IntN(most))
		}
	}
	w.disk.allowances = more
	w.disk.mu.Unlock()
	w.resumes++
	return w.start(&op{what: "allow", run: func(context.Context, *op) error {
		k.Allow(more)
		return nil
	}})
}

// askAllowances compares what the kernel says of allowances with what the journals come to, if they say the same before and after.
func (w *World) askAllowances() *op {
	k := w.kernel
	now := func() (all []agentkernel.AllowanceState, steps int) {
		w.disk.mu.Lock()
		defer w.disk.mu.Unlock()
		for _, l := range w.disk.ledgers {
			steps += l.purse.steps
		}
		for _, p := range []agentkernel.Period{agentkernel.PeriodDay, agentkernel.PeriodMonth} {
			since, until := p.Around(time.Now())
			limit, spent, held := w.disk.allowed(p, dayOf(since))
			if len(limit) > 0 {
				all = append(all, agentkernel.AllowanceState{
					Allowance: agentkernel.Allowance{Namespace: tenant, Period: p, Limit: agentkernel.SpendingOf(limit)},
					Spent:     agentkernel.SpendingOf(spent), Held: agentkernel.SpendingOf(held), Since: since, Until: until,
				})
			}
		}
		return all, steps
	}
	before, steps := now()
	var got []agentkernel.AllowanceState
	o := &op{what: "allowances", run: func(ctx context.Context, _ *op) (err error) {
		got, err = k.Allowances(ctx, tenant)
		return err
	}}
	o.check = func() { // a reservation counts a moment before its entry is appended
		if after, since := now(); since == steps && slices.Equal(after, before) && !slices.Equal(got, before) && !w.running("allow") {
			w.failf("allowances: the kernel says %+v, and the journals %+v", got, before)
		}
	}
	return w.start(o)
}
