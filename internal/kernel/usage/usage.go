// Package usage adds up what calls to models have used, from the journals of a store. It keeps no account of its own: what a call is
// charged with is said by package history alone, as for budgets, so that both always agree.
//
// It reads journals and not the accounts that processes carry along. An account knows sums by day and nothing of single models, and
// nobody but its image has it: of a process that has ended there is none, so that its journal would be read all the same.
package usage

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

const (
	rowsAtATime    = 100 // each may hold a large result
	entriesAtATime = 200
)

// Unnamed is the model of calls of which the journal names none: those of before it did.
const Unnamed = "?"

// Read is what the calls have used that a query selects. What is pruned meanwhile may be missing.
func Read(ctx context.Context, store agentkernel.StoreReader, q agentkernel.UsageQuery) (agentkernel.ModelUsage, error) {
	if err := q.Validate(); err != nil {
		return agentkernel.ModelUsage{}, err
	}
	r := &report{q: q, rows: map[key]*agentkernel.UsageRow{}}
	f := agentkernel.Filter{Namespace: q.Namespace, Limit: rowsAtATime}
	for {
		page, err := store.Processes(ctx, f)
		if err != nil {
			return agentkernel.ModelUsage{}, err
		}
		for i := range page {
			if rec := &page[i]; r.mayHave(rec) {
				if err := r.read(ctx, store, rec); err != nil {
					return agentkernel.ModelUsage{}, err
				}
			}
		}
		if len(page) < rowsAtATime {
			return r.usage(), nil
		}
		f.Before = page[len(page)-1].PID
	}
}

// key is by what a row is told from others.
type key struct {
	agent, model, day, namespace string
	tree                         agentkernel.PID
}

// report is what was added up.
type report struct {
	q     agentkernel.UsageQuery
	rows  map[key]*agentkernel.UsageRow
	total agentkernel.UsageRow
}

// mayHave says whether a process may have calls that are selected.
func (r *report) mayHave(rec *agentkernel.ProcessRecord) bool {
	switch {
	case rec.State.Terminal() && (rec.Usage.Syscalls == 0 || rec.Ended.Before(r.q.Since)):
		return false
	case !r.q.Until.IsZero() && !rec.Created.Before(r.q.Until):
		return false
	}
	return r.q.Tree == 0 || agentkernel.RootOf(rec.PID, rec.Spec.Ancestors) == r.q.Tree
}

// call is a call to a model that has begun.
type call struct {
	at     time.Time // when it began, or began again
	model  string
	unsent bool // nothing has gone out yet: it is not counted
	opened bool // a stream, which has not ended
}

// reading is a journal that is being read.
type reading struct {
	*report
	rec     *agentkernel.ProcessRecord
	amounts *history.Amounts
	calls   map[int64]call // without a result
}

