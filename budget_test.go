package agentkernel_test

import (
	"encoding/json"
	"math"
	"testing"

	"agentkernel"
)

// TestDollars: money is written with two digits behind the point, or as many as it needs, and is read as it was written.
func TestDollars(t *testing.T) {
	for n, want := range map[agentkernel.NanoUSD]string{0: "0.00", 1: "0.000000001", 2e9: "2.00", 25e7: "0.25", 1e8: "0.10", 5e6: "0.005", 15e5: "0.0015",
		12e7: "0.12", 1_000_000_010: "1.00000001", -5e8: "-0.50", math.MaxInt64: "9223372036.854775807", math.MinInt64: "-9223372036.854775808"} {
		if n.String() != want {
			t.Errorf("%d is written %s, want %s", int64(n), n, want)
		}
		if got, err := agentkernel.ParseUSD(want); err != nil || got != n {
			t.Errorf("%s is read as %d: %v", want, int64(got), err)
		}
	}
	for text, want := range map[string]agentkernel.NanoUSD{"$2": 2e9, "7e-9": 7, "0.0000000001": 1, " 3 ": 3e9} {
		if got, err := agentkernel.ParseUSD(text); err != nil || got != want {
			t.Errorf("%q is read as %d: %v", text, int64(got), err)
		}
	}
	for _, text := range []string{"", "x", "1/2", "0x10", "1_0", "1e999999999", "10000000000", "NaN"} {
		if got, err := agentkernel.ParseUSD(text); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

// TestBudgetInJSON: what is wrong with a budget is said in the words of who wrote it.
func TestBudgetInJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"usd": 2, "tokens": 200000, "calls": 50}`: "",
		`{"usd": "0.5"}`:                 "",
		`{"USD": 1}`:                     `"USD" cannot be bounded: a budget has usd, tokens, calls, turns and time`,
		`{"eur": 1}`:                     `"eur" cannot be bounded: a budget has usd, tokens, calls, turns and time`,
		`{"calls": 1.5}`:                 "calls must be a whole number such as 50, and not 1.5",
		`{"tokens": "5"}`:                `tokens must be a whole number such as 50, and not "5"`,
		`{"calls": null}`:                "calls is 0, with which nothing could be spent: leave out what is not to be capped",
		`{"usd": 0}`:                     "usd is 0, with which nothing could be spent: leave out what is not to be capped",
		`{"calls": -1}`:                  "calls is negative: a budget is what may be spent",
		`[]`:                             `a budget is an object such as {"usd": 2, "tokens": 200000, "calls": 50}`,
		`{"calls": 9223372036854775808}`: "calls must be a whole number such as 50, and not 9223372036854775808",
	} {
		var b agentkernel.Budget
		got := ""
		if err := json.Unmarshal([]byte(text), &b); err != nil {
			got = agentkernel.AsError(err, agentkernel.CodeInternal, "").Message()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// One of a thing is written as one.
func TestAmountPhrase(t *testing.T) {
	for want, got := range map[string]string{
		"1 call": agentkernel.AmountPhrase(agentkernel.AmountCalls, 1), "2 calls": agentkernel.AmountPhrase(agentkernel.AmountCalls, 2),
		"1 token": agentkernel.AmountPhrase(agentkernel.AmountTokens, 1), "$0.000000001": agentkernel.AmountPhrase(agentkernel.AmountUSD, 1),
		"1ns time": agentkernel.AmountPhrase(agentkernel.AmountTime, 1),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
