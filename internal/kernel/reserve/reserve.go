// Package reserve decides whether a call may take what it wants to reserve. What a process has used up and reserved is in its
// journal (history.Amounts); what it may use up is said by the families. It holds no state, so that a crash changes nothing.
package reserve

import (
	"maps"
	"slices"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/sys"
)

// Grant is what a process of a Spec may use up in all its runs, as the families say: of a name that several grant the least.
// What none grants is not bounded.
func Grant(families []sys.Family, spec *agentkernel.Spec) agentkernel.Amounts {
	all := agentkernel.Amounts{}
	for i := range families {
		if families[i].Grant == nil {
			continue
		}
		for name, n := range families[i].Grant(spec) {
			if had, ok := all[name]; !ok || n < had {
				all[name] = n
			}
		}
	}
	return all
}

// Refusal says why a call cannot reserve what it wants; nil: it can. used is what its process has used up and reserved before.
func Refusal(op string, want, grant agentkernel.Amounts, used *history.Amounts) *agentkernel.Error {
	if len(want) == 0 {
		return nil
	}
	spent, held := used.Used()
	taken := spent.Plus(held)
	for _, name := range want.Names() {
		granted, bounded := grant[name]
		left := max(granted-taken[name], 0)
		switch {
		case want[name] < 0:
			return agentkernel.Errorf(agentkernel.CodeInternal, op, "it reserves %d %s", want[name], name)
		case bounded && want[name] > left:
			return agentkernel.Errorf(agentkernel.CodeLimit, op, "it may use up %d %s, and %d of %d are left: %d are spent, and calls under way hold %d",
				want[name], name, left, granted, spent[name], held[name])
		}
	}
	return nil
}

// Result is the result of a call as entries: what it ends comes first. account is what its process has used up and reserved.
func Result(e agentkernel.Entry, out *sys.Outcome, account *history.Amounts) []agentkernel.Entry {
	held := account.Of(e.Call)
	switch {
	case e.Kind != agentkernel.EntryResult: // it has reserved nothing
	case out.Keeps && e.Err == nil: // what the call is one of is done
		e.Settle, e.Reserve = agentkernel.Amounts{}, maps.Clone(held)
		for _, one := range ones {
			if n, there := held[one]; there {
				e.Settle[one] = n
				delete(e.Reserve, one)
			}
		}
	default:
		e.Settle = Settled(out.Settle, held)
	}
	if out.Ends == nil {
		return []agentkernel.Entry{e}
	}
	ends := Settlements([]sys.Settlement{*out.Ends}, account)
	if len(ends) == 0 && e.Kind == agentkernel.EntryResult && e.Err == nil && string(e.Data) != "[]" { // it was settled before all of it was given, which is so now
		ends = []agentkernel.Entry{{Kind: agentkernel.EntrySettled, Call: out.Ends.Call, Settle: agentkernel.Amounts{}}}
	}
	return append(ends, e)
}

// Settlements are the entries for streams that have ended. Of a call that has kept nothing there is none.
func Settlements(ends []sys.Settlement, account *history.Amounts) (list []agentkernel.Entry) {
	for _, s := range ends {
		if account.Holds(s.Call) {
			list = append(list, agentkernel.Entry{Kind: agentkernel.EntrySettled, Call: s.Call, Settle: Settled(s.Used, nil)})
		}
	}
	return list
}

// Left is how a call settles whose result nobody waits for any more, in Entry.Settle: nil, if nobody knows what it has used, it holds nothing, or
// it has opened a stream a moment ago, which settles it in the same batch. ours: what it holds is for this admission, and not for one of an
// earlier life.
func Left(call int64, ours bool, adm *sys.Admission, account *history.Amounts, settled []agentkernel.Entry) agentkernel.Amounts {
	held := account.Of(call)
	if !ours || len(held) == 0 || slices.ContainsFunc(settled, func(e agentkernel.Entry) bool { return e.Kind == agentkernel.EntrySettled && e.Call == call }) {
		return nil
	}
	return Settled(adm.Left(), held)
}

// Unsent is the entry with which a call goes back to waiting for its turn whose kernel ends before it has sent anything that costs. False: it
// may have, or has used something, which the next kernel charges.
func Unsent(call int64, used agentkernel.Amounts) (agentkernel.Entry, bool) {
	if used[agentkernel.AmountUSD] > 0 || used[agentkernel.AmountTokens] > 0 {
		return agentkernel.Entry{}, false
	}
	return Waits(call, used)
}

// Waits is the entry with which a call waits for its turn again that has nothing under way, and has used so much. False: nobody knows how much.
func Waits(call int64, used agentkernel.Amounts) (agentkernel.Entry, bool) {
	if used == nil {
		return agentkernel.Entry{}, false
	}
	used = maps.Clone(used)
	for _, one := range ones { // it is counted when it goes out
		delete(used, one)
	}
	return agentkernel.Entry{Kind: agentkernel.EntrySettled, Call: call, Settle: used, Reserve: agentkernel.Amounts{agentkernel.AmountUnsent: 1}}, true
}

// Early are the entries for streams that have ended, and have more to give, or would have.
func Early(account *history.Amounts, ends ...sys.Settlement) []agentkernel.Entry {
	list := Settlements(ends, account)
	for i := range list {
		list[i].Async = true
	}
	return list
}

// Lost are the entries for the streams of a process that went with its kernel: what they have used up, nobody knows.
func Lost(account *history.Amounts) []agentkernel.Entry {
	var ends []sys.Settlement
	for _, call := range account.Kept() {
		ends = append(ends, sys.Settlement{Call: call})
	}
	return Early(account, ends...)
}

// ones are what a call is one of.
var ones = []string{agentkernel.AmountCalls, agentkernel.AmountTurns}

// Settled is what a handler says that a call has used up; what cannot be is left out. What a call is one of (a call, a turn) is in what it
// held, and is spent, too, unless nothing is: then the call did not go out.
func Settled(used, held agentkernel.Amounts) agentkernel.Amounts {
	for _, n := range used {
		if n < 0 {
			return nil // nonsense costs all that was reserved
		}
	}
	for _, one := range ones {
		if held[one] > 0 && len(used) > 0 {
			used = used.Plus(agentkernel.Amounts{one: held[one]})
		}
	}
	return used
}
