package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentkernel"
)

// Amounts are what the calls of a process have used up and reserved, in all its runs; nil is nothing. It is never changed:
// each entry that says something makes a new one.
type Amounts struct {
	Spent agentkernel.Amounts `json:"spent,omitempty"`
	Held  map[int64]Held      `json:"held,omitempty"` // by call
	// Days are those of the newest month and of the one before on which calls began that have spent something, in their order.
	Days []Day `json:"days,omitempty"`
}

// Held is the reservation of a call that has no result.
type Held struct {
	Amounts agentkernel.Amounts `json:"amounts,omitempty"`
	// Again says that the call was begun a second time, after a crash or by the decision of a human. What it had reserved
	// first stays charged.
	Again bool `json:"again,omitempty"`
	// Kept says that the call has its result, and has opened a stream.
	Kept bool `json:"kept,omitempty"`
	// Day is that on which it was begun, or begun again.
	Day Date `json:"day,omitempty"`
}

// Add takes an entry that stands behind all that were added before. An intent reserves, a second beginning charges what the
// first had reserved and reserves again, and a result settles; see Charges. A result may keep some of it for the stream
// that the call has opened, which is settled later; a call that settles without a result is over, or waits for its turn again.
// Running time is over when it is noted, and is never held: that until a call is in its reservation, that until the end in the
// last entry.
func (a *Amounts) Add(e *agentkernel.Entry) *Amounts {
	day, again := a.day(e), a.Again(e.Call)
	for c := range a.Charges(e) {
		a = a.with(c.Amounts, c.Day, c.Call, nil)
	}
	switch {
	case e.Kind == agentkernel.EntryRetry, e.Kind == agentkernel.EntryCall && len(e.Reserve) > 0:
		ran, held := ranUntil(e.Reserve)
		return a.with(ran, DateOf(e.At), e.Call, &Held{Amounts: held, Again: e.Kind == agentkernel.EntryRetry && (again || !a.Unsent(e.Call)), Day: DateOf(e.At)})
	case e.Kind == agentkernel.EntryResult && len(e.Reserve) > 0:
		return a.with(nil, 0, e.Call, &Held{Amounts: e.Reserve, Kept: true, Day: day})
	case e.Kind == agentkernel.EntrySettled && len(e.Reserve) > 0: // it waits for its turn again
		return a.with(nil, 0, e.Call, &Held{Amounts: e.Reserve, Again: again, Day: day})
	case e.Kind == agentkernel.EntryTerminal && bytes.Contains(e.Data, []byte(`"ran_ns"`)): // of most it is not there, and reading takes longer than looking
		if ran := ReadEnd(e.Data).Ran; ran > 0 {
			return a.with(agentkernel.Amounts{agentkernel.AmountTime: int64(ran)}, DateOf(e.At), 0, nil)
		}
	}
	return a
}

// Charge is what an entry says that a call has spent.
type Charge struct {
	Call    int64
	Amounts agentkernel.Amounts
	Day     Date // on which it began
	Known   bool // false: nobody knows what it has used, so that it is charged with all that was reserved
}

// Charges are what an entry says that calls have spent, which stands behind all that were added before: of a result what it says was used
// or, if it says nothing, all that was reserved, as of a call that begins a second time. A call that never has a result keeps its
// reservation, which is spent when the process ends.
func (a *Amounts) Charges(e *agentkernel.Entry) iter.Seq[Charge] {
	settles := e.Kind == agentkernel.EntryResult || e.Kind == agentkernel.EntrySettled
	return func(yield func(Charge) bool) {
		switch {
		case e.Kind == agentkernel.EntryRetry && a.Unsent(e.Call): // it begins
		case e.Kind == agentkernel.EntryRetry:
			yield(Charge{e.Call, a.Of(e.Call), a.day(e), false})
		case e.Kind == agentkernel.EntryResult && len(e.Reserve) > 0, settles && e.Settle != nil:
			yield(Charge{e.Call, e.Settle, a.day(e), true})
		case settles && a.Holds(e.Call):
			yield(Charge{e.Call, a.Lost(e.Call), a.day(e), a.Unsent(e.Call)})
		case e.Kind == agentkernel.EntryTerminal && a != nil && a.Held != nil:
			for _, call := range slices.Sorted(maps.Keys(a.Held)) {
				if !yield(Charge{call, a.Lost(call), a.Held[call].Day, a.Unsent(call)}) {
					return
				}
			}
		}
	}
}

