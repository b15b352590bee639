// Package reserve decides whether a call may take what it wants to reserve. What a process has used up and reserved is in its
// journal (history.Amounts); what it may use up is said by the families. It holds no state, so that a crash changes nothing.
package reserve

import (
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

// Settled is what a handler says that a call has used up; what cannot be is left out. counted says that the call is one of those that a
// budget counts, which is spent, too, unless nothing is: then the call did not go out.
func Settled(used agentkernel.Amounts, counted bool) agentkernel.Amounts {
	for _, n := range used {
		if n < 0 {
			return nil // nonsense costs all that was reserved
		}
	}
	if counted && len(used) > 0 {
		return used.Plus(agentkernel.Amounts{agentkernel.AmountCalls: 1})
	}
	return used
}
