package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/sys"
)

// price is what a call of the tool that is paid for reserves, in nano-dollars. It uses less.
const price = 5

// dear is by how much budgets are larger where there are models, which cost more than tools.
const dear = 5

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
	paid  map[int64]int64               // nano-dollars that were spent, by call
	added agentkernel.Amounts           // to its budget
	steps int                           // entries that may have changed it
	daily daily
}

func (p *purse) add(e *agentkernel.Entry) error {
	if p.held == nil {
		p.held, p.paid = map[int64]agentkernel.Amounts{}, map[int64]int64{}
	}
	if e.Kind != agentkernel.EntryCall || len(e.Reserve) > 0 {
		p.steps++
	}
	switch e.Kind {
	case agentkernel.EntryCall:
		if len(e.Reserve) > 0 {
			p.reserve(e)
		}
	case agentkernel.EntryRetry:
		p.charge(e.Call, p.held[e.Call], e.At)
		p.reserve(e)
	case agentkernel.EntryResult, agentkernel.EntrySettled:
		if e.Settle != nil {
			p.charge(e.Call, e.Settle, e.At)
		} else {
			p.charge(e.Call, p.held[e.Call], e.At)
		}
		delete(p.held, e.Call)
		if len(e.Reserve) > 0 { // for the stream that the call has opened
			p.held[e.Call] = e.Reserve
			if p.daily.on[e.Call] == "" { // one that held nothing, and waits for its turn again
				p.daily.begin(e)
			}
		}
	case agentkernel.EntryTerminal:
		for call, a := range p.held {
			p.charge(call, a, e.At)
		}
		clear(p.held)
		var end struct {
			Ran int64 `json:"ran_ns"`
		}
		if err := json.Unmarshal(e.Data, &end); err != nil {
			return err
		}
		if end.Ran > 0 {
			p.charge(0, agentkernel.Amounts{agentkernel.AmountTime: end.Ran}, e.At)
		}
	case agentkernel.EntryBudget:
		var more agentkernel.Spending
		if err := json.Unmarshal(e.Data, &more); err != nil {
			return err
		}
		p.added = p.added.Plus(more.Amounts())
	}
	return nil
}

// reserve takes what a call reserves. The time that its program ran until then is over.
func (p *purse) reserve(e *agentkernel.Entry) {
	own := *e
	own.Reserve = maps.Clone(e.Reserve)
	if ran := own.Reserve[agentkernel.AmountTime]; ran > 0 {
		delete(own.Reserve, agentkernel.AmountTime)
		p.charge(-e.Seq, agentkernel.Amounts{agentkernel.AmountTime: ran}, e.At)
	}
	p.held[e.Call] = own.Reserve
	p.daily.begin(&own)
}

func (p *purse) charge(call int64, a agentkernel.Amounts, at time.Time) {
	p.spent = p.spent.Plus(a)
	p.paid[call] += a[agentkernel.AmountUSD]
	p.daily.charge(call, a, at)
}

// of is what a call has spent and holds, in nano-dollars.
func (p *purse) of(call int64) int64 { return p.paid[call] + p.held[call][agentkernel.AmountUSD] }

// hasTo says whether the journal has all calls up to a number.
func (l *ledger) hasTo(last int64) bool {
	for id := int64(1); id <= last; id++ {
		if l.calls[id] == nil {
			return false
		}
	}
	return true
}

// mayRepeat says whether a call is open that costs each time it is made.
func (l *ledger) mayRepeat() bool {
	for _, c := range l.calls {
		if c.resultSeq == 0 && c.effect == agentkernel.EffectPaid {
			return true
		}
	}
	return false
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
	var took agentkernel.Amounts
	settles := false
	for i := range b.Entries {
		took = took.Plus(b.Entries[i].Reserve)
		settles = settles || len(b.Entries[i].Settle) > 0
	}
	if len(took) == 0 && !settles {
		return nil
	}
	for _, r := range d.view.nodes(d.view.rows[pidOf(b)]) {
		limit, spent, held := d.budget(r)
		for name, n := range limit {
			if spent[name]+held[name] > n && (took[name] > 0 || name == agentkernel.AmountUSD) { // a program may end with more time behind it than there was left
				return fmt.Errorf("process %d may spend %d %s with all below it: %d are spent, and %d held", r.PID, n, name, spent[name], held[name])
			}
		}
	}
	return d.checkAllowances(b)
}

