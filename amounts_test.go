package agentkernel_test

import (
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
