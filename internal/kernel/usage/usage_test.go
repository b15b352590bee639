package usage_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/usage"
)

// store has journals in memory.
type store struct {
	agentkernel.StoreReader
	rows     []agentkernel.ProcessRecord // oldest first
	journals map[agentkernel.PID][]agentkernel.Entry
	read     map[agentkernel.PID]bool
	gone     agentkernel.PID // is pruned before its journal is read
}

func (s *store) Process(_ context.Context, pid agentkernel.PID) (agentkernel.ProcessRecord, error) {
	if pid == s.gone {
		return agentkernel.ProcessRecord{}, agentkernel.Errorf(agentkernel.CodeNotFound, "store", "there is no process %d", pid)
	}
	return s.rows[slices.IndexFunc(s.rows, func(r agentkernel.ProcessRecord) bool { return r.PID == pid })], nil
}

func (s *store) Processes(_ context.Context, f agentkernel.Filter) (page []agentkernel.ProcessRecord, err error) {
	for _, r := range slices.Backward(s.rows) {
		if len(page) < f.Limit && (f.Before == 0 || r.PID < f.Before) && (f.Namespace == "" || f.Namespace == r.Namespace) {
			page = append(page, r)
		}
	}
	return page, nil
}

func (s *store) Entries(_ context.Context, pid agentkernel.PID, from int64, limit int) ([]agentkernel.Entry, error) {
	if pid == s.gone {
		return nil, agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "entry 1 of process %d cannot be read", pid)
	}
	if s.read == nil {
		s.read = map[agentkernel.PID]bool{}
	}
	s.read[pid] = true
	list := s.journals[pid][from-1:]
	return list[:min(limit, len(list))], nil
}

var begun = time.Date(2026, 11, 25, 22, 0, 0, 0, time.UTC)

// journal is one that is being written.
type journal struct {
	entries []agentkernel.Entry
	calls   int64
	now     time.Time
}

func (j *journal) add(e agentkernel.Entry) {
	e.Seq, e.At = int64(len(j.entries)+1), j.now
	j.entries = append(j.entries, e)
}

func (j *journal) call(op string, reserve agentkernel.Amounts) int64 {
	j.calls++
	j.add(agentkernel.Entry{Kind: agentkernel.EntryCall, Call: j.calls, Op: op, Reserve: reserve})
	return j.calls
}

func (j *journal) result(call int64, settle agentkernel.Amounts, failure error) {
	j.add(agentkernel.Entry{Kind: agentkernel.EntryResult, Call: call, Settle: settle, Err: agentkernel.AsError(failure, agentkernel.CodeTool, "x")})
}

func (j *journal) end() { j.add(agentkernel.Entry{Kind: agentkernel.EntryTerminal}) }

func newJournal() *journal {
	j := &journal{now: begun}
	j.add(agentkernel.Entry{Kind: agentkernel.EntryCreated})
	return j
}

func (s *store) put(pid agentkernel.PID, name, namespace string, j *journal, above ...agentkernel.PID) {
	r := agentkernel.ProcessRecord{Process: agentkernel.Process{PID: pid, Name: name, Namespace: namespace, State: agentkernel.StateUnfinished, Created: begun}}
	r.Spec.Ancestors = above
	if last := j.entries[len(j.entries)-1]; last.Kind == agentkernel.EntryTerminal {
		r.State, r.Ended, r.Usage.Syscalls = agentkernel.StateExited, last.At, j.calls
	}
	if s.journals == nil {
		s.journals = map[agentkernel.PID][]agentkernel.Entry{}
	}
	s.rows, s.journals[pid] = append(s.rows, r), j.entries
}

// asked is what a call to a model has used.
func asked(model string, usd, input, output int64) agentkernel.Amounts {
	return agentkernel.Amounts{"usd": usd, "tokens": input + output, "input": input, "output": output, agentkernel.AmountModel(model): 1}
}

