package reserve_test

import (
	"fmt"
	"maps"
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
	if got := reserve.Settled(amounts{"coins": -1, "tokens": 1}, amounts{"calls": 1}); got != nil {
		t.Errorf("%v", got)
	}
	if got := reserve.Settled(amounts{}, amounts{"calls": 1}); got == nil || len(got) > 0 {
		t.Error("nothing used has become all that was reserved")
	}
	if got := reserve.Settled(amounts{"coins": 2}, amounts{"calls": 1, "turns": 1, "coins": 5}); got.String() != "1 calls, 2 coins, 1 turns" {
		t.Errorf("a call that counts: %s", got)
	}
	if got := reserve.Settled(amounts{"coins": 2}, nil); got.String() != "2 coins" {
		t.Errorf("one that does not: %s", got)
	}
}

// TestResult: what a call keeps for its stream, and what it ends of another one.
func TestResult(t *testing.T) {
	account := &history.Amounts{Held: map[int64]history.Held{
		3: {Amounts: amounts{"coins": 9, agentkernel.AmountCalls: 1}}, 4: {Amounts: amounts{"coins": 5}}, 5: {Amounts: amounts{"coins": 2}},
	}}
	failed := agentkernel.Errorf(agentkernel.CodeLimit, "x", "too large")
	for _, c := range []struct {
		name string
		e    agentkernel.Entry
		out  sys.Outcome
		want string
	}{
		{"a result", agentkernel.Entry{Kind: agentkernel.EntryResult, Call: 3}, sys.Outcome{Settle: amounts{"coins": 2}}, `result 3 settled {"calls":1,"coins":2}; `},
		{"unknown", agentkernel.Entry{Kind: agentkernel.EntryResult, Call: 3}, sys.Outcome{}, `result 3 ; `},
		{"kept, with the call counted", agentkernel.Entry{Kind: agentkernel.EntryResult, Call: 3}, sys.Outcome{Keeps: true}, `result 3 settled {"calls":1} kept {"coins":9}; `},
		{"kept", agentkernel.Entry{Kind: agentkernel.EntryResult, Call: 4}, sys.Outcome{Keeps: true, Settle: amounts{"coins": 1}}, `result 4 settled {} kept {"coins":5}; `},
		{"nothing to keep", agentkernel.Entry{Kind: agentkernel.EntryResult, Call: 9}, sys.Outcome{Keeps: true}, `result 9 settled {}; `},
		{"not kept after all", agentkernel.Entry{Kind: agentkernel.EntryResult, Call: 4, Err: failed}, sys.Outcome{Keeps: true}, `result 4 ; `},
		{"ended", agentkernel.Entry{Kind: agentkernel.EntryResult, Call: 5}, sys.Outcome{Settle: amounts{}, Ends: &sys.Settlement{Call: 4, Used: amounts{"coins": 2}}},
			`settled 4 settled {"coins":2}; result 5 settled {}; `},
		{"ended by a call that was answered at once", agentkernel.Entry{Kind: agentkernel.EntryCall, Call: 6, Done: true}, sys.Outcome{Ends: &sys.Settlement{Call: 4}}, `settled 4 settled null; call 6 ; `},
		{"settled before, and given whole now", agentkernel.Entry{Kind: agentkernel.EntryResult, Call: 5, Data: []byte(`[1]`)}, sys.Outcome{Settle: amounts{}, Ends: &sys.Settlement{Call: 2}},
			`settled 2 settled {}; result 5 settled {}; `},
		{"ended before", agentkernel.Entry{Kind: agentkernel.EntryResult, Call: 5, Data: []byte(`[]`)}, sys.Outcome{Settle: amounts{}, Ends: &sys.Settlement{Call: 2}}, `result 5 settled {}; `},
		{"closed after it was settled", agentkernel.Entry{Kind: agentkernel.EntryCall, Call: 6, Done: true, Data: []byte(`true`)}, sys.Outcome{Ends: &sys.Settlement{Call: 2}}, `call 6 ; `},
		{"nonsense", agentkernel.Entry{Kind: agentkernel.EntryResult, Call: 5}, sys.Outcome{Settle: amounts{}, Ends: &sys.Settlement{Call: 4, Used: amounts{"coins": -1}}},
			`settled 4 settled null; result 5 settled {}; `},
	} {
		got := ""
		for _, e := range reserve.Result(c.e, &c.out, account) {
			e.WriteNote()
			got += fmt.Sprintf("%s %d %s; ", e.Kind, e.Call, e.Note)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if n := account.Of(3)["coins"]; n != 9 || account.Of(3)[agentkernel.AmountCalls] != 1 {
		t.Error("the account was changed")
	}
}

// TestEarly: of streams that have more to give, or would have, the entries say so.
func TestEarly(t *testing.T) {
	account := &history.Amounts{Held: map[int64]history.Held{
		3: {Amounts: amounts{"coins": 9}, Kept: true}, 4: {Amounts: amounts{"coins": 5}}, 7: {Amounts: amounts{"coins": 2}, Kept: true},
	}}
	for want, list := range map[string][]agentkernel.Entry{
		`settled 3 settled {"coins":1} true; `: reserve.Early(account, sys.Settlement{Call: 3, Used: amounts{"coins": 1}}),
		``:                                     reserve.Early(account, sys.Settlement{Call: 2, Used: amounts{"coins": 1}}),
		`settled 3 settled null true; settled 7 settled null true; `: reserve.Lost(account),
	} {
		got := ""
		for _, e := range list {
			e.WriteNote()
			got += fmt.Sprintf("%s %d %s %t; ", e.Kind, e.Call, e.Note, e.Async)
		}
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestLeft: a call that is left settles once, and one that goes back to waiting for its turn is no call and no turn yet.
func TestLeft(t *testing.T) {
	a := (*history.Amounts)(nil).Add(&agentkernel.Entry{Kind: agentkernel.EntryCall, Call: 2, Reserve: agentkernel.Amounts{"usd": 9, "turns": 1, "calls": 1}})
	used := func(u agentkernel.Amounts) *sys.Admission {
		return &sys.Admission{Leave: func() agentkernel.Amounts { return u }}
	}
	refused := agentkernel.Amounts{"model x": 1}
	left := reserve.Left(2, true, used(refused), a, []agentkernel.Entry{{Kind: agentkernel.EntrySettled, Call: 3}})
	if want := (agentkernel.Amounts{"model x": 1, "turns": 1, "calls": 1}); !maps.Equal(left, want) {
		t.Errorf("left with %v, want %v", left, want)
	}
	if e, ok := reserve.Unsent(2, left); !ok || !maps.Equal(e.Settle, refused) || len(left) != 3 {
		t.Errorf("unsent: %+v, %t", e, ok)
	}
	for about, got := range map[string]agentkernel.Amounts{
		"of an earlier life":    reserve.Left(2, false, used(refused), a, nil),
		"settled before":        reserve.Left(2, true, used(refused), a, []agentkernel.Entry{{Kind: agentkernel.EntrySettled, Call: 2}}),
		"that holds nothing":    reserve.Left(3, true, used(refused), a, nil),
		"that says nothing":     reserve.Left(2, true, nil, a, nil),
		"of which nobody knows": reserve.Left(2, true, used(nil), a, nil),
	} {
		if got != nil {
			t.Errorf("a call %s: %v", about, got)
		}
	}
	if _, ok := reserve.Unsent(2, agentkernel.Amounts{"usd": 1}); ok {
		t.Error("what has cost something waits for its turn again")
	}
}