// broke says whether a call of a process is right not to be made: too little is left. held says that others may give something back.
func (d *disk) broke(r *agentkernel.ProcessRecord, t *turn) (short, held bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	want := agentkernel.Amounts{agentkernel.AmountCalls: 1}
	switch {
	case asksModel(t.Op):
		want[agentkernel.AmountUSD] = d.market.reserves(t.Args)
	case t.Op == "tool.call" && calls(t.Args, paidTool):
		want[agentkernel.AmountUSD] = price
	case t.Op != "tool.call" && t.Op != "stream.next":
		return false, false
	}
	short, held = d.shortToday(want)
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
	if w.bounded(r) && !l.hasTo(s.call-1) {
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
	if r := d.view.rows[pid]; r != nil && strings.HasPrefix(r.PauseNote, "budget: ") && strings.Contains(r.PauseNote, ", and the budget of process ") {
		return d.view.nodes(r)
	}
	return nil
}

// fund lets what is paused for its budget go on. Whom the budget of a process stops that has ended goes on by itself.
func (w *World) fund(nodes []*agentkernel.ProcessRecord) {
	nodes = slices.DeleteFunc(nodes, func(r *agentkernel.ProcessRecord) bool { return w.disk.ledger(r.PID).terminal })
	for _, r := range nodes {
		var more agentkernel.Spending
		if r.Spec.Budget.USD != 0 {
			more.USD = 1000
		}
		if r.Spec.Budget.Calls != 0 {
			more.Calls = 1000
		}
		if r.Spec.Budget.Time != 0 {
			more.Time = agentkernel.Duration(time.Hour)
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
		if w.running("shutdown") {
			return // who was not taken up before asks again when the next kernel does; see checkIdle
		}
		for _, r := range append(w.disk.below(pid), w.disk.row(pid)) {
			l := w.disk.ledger(r.PID)
			if l.terminal || !l.paused || len(w.disk.paysNone(r.PID)) == 0 || !w.disk.carries(r.PID) {
				continue
			}
			if strings.HasPrefix(r.PauseNote, "budget: it has run for ") {
				continue // how long it has run is known to its kernel alone
			}
			if l.signalled {
				continue // the call that was too dear may have been interrupted; see checkTomorrow
			}
			s := w.checkProcess(r, l)
			if s != nil && s.kind == issuing && l.hasTo(s.call-1) && !l.mayRepeat() { // else an async call before it is too dear
				if short, _ := w.disk.broke(r, &s.issues); !short {
					w.failf("process %d is paused, and can pay: %s", r.PID, r.PauseNote)
				}
			}
		}
	}
	return w.start(o)
}

// askBudget compares what the kernel says of a budget with what the journals come to, if they say the same before and after.
func (w *World) askBudget(pid agentkernel.PID) *op {
	k := w.kernel
	now := func() (s agentkernel.BudgetState, steps int) {
		w.disk.mu.Lock()
		defer w.disk.mu.Unlock()
		limit, spent, held := w.disk.budget(w.disk.view.rows[pid])
		for _, l := range w.disk.ledgers {
			steps += l.purse.steps
		}
		return agentkernel.BudgetState{PID: pid, Limit: agentkernel.SpendingOf(limit), Spent: agentkernel.SpendingOf(spent), Held: agentkernel.SpendingOf(held)}, steps
	}
	before, steps := now()
	var got agentkernel.BudgetState
	o := &op{what: fmt.Sprintf("budget %d", pid), pid: pid, run: func(ctx context.Context, _ *op) (err error) {
		got, err = k.Budget(ctx, pid)
		return err
	}}
	o.check = func() { // a reservation counts a moment before its entry is appended
		if after, since := now(); since == steps && after == before && got != before {
			w.failf("the budget of process %d: the kernel says %+v, and the journals %+v", pid, got, before)
		}
	}
	return w.start(o)
}

// money lets a client do something about a budget. False: there is none.
func (w *World) money(rows []*agentkernel.ProcessRecord) bool {
	if len(w.disk.allowances) > 0 && w.chance(1, 2) {
		if w.chance(1, 4) {
			w.allowMore(w.kernel, 30)
		} else {
			w.askAllowances()
		}
		return true
	}
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
	switch {
	case r.Spec.Budget.Time != 0:
		more = agentkernel.Budget{Time: agentkernel.Duration(w.rng.IntN(int(time.Second)))}
	case r.Spec.Budget.USD == 0:
		more = agentkernel.Budget{Calls: int64(1 + w.rng.IntN(5))}
	}
	w.addBudget(r.PID, more)
	return true
}

// endow gives a process a budget that it may well use up.
func (w *World) endow(s *agentkernel.Spec) {
	switch w.rng.IntN(4) {
	case 3:
		s.Budget.Time = agentkernel.Duration(1 + w.rng.IntN(int(200*time.Millisecond)))
	case 0:
		s.Budget.USD = agentkernel.NanoUSD(price + w.rng.IntN(40))
	case 1:
		s.Budget.Calls = int64(1 + w.rng.IntN(10))
	case 2:
		s.Budget = agentkernel.Budget{USD: agentkernel.NanoUSD(price + w.rng.IntN(40)), Calls: int64(1 + w.rng.IntN(10))}
	}
	if w.market != nil {
		s.Budget.USD *= dear
	}
	s.OnBudget = []agentkernel.OnBudget{"", "", agentkernel.BudgetRaise, agentkernel.BudgetKill}[w.rng.IntN(4)]
}