// ranUntil splits what a call has reserved into the time that its program ran until then, and the rest.
func ranUntil(reserve agentkernel.Amounts) (ran, held agentkernel.Amounts) {
	n, there := reserve[agentkernel.AmountTime]
	if !there {
		return nil, reserve
	}
	held = maps.Clone(reserve)
	delete(held, agentkernel.AmountTime)
	return agentkernel.Amounts{agentkernel.AmountTime: n}, held
}

// EndData is the Data of a last entry.
type EndData struct {
	ExitCode int               `json:"exit_code"`
	State    agentkernel.State `json:"state"`
	// Ran is the time that the program ran since what was counted before, if a budget or an allowance bounds it.
	Ran time.Duration `json:"ran_ns,omitempty"`
}

// Encode is d in an entry.
func (d EndData) Encode() json.RawMessage {
	data := strconv.AppendInt([]byte(`{"exit_code":`), int64(d.ExitCode), 10)
	data = append(append(append(data, `,"state":"`...), d.State...), '"') // which is a word
	if d.Ran != 0 {
		data = strconv.AppendInt(append(data, `,"ran_ns":`...), int64(d.Ran), 10)
	}
	return append(data, '}')
}

// ReadEnd reads it, as far as it can be read.
func ReadEnd(data json.RawMessage) (d EndData) {
	_ = json.Unmarshal(data, &d) // a recording may have anything there
	return d
}

// day is that to which what a call has spent belongs: that of its reservation, if it has one.
func (a *Amounts) day(e *agentkernel.Entry) Date {
	if a.Holds(e.Call) {
		return a.Held[e.Call].Day
	}
	return DateOf(e.At)
}

// with is a, with more spent by a call that began on a day, and with what a call holds from then on; nil: nothing.
func (a *Amounts) with(spent agentkernel.Amounts, day Date, call int64, held *Held) *Amounts {
	var next Amounts
	if a != nil {
		next = Amounts{a.Spent, nil, a.Days}
		if n := len(a.Held); n > 1 || n == 1 && !a.Holds(call) { // most programs have one call under way
			next.Held = maps.Clone(a.Held)
			delete(next.Held, call)
		}
	}
	next.Spent = next.Spent.Plus(spent)
	next.Days = spentOn(next.Days, day, spent)
	if held != nil {
		if next.Held == nil {
			next.Held = map[int64]Held{}
		}
		if next.Held[call] = *held; len(held.Amounts) == 0 {
			next.Held[call] = Held{Again: held.Again, Kept: held.Kept, Day: held.Day} // as a base has it
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

// Unsent says whether a call is in the journal that was not sent yet.
func (a *Amounts) Unsent(call int64) bool { return a.Of(call)[agentkernel.AmountUnsent] > 0 }

// Lost is what a call is charged with of which nobody knows what it has used: all that it holds.
func (a *Amounts) Lost(call int64) agentkernel.Amounts {
	if a.Unsent(call) {
		return nil
	}
	return a.Of(call)
}

// Again says whether a call without a result was begun a second time.
func (a *Amounts) Again(call int64) bool { return a != nil && a.Held[call].Again }

// MayBegin says whether a call without a result, which costs each time, may be begun: a second time, and not a third.
func (a *Amounts) MayBegin(call int64) bool { return !a.Again(call) || a.Unsent(call) }

// Kept are the calls that hold something for streams that they have opened, in their order.
func (a *Amounts) Kept() (calls []int64) {
	if a == nil {
		return nil
	}
	for _, call := range slices.Sorted(maps.Keys(a.Held)) {
		if a.Held[call].Kept {
			calls = append(calls, call)
		}
	}
	return calls
}

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
