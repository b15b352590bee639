package agentkernel_test

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"agentkernel"
)

func TestAmounts(t *testing.T) {
	a := agentkernel.Amounts{"tokens": 200, "requests": 1}
	sum := a.Plus(agentkernel.Amounts{"tokens": math.MaxInt64, "coins": 2}).Plus(agentkernel.Amounts{"requests": 1, "tokens": 1})
	if want := (agentkernel.Amounts{"tokens": math.MaxInt64, "requests": 2, "coins": 2}); !reflect.DeepEqual(sum, want) {
		t.Errorf("%v, want %v", sum, want)
	}
	if a["tokens"] != 200 || len(a) != 2 {
		t.Errorf("what was added to has changed: %v", a)
	}
	if got, want := a.String(), "1 requests, 200 tokens"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := agentkernel.Amounts(nil).Plus(nil); got != nil || got.String() != "nothing" {
		t.Errorf("nothing and nothing are %v", got)
	}
}

// TestAmountsWritten: a note has amounts as encoding/json writes them, whatever their names are.
func TestAmountsWritten(t *testing.T) {
	for _, a := range []agentkernel.Amounts{nil, {}, {"usd": 1, "tokens": -2, "model a:b/c.d-e": math.MaxInt64}, {"a<b": 1}, {`a"b`: 1}, {"é": 1}, {"a\\": 1, "\x00\xff": 2, "&": 3}, {"": 4, "\x7f": 5}} {
		want, err := json.Marshal(map[string]int64(a))
		e := agentkernel.Entry{Kind: agentkernel.EntrySettled, Settle: a}
		if e.WriteNote(); err != nil || e.Note != "settled "+string(want) {
			t.Errorf("%s, want %s (%v)", e.Note, want, err)
		}
	}
}