// stored are two trees of two namespaces, with each kind of outcome.
func stored() *store {
	s := &store{}
	j := newJournal()
	ok := j.call("llm.ask", asked("openai:a", 900, 0, 0))
	free := j.call("llm.complete", asked("openai:a", 900, 0, 0))
	other := j.call("tool.call", agentkernel.Amounts{"usd": 5})
	j.now = begun.Add(3 * time.Hour) // the next day
	j.result(ok, asked("vllm:b", 10, 7, 2), nil)
	j.result(free, agentkernel.Amounts{}, fmt.Errorf("refused"))
	j.result(other, nil, nil)
	lost := j.call("llm.ask", agentkernel.Amounts{"usd": 500, "tokens": 50, agentkernel.AmountModel("openai:a"): 1})
	j.result(lost, nil, fmt.Errorf("cut off"))
	j.end()
	s.put(1, "writer", "team", j)

	j = newJournal()
	again := j.call("llm.embed", asked("openai:e", 100, 0, 0))
	j.now = begun.Add(4 * time.Hour)
	j.add(agentkernel.Entry{Kind: agentkernel.EntryRetry, Call: again, Reserve: asked("openai:e", 100, 0, 0)})
	j.result(again, agentkernel.Amounts{"usd": 20, "tokens": 4, "input": 1, "cached": 1, "cache_write": 2, "unpriced": 1, agentkernel.AmountModel("openai:e"): 1}, nil)
	j.call("llm.ask", agentkernel.Amounts{"usd": 30, "tokens": 3}) // is under way, and of before models were named
	s.put(2, "reader", "team", j, 1)

	j = newJournal()
	killed := j.call("llm.ask", asked("openai:a", 40, 0, 0))
	j.now = begun.Add(time.Hour)
	_ = killed
	j.end()
	s.put(3, "writer", "other", j)

	j = newJournal()
	j.entries[0].Imported = &agentkernel.ProcessOf{PID: 9}
	j.result(j.call("llm.ask", nil), asked("openai:a", 1e9, 1, 1), nil)
	j.end()
	s.put(4, "imported", "team", j)
	return s
}

func lines(u agentkernel.ModelUsage) (out []string) {
	for _, r := range append(u.Rows, u.Total) {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %d: %d calls %d failed %d open, %d = %d+%d+%d+%d+%d tokens, %d usd %d uncertain %d, %d unpriced, %d held",
			r.Agent, r.Model, r.Day, r.Namespace, r.Tree, r.Calls, r.Failed, r.Open, r.Tokens, r.Input, r.Cached, r.CacheWrite, r.Output, r.Reasoning, r.USD, r.Uncertain, r.UncertainUSD,
			r.Unpriced, r.HeldUSD)))
	}
	return out
}

