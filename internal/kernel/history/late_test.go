package history_test

import (
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

func TestStillAtWork(t *testing.T) {
	unknown := func(reason string) *agentkernel.Error {
		return agentkernel.Errorf(agentkernel.CodeOutcomeUnknown, "tool.call", "bank.pay may or may not have happened: %s", reason)
	}
	for _, late := range []string{`server "bank" did not answer pay in time`, "bank did not answer within 2m", history.Overdue("busy"), history.Overdue("it did not answer")} {
		if !history.StillAtWork(unknown(late)) {
			t.Errorf("%q: its server is at work no more", late)
		}
	}
	for _, e := range []*agentkernel.Error{nil, unknown("the kernel died while it was under way"), unknown("its server ended; it said:\ndatabase did not answer"),
		agentkernel.Errorf(agentkernel.CodeTimeout, "tool.call", "x: did not answer")} {
		if history.StillAtWork(e) {
			t.Errorf("%v: its server is still at work", e)
		}
	}
}
