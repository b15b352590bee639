package devllm

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The most within a span is what one finds by looking at each span that begins with a request.
func TestMostWithinAgainstARecount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var entries []Entry
		for range rapid.IntRange(0, 40).Draw(t, "entries") {
			n := rapid.Int64Range(0, 100).Draw(t, "n")
			entries = append(entries, Entry{Time: start().Add(time.Duration(rapid.Int64Range(0, 1000).Draw(t, "at")) * 100 * time.Millisecond),
				Charged: Charged{Requests: 1, Input: n, Output: 100 - n, Total: 100}})
		}
		got := sumUp(append([]Entry{}, entries...)).Most
		for name, span := range map[string]time.Duration{"1s": time.Second, "10s": 10 * time.Second, "60s": time.Minute} {
			var want Charged
			for _, from := range entries {
				var sum Charged
				for _, e := range entries {
					if !e.Time.Before(from.Time) && e.Time.Before(from.Time.Add(span)) {
						sum = sum.plus(e.Charged, 1)
					}
				}
				want = want.most(sum)
			}
			if got[name] != want {
				t.Fatalf("%s: %+v, not %+v", name, got[name], want)
			}
		}
	})
}

func TestTotals(t *testing.T) {
	at := func(s int) time.Time { return start().Add(time.Duration(s) * time.Second) }
	j := newJournal(nil)
	j.add(Entry{Time: at(0), Status: 200, Key: "a", Model: "m", Tokens: Tokens{Uncached: 10, Output: 5}, Charged: Charged{1, 10, 5, 15}, Nanos: 1_500_000_000})
	j.add(Entry{Time: at(1), Status: 429, Key: "a", Model: "m", Limit: "total"})
	j.add(Entry{Time: at(2), Status: 499, Key: "b", Model: "m", Aborted: true, Tokens: Tokens{CacheRead: 7}, Charged: Charged{1, 0, 0, 0}, Nanos: 1})
	all := sumUp(j.pick(Filter{}))
	if all.Requests != 3 || all.Statuses["429"] != 1 || all.Refused["total"] != 1 || all.Aborted != 1 || all.USD != "1.500000001" || all.Tokens != (Tokens{Uncached: 10, CacheRead: 7, Output: 5}) {
		t.Errorf("%+v", all)
	}
	for _, c := range []struct {
		f    Filter
		want int64
	}{{Filter{Since: at(1)}, 2}, {Filter{Until: at(1)}, 1}, {Filter{Since: at(1), Until: at(2)}, 1}, {Filter{Key: "b"}, 1}, {Filter{Model: "other"}, 0}} {
		if got := sumUp(j.pick(c.f)); got.Requests != c.want {
			t.Errorf("%+v picks %d, not %d", c.f, got.Requests, c.want)
		}
	}
}