func TestUsage(t *testing.T) {
	for name, c := range map[string]struct {
		q    agentkernel.UsageQuery
		want []string
	}{
		"by agent and model": {agentkernel.UsageQuery{By: []agentkernel.UsageKey{agentkernel.UsageAgent, agentkernel.UsageModel}}, []string{
			"writer openai:a   0: 3 calls 3 failed 0 open, 50 = 0+0+0+0+0 tokens, 540 usd 2 uncertain 540, 0 unpriced, 0 held",
			"reader openai:e   0: 1 calls 0 failed 0 open, 4 = 1+1+2+0+0 tokens, 120 usd 1 uncertain 100, 1 unpriced, 0 held",
			"writer vllm:b   0: 1 calls 0 failed 0 open, 9 = 7+0+0+2+0 tokens, 10 usd 0 uncertain 0, 0 unpriced, 0 held",
			"reader ?   0: 0 calls 0 failed 1 open, 0 = 0+0+0+0+0 tokens, 0 usd 0 uncertain 0, 0 unpriced, 30 held",
			"0: 5 calls 3 failed 1 open, 63 = 8+1+2+2+0 tokens, 670 usd 3 uncertain 640, 1 unpriced, 30 held",
		}},
		"by day: the calls began on": {agentkernel.UsageQuery{By: []agentkernel.UsageKey{agentkernel.UsageDay}, Namespace: "team"}, []string{
			"2026-11-25  0: 2 calls 1 failed 0 open, 9 = 7+0+0+2+0 tokens, 110 usd 1 uncertain 100, 0 unpriced, 0 held",
			"2026-11-26  0: 2 calls 1 failed 1 open, 54 = 1+1+2+0+0 tokens, 520 usd 1 uncertain 500, 1 unpriced, 30 held",
			"0: 4 calls 2 failed 1 open, 63 = 8+1+2+2+0 tokens, 630 usd 2 uncertain 600, 1 unpriced, 30 held",
		}},
		"by tree and namespace": {agentkernel.UsageQuery{By: []agentkernel.UsageKey{agentkernel.UsageTree, agentkernel.UsageNamespace}}, []string{
			"team 1: 4 calls 2 failed 1 open, 63 = 8+1+2+2+0 tokens, 630 usd 2 uncertain 600, 1 unpriced, 30 held",
			"other 3: 1 calls 1 failed 0 open, 0 = 0+0+0+0+0 tokens, 40 usd 1 uncertain 40, 0 unpriced, 0 held",
			"0: 5 calls 3 failed 1 open, 63 = 8+1+2+2+0 tokens, 670 usd 3 uncertain 640, 1 unpriced, 30 held",
		}},
		"of one tree, in all": {agentkernel.UsageQuery{Tree: 3}, []string{
			"0: 1 calls 1 failed 0 open, 0 = 0+0+0+0+0 tokens, 40 usd 1 uncertain 40, 0 unpriced, 0 held"}},
		"since a time": {agentkernel.UsageQuery{Since: begun.Add(time.Hour)}, []string{
			"0: 2 calls 1 failed 1 open, 54 = 1+1+2+0+0 tokens, 520 usd 1 uncertain 500, 1 unpriced, 30 held"}},
		"until a time": {agentkernel.UsageQuery{Until: begun.Add(time.Second)}, []string{
			"0: 3 calls 2 failed 0 open, 9 = 7+0+0+2+0 tokens, 150 usd 2 uncertain 140, 0 unpriced, 0 held"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := usage.Read(t.Context(), stored(), c.q)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, lines(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestItReadsWhatItMust: who had ended before cannot have anything, nor who has made no call, nor who came later.
func TestItReadsWhatItMust(t *testing.T) {
	s := stored()
	j := newJournal()
	j.end()
	s.put(5, "silent", "team", j)
	s.rows[len(s.rows)-1].Usage.Syscalls = 0
	if _, err := usage.Read(t.Context(), s, agentkernel.UsageQuery{Since: begun.Add(2 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if s.read[3] || s.read[5] || !s.read[1] || !s.read[2] {
		t.Errorf("read: %v", s.read)
	}
	s.read = nil
	if _, err := usage.Read(t.Context(), s, agentkernel.UsageQuery{Until: begun}); err != nil || len(s.read) != 0 {
		t.Errorf("read: %v, %v", s.read, err)
	}
	s.gone = 2
	if u, err := usage.Read(t.Context(), s, agentkernel.UsageQuery{}); err != nil || u.Total.Open != 0 || u.Total.Calls == 0 {
		t.Errorf("with one that is pruned meanwhile: %+v, %v", u.Total, err)
	}
	s.gone = 0
	for _, q := range []agentkernel.UsageQuery{{By: []agentkernel.UsageKey{"colour"}}, {By: []agentkernel.UsageKey{"day", "day"}}, {Since: begun, Until: begun}} {
		if _, err := usage.Read(t.Context(), s, q); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestTooManyRows(t *testing.T) {
	s := &store{}
	for i := range agentkernel.MaxUsageRows + 1 {
		j := newJournal()
		j.result(j.call("llm.ask", nil), asked("openai:a", 1, 1, 1), nil)
		j.end()
		s.put(agentkernel.PID(i+1), "a", "n", j)
	}
	if u, err := usage.Read(t.Context(), s, agentkernel.UsageQuery{By: []agentkernel.UsageKey{agentkernel.UsageAgent}}); err != nil || len(u.Rows) != 1 || u.Total.Calls != agentkernel.MaxUsageRows+1 {
		t.Errorf("%d rows, %+v, %v", len(u.Rows), u.Total, err)
	}
	if _, err := usage.Read(t.Context(), s, agentkernel.UsageQuery{By: []agentkernel.UsageKey{agentkernel.UsageTree}}); agentkernel.CodeOf(err) != agentkernel.CodeLimit {
		t.Errorf("more rows than there may be: %v", err)
	}
}

// TestItAgreesWithTheLedger: whatever a journal says, the sums are those by which budgets go, by day, too.
func TestItAgreesWithTheLedger(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		j := newJournal()
		var open []int64
		some := func() agentkernel.Amounts {
			return asked(fmt.Sprint("m:", r.IntN(3)), r.Int64N(1000), r.Int64N(50), r.Int64N(50))
		}
		for range r.IntN(60) {
			j.now = j.now.Add(time.Duration(r.IntN(5)) * time.Hour)
			switch at := r.IntN(max(1, len(open))); {
			case len(open) == 0 || r.IntN(3) == 0:
				open = append(open, j.call([]string{"llm.ask", "llm.complete"}[r.IntN(2)], some()))
			case r.IntN(4) == 0:
				j.add(agentkernel.Entry{Kind: agentkernel.EntryRetry, Call: open[at], Reserve: some()})
			default:
				used := some()
				if r.IntN(5) == 0 {
					used = nil
				}
				j.result(open[at], used, nil)
				open = slices.Delete(open, at, at+1)
			}
		}
		if r.IntN(2) == 0 {
			j.end()
		}
		s := &store{}
		s.put(1, "a", "n", j)
		var account history.Account
		for i := range j.entries {
			account.Add(&j.entries[i])
		}
		spent, held := account.Amounts.Used()
		u, err := usage.Read(t.Context(), s, agentkernel.UsageQuery{By: []agentkernel.UsageKey{agentkernel.UsageDay}})
		if err != nil {
			t.Fatal(err)
		}
		if int64(u.Total.USD) != spent["usd"] || u.Total.Tokens != spent["tokens"] || int64(u.Total.HeldUSD) != held["usd"] || u.Total.Output != spent["output"] {
			t.Fatalf("seed %d: %+v, and the ledger has spent %s and holds %s", seed, u.Total, spent, held)
		}
		if account.Amounts == nil {
			continue
		}
		for _, d := range account.Amounts.Days {
			day := time.Unix(int64(d.Day)*24*60*60, 0).UTC().Format(time.DateOnly)
			i := slices.IndexFunc(u.Rows, func(r agentkernel.UsageRow) bool { return r.Day == day })
			if d.Spent["usd"] != 0 && (i < 0 || int64(u.Rows[i].USD) != d.Spent["usd"]) {
				t.Fatalf("seed %d: on %s the ledger has %s, and there is %+v", seed, day, d.Spent, u.Rows)
			}
		}
	}
}

// TestAStream: a call whose answer comes as a stream has ended when that is settled; until then it holds what it may yet cost.
func TestAStream(t *testing.T) {
	j := newJournal()
	n := j.call("llm.stream", asked("openai:a", 900, 0, 0))
	j.add(agentkernel.Entry{Kind: agentkernel.EntryResult, Call: n, Settle: agentkernel.Amounts{"calls": 1}, Reserve: agentkernel.Amounts{"usd": 900}})
	s := &store{}
	s.put(1, "a", "n", j)
	u, err := usage.Read(t.Context(), s, agentkernel.UsageQuery{})
	if err != nil || u.Total.Open != 1 || u.Total.HeldUSD != 900 || u.Total.Calls != 0 || u.Total.USD != 0 {
		t.Errorf("under way: %+v, %v", u.Total, err)
	}
	j.add(agentkernel.Entry{Kind: agentkernel.EntrySettled, Call: n, Settle: asked("vllm:b", 10, 7, 2)})
	s = &store{}
	s.put(1, "a", "n", j)
	u, err = usage.Read(t.Context(), s, agentkernel.UsageQuery{By: []agentkernel.UsageKey{agentkernel.UsageModel}})
	if err != nil || u.Total.Open != 0 || u.Total.Calls != 1 || u.Total.USD != 10 || u.Total.Uncertain != 0 || len(u.Rows) != 1 || u.Rows[0].Model != "vllm:b" {
		t.Errorf("at its end: %+v, %v", u, err)
	}
}

// TestACallWithoutAnAnswer: one that waits for its turn, or waits for it again, is not under way and counts for nothing; one that is
// left has failed.
func TestACallWithoutAnAnswer(t *testing.T) {
	j := newJournal()
	n := j.call("llm.ask", agentkernel.Amounts{agentkernel.AmountUnsent: 1})
	read := func() agentkernel.UsageRow {
		s := &store{}
		s.put(1, "a", "n", j)
		u, err := usage.Read(t.Context(), s, agentkernel.UsageQuery{})
		if err != nil {
			t.Fatal(err)
		}
		return u.Total
	}
	if got := read(); got != (agentkernel.UsageRow{}) {
		t.Errorf("it waits: %+v", got)
	}
	j.add(agentkernel.Entry{Kind: agentkernel.EntryRetry, Call: n, Reserve: asked("openai:a", 900, 0, 0)})
	j.add(agentkernel.Entry{Kind: agentkernel.EntrySettled, Call: n, Settle: agentkernel.Amounts{}, Reserve: agentkernel.Amounts{agentkernel.AmountUnsent: 1}})
	if got := read(); got != (agentkernel.UsageRow{}) {
		t.Errorf("it waits again: %+v", got)
	}
	j.add(agentkernel.Entry{Kind: agentkernel.EntryRetry, Call: n, Reserve: agentkernel.Amounts{"usd": 900}})
	if got := read(); got.Open != 1 || got.HeldUSD != 900 || got.USD != 0 || got.Uncertain != 0 {
		t.Errorf("it is sent: %+v", got)
	}
	j.add(agentkernel.Entry{Kind: agentkernel.EntrySettled, Call: n, Settle: agentkernel.Amounts{}})
	if got := read(); got.Open != 0 || got.Calls != 1 || got.Failed != 1 || got.HeldUSD != 0 || got.USD != 0 || got.Uncertain != 0 {
		t.Errorf("it is left: %+v", got)
	}
}

// TestSeveralUncertainRequests: what a call is charged for requests of unknown outcome is told apart from the rest, also where it was sent more
// than once.
func TestSeveralUncertainRequests(t *testing.T) {
	for about, c := range map[string]struct {
		settle agentkernel.Amounts
		n      int64
		usd    agentkernel.NanoUSD
	}{
		"two that nobody knows":         {agentkernel.Amounts{"usd": 1800, "tokens": 20, "uncertain": 2}, 2, 1800},
		"one, and an answer":            {agentkernel.Amounts{"usd": 907, "tokens": 12, "input": 2, "uncertain": 1}, 1, 900},
		"an answer":                     {agentkernel.Amounts{"usd": 7, "tokens": 2, "input": 2}, 0, 0},
		"more than it says was charged": {agentkernel.Amounts{"usd": 1000, "uncertain": 2}, 2, 1000},
	} {
		j := newJournal()
		n := j.call("llm.ask", asked("openai:a", 900, 10, 0))
		j.add(agentkernel.Entry{Kind: agentkernel.EntryResult, Call: n, Settle: c.settle})
		s := &store{}
		s.put(1, "a", "n", j)
		u, err := usage.Read(t.Context(), s, agentkernel.UsageQuery{})
		if err != nil || u.Total.Uncertain != c.n || u.Total.UncertainUSD != c.usd || int64(u.Total.USD) != c.settle["usd"] {
			t.Errorf("%s: %+v, %v", about, u.Total, err)
		}
	}
}

// TestSumsThatAreTooLarge: a journal that was imported may have any numbers; a sum of them stays at the largest.
func TestSumsThatAreTooLarge(t *testing.T) {
	j := newJournal()
	for range 3 {
		j.result(j.call("llm.ask", nil), agentkernel.Amounts{"usd": math.MaxInt64, "tokens": math.MaxInt64, "uncertain": math.MaxInt64}, nil)
	}
	s := &store{}
	s.put(1, "a", "n", j)
	u, err := usage.Read(t.Context(), s, agentkernel.UsageQuery{})
	if err != nil || u.Total.USD != math.MaxInt64 || u.Total.Tokens != math.MaxInt64 || u.Total.Uncertain != math.MaxInt64 {
		t.Errorf("%+v, %v", u.Total, err)
	}
}