// read adds what the calls of a process have used.
func (r *report) read(ctx context.Context, store agentkernel.StoreReader, rec *agentkernel.ProcessRecord) error {
	j := &reading{report: r, rec: rec, calls: map[int64]call{}}
	from := int64(1)
	for {
		entries, err := outline(ctx, store, rec.PID, from)
		if err != nil {
			if agentkernel.CodeOf(history.StillThere(ctx, store, rec.PID, err)) == agentkernel.CodeNotFound {
				return nil
			}
			return err
		}
		for i := range entries {
			e := &entries[i]
			if e.Kind == agentkernel.EntryCreated && e.Imported != nil {
				return nil // it was spent elsewhere
			}
			if err := j.add(e); err != nil {
				return err
			}
			from = e.Seq + 1
		}
		if len(entries) < entriesAtATime {
			break
		}
	}
	for number, c := range j.calls {
		if c.unsent {
			continue
		}
		held := j.amounts.Of(number)
		err := j.book(c, held, func(row *agentkernel.UsageRow) {
			row.Open++
			plus(&row.HeldUSD, agentkernel.NanoUSD(held[agentkernel.AmountUSD]))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// outline reads entries, without their payloads where the store can.
func outline(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID, from int64) ([]agentkernel.Entry, error) {
	if s, ok := store.(agentkernel.Outliner); ok {
		return s.Outline(ctx, pid, from, entriesAtATime)
	}
	list, _, err := history.Entries(ctx, store, pid, from, entriesAtATime)
	return list, err
}

// add takes an entry that stands behind all that were added before.
func (j *reading) add(e *agentkernel.Entry) error {
	if e.Kind == agentkernel.EntryCall && !e.Done && !e.TakenOver() && asksModel(e.Op) {
		j.calls[e.Call] = call{at: e.At, model: e.Reserve.Model(), unsent: e.Reserve[agentkernel.AmountUnsent] > 0}
	}
	for c := range j.amounts.Charges(e) {
		held := j.amounts.Of(c.Call)
		if was, ok := j.calls[c.Call]; ok && (e.Kind != agentkernel.EntryResult || len(e.Reserve) == 0) { // what opens a stream has used nothing yet
			err := j.book(was, c.Amounts, func(row *agentkernel.UsageRow) { charge(row, &c, held) })
			if err != nil {
				return err
			}
		}
	}
	held := j.amounts.Holds(e.Call)
	j.amounts = j.amounts.Add(e)
	was, ok := j.calls[e.Call]
	holds := j.amounts.Holds(e.Call)
	switch {
	case e.Kind == agentkernel.EntryTerminal:
		return j.end()
	case !ok:
	case e.Kind == agentkernel.EntryRetry:
		j.calls[e.Call] = call{at: e.At, model: cmp.Or(e.Reserve.Model(), was.model)}
	case holds && e.Kind == agentkernel.EntryResult:
		was.opened = true
		j.calls[e.Call] = was
	case holds && e.Kind == agentkernel.EntrySettled: // it waits for its turn again
		was.unsent = true
		j.calls[e.Call] = was
	case !holds && (held || e.Kind == agentkernel.EntryResult): // what still holds something goes on
		delete(j.calls, e.Call)
		if was.unsent {
			return nil
		}
		return j.book(was, e.Settle, func(row *agentkernel.UsageRow) {
			row.Calls++
			if e.Err != nil || e.Kind == agentkernel.EntrySettled && !was.opened { // nothing has come
				row.Failed++
			}
		})
	}
	return nil
}

// end ends the calls that have no result when their process ends.
func (j *reading) end() error {
	for number, was := range j.calls {
		delete(j.calls, number)
		if was.unsent {
			continue
		}
		err := j.book(was, nil, func(row *agentkernel.UsageRow) { row.Calls, row.Failed = row.Calls+1, row.Failed+1 })
		if err != nil {
			return err
		}
	}
	return nil
}

// asksModel says whether calls of a name are to models: they are the calls of which the table says that each costs.
func asksModel(op string) bool {
	desc, _ := agentkernel.FindSyscall(op)
	return desc.Effect == agentkernel.EffectPaid
}

// charge adds to a row what was charged to a call that held so much.
func charge(row *agentkernel.UsageRow, c *history.Charge, held agentkernel.Amounts) {
	a := c.Amounts
	usd := agentkernel.NanoUSD(a[agentkernel.AmountUSD])
	plus(&row.USD, usd)
	plus(&row.Tokens, a[agentkernel.AmountTokens])
	switch n := a[agentkernel.AmountUncertain]; {
	case !c.Known:
		row.Uncertain++
		plus(&row.UncertainUSD, usd)
	case n > 0: // some of its requests, or all
		plus(&row.Uncertain, n)
		if each := agentkernel.NanoUSD(held[agentkernel.AmountUSD]); each <= usd/agentkernel.NanoUSD(n) {
			usd = each * agentkernel.NanoUSD(n)
		}
		plus(&row.UncertainUSD, usd)
	}
	plus(&row.Input, a[agentkernel.AmountInput])
	plus(&row.Cached, a[agentkernel.AmountCached])
	plus(&row.CacheWrite, a[agentkernel.AmountCacheWrite])
	plus(&row.Output, a[agentkernel.AmountOutput])
	plus(&row.Reasoning, a[agentkernel.AmountReasoning])
	plus(&row.Unpriced, a[agentkernel.AmountUnpriced])
}

// plus adds to a sum. One that is too large stays at the largest number.
func plus[T ~int64](sum *T, n T) {
	if *sum += n; n > 0 && *sum < n {
		*sum = math.MaxInt64
	}
}

// book lets add count something of a call, if that is selected. amounts name the model that was asked, if it is another one than was
// thought when the call began.
func (j *reading) book(c call, amounts agentkernel.Amounts, add func(*agentkernel.UsageRow)) error {
	if c.at.Before(j.q.Since) || !j.q.Until.IsZero() && !c.at.Before(j.q.Until) {
		return nil
	}
	add(&j.total)
	if len(j.q.By) == 0 {
		return nil
	}
	var k key
	for _, by := range j.q.By {
		switch by {
		case agentkernel.UsageAgent:
			k.agent = j.rec.Name
		case agentkernel.UsageModel:
			k.model = cmp.Or(amounts.Model(), c.model, Unnamed)
		case agentkernel.UsageDay:
			k.day = c.at.UTC().Format(time.DateOnly)
		case agentkernel.UsageNamespace:
			k.namespace = j.rec.Namespace
		case agentkernel.UsageTree:
			k.tree = agentkernel.RootOf(j.rec.PID, j.rec.Spec.Ancestors)
		}
	}
	row := j.rows[k]
	if row == nil {
		if len(j.rows) == agentkernel.MaxUsageRows {
			return agentkernel.Errorf(agentkernel.CodeLimit, "usage", "there would be more than %d rows", agentkernel.MaxUsageRows).
				WithHint("ask for a shorter time, one namespace, or fewer keys")
		}
		row = &agentkernel.UsageRow{Agent: k.agent, Model: k.model, Day: k.day, Namespace: k.namespace, Tree: k.tree}
		j.rows[k] = row
	}
	add(row)
	return nil
}

// usage are the rows, in their order.
func (r *report) usage() agentkernel.ModelUsage {
	u := agentkernel.ModelUsage{Rows: []agentkernel.UsageRow{}, Total: r.total}
	for _, row := range r.rows {
		u.Rows = append(u.Rows, *row)
	}
	days := len(r.q.By) > 0 && r.q.By[0] == agentkernel.UsageDay
	slices.SortFunc(u.Rows, func(a, b agentkernel.UsageRow) int {
		day := 0
		if days {
			day = strings.Compare(a.Day, b.Day)
		}
		return cmp.Or(day, cmp.Compare(b.USD, a.USD), cmp.Compare(b.Tokens, a.Tokens), cmp.Compare(b.Calls, a.Calls),
			strings.Compare(a.Agent, b.Agent), strings.Compare(a.Model, b.Model), strings.Compare(a.Day, b.Day),
			strings.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Tree, b.Tree))
	})
	return u
}
