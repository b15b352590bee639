package history_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// table is a store that has processes 1 to rows, each with a result of so many bytes.
type table struct {
	agentkernel.StoreReader
	rows, result int
	read         []int // rows of each read
}

func (t *table) Processes(_ context.Context, f agentkernel.Filter) (list []agentkernel.ProcessRecord, err error) {
	pid := agentkernel.PID(t.rows)
	if f.Before != 0 {
		pid = min(pid, f.Before-1)
	}
	for ; pid > 0 && (f.Limit == 0 || len(list) < f.Limit); pid-- {
		list = append(list, agentkernel.ProcessRecord{Process: agentkernel.Process{PID: pid, Result: make(json.RawMessage, t.result)}})
	}
	t.read = append(t.read, len(list))
	return list, nil
}

func TestAPageIsBounded(t *testing.T) {
	for _, test := range []struct {
		rows, result int
		filter       agentkernel.Filter
		want, most   int // rows of the page, and of one read
	}{
		{rows: 0, want: 0},
		{rows: 3, want: 3, most: 3},
		{rows: 5000, want: agentkernel.PageSize, most: 100},
		{rows: 5000, filter: agentkernel.Filter{Limit: 7}, want: 7, most: 7},
		{rows: 5000, filter: agentkernel.Filter{Limit: 250}, want: 250, most: 100},
		{rows: 5000, filter: agentkernel.Filter{Limit: 4999}, want: agentkernel.PageSize, most: 100},
		{rows: 5000, filter: agentkernel.Filter{Before: 4}, want: 3, most: 3},
		{rows: 5000, filter: agentkernel.Filter{Before: 1}, want: 0},
		{rows: 5000, result: 1 << 20, want: 100, most: 100},
		{rows: 100, result: 1, want: 100, most: 100},
	} {
		s := &table{rows: test.rows, result: test.result}
		page, err := history.Page(t.Context(), s, test.filter)
		if err != nil || len(page) != test.want {
			t.Errorf("%+v: %d rows, %v", test, len(page), err)
		}
		for i := 1; i < len(page); i++ {
			if page[i].PID != page[i-1].PID-1 {
				t.Errorf("%+v: pid %d follows pid %d", test, page[i].PID, page[i-1].PID)
			}
		}
		for _, n := range s.read {
			if n > test.most {
				t.Errorf("%+v: a read gave %d rows", test, n)
			}
		}
	}
}

func (t *table) List(ctx context.Context, f agentkernel.Filter) (list []agentkernel.Process, err error) {
	rows, err := history.Page(ctx, t, f)
	for i := range rows {
		list = append(list, rows[i].Process)
	}
	return list, err
}

func (t *table) Count(context.Context, agentkernel.Filter) (int, error) { return t.rows, nil }

// Pages gives all there are, also where pages end early because of what they weigh, and no more than was asked for.
func TestPages(t *testing.T) {
	for _, rows := range []int{0, 1, 99, 100, 101, 1000, 1001, 2500} {
		for _, result := range []int{0, 60 << 10} {
			for _, limit := range []int{0, 1, 100, 1000, 1500} {
				s := &table{rows: rows, result: result}
				seen := []agentkernel.PID{}
				for page, err := range agentkernel.Pages(t.Context(), s, agentkernel.Filter{Limit: limit}) {
					if err != nil {
						t.Fatal(err)
					}
					for i := range page {
						seen = append(seen, page[i].PID)
					}
				}
				want := []agentkernel.PID{}
				for pid := rows; pid > 0 && (limit == 0 || len(want) < limit); pid-- {
					want = append(want, agentkernel.PID(pid))
				}
				if fmt.Sprint(seen) != fmt.Sprint(want) {
					t.Errorf("%d rows of %d bytes, limit %d: %d seen", rows, result, limit, len(seen))
				}
			}
		}
	}
}
