package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/sys"
)

// price is what a call of the tool that is paid for reserves, in nano-dollars. It uses less.
const price = 5

// used is what a call has used up.
func used(key string) int64 { return 1 + int64(len(key)+int(key[len(key)-1]))%price }

// paidTool is the tool that is paid for.
const paidTool = "paid0"

// priced puts a price on the tool that is paid for.
func priced(op *sys.Op) {
	admit, outside := op.Admit, op.Outside
	cost := func(c *sys.Call, adm sys.Admission, err error) (sys.Admission, error) {
		if err == nil && adm.Later == nil && calls(c.Args, paidTool) {
			adm.Reserve = agentkernel.Amounts{agentkernel.AmountUSD: price}
		}
		return adm, err
	}
	op.Admit = func(c *sys.Call) (sys.Admission, error) {
		adm, err := admit(c)
		if later := adm.Later; later != nil {
			adm.Later = func(ctx context.Context) (sys.Admission, error) {
				adm, err := later(ctx)
				return cost(c, adm, err)
			}
		}
		return cost(c, adm, err)
	}
	op.Outside = func(ctx context.Context, c *sys.Call) (sys.Outcome, error) {
		out, err := outside(ctx, c)
		if err == nil && calls(c.Args, paidTool) {
			out.Settle = agentkernel.Amounts{agentkernel.AmountUSD: used(c.Key)}
		}
		return out, err
	}
}

// calls says whether arguments are those of a call of a tool.
func calls(args json.RawMessage, tool string) bool {
	var a struct {
		Tool string `json:"tool"`
	}
	return json.Unmarshal(args, &a) == nil && a.Tool == tool
}

// purse is what a process has spent and holds by its journal, folded without the kernel's code.
type purse struct {
	spent agentkernel.Amounts
	held  map[int64]agentkernel.Amounts // by call
	added agentkernel.Amounts           // to its budget
}

func (p *purse) add(e *agentkernel.Entry) error {
	if p.held == nil {
		p.held = map[int64]agentkernel.Amounts{}
	}
	switch e.Kind {
	case agentkernel.EntryCall:
		if len(e.Reserve) > 0 {
			p.held[e.Call] = e.Reserve
		}
	case agentkernel.EntryRetry:
		p.spent, p.held[e.Call] = p.spent.Plus(p.held[e.Call]), e.Reserve
	case agentkernel.EntryResult:
		if e.Settle != nil {
			p.spent = p.spent.Plus(e.Settle)
		} else {
			p.spent = p.spent.Plus(p.held[e.Call])
		}
		delete(p.held, e.Call)
	case agentkernel.EntryTerminal:
		for _, a := range p.held {
			p.spent = p.spent.Plus(a)
		}
		p.held = nil
	case agentkernel.EntryBudget:
		var more agentkernel.Spending
		if err := json.Unmarshal(e.Data, &more); err != nil {
			return err
		}
		p.added = p.added.Plus(more.Amounts())
	}
	return nil
}

// hasTo says whether the journal has all calls up to a number.
func (l *ledger) hasTo(last int64) bool {
	for id := int64(1); id <= last; id++ {
		if l.calls[id] == nil {
			return false
		}
	}
	return true
}

// nodes are the processes whose budgets bind that of a row.
func (v *view) nodes(r *agentkernel.ProcessRecord) (out []*agentkernel.ProcessRecord) {
	for _, pid := range append(slices.Clone(r.Spec.Ancestors), r.PID) {
		if above := v.rows[pid]; above != nil && above.Spec.Budget != (agentkernel.Budget{}) {
			out = append(out, above)
		}
	}
	return out
}

// budget is what has become of the budget of a row; d.mu is held.
func (d *disk) budget(r *agentkernel.ProcessRecord) (limit, spent, held agentkernel.Amounts) {
	limit = r.Spec.Budget.Amounts().Plus(d.ledgers[r.PID].purse.added)
	for pid, l := range d.ledgers {
		if row := d.view.rows[pid]; pid != r.PID && (row == nil || !slices.Contains(row.Spec.Ancestors, r.PID)) {
			continue
		}
		spent = spent.Plus(l.purse.spent)
		for _, a := range l.purse.held {
			held = held.Plus(a)
		}
	}
	return limit, spent, held
}

// checkBudgets says which budget is passed by what a batch has reserved; d.mu is held.
func (d *disk) checkBudgets(b *agentkernel.Batch) error {
	if !slices.ContainsFunc(b.Entries, func(e agentkernel.Entry) bool { return len(e.Reserve) > 0 }) {
		return nil
	}
	for _, r := range d.view.nodes(d.view.rows[pidOf(b)]) {
		limit, spent, held := d.budget(r)
		for name, n := range limit {
			if spent[name]+held[name] > n {
				return fmt.Errorf("process %d may spend %d %s with all below it: %d are spent, and %d held", r.PID, n, name, spent[name], held[name])
			}
		}
	}
	return nil
}

// broke says whether a call of a process is right not to be made: too little is left. held says that others may give something back.
func (d *disk) broke(r *agentkernel.ProcessRecord, t *turn) (short, held bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t.Op != "tool.call" {
		return false, false
	}
	want := agentkernel.Amounts{agentkernel.AmountCalls: 1}
	if calls(t.Args, paidTool) {
		want[agentkernel.AmountUSD] = price
	}
	for _, node := range d.view.nodes(r) {
		limit, spent, holds := d.budget(node)
		for name, n := range want {
			if most, capped := limit[name]; capped && n > most-spent[name]-holds[name] {
				short, held = true, held || holds[name] > 0
			}
		}
	}
	return short, held
}

