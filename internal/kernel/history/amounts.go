package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentkernel"
)

// Amounts are what the calls of a process have used up and reserved, in all its runs; nil is nothing. It is never changed:
// each entry that says something makes a new one.
type Amounts struct {
	Spent agentkernel.Amounts `json:"spent,omitempty"`
	Held  map[int64]Held      `json:"held,omitempty"` // by call
}

// Held is the reservation of a call that has no result.
type Held struct {
	Amounts agentkernel.Amounts `json:"amounts,omitempty"`
	// Again says that the call was begun a second time, after a crash or by the decision of a human. What it had reserved
	// first stays charged.
	Again bool `json:"again,omitempty"`
}

// add takes an entry that stands behind all that were added before. An intent reserves, a second beginning charges what the
// first had reserved and reserves again, and a result settles: what it says was used is charged, or, if it says nothing, all
// that was reserved. A call that
// never has a result keeps its reservation, which is spent when the process ends.
func (a *Amounts) add(e *agentkernel.Entry) *Amounts {
	switch {
	case e.Kind == agentkernel.EntryCall && len(e.Reserve) > 0:
		return a.with(nil, e.Call, &Held{Amounts: e.Reserve})
	case e.Kind == agentkernel.EntryRetry:
		return a.with(a.Of(e.Call), e.Call, &Held{Amounts: e.Reserve, Again: true})
	case e.Kind == agentkernel.EntryResult && e.Settle != nil:
		return a.with(e.Settle, e.Call, nil)
	case e.Kind == agentkernel.EntryResult && a.Holds(e.Call):
		return a.with(a.Of(e.Call), e.Call, nil)
	case e.Kind == agentkernel.EntryTerminal && a != nil && a.Held != nil:
		spent, held := a.Used()
		return (&Amounts{Spent: spent}).with(held, 0, nil)
	}
	return a
}

// with is a, with more spent, and with what a call holds from then on; nil: nothing.
func (a *Amounts) with(spent agentkernel.Amounts, call int64, held *Held) *Amounts {
	var next Amounts
	if a != nil {
		next = Amounts{a.Spent, maps.Clone(a.Held)}
	}
	next.Spent = next.Spent.Plus(spent)
	delete(next.Held, call)
	if held != nil {
		if next.Held == nil {
			next.Held = map[int64]Held{}
		}
		if next.Held[call] = *held; len(held.Amounts) == 0 {
			next.Held[call] = Held{Again: held.Again} // as a base has it
		}
	}
	if len(next.Held) == 0 {
		next.Held = nil
	}
	if next.Held == nil && len(next.Spent) == 0 {
		return nil
	}
	return &next
}

// Of is what a call holds.
func (a *Amounts) Of(call int64) agentkernel.Amounts {
	if a == nil {
		return nil
	}
	return a.Held[call].Amounts
}

// Holds says whether a call has a reservation, or was begun again.
func (a *Amounts) Holds(call int64) bool {
	if a == nil {
		return false
	}
	_, ok := a.Held[call]
	return ok
}

// Again says whether a call without a result was begun a second time.
func (a *Amounts) Again(call int64) bool { return a != nil && a.Held[call].Again }

// Returned is how a call settles that is known not to have happened; nil: it has reserved nothing.
func (a *Amounts) Returned(call int64) agentkernel.Amounts {
	if len(a.Of(call)) == 0 {
		return nil
	}
	return agentkernel.Amounts{}
}

// Used is what is spent and what is held.
func (a *Amounts) Used() (spent, held agentkernel.Amounts) {
	if a == nil {
		return nil, nil
	}
	for _, h := range a.Held {
		held = held.Plus(h.Amounts)
	}
	return a.Spent, held
}

// String is for tests and logs.
func (a *Amounts) String() string {
	spent, _ := a.Used()
	var b strings.Builder
	fmt.Fprintf(&b, "spent %s", spent)
	if a != nil {
		for _, call := range slices.Sorted(maps.Keys(a.Held)) {
			fmt.Fprintf(&b, "; call %d holds %s, again %t", call, a.Held[call].Amounts, a.Held[call].Again)
		}
	}
	return b.String()
}
