package history

import (
	"cmp"
	"slices"

	"agentkernel"
)

// Queue is what a program has still to repeat: calls with their results in the order in which they were delivered, and what
// was printed. Whoever repeats it takes it apart.
type Queue struct {
	Calls   map[int64]agentkernel.Entry // issued behind the base
	Results map[int64]agentkernel.Entry // of those calls, and of calls before the base whose results were not delivered there
	Order   []int64                     // async results in the order of the journal
	Output  []agentkernel.Entry         // behind the base
	Skips   map[int64]int64             // proc.next whose cell was aborted: the last call that is not repeated
	Open    []agentkernel.Entry         // calls of before the base that have no result, in the order in which they were made
	stale   bool
}

// Empty says that nothing is left to repeat.
func (q *Queue) Empty() bool { return len(q.Calls) == 0 && len(q.Order) == 0 && len(q.Output) == 0 }

// OpenWrites are the writes behind the base that may have been made and have no result, in the order of the journal. amounts are those
// of the process.
func (q *Queue) OpenWrites(amounts *Amounts) (open []agentkernel.Entry) {
	for id, e := range q.Calls {
		if _, answered := q.Results[id]; !answered && !e.Done && e.Effect == agentkernel.EffectWrite && !amounts.Unsent(id) {
			open = append(open, e)
		}
	}
	slices.SortFunc(open, func(a, b agentkernel.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	return open
}

// newQueue sorts the entries of a journal. Those up to and including base.Seq are in the image: of them only results that
// were not delivered yet count, and calls without a result.
func newQueue(entries []agentkernel.Entry, base *Base) Queue {
	q := Queue{Calls: map[int64]agentkernel.Entry{}, Results: map[int64]agentkernel.Entry{}}
	async := map[int64]bool{}
	// The reply that the program waits for may have come while its image was being made.
	undelivered := map[int64]bool{base.Reply: true}
	for _, id := range base.Arrived {
		undelivered[id] = true
	}
	pending := map[int64]agentkernel.Entry{}
	entries = q.withoutAborted(entries, base.Seq)
	for _, e := range entries {
		inImage := e.Seq <= base.Seq
		switch e.Kind {
		case agentkernel.EntryCall:
			async[e.Call] = e.Async
			switch {
			case !inImage:
				q.Calls[e.Call] = e
				if e.Done && e.Async {
					q.Results[e.Call] = e
					q.Order = append(q.Order, e.Call)
				}
			case !e.Done:
				pending[e.Call] = e
			case undelivered[e.Call]:
				q.Results[e.Call] = e
				if e.Async {
					q.Order = append(q.Order, e.Call)
				}
			}
		case agentkernel.EntryResult:
			delete(pending, e.Call)
			if inImage && !undelivered[e.Call] {
				continue
			}
			q.Results[e.Call] = e
			if async[e.Call] || inImage && e.Call != base.Reply {
				q.Order = append(q.Order, e.Call)
			}
		case agentkernel.EntryOutput:
			if !inImage && len(e.Data) > len(`""`) {
				q.Output = append(q.Output, e)
			}
		case agentkernel.EntryMoved:
			q.stale = q.stale || !inImage && base.Seq > 0 // its program begins anew
		}
	}
	for _, e := range pending {
		q.Open = append(q.Open, e)
	}
	slices.SortFunc(q.Open, func(a, b agentkernel.Entry) int { return cmp.Compare(a.Call, b.Call) })
	return q
}

// withoutAborted is a journal as a replay repeats it: the proc.next whose cell was aborted is answered with the reason, and
// all that the cell did is left out. Skips has the numbers of the last calls that are, by proc.next: those before the call
// for the next cell, also where the journal has none of them, since a human or a server was still asked about them.
func (q *Queue) withoutAborted(entries []agentkernel.Entry, base int64) []agentkernel.Entry {
	if !slices.ContainsFunc(entries, func(e agentkernel.Entry) bool { return e.Kind == agentkernel.EntryAborted }) {
		return entries
	}
	q.Skips = map[int64]int64{}
	var kept []agentkernel.Entry
	for i, e := range entries {
		if e.Kind != agentkernel.EntryAborted {
			kept = append(kept, e)
			continue
		}
		at := slices.IndexFunc(kept, func(r agentkernel.Entry) bool { return r.Kind == agentkernel.EntryResult && r.Call == e.Call })
		if e.Seq > base && base > 0 && (at < 0 || kept[at].Seq <= base) {
			q.stale = true // the base stands in the middle of the cell
		}
		if at < 0 {
			continue // it was never handed over
		}
		answer, gone := kept[at], kept[at+1:]
		answer.Data, answer.Err = nil, e.Err
		kept = append(kept[:at:at], answer)
		for _, g := range gone { // results of calls that an earlier cell left under way
			if g.Kind == agentkernel.EntryResult && g.Call < e.Call {
				kept = append(kept, g)
			}
		}
		if next := slices.IndexFunc(entries[i:], func(c agentkernel.Entry) bool { return c.Kind == agentkernel.EntryCall }); next >= 0 {
			q.Skips[e.Call] = entries[i+next].Call - 1
		}
	}
	return kept
}