// saves says whether a process that issues a call waits for what others may give back.
func (w *World) saves(r *agentkernel.ProcessRecord, l *ledger, s *standing) bool {
	if (r.Spec.Budget != (agentkernel.Budget{}) || len(r.Spec.Budgets) > 0) && !l.hasTo(s.call-1) {
		return true // an async call before it does
	}
	short, held := w.disk.broke(r, &s.issues)
	if short && !held {
		w.failf("process %d can pay for nothing, and is not paused", r.PID)
	}
	return held
}

// paysNone says of a paused process that it is for its budget, and gives the processes whose budgets bind it.
func (d *disk) paysNone(pid agentkernel.PID) []*agentkernel.ProcessRecord {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.view.rows[pid]; r != nil && strings.HasPrefix(r.PauseNote, "budget: ") {
		return d.view.nodes(r)
	}
	return nil
}

// fund lets what is paused for its budget go on, or, if the budget is that of a process that has ended, kills it.
func (w *World) fund(nodes []*agentkernel.ProcessRecord, pid agentkernel.PID) {
	for _, r := range nodes {
		if l := w.disk.ledger(r.PID); l.terminal {
			w.signal(pid, agentkernel.SignalKill)
			return
		}
	}
	for _, r := range nodes {
		var more agentkernel.Spending
		if r.Spec.Budget.USD != 0 {
			more.USD = 1000
		}
		if r.Spec.Budget.Calls != 0 {
			more.Calls = 1000
		}
		w.addBudget(r.PID, agentkernel.Budget(more))
	}
}

func (w *World) addBudget(pid agentkernel.PID, more agentkernel.Budget) *op {
	k := w.kernel
	w.resumes++
	o := &op{what: fmt.Sprintf("fund %d", pid), pid: pid, run: func(ctx context.Context, _ *op) error {
		_, err := k.AddBudget(ctx, pid, more)
		return err
	}}
	o.check = func() {
		for _, r := range append(w.disk.below(pid), w.disk.row(pid)) {
			l := w.disk.ledger(r.PID)
			if l.terminal || !l.paused || len(w.disk.paysNone(r.PID)) == 0 {
				continue
			}
			s := w.checkProcess(r, l)
			if s != nil && s.kind == issuing && l.hasTo(s.call-1) { // else an async call before it is too dear
				if short, _ := w.disk.broke(r, &s.issues); !short {
					w.failf("process %d is paused for its budget, and can pay", r.PID)
				}
			}
		}
	}
	return w.start(o)
}

// askBudget compares what the kernel says of a budget with what the journals come to, if they say the same before and after.
func (w *World) askBudget(pid agentkernel.PID) *op {
	k := w.kernel
	now := func() (s agentkernel.BudgetState) {
		w.disk.mu.Lock()
		defer w.disk.mu.Unlock()
		limit, spent, held := w.disk.budget(w.disk.view.rows[pid])
		return agentkernel.BudgetState{PID: pid, Limit: agentkernel.SpendingOf(limit), Spent: agentkernel.SpendingOf(spent), Held: agentkernel.SpendingOf(held)}
	}
	before := now()
	var got agentkernel.BudgetState
	o := &op{what: fmt.Sprintf("budget %d", pid), pid: pid, run: func(ctx context.Context, _ *op) (err error) {
		got, err = k.Budget(ctx, pid)
		return err
	}}
	o.check = func() { // a reservation counts a moment before its entry is appended
		if now() == before && got != before {
			w.failf("the budget of process %d: the kernel says %+v, and the journals %+v", pid, got, before)
		}
	}
	return w.start(o)
}

// money lets a client do something about a budget. False: there is none.
func (w *World) money(rows []*agentkernel.ProcessRecord) bool {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r *agentkernel.ProcessRecord) bool { return r.Spec.Budget == (agentkernel.Budget{}) })
	if len(rows) == 0 {
		return false
	}
	r := rows[w.rng.IntN(len(rows))]
	if w.chance(1, 2) {
		w.askBudget(r.PID)
		return true
	}
	more := agentkernel.Budget{USD: agentkernel.NanoUSD(1 + w.rng.IntN(20))}
	if r.Spec.Budget.USD == 0 {
		more = agentkernel.Budget{Calls: int64(1 + w.rng.IntN(5))}
	}
	w.addBudget(r.PID, more)
	return true
}

// endow gives a process a budget that it may well use up.
func (w *World) endow(s *agentkernel.Spec) {
	switch w.rng.IntN(3) {
	case 0:
		s.Budget.USD = agentkernel.NanoUSD(price + w.rng.IntN(40))
	case 1:
		s.Budget.Calls = int64(1 + w.rng.IntN(10))
	case 2:
		s.Budget = agentkernel.Budget{USD: agentkernel.NanoUSD(price + w.rng.IntN(40)), Calls: int64(1 + w.rng.IntN(10))}
	}
	s.OnBudget = []agentkernel.OnBudget{"", "", agentkernel.BudgetRaise, agentkernel.BudgetKill}[w.rng.IntN(4)]
}
