package reserve_test

import (
	"math"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/reserve"
	"agentkernel/internal/sys"
)

type amounts = agentkernel.Amounts

func TestRefusal(t *testing.T) {
	used := &history.Amounts{Spent: amounts{"coins": 5}, Held: map[int64]history.Held{3: {Amounts: amounts{"coins": 2, "tokens": 9}}}}
	grant := amounts{"coins": 10, "none": 0, "less": -1}
	for _, c := range []struct {
		want  amounts
		code  agentkernel.Code
		error string
	}{
		{nil, "", ""},
		{amounts{"coins": 3}, "", ""},
		{amounts{"tokens": math.MaxInt64}, "", ""}, // of which nobody grants a number
		{amounts{"coins": 4, "tokens": 1}, agentkernel.CodeLimit, "it may use up 4 coins, and 3 of 10 are left: 5 are spent, and calls under way hold 2"},
		{amounts{"coins": math.MaxInt64}, agentkernel.CodeLimit, "it may use up 9223372036854775807 coins, and 3 of 10 are left: 5 are spent, and calls under way hold 2"},
		{amounts{"none": 0, "less": 0}, "", ""},
		{amounts{"none": 1}, agentkernel.CodeLimit, "it may use up 1 none, and 0 of 0 are left: 0 are spent, and calls under way hold 0"},
		{amounts{"coins": -1}, agentkernel.CodeInternal, "it reserves -1 coins"},
	} {
		err := reserve.Refusal("x.y", c.want, grant, used)
		if c.error == "" && err != nil || c.error != "" && (err == nil || err.Code != c.code || err.Message() != c.error) {
			t.Errorf("%v: %v, want %s %s", c.want, err, c.code, c.error)
		}
	}
	if err := reserve.Refusal("x.y", amounts{"coins": 10}, grant, nil); err != nil {
		t.Errorf("a process that has used nothing: %v", err)
	}
}

func TestGrant(t *testing.T) {
	grants := func(a amounts) sys.Family {
		return sys.Family{Grant: func(*agentkernel.Spec) agentkernel.Amounts { return a }}
	}
	got := reserve.Grant([]sys.Family{{}, grants(amounts{"coins": 5, "tokens": 1}), grants(amounts{"coins": 3}), grants(amounts{"coins": 4}), grants(nil)}, nil)
	if got.String() != "3 coins, 1 tokens" {
		t.Errorf("granted are %s", got)
	}
}

func TestSettled(t *testing.T) {
	if got := reserve.Settled(amounts{"coins": -1, "tokens": 1}, true); got != nil {
		t.Errorf("%v", got)
	}
	if got := reserve.Settled(amounts{}, true); got == nil || len(got) > 0 {
		t.Error("nothing used has become all that was reserved")
	}
	if got := reserve.Settled(amounts{"coins": 2}, true); got.String() != "1 calls, 2 coins" {
		t.Errorf("a call that counts: %s", got)
	}
}
